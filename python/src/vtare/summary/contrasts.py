"""Cells against each other: each with the cell that differs in one factor only, medians and tails.

The decision rule is that of `vtare.stats.comparison`; here it gets its families and its rows. The contrasts of one
factor of one experiment are one family, adjusted by Holm: the plan declared them before anything was measured. Cells
of one campaign are paired by block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from vtare import stats
from vtare.instruments import metric
from vtare.plan.cells import counterpart
from vtare.sentences import comparison as wording
from vtare.stats import Merit, Verdict
from vtare.summary.cells import Cell, compared_figure
from vtare.summary.rows import p_fields

if TYPE_CHECKING:
    from vtare.plan.model import Analysis, Experiment

#: The tails that are compared: columns of a run's figures.
TAILS: Final = ("p99", "p999")
#: What people call them.
TAIL_NAMES: Final = {"p99": "p99", "p999": "p99.9"}


@dataclass(frozen=True, slots=True)
class ComparedCells:
    """What is compared: the cell with these labels with the one that has `baseline` in place of `level`."""

    experiment: str
    instrument: str
    labels: Mapping[str, str]
    factor: str
    level: str
    baseline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparison:
    """One figure of a cell against that of another cell, of whatever two sides (docs/methods/statistics.md).

    `difference` and its ends have the unit of `quantity`. The `judged` ends are those that the verdict rests on: their
    level is adjusted for the family as the p-value is, but where the two are equivalent. Where a side holds bounds that
    decide the order, there is no `ratio` but a `ratio_bound`, which it is `at least` or `at most` (`ratio_side`).
    `tail` names a figure of runs that is not the main one (`p99`, `p999`, ...). None: not estimable, or refused for
    the `reason`.
    """

    experiment: str
    labels: Mapping[str, str]
    quantity: str
    n_runs: int
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    judged_low: float | None = None
    judged_high: float | None = None
    judged_difference_low: float | None = None
    judged_difference_high: float | None = None
    judged_level: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    p_text: str | None = None
    family: str = ""
    family_size: int | None = None
    adjustment: str = ""
    verdict: Verdict = Verdict.REFUSED
    margin_ratio: float | None = None
    reason: str | None = None
    ratio_bound: float | None = None
    ratio_side: str | None = None
    tail: str | None = None

    @property
    def figure(self) -> str:
        """What is compared: a tail by its name, else the quantity."""
        return self.quantity if self.tail is None else TAIL_NAMES.get(self.tail, self.tail)

    @property
    def word(self) -> str:
        """The verdict in the word that people read."""
        return self.verdict.word(metric(self.quantity).better)

    @property
    def change(self) -> Merit | None:
        """`worse` or `better`; None where the two do not differ, or the figure has no direction."""
        return self.verdict.change(metric(self.quantity).better)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow(CellComparison):
    """One figure of a cell against that of its baseline.

    `block_memory` is that of the differences of blocks that the interval allows for, None where none was seen;
    `p_memory` and `p_trend` test it and their trend. `median` and its like have the unit of `quantity`. `without` and
    `without_baseline` count the runs that have no such figure. `refused` is why a tail was not tested. `kind` is that
    of a row of layers: `cost` or `tail`.
    """

    instrument: str
    factor: str
    level: str
    baseline: str
    n_runs_baseline: int
    without: int = 0
    without_baseline: int = 0
    design: str | None = None
    n_blocks: int | None = None
    median: float | None = None
    median_baseline: float | None = None
    cliffs_delta: float | None = None
    inference: str | None = None
    freedom: float | None = None
    clock_step: float | None = None
    interval_level: float | None = None
    p_equivalent: float | None = None
    ratio_rank: float | None = None
    rank_low: float | None = None
    rank_high: float | None = None
    rank_level: float | None = None
    anytime_low: float | None = None
    anytime_high: float | None = None
    fragile: bool | None = None
    decided_by: str | None = None
    modes: str | None = None
    modes_baseline: str | None = None
    runs_needed: int | None = None
    block_memory: float | None = None
    p_memory: float | None = None
    p_trend: float | None = None
    refused: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two cells compared, before the p-value is adjusted: `quantity` is what was compared.

    `without` and `without_baseline` count the runs that have no such figure (a p99 of too few readings). Where a side
    has bounds only, or did not reach its level, there is no comparison, and `why_not` states it. Where bounds can show
    the order of the two, `comparison` is that of what is known at least (at most), and `side` states which.
    """

    about: ComparedCells
    family: str
    quantity: str
    comparison: stats.Comparison | None
    cliffs_delta: float | None
    here: Mapping[int, float]
    there: Mapping[int, float]
    paired: bool = True
    without: int = 0
    without_baseline: int = 0
    why_not: str | None = None
    side: stats.Side | None = None

    @property
    def p(self) -> float | None:
        """The raw p-value; None where inference was refused. Of bounds that point the other way it is 1."""
        if self.comparison is None or self.comparison.p is None or self.side is None:
            return None if self.comparison is None else self.comparison.p
        return self.comparison.p if (self.comparison.shift > 0) == (self.side == "at least") else 1.0


def pairs(
    cells: Sequence[Cell], baselines: Mapping[str, str], at: Experiment
) -> Iterator[tuple[Cell, Cell, ComparedCells]]:
    """Each cell with the one that differs only in one factor, which there has the baseline level, and its place.

    Factors nested in that one differ too, from their baseline to none.
    """
    by_labels = {tuple(sorted(cell.labels.items())): cell for cell in cells}
    for cell in cells:
        for factor, baseline in baselines.items():
            if factor not in cell.labels or cell.labels[factor] == baseline:
                continue
            labels = counterpart(at, cell.labels, factor, baseline)
            other = None if labels is None else by_labels.get(tuple(sorted(labels.items())))
            if other is not None:
                yield cell, other, place_at(at, cell, factor, cell.labels[factor], baseline)


def place_at(at: Experiment, cell: Cell, factor: str, level: str, baseline: str) -> ComparedCells:
    """The place of a comparison of a cell of an experiment."""
    return ComparedCells(at.name, at.instrument, cell.labels, factor, level, baseline)


def compare(
    cells: Sequence[Cell], baselines: Mapping[str, str], analysis: Analysis, at: Experiment, *, quantum_ns: float
) -> list[ComparisonRow]:
    """Compare each cell of an experiment with its baseline, factor by factor, and judge them family by family."""
    contrasts = [
        contrast_of(cell, other, about, f"{at.name}: {about.factor}", analysis, quantum_ns=quantum_ns)
        for cell, other, about in pairs(cells, baselines, at)
    ]
    return judge([contrast for contrast in contrasts if contrast is not None], analysis)


def contrast_of(
    cell: Cell,
    other: Cell,
    about: ComparedCells,
    family: str,
    analysis: Analysis,
    *,
    quantum_ns: float,
    figure: str | None = None,
    paired: bool = True,
) -> Contrast | None:
    """Compare two cells by their main figure, or by another one of their runs; None where one of them has none.

    `paired` is False where equal block numbers mean nothing: the cells are those of two campaigns.
    """
    figure = figure or compared_figure((cell, other))
    quantity = str(cell.figures[0]["quantity"]) if figure in ("median", *TAILS) else figure
    if (reason := why_not(cell, other, figure, about)) is not None:
        step = step_of((cell, other), figure, quantum_ns)
        decided = _of_bounds(cell, other, about, family, analysis, figure, quantity, reason, step=step, paired=paired)
        if decided is not None:
            return decided
        here, there = (dict.fromkeys(one.blocks, math.nan) for one in (cell, other))
        return Contrast(about, family, quantity, None, None, here, there, paired, why_not=reason)
    here, there = cell.by_block(figure), other.by_block(figure)
    if not here or not there:
        return None
    return contrast_of_runs(
        here, there, about, family, analysis,
        quantity=quantity,
        step=step_of((cell, other), figure, quantum_ns), paired=paired,
        without=len(cell.figures) - len(here), without_baseline=len(other.figures) - len(there),
    )  # fmt: skip


def why_not(cell: Cell, other: Cell, figure: str, about: ComparedCells) -> str | None:
    """Why a figure of two cells is not compared: bounds, or a level that was not reached; None where it is."""
    sides = ((about.level, cell), (about.baseline, other))
    reasons = [wording.at_level(why, level) for level, one in sides if (why := one.unusable(figure)) is not None]
    if not reasons:
        return None
    return wording.not_compared(reasons, bounds=bool(cell.bounds(figure) or other.bounds(figure)))


def _of_bounds(
    cell: Cell, other: Cell, about: ComparedCells, family: str, analysis: Analysis, figure: str, quantity: str,
    reason: str, *, step: float, paired: bool,
) -> Contrast | None:  # fmt: skip
    """The contrast of what two cells know at least (at most), where that can show which is higher; else None."""
    here, there = cell.known_by_block(figure), other.known_by_block(figure)
    side = stats.decided_side(here, there)
    if side is None:
        return None
    x, y = ({block: value.number for block, value in one.items()} for one in (here, there))
    made = contrast_of_runs(x, y, about, family, analysis, quantity=quantity, step=step, paired=paired)
    return replace(made, side=side, cliffs_delta=None, why_not=reason)


def contrast_of_runs(
    here: Mapping[int, float],
    there: Mapping[int, float],
    about: ComparedCells,
    family: str,
    analysis: Analysis,
    *,
    quantity: str,
    step: float = 0.0,
    paired: bool = True,
    without: int = 0,
    without_baseline: int = 0,
) -> Contrast:
    """Compare a figure of two kinds of runs, each given by block; neither may be empty."""
    a, b = list(here.values()), list(there.values())
    comparison = (
        stats.compare_runs(here, there, alpha=analysis.alpha, step=step)
        if paired
        else stats.compare_runs(a, b, alpha=analysis.alpha, step=step)
    )
    delta = stats.cliffs_delta(a, b).value
    return Contrast(about, family, quantity, comparison, delta, here, there, paired, without, without_baseline)


def step_of(cells: Iterable[Cell], figure: str, quantum_ns: float) -> float:
    """The step of the clock in a figure of cells: the stated one, or a larger one that readings show; 0 for no time."""
    members = list(cells)
    quantity = str(members[0].figures[0]["quantity"])
    if metric(quantity).symbol != "ns" or figure not in ("median", *TAILS):
        return 0.0
    return max(quantum_ns, *(cell.step for cell in members))


def _adjusted(
    contrasts: Sequence[Contrast], adjustment: stats.Adjustment, alpha: float
) -> dict[int, tuple[stats.PValue, float]]:
    """The p-value of each contrast, by its place, adjusted over its family, and what that leaves of alpha."""
    adjusted: dict[int, tuple[stats.PValue, float]] = {}
    for family in dict.fromkeys(contrast.family for contrast in contrasts):
        tested = [(i, p) for i, c in enumerate(contrasts) if c.family == family and (p := c.p) is not None]
        values = stats.adjust([p for _, p in tested], family=family, adjustment=adjustment)
        both = zip(values, stats.alphas_left(values, alpha), strict=True)
        adjusted.update({i: one for (i, _), one in zip(tested, both, strict=True)})
    return adjusted


def judge(
    contrasts: Sequence[Contrast], analysis: Analysis, *, adjustment: stats.Adjustment = "holm"
) -> list[ComparisonRow]:
    """Adjust the p-values of each family and give every contrast its verdict; one row each, in their order."""
    adjusted = _adjusted(contrasts, adjustment, analysis.alpha)
    untested: tuple[None, None] = (None, None)
    return [_row(contrast, adjusted.get(i, untested), analysis, adjustment) for i, contrast in enumerate(contrasts)]


def _row(
    contrast: Contrast, test: tuple[stats.PValue, float] | tuple[None, None], analysis: Analysis, adjustment: str
) -> ComparisonRow:
    p, alpha_left = test
    comparison = contrast.comparison
    if comparison is not None and contrast.side is not None:
        return _bound_row(contrast, comparison, p, analysis, adjustment)
    if comparison is None:
        return ComparisonRow(
            **_where(contrast.about),
            quantity=contrast.quantity,
            n_runs=len(contrast.here),
            n_runs_baseline=len(contrast.there),
            inference=Verdict.REFUSED,
            family=contrast.family,
            adjustment=adjustment,
            verdict=Verdict.INCONCLUSIVE,
            reason=contrast.why_not,
        )
    size = p.size if p is not None else 0
    judged = stats.judge(
        comparison,
        p_adjusted=None if p is None else p.adjusted,
        margin_ratio=analysis.margin_ratio,
        alpha=analysis.alpha,
        size=size,
        alpha_left=alpha_left,
    )
    # A table cannot show an interval without an end: the verdict used it, the row's reason states it.
    open_ended = comparison.high == float("inf")
    reason = wording.below_half_step(judged.reason) if open_ended else judged.reason
    # The estimate that no single run can move far, beside the one that is judged.
    by_ranks = stats.hodges_lehmann(*_sides(contrast))
    # For readers of a campaign that is still running: it holds at every look.
    anytime = stats.anytime_ratio(comparison)
    follow = comparison.dependence
    # What one block does to a t of independent blocks is not what it does to a widened one.
    widened = follow is not None and follow.seen
    fragile, decided_by = (None, None) if widened else _one_run(contrast, p, analysis)
    return ComparisonRow(
        **_where(contrast.about),
        quantity=contrast.quantity,
        n_runs=comparison.n_runs_a,
        n_runs_baseline=comparison.n_runs_b,
        without=contrast.without,
        without_baseline=contrast.without_baseline,
        design=comparison.design,
        n_blocks=comparison.n_blocks,
        median=comparison.median_a,
        median_baseline=comparison.median_b,
        ratio=comparison.ratio,
        ratio_low=None if open_ended else comparison.low,
        ratio_high=None if open_ended else comparison.high,
        difference=comparison.difference,
        difference_low=comparison.difference_low,
        difference_high=None if open_ended else comparison.difference_high,
        **_judged(judged.ends),
        cliffs_delta=contrast.cliffs_delta,
        inference=comparison.method,
        freedom=comparison.freedom,
        clock_step=comparison.slack.step,
        interval_level=None if comparison.p is None else comparison.level,
        p_value=comparison.p,
        p_adjusted=None if p is None else p.adjusted,
        p_text=None if p is None else str(p),
        family=contrast.family,
        family_size=size,
        adjustment=adjustment,
        p_equivalent=stats.equivalence_p(comparison, margin_ratio=analysis.margin_ratio),
        verdict=judged.verdict,
        margin_ratio=judged.margin_ratio,
        reason=reason,
        ratio_rank=by_ranks.ratio,
        rank_low=by_ranks.low,
        rank_high=by_ranks.high,
        rank_level=by_ranks.level,
        anytime_low=anytime.low,
        anytime_high=anytime.high,
        fragile=fragile,
        decided_by=decided_by,
        modes=_modes(contrast.here, comparison.slack.step),
        modes_baseline=_modes(contrast.there, comparison.slack.step),
        runs_needed=None
        if p is None
        else stats.runs_needed(comparison, ratio=analysis.margin_ratio, alpha=analysis.alpha, comparisons=size),
        block_memory=follow.memory if follow is not None and follow.seen else None,
        p_memory=None if follow is None else follow.p_memory,
        p_trend=None if follow is None else follow.p_trend,
    )


def _judged(ends: stats.IntervalEnds | None) -> dict[str, Any]:
    """The fields of the interval that a verdict rests on. A table cannot show one without an end."""
    if ends is None:
        return {}
    ratio = {} if ends.high == float("inf") else {"judged_low": ends.low, "judged_high": ends.high}
    difference = {"judged_difference_low": ends.difference_low, "judged_difference_high": ends.difference_high}
    return ratio | (difference if ends.difference_high < float("inf") else {}) | {"judged_level": ends.level}


def _bound_row(
    contrast: Contrast, found: stats.Comparison, p: stats.PValue | None, analysis: Analysis, adjustment: str
) -> ComparisonRow:
    """The row of two cells of which bounds may show the order: never a ratio, never equivalence."""
    differs = p is not None and p.adjusted <= analysis.alpha and found.ratio is not None
    why_not = str(contrast.why_not)
    reason = wording.bounds_decide(why_not, str(contrast.side)) if differs else wording.bounds_leave_open(why_not)
    return ComparisonRow(
        **_where(contrast.about),
        quantity=contrast.quantity,
        n_runs=found.n_runs_a,
        n_runs_baseline=found.n_runs_b,
        design=found.design,
        n_blocks=found.n_blocks,
        inference=found.method,
        **p_fields(p),
        family=contrast.family,
        family_size=0 if p is None else p.size,
        adjustment=adjustment,
        verdict=(Verdict.HIGHER if contrast.side == "at least" else Verdict.LOWER) if differs else Verdict.INCONCLUSIVE,
        margin_ratio=analysis.margin_ratio,
        reason=reason,
        ratio_bound=found.ratio if differs else None,
        ratio_side=contrast.side if differs else None,
    )


def _where(place: ComparedCells) -> dict[str, Any]:
    """The fields of a row that its place gives."""
    return {field.name: getattr(place, field.name) for field in fields(place)}


def _sides(contrast: Contrast) -> tuple[Any, Any]:
    """The figures of both sides, by block where blocks pair them."""
    if contrast.paired:
        return contrast.here, contrast.there
    return list(contrast.here.values()), list(contrast.there.values())


def _one_run(contrast: Contrast, p: stats.PValue | None, analysis: Analysis) -> tuple[bool | None, str | None]:
    """Whether leaving out a single run or block changes the answer, and which one where it is the only one."""
    if p is None:
        return None, None
    # The raw alpha that the family's adjustment left to this comparison.
    alpha = analysis.alpha * (p.raw / p.adjusted if 0.0 < p.adjusted < 1.0 else 1.0 / p.size)
    influence = stats.influence(*_sides(contrast), alpha=alpha)
    if influence is None:
        return None, None
    key = influence.decided_by
    if isinstance(key, tuple):
        side, at = key
        key = list(contrast.here if side == "a" else contrast.there)[at] if not contrast.paired else at
        text: str | None = wording.run_of(key, at_baseline=side != "a")
    else:
        text = None if key is None else wording.block(key)
    return bool(influence.changes), text


def _modes(figures: Mapping[int, float], step: float) -> str | None:
    """Runs of two kinds, in words; None where they are of one, as far as the clock's step shows it."""
    modes = stats.find_modes(figures, step=step)
    if modes is None:
        return None
    return wording.two_kinds([str(block) for block in modes.upper], modes.ratio)


def compare_tails(
    cells: Sequence[Cell], baselines: Mapping[str, str], analysis: Analysis, at: Experiment, *, quantum_ns: float
) -> list[ComparisonRow]:
    """Compare each cell's per-run p99 and p99.9 with its baseline's by the rule of all comparisons.

    One family per factor and tail, adjusted by BH: the plan declares the main contrasts, tails are explored.
    """
    rows = []
    for tail in TAILS:
        contrasts = [
            (cell, other, about, f"{at.name}: {about.factor}, {tail}")
            for cell, other, about in pairs(cells, baselines, at)
        ]
        rows += tail_rows(contrasts, tail, analysis, quantum_ns=quantum_ns)
    return rows


def tail_rows(
    found: Sequence[tuple[Cell, Cell, ComparedCells, str]],
    tail: str,
    analysis: Analysis,
    *,
    quantum_ns: float,
    paired: bool = True,
) -> list[ComparisonRow]:
    """Compare a figure of the runs of each pair of cells, adjusted by BH."""
    made = [
        contrast_of(cell, other, about, family, analysis, quantum_ns=quantum_ns, figure=tail, paired=paired)
        for cell, other, about, family in found
    ]
    judged = iter(rows_of_tails([one for one in made if one is not None], tail, analysis))
    return [
        next(judged) if one is not None else _without_tail(cell, other, about, family, tail)
        for one, (cell, other, about, family) in zip(made, found, strict=True)
    ]


def rows_of_tails(contrasts: Sequence[Contrast], tail: str, analysis: Analysis) -> list[ComparisonRow]:
    """Judge contrasts of a tail, adjusted by BH."""
    rows = judge(contrasts, analysis, adjustment="bh")
    return [
        replace(row, tail=tail, refused=None if one.p is not None else row.reason)
        for one, row in zip(contrasts, rows, strict=True)
    ]


def _without_tail(cell: Cell, other: Cell, about: ComparedCells, family: str, tail: str) -> ComparisonRow:
    """The row of two cells of which one has no run with this figure."""
    known = [len(one.known(tail)) for one in (cell, other)]
    why = wording.NO_RUN_HAS_IT
    if tail in TAILS:
        longest = max((int(f["n"]) for one in (cell, other) for f in one.figures), default=0)
        needed = stats.least_n(0.99 if tail == "p99" else 0.999)
        why = wording.too_short_for_tail(tail, needed, longest)
    return ComparisonRow(
        **_where(about),
        quantity=str(cell.figures[0]["quantity"]),
        tail=tail,
        n_runs=known[0],
        n_runs_baseline=known[1],
        without=len(cell.figures) - known[0],
        without_baseline=len(other.figures) - known[1],
        family=family,
        adjustment="bh",
        verdict=Verdict.INCONCLUSIVE,
        reason=why,
        refused=why,
    )
