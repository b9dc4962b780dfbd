"""The command `doctor`: what can be measured here, what is missing, and the commands that get it."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

import click

from vtare.cli.options import Word, hidden_binary_option, json_option, print_json, stdout
from vtare.cli.tree import command
from vtare.errors import BadInput, MachineCannot, instead_of
from vtare.records.answer import Answered, answered
from vtare.sentences import doctor as wording

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.doctor.machine import Feature
    from vtare.doctor.places import Place
    from vtare.records import programs


@command("doctor")
@click.argument(
    "wanted",
    type=Word("instrument"),
    nargs=-1,
    metavar="NAME...",
    help="Instruments and platforms that must work here; none: all are shown.",
)
@click.option("--platforms", is_flag=True, help="Show every platform, what is missing, and the commands that get it.")
@hidden_binary_option
@json_option
def doctor(wanted: tuple[str, ...], platforms: bool, binary: Path | None, as_json: bool) -> None:
    """Carry out `doctor`.

    Exit code 3 where something named is missing; without a name, where an instrument cannot measure on any platform.
    """
    from vtare.campaign.binary import find_binary
    from vtare.doctor.machine import features
    from vtare.doctor.places import places
    from vtare.doctor.ways import Ways
    from vtare.kernel_files import kernel_text
    from vtare.terminal.doctor import show_doctor, show_named, show_ready

    if not kernel_text("proc/self/stat"):
        # What doctor asks, and the tools of platforms, need it.
        raise MachineCannot("/proc is not mounted, so nothing can be known of this machine: `mount -t proc proc /proc`")
    names = list(wanted)
    program = find_binary(binary)
    ways = Ways()
    known = features(program, ways)
    around = places(program, ways, known)
    able = _able(names, around)
    if as_json:
        print_json(_document(names, known, around, able=able))
    else:
        show_ready(stdout(), known, around) if not names else show_named(stdout(), names, around)
        if platforms:
            show_doctor(stdout(), known, around)
    if not able:
        raise click.exceptions.Exit(3)


def _able(names: Sequence[str], places: Sequence[Place]) -> bool:
    """Whether every instrument that is named can measure on every platform that is named.

    Where one of the two is not named: each instrument on some platform, or each platform.

    Raises:
        BadInput: a name is neither an instrument nor a platform.
    """
    instruments = list(places[0].instruments)
    known = [*instruments, *(place.name for place in places)]
    for name in names:
        if name not in known:
            raise BadInput(f"'{name}' is no instrument or platform{instead_of(name, known)}")
    on = [place for place in places if place.name in names]
    which = [name for name in instruments if name in names]
    if on:
        return all(p.lacks is None if not which else all(p.instruments[n] is None for n in which) for p in on)
    return all(any(place.instruments[name] is None for place in places) for name in which or instruments)


def _answer(places: Sequence[Place], *, able: bool) -> Answered:
    ready = ", ".join(place.name for place in places if place.lacks is None) or "none"
    advice = [(place.lacks, place.command) for place in places if place.lacks is not None and place.command is not None]
    limits = [f"{place.name}: {place.lacks}" for place in places if place.lacks is not None]
    return answered([wording.platforms_ready(ready)], "ready" if able else "lacking", limits=limits, advice=advice)


def _document(
    names: Sequence[str], features: Sequence[Feature], places: Sequence[Place], *, able: bool
) -> programs.Doctor:
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        system = None
    return {
        "schema": "vtare.doctor/1",
        "answer": _answer(places, able=able),
        "distribution": system,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "asked": list(names),
        "able": able,
        "features": [cast("programs.DoctorFeature", asdict(feature)) for feature in features],
        "platforms": [
            cast("programs.DoctorPlatform", asdict(place) | {"instruments": dict(place.instruments)})
            for place in places
        ],
    }
