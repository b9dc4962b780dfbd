"""A dry run, and the hosts of a fleet, as they are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.number_text import NOT_AVAILABLE, time_text
from vtare.sentences import fleet as wording
from vtare.terminal.tables import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from vtare.fleet.dry import DryRun
    from vtare.fleet.host_use import HostUse
    from vtare.fleet.survey import HostReport, Survey


def show_dry_run(console: Console, found: DryRun) -> None:
    """Print how long a campaign would take, how busy its hosts were, which faults it met and what would be left."""
    console.print(found.headline())
    shares = [use.busy_share for use in found.hosts if use.busy_share is not None]
    if shares:
        console.print(wording.busy(_percent(shares)))
    met = [f"{kind} {times}" for kind, times in sorted(found.faults.items())]
    console.print(wording.faults(met, found.sessions))
    again = found.failed + found.skipped
    if again:
        console.print(wording.made_again(again))
    for line in found.wrong():
        console.print(line)
    if found.kept:
        console.print(wording.KEPT)


def _percent(shares: Sequence[float]) -> list[str]:
    ordered = sorted(shares)
    return [f"{100 * share:.0f} %" for share in (ordered[0], ordered[len(ordered) // 2], ordered[-1])]


def show_survey(console: Console, found: Survey) -> None:
    """Print the hosts of a fleet, one a row, and the facts that differ between them."""
    from rich.table import Table
    from rich.text import Text

    from vtare.fleet.survey import words_of

    checked = found.checked
    console.print(Text(found.answer()["text"]))
    headings = ("host", "reached at", "roles", "state", "can measure")
    if checked:
        headings = ("host", "is", "1 ms off by", "time lost", "sleep of 50 us late by")
    table = Table(*headings)
    for one in found.hosts:
        state = one.reason or "answers"
        cells = [one.host.reached_at, ", ".join(one.host.roles), state, ", ".join(one.measures)]
        if checked:
            cells = [NOT_AVAILABLE if one.status is None else words_of(one.status), *_figures(one)]
        table.add_row(*map(Text, [one.host.name, *cells]))
    print_table(console, table)
    for one in found.hosts if checked else ():
        if one.reason is not None:
            console.print(Text(f"{one.host.name}: {one.reason}"))
    for fact, values in found.differing.items():
        console.print(wording.differs(fact, values))


def _figures(one: HostReport) -> list[str]:
    sleep_ns = one.figures.get("sleep_50us")
    late = NOT_AVAILABLE if sleep_ns is None else time_text(sleep_ns)
    shares = [one.figures.get(name) for name in ("error_1ms", "noise")]
    return [*(NOT_AVAILABLE if share is None else f"{100 * share:.3g} %" for share in shares), late]


def show_use(console: Console, store: Path, uses: Sequence[HostUse]) -> None:
    """Print how the hosts of a campaign were used: runs, shares of the time, who has them."""
    from rich.table import Table
    from rich.text import Text

    if not uses:
        console.print(wording.no_fleet(str(store)))
        return
    table = Table("host", "runs", "busy", "free", "lost", "run that has it")
    for use in uses:
        shares = [
            NOT_AVAILABLE if share is None else f"{100 * share:.0f} %" for share in (use.busy_share, use.free_share)
        ]
        table.add_row(*map(Text, [use.host, str(use.runs), *shares, str(use.lost), use.holder or "none"]))
    print_table(console, table)
