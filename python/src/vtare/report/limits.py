"""What a reader must not conclude from a campaign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from vtare import stats
from vtare.number_text import percent_text
from vtare.plan.cells import counterpart
from vtare.quantity_text import quantity_of
from vtare.report import needs
from vtare.report.facts import emulated
from vtare.report.layout import level_text
from vtare.sentences import limits as wording
from vtare.sentences.comparison import ASK_FOR_LESS, RAISE_LIMIT
from vtare.sentences.words import plural
from vtare.stats import Verdict
from vtare.summary.cells import unreached_words
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
        return wording.not_certain([limit.short for limit in limits[:2]])
    rows = summary.comparisons
    if not rows:
        return wording.NOTHING_COMPARED
    open_rows = [row for row in rows if row.verdict is Verdict.INCONCLUSIVE]
    if open_rows:
        return wording.not_tested(len(open_rows), len(rows), open_rows[0].reason)
    return wording.all_decided(len(rows))


def _most_runs(summary: Summary) -> int:
    runs = summary.cells.get_column("n_runs") if summary.cells.height else pl.Series([], dtype=pl.Int64)
    return int(runs.max() or 0)  # type: ignore[arg-type]


def _flaws(summary: Summary) -> list[Limit]:
    """Each kind of flaw in one sentence: over how many cells, how many readings, and what to do."""
    kinds: dict[str, list[Flawed]] = {}
    for one in flawed(summary):
        kinds.setdefault(one.flaw.words, []).append(one)
    limits = []
    for words, some in sorted(kinds.items(), key=lambda kind: -max(one.share for one in kind[1])):
        count, total = sum(one.count for one in some), sum(one.total for one in some)
        amount = f"{count:g} of {total:g}" if some[0].flaw.of else f"{percent_text(count / total)} of the"
        cells = plural(len(some), "cell") if len(some) < summary.cells.height else ""
        flaw = wording.flaw(amount, words, cells, some[0].flaw.remedy)
        limits.append(Limit(*flaw, is_grave=any(one.share >= HIDES for one in some)))
    return limits


def _bounds(summary: Summary) -> list[Limit]:
    """Cells whose main figure a limit of the instrument or of the plan kept from being known."""
    cells = [
        row for row in summary.cells.iter_rows(named=True)
        if (known := known_of(row, "median")) is not None and known.side != "exact"
    ]  # fmt: skip
    return [Limit(*wording.bounds(len(cells), summary.cells.height, RAISE_LIMIT))] if cells else []


def _unreached(summary: Summary) -> list[Limit]:
    """Levels that cells fell short of, with what was achieved and what kept them from it."""
    limits = []
    for experiment in summary.plan.experiments:
        reached = experiment.record.reached
        cells = summary.cells.filter(pl.col("experiment") == experiment.name)
        rows = [row for row in cells.iter_rows(named=True) if unreached_words(reached, row) is not None]
        if reached is None or not rows:
            continue
        levels = list(dict.fromkeys(label for row in rows if (label := row.get(reached.factor)) is not None))
        achieved = [row[reached.achieved] for row in rows]
        written, least, most_of_all = quantity_of(reached.achieved), min(achieved), max(achieved)
        span = written.text(least) if least == most_of_all else written.range_text(least, most_of_all)
        counts = {name: sum(row[name] or 0 for row in rows) for name in reached.limits}
        most = max(counts, key=lambda name: counts[name], default=None)
        why = reached.limits[most] if most is not None and counts[most] else wording.UNRECORDED
        about = (len(rows), span, why, ASK_FOR_LESS)
        limits.append(Limit(*(wording.unreached(levels, *about) if levels else wording.unreached_rate(*about))))
    return limits


def _runs(summary: Summary) -> list[Limit]:
    most = _most_runs(summary)
    if most > 0 and stats.refusal(most, most, n_blocks=most) is not None:
        return [Limit(*wording.too_few_runs(most, stats.LEAST_BLOCKS))]
    return [Limit(*wording.rough_intervals(most, SURE_RUNS))] if 0 < most < SURE_RUNS else []


def _emulated(summary: Summary) -> list[Limit]:
    platforms = emulated(summary)
    return [Limit(*wording.emulated(platforms))] if platforms else []


def _clock(summary: Summary) -> list[Limit]:
    return [
        Limit(*wording.untrusted_clock(machine.hostname, machine.clock.get("reasons", [])))
        for machine in summary.machines
        if machine.clock.get("trusted") is False
    ]


def _drift(summary: Summary) -> list[Limit]:
    return [Limit(*wording.drift(summary.flagged_blocks))] if summary.flagged_blocks else []


def _capped(summary: Summary) -> list[Limit]:
    """Cells whose runs a time limit ended early."""
    capped = summary.cells.filter(pl.col("capped_runs") > 0)
    if not capped.height:
        return []
    least = float(capped["completed_fraction"].min())  # type: ignore[arg-type]
    return [Limit(*wording.capped(capped.height, percent_text(least)))]


def _inconclusive(summary: Summary) -> list[Limit]:
    words = needs.inconclusive(summary)
    return [] if words is None else [Limit(*words)]


def _one_sided(summary: Summary) -> list[Limit]:
    """Comparisons of which one side lost more runs: what fails when it is slow seems faster than it is."""
    cells: dict[tuple[str, ...], tuple[int, int]] = {}
    for cell in summary.cells.iter_rows(named=True):
        key = (cell["experiment"], *(str(cell[name]) for name in summary.keys[cell["experiment"]]))
        lost = cell["failed_runs"] + cell["skipped_runs"]
        cells[key] = (lost, lost + cell["n_runs"])
    experiments = {one.name: one for one in summary.plan.experiments}
    differences: list[tuple[float, str]] = []
    for row in summary.comparisons:
        sides = []
        for level in (row.level, row.baseline):
            labels = counterpart(experiments[row.experiment], row.labels, row.factor, level) or {}
            key = (row.experiment, *(str(labels.get(name)) for name in summary.keys[row.experiment]))
            lost, made = cells.get(key, (0, 0))
            sides.append((lost, made, level_text(summary.level_of, row.factor, level)))
        (here, of_here, level), (there, of_there, baseline) = sides
        if of_here and of_there and here != there:
            words = wording.lost(here, of_here, level, there, of_there, baseline)
            differences.append((abs(here / of_here - there / of_there), words))
    return [Limit(*wording.one_sided(len(differences), max(differences)[1]))] if differences else []


def _absent(summary: Summary) -> list[Limit]:
    absent = (
        (wording.failed, summary.failed.height),
        (wording.skipped, summary.skipped.height),
        (wording.pending, summary.pending_runs),
    )
    return [Limit(*words(runs)) for words, runs in absent if runs]
