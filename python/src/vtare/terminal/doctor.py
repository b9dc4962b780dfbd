"""What can be measured here and what is missing, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table

from vtare.platforms.lacks import ALSO
from vtare.sentences import doctor as wording
from vtare.terminal.tables import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from vtare.doctor.machine import Feature
    from vtare.doctor.places import Place


#: The commands in front; those that are instruments need what these need on this machine itself.
_FRONT: Final = ("check", "ab", "exec", "serve", "rtt", "path", "run", "report")


def show_ready(console: Console, features: Sequence[Feature], places: Sequence[Place]) -> None:
    """Print which commands and platforms are ready, and what else could be: a line each."""
    host = next(place for place in places if place.name == "host")
    reasons = {name: host.instruments.get(name) for name in _FRONT}
    console.print(wording.ready(name for name, why in reasons.items() if why is None))
    for name, why in reasons.items():
        if why is not None:
            console.print(wording.not_ready(name, why))
    able = [place.name for place in places if place.lacks is None]
    console.print(wording.platforms(able))
    others = [place.name for place in places if place.lacks is not None]
    lacking = [feature.name for feature in features if feature.lacks is not None]
    if others:
        console.print(wording.not_set_up(others))
    if lacking:
        console.print(wording.optional(lacking))
    if others or lacking:
        console.print(wording.NEEDS)


def show_named(console: Console, names: Sequence[str], places: Sequence[Place]) -> None:
    """Print whether what is named works here, why not, and the commands that change that."""
    platforms = [place for place in places if place.name in names]
    for name in (name for name in names if name in places[0].instruments):
        on = [place for place in platforms or places if place.instruments[name] is None]
        if on:
            console.print(wording.ready_on(name, (place.name for place in on)))
        for place in platforms if platforms else [] if on else places[:1]:
            if place.lacks is None and (why := place.instruments[name]) is not None:
                console.print(wording.not_on(name, place.name, why))
    for place in platforms:
        if place.lacks is None:
            console.print(wording.is_ready(place.name))
            continue
        for reason in place.lacks.split(ALSO):
            console.print(f"{place.name}: {reason}")
        if place.command is not None:
            console.print(f"  {place.command}", soft_wrap=True)


def show_doctor(console: Console, features: Sequence[Feature], places: Sequence[Place]) -> None:
    """Print the table of instruments by platform, and what is missing with the way to it."""
    lacking = [feature for feature in features if feature.lacks is not None]
    table = Table(title=wording.TITLE, title_justify="left")
    table.add_column("platform")
    for name in places[0].instruments:
        table.add_column(name)
    for place in places:
        table.add_row(
            place.name + ("*" if place.unverified else ""), *(_cell(place, why) for why in place.instruments.values())
        )
    print_table(console, table)
    if any(place.unverified for place in places):
        console.print(wording.UNVERIFIED)
    console.print(wording.KEY)
    console.print(wording.NOT_NEEDED)
    reasons: dict[str, list[str]] = {}
    commands: dict[str, list[str]] = {}
    for place in places:
        if place.lacks is not None and not place.by_plan:
            for reason in place.lacks.split(ALSO):
                reasons.setdefault(reason, []).append(place.name)
            if place.command is not None:
                commands.setdefault(place.command, []).append(place.name)
    if reasons or lacking:
        console.print(wording.MISSING)
    for reason, names in reasons.items():
        console.print(f"  {', '.join(names)}: {reason}")
    for feature in lacking:
        console.print(f"  {feature.name}, for {feature.used_by}: {feature.lacks}")
        if feature.command is not None:
            console.print(f"    {feature.command}", soft_wrap=True)
    parts = {(name, why) for place in places if place.lacks is None for name, why in place.instruments.items() if why}
    for name, why in sorted(parts):
        console.print(f"  {name}: {why}")
    if commands:
        console.print(wording.COMMANDS)
    for command, names in commands.items():
        console.print(f"  {', '.join(names)}:")
        console.print(f"    {command}", soft_wrap=True)


def _cell(place: Place, why: str | None) -> str:
    if why is None:
        return "yes"
    return "plan" if place.by_plan and why == place.lacks else "-"
