"""The command `fleet`: the hosts of a fleet, or how those of a campaign were used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vtare.cli.options import BinaryOption, JsonOption, print_json, seconds_of, stdout
from vtare.errors import BadInput


def fleet(
    what: Annotated[str, typer.Argument(metavar="HOSTS|STORE|check", help="A file of hosts, a store, or `check`.")],
    hosts: Annotated[
        Path | None, typer.Argument(metavar="[HOSTS]", help="The file of hosts, where the first word is `check`.")
    ] = None,
    seconds: Annotated[
        str | None, typer.Option("--seconds", metavar="TIME", help="With `check`: how long each may take (20 s).")
    ] = None,
    binary: BinaryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the hosts of a fleet: who answers, what each can measure, facts that differ, who has it; or rank them.

    `vtare fleet check HOSTS` runs `vtare check` on each and puts the best first. `vtare fleet STORE` shows how the
    hosts of a campaign were used, and the share of time in which each was free.
    """
    from vtare.terminal.fleet import show_survey

    checking = what == "check" and hosts is not None
    if hosts is not None and not checking:
        raise BadInput(f"found '{what}' and '{hosts}', expected one file of hosts or store, or `check` and a file")
    if seconds is not None and not checking:
        raise BadInput("found --seconds without `check`, to which it belongs: add it, or leave it out")
    path = hosts if hosts is not None else Path(what)
    if path.is_dir():
        _show_store(path, as_json=as_json)
        return
    from vtare.campaign.binary import find_binary
    from vtare.fleet.hosts import load_hosts
    from vtare.fleet.survey import survey

    named = load_hosts(path)
    check_s = max(5.0, seconds_of("--seconds", seconds or "20 s")) if checking else None
    found = survey(named, find_binary(binary), check_s)
    if as_json:
        print_json(found.document())
    else:
        show_survey(stdout(), found)
    if any(one.reason is not None for one in found.hosts):
        raise typer.Exit(1)


def _show_store(path: Path, *, as_json: bool) -> None:
    import time

    from vtare.campaign.journal import Journal
    from vtare.campaign.store import read_plan_text
    from vtare.fleet.host_use import overlaps, use_of
    from vtare.terminal.fleet import show_use

    read_plan_text(path)
    with Journal(path / "journal.sqlite", read_only=True) as journal:
        events = journal.host_events()
    uses = use_of(events, time.time() if _at_work(path) else None)
    if as_json:
        print_json(
            {
                "schema": "vtare.fleet_use/1",
                "store": str(path),
                "overlaps": overlaps(events),
                "hosts": [
                    {
                        "host": use.host,
                        "runs": use.runs,
                        "busy_share": use.busy_share,
                        "free_share": use.free_share,
                        "lost": use.lost,
                        "holder": use.holder,
                    }
                    for use in uses
                ],
            }
        )
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
