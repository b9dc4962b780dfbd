"""The command `fleet`: the hosts of a fleet, or how those of a campaign were used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtare.cli.options import FILE, Time, Word, hidden_binary_option, json_option, print_json, stdout
from vtare.cli.tree import command
from vtare.errors import BadInput

if TYPE_CHECKING:
    from vtare.records.fleets import FleetUse


@command("fleet")
@click.argument("what", type=Word("fleet"), metavar="HOSTS|STORE|check", help="A file of hosts, a store, or `check`.")
@click.argument(
    "hosts", type=FILE, required=False, metavar="HOSTS", help="Behind `check`: a file of hosts, or a,me@b:2222."
)
@click.option("--seconds", type=Time(), metavar="TIME", help="With `check`: how long each may take (20 s).")
@hidden_binary_option
@json_option
def fleet(what: str, hosts: Path | None, seconds: float | None, binary: Path | None, as_json: bool) -> None:
    """Carry out `fleet`.

    Shows who answers, what each host can measure, which facts differ, and who uses it.

    `vtare fleet check HOSTS` runs `vtare check` on each and puts the best first. `vtare fleet STORE` shows how the
    hosts of a campaign were used, and the share of time in which each was free.
    """
    from vtare.terminal.fleet import show_survey

    checking = what == "check" and hosts is not None
    if hosts is not None and not checking:
        raise BadInput(f"'{what}' and '{hosts}' are two: name one file of hosts or store, or `check` and a file")
    if seconds is not None and not checking:
        raise BadInput("--seconds belongs to `check`: add it, or leave --seconds out")
    path = hosts if hosts is not None else Path(what)
    if path.is_dir():
        _show_store(path, as_json=as_json)
        return
    from vtare.campaign.binary import find_binary
    from vtare.fleet.hosts import hosts_of, load_hosts
    from vtare.fleet.survey import survey

    named = hosts_of(str(path)) if checking else load_hosts(path)
    check_s = max(5.0, 20.0 if seconds is None else seconds) if checking else None
    surveyed = survey(named, find_binary(binary), check_s)
    if as_json:
        print_json(surveyed.document())
    else:
        show_survey(stdout(), surveyed)
    if any(one.reason is not None for one in surveyed.hosts):
        raise click.exceptions.Exit(1)


def _show_store(path: Path, *, as_json: bool) -> None:
    import time

    from vtare.campaign.journal import Journal
    from vtare.campaign.store import read_plan_text
    from vtare.fleet.host_use import overlaps, use_of
    from vtare.records.answer import answered
    from vtare.sentences import fleet as wording
    from vtare.terminal.fleet import show_use

    read_plan_text(path)
    with Journal(path / "journal.sqlite", read_only=True) as journal:
        events = journal.host_events()
    uses = use_of(events, time.time() if _at_work(path) else None)
    both = overlaps(events)
    if as_json:
        text = wording.TOGETHER if both else wording.APART if uses else wording.no_fleet(str(path))
        document: FleetUse = {
            "schema": "vtare.fleet_use/1",
            "answer": answered([text], "unsound" if both else "sound", limits=both),
            "store": str(path),
            "overlaps": both,
            "hosts": [{**use.document(), "holder": use.holder} for use in uses],
        }
        print_json(document)
    else:
        show_use(stdout(), path, uses)


def _at_work(path: Path) -> bool:
    """Whether a campaign works in a store."""
    import os

    from vtare.campaign.store import lock_store

    try:
        os.close(lock_store(path, to_write=False))
    except BadInput:
        return True
    return False
