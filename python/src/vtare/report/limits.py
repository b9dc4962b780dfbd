"""What a reader must not conclude from a campaign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from vtare import stats
from vtare.plan.cells import counterpart
from vtare.plots.format import percent_text
from vtare.plots.quantity import quantity_of
from vtare.report import needs
from vtare.report.facts import emulated
from vtare.report.layout import level_text
from vtare.sentences.words import listing, plural
from vtare.stats import Verdict
from vtare.summary.cells import unreached_words
from vtare.summary.contrasts import ASK_FOR_LESS, RAISE_LIMIT
from vtare.summary.quality import HIDES, Flawed, flawed
from vtare.summary.rows import known_of

if TYPE_CHECKING:
    from vtare.summary import Summary

SURE_RUNS: Final = 5
"""Runs from which intervals over runs cover what they promise (statistics.md)."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit in a few words for the first paragraph, and in full for the list; a grave one hides figures."""

    short: str
    full: str
    is_grave: bool = False


def limits_of(summary: Summary) -> tuple[Limit, ...]:
    """Every limit, the gravest first."""
    flaws = _flaws(summary)
    return (
        *(limit for limit in flaws if limit.is_grave),
        *_bounds(summary),
        *_unreached(summary),
        *(limit for limit in flaws if not limit.is_grave),
        *_runs(summary),
        *_emulated(summary),
        *_clock(summary),
        *_drift(summary),
        *_capped(summary),
        *_inconclusive(summary),
        *_one_sided(summary),
        *_absent(summary),
    )


def last_sentence(summary: Summary, limits: tuple[Limit, ...]) -> str:
    """What cannot be concluded, in one sentence: the two gravest limits, or how far the figures carry."""
    if limits:
        return f"Not certain: {'; '.join(limit.short for limit in limits[:2])}."
    rows = summary.comparisons
    if not rows:
        return "There is no statement about differences: the plan compares no cells."
    open_rows = [row for row in rows if row.verdict is Verdict.INCONCLUSIVE]
    if open_rows:
        count = f"{len(open_rows)} of {plural(len(rows), 'comparison')}"
        return f"Not certain: {count} could not be tested ({open_rows[0].reason})."
    decided = "The comparison is" if len(rows) == 1 else f"All {len(rows)} comparisons are"
    return f"{decided} decided, for this machine while it was measured."


def _most_runs(summary: Summary) -> int:
    runs = summary.cells.get_column("n_runs") if summary.cells.height else pl.Series([], dtype=pl.Int64)
    return int(runs.max() or 0)  # type: ignore[arg-type]


def _flaws(summary: Summary) -> list[Limit]:
    """Each kind of flaw in one sentence: over how many cells, how many readings, and what to do."""
    kinds: dict[str, list[Flawed]] = {}
    for one in flawed(summary):
        kinds.setdefault(one.flaw.words, []).append(one)
    found = []
    for words, some in sorted(kinds.items(), key=lambda kind: -max(one.share for one in kind[1])):
        count, total = sum(one.count for one in some), sum(one.total for one in some)
        amount = f"{count:g} of {total:g}" if some[0].flaw.of else f"{percent_text(count / total)} of the"
        where = f" in {plural(len(some), 'cell')}" if len(some) < summary.cells.height else ""
        short = f"{amount} {words}{where}"
        found.append(Limit(short, f"{short}: {some[0].flaw.remedy}.", any(one.share >= HIDES for one in some)))
    return found


def _bounds(summary: Summary) -> list[Limit]:
    """Cells whose main figure a limit of the instrument or of the plan kept from being known."""
    cells = [
        row for row in summary.cells.iter_rows(named=True)
        if (known := known_of(row, "median")) is not None and known.side != "exact"
    ]  # fmt: skip
    if not cells:
        return []
    are = "is" if len(cells) == 1 else "are"
    short = f"{len(cells)} of {plural(summary.cells.height, 'cell')} {are} known only as a bound"
    return [Limit(
        short,
        f"{short[0].upper()}{short[1:]}: a limit of the plan or of the sender ended the runs. A bound is compared only "
        f"where it decides which is higher; {RAISE_LIMIT}.",
    )]  # fmt: skip


def _unreached(summary: Summary) -> list[Limit]:
    """Levels that cells fell short of, with what was achieved and what kept them from it."""
    found = []
    for experiment in summary.plan.experiments:
        reached = experiment.record.reached
        cells = summary.cells.filter(pl.col("experiment") == experiment.name)
        rows = [row for row in cells.iter_rows(named=True) if unreached_words(reached, row) is not None]
        if reached is None or not rows:
            continue
        levels = list(dict.fromkeys(label for row in rows if (label := row.get(reached.factor)) is not None))
        named = listing(levels) or "the rate asked for"
        achieved = [row[reached.achieved] for row in rows]
        written, least, most_of_all = quantity_of(reached.achieved), min(achieved), max(achieved)
        span = written.text(least) if least == most_of_all else written.range_text(least, most_of_all)
        counts = {name: sum(row[name] or 0 for row in rows) for name in reached.limits}
        most = max(counts, key=lambda name: counts[name], default=None)
        why = reached.limits[most] if most is not None and counts[most] else "what limited it was not recorded"
        short = f"{named} {'was' if len(levels) < 2 else 'were'} not reached in {plural(len(rows), 'cell')}"
        found.append(Limit(
            f"{short} ({span})",
            f"{short[0].upper()}{short[1:]}: {span} {'was' if len(rows) == 1 else 'were'} achieved; {why}. Such cells "
            f"are compared with none: {ASK_FOR_LESS}.",
        ))  # fmt: skip
    return found


def _runs(summary: Summary) -> list[Limit]:
    most = _most_runs(summary)
    if most > 0 and stats.refusal(most, most, n_blocks=most) is not None:
        runs = plural(most, "run")
        short = f"with {runs} per cell nothing can be concluded about differences"
        return [Limit(short, f"{short[0].upper()}{short[1:]}: the figures describe these runs only. A comparison "
                             f"needs {stats.LEAST_BLOCKS} blocks: plan at least 5.")]  # fmt: skip
    if 0 < most < SURE_RUNS:
        return [Limit(
            f"intervals over {most} runs are rough",
            f"{most} runs per cell give rough intervals: take a verdict as a hint, and plan at least {SURE_RUNS} "
            "blocks to rely on it.",
        )]  # fmt: skip
    return []


def _emulated(summary: Summary) -> list[Limit]:
    platforms = emulated(summary)
    if not platforms:
        return []
    are = "is" if len(platforms) == 1 else "are"
    short = f"{listing(platforms)} {are} emulated in software (TCG)"
    return [Limit(
        short,
        f"{short}: their figures show that it works, not what a guest under KVM costs. Run the plan where /dev/kvm "
        "works.",
    )]  # fmt: skip


def _clock(summary: Summary) -> list[Limit]:
    return [
        Limit(
            f"the clock of {machine.hostname} was not trusted",
            f"The clock of {machine.hostname} was not trusted: {listing(list(machine.clock.get('reasons', [])))}.",
        )
        for machine in summary.machines
        if machine.clock.get("trusted") is False
    ]


def _drift(summary: Summary) -> list[Limit]:
    if not summary.flagged_blocks:
        return []
    which = "blocks" if len(summary.flagged_blocks) > 1 else "block"
    place = f"{which} {listing([str(block) for block in summary.flagged_blocks])}"
    return [Limit(
        f"the machine changed in {place}",
        f"The control cell drifted in {place}: the machine changed while it was measured.",
    )]  # fmt: skip


def _capped(summary: Summary) -> list[Limit]:
    """Cells whose runs a time limit ended early."""
    capped = summary.cells.filter(pl.col("capped_runs") > 0)
    if not capped.height:
        return []
    least = float(capped["completed_fraction"].min())  # type: ignore[arg-type]
    short = f"a time limit ended runs of {plural(capped.height, 'cell')} early"
    return [Limit(
        short,
        f"{short[0].upper()}{short[1:]}: they completed {percent_text(least)} of the readings asked for and more. "
        "Their medians describe what was completed: they are compared by the share of the time spent late.",
    )]  # fmt: skip


def _inconclusive(summary: Summary) -> list[Limit]:
    found = needs.inconclusive(summary)
    return [] if found is None else [Limit(*found)]


def _one_sided(summary: Summary) -> list[Limit]:
    """Comparisons of which one side lost more runs: what fails when it is slow seems faster than it is."""
    cells: dict[tuple[str, ...], tuple[int, int]] = {}
    for cell in summary.cells.iter_rows(named=True):
        key = (cell["experiment"], *(str(cell[name]) for name in summary.keys[cell["experiment"]]))
        lost = cell["failed_runs"] + cell["skipped_runs"]
        cells[key] = (lost, lost + cell["n_runs"])
    experiments = {one.name: one for one in summary.plan.experiments}
    found: list[tuple[float, str]] = []
    for row in summary.comparisons:
        sides = []
        for level in (row.level, row.baseline):
            labels = counterpart(experiments[row.experiment], row.labels, row.factor, level) or {}
            key = (row.experiment, *(str(labels.get(name)) for name in summary.keys[row.experiment]))
            lost, made = cells.get(key, (0, 0))
            sides.append((lost, made, level_text(summary.level_of, row.factor, level)))
        (here, of_here, level), (there, of_there, baseline) = sides
        if of_here and of_there and here != there:
            words = f"{here} of {of_here} at {level} against {there} of {of_there} at {baseline}"
            found.append((abs(here / of_here - there / of_there), words))
    if not found:
        return []
    short = f"in {plural(len(found), 'comparison')} one side lacks runs ({max(found)[1]})"
    return [Limit(
        short,
        f"{short[0].upper()}{short[1:]}: if runs failed because they were slow, that side seems faster than it is. See "
        "why they failed, then repeat them with `vtare resume`.",
    )]  # fmt: skip


def _absent(summary: Summary) -> list[Limit]:
    found = []
    if failed := summary.failed.height:
        short = f"{plural(failed, 'run')} failed"
        found.append(Limit(short, f"{short}, listed below with reasons."))
    if skipped := summary.skipped.height:
        short = f"{plural(skipped, 'run')} {'was' if skipped == 1 else 'were'} skipped"
        found.append(Limit(short, f"{short}, listed below with reasons."))
    if pending := summary.pending_runs:
        short = f"{plural(pending, 'run')} of the plan {'is' if pending == 1 else 'are'} still pending"
        found.append(Limit(short, f"{short}: vtare resume goes on."))
    return found
