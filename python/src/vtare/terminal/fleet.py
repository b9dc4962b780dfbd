"""A dry run, and the hosts of a fleet, as they are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.plots.format import NOT_AVAILABLE, time_text
from vtare.terminal.tables import duration, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from vtare.fleet.dry import DryRun
    from vtare.fleet.host_use import HostUse
    from vtare.fleet.survey import HostReport, Survey


def show_dry_run(console: Console, found: DryRun) -> None:
    """Print how long a campaign would take, how busy its hosts were, which faults it met and what would be left."""
    counts = ((found.failed, "failed"), (found.skipped, "skipped"), (found.left, "lost"))
    extra = "".join(f", {number} {word}" for number, word in counts if number)
    console.print(
        f"{found.plan} on {len(found.hosts)} simulated hosts: {found.done} of {found.runs} runs done{extra} in "
        f"{duration(found.makespan_s)}, simulated"
    )
    shares = [use.busy_share for use in found.hosts if use.busy_share is not None]
    if shares:
        console.print(f"hosts busy: {_percent(shares)} (least, median, most)")
    met = ", ".join(f"{kind} {times}" for kind, times in sorted(found.faults.items()))
    console.print(f"faults: {met or 'none'}; {found.sessions} lab process{'es' if found.sessions > 1 else ''}")
    again = found.failed + found.skipped
    if again:
        console.print(f"`vtare resume` would make {again} runs again, whose hosts were lost or did not answer")
    for what, where in (("two runs on one host", found.overlaps), ("kept twice", found.twice), ("", found.unsound)):
        for line in where:
            console.print(f"{what}: {line}" if what else line)
    if found.kept:
        console.print("no two runs were on one host at a time; no run was lost or counted twice")


def _percent(shares: Sequence[float]) -> str:
    ordered = sorted(shares)
    return ", ".join(f"{100 * share:.0f} %" for share in (ordered[0], ordered[len(ordered) // 2], ordered[-1]))


def show_survey(console: Console, found: Survey) -> None:
    """Print the hosts of a fleet, one a row, and the facts that differ between them."""
    from rich.table import Table
    from rich.text import Text

    checked = found.checked
    headings = ("host", "reached at", "roles", "state", "can measure")
    if checked:
        headings = ("host", "is", "1 ms off by", "time lost", "sleep of 50 us late by")
    table = Table(*headings)
    for one in found.hosts:
        state = one.reason or "answers"
        cells = [one.host.reached_at, ", ".join(one.host.roles), state, ", ".join(one.measures)]
        if checked:
            cells = [NOT_AVAILABLE if one.status is None else one.status.replace("_", " ").upper(), *_figures(one)]
        table.add_row(*map(Text, [one.host.name, *cells]))
    print_table(console, table)
    for one in found.hosts if checked else ():
        if one.reason is not None:
            console.print(Text(f"{one.host.name}: {one.reason}"))
    for fact, values in found.differing.items():
        shown = "; ".join(f"{value} on {', '.join(names)}" for value, names in values.items())
        console.print(f"{fact} differs: {shown}")


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
        console.print(f"{store}: this campaign was on one machine, and no host of a fleet was used")
        return
    table = Table("host", "runs", "busy", "free", "lost", "run that has it")
    for use in uses:
        shares = [
            NOT_AVAILABLE if share is None else f"{100 * share:.0f} %" for share in (use.busy_share, use.free_share)
        ]
        table.add_row(*map(Text, [use.host, str(use.runs), *shares, str(use.lost), use.holder or "none"]))
    print_table(console, table)
