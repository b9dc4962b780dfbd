"""How many runs a campaign needs: from the spread of a pilot's runs, or from one that the user states."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import stats as scipy_stats

from vtare import stats
from vtare.summary.cells import COMPARED_PARTS, Cell, compared_figure
from vtare.summary.contrasts import pairs
from vtare.summary.measured import Measured, read_measured, refuse_empty

if TYPE_CHECKING:
    from vtare.plan import Experiment, Plan

SCHEMA: Final = "vtare.power/1"
#: The spread of a pilot of few runs is itself uncertain: the cautious number takes its 80 % upper limit (Browne 1995).
_CAUTION: Final = 0.8


@dataclass(frozen=True, slots=True)
class Needs:
    """What one cell (or one experiment, with a stated spread) needs.

    `spread_percent` is the standard deviation of run figures and `paired_spread_percent` that of their differences
    inside blocks, of the comparison of this cell that varies most: what the decision rule meets. `spread_upper_percent`
    is the latter's 80 % upper limit; `runs` finds the shift with the wanted power at that spread, `runs_cautious` at
    the upper limit; `found_percent` is the shift that the plan's own number of blocks finds. `samples` were taken in a
    run of the pilot, `samples_advised` are worth their time. What is not known is None, with the reason.
    """

    experiment: str
    labels: Mapping[str, str]
    comparisons: int
    pilot_runs: int | None
    spread_percent: float | None
    spread_upper_percent: float | None
    runs: int | None
    runs_cautious: int | None
    found_percent: float | None
    samples: int | None
    samples_advised: int | None
    reason: str | None = None
    paired_spread_percent: float | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the shift to find (in percent), with which power, and whether to allow for many comparisons."""

    shift_percent: float
    power: float
    alpha: float
    blocks: int

    @property
    def shift_log(self) -> float:
        """The shift as a difference of logarithms."""
        return math.log1p(self.shift_percent / 100.0)


def needs_from_pilot(store: Path, question: Question) -> tuple[Needs, ...]:
    """What each cell of a pilot store needs.

    Raises:
        BadInput: no store, or no finished run in it.
    """
    pilot = read_measured(store, resample=True)
    refuse_empty(pilot)
    found = []
    for experiment in pilot.plan.experiments:
        cells = pilot.work.cells[experiment.name]
        compared = list(pairs(cells, pilot.work.baselines(experiment), experiment))
        counts = Counter(about.factor for _, _, about in compared)
        comparisons = max(counts.values(), default=1)
        for cell in cells:
            partners = [one if other is cell else other for one, other, _ in compared if cell in (one, other)]
            found.append(_needs_of(pilot, experiment, cell, partners, comparisons, question))
    return tuple(found)


def needs_from_spread(plan: Plan, spread_percent: float, question: Question) -> tuple[Needs, ...]:
    """What each experiment of a plan needs when its run medians differ by `spread_percent`."""
    found = []
    for experiment in plan.experiments:
        comparisons = largest_family(experiment)
        # Nothing is known of blocks: the differences of two independent runs.
        spread = math.log1p(spread_percent / 100.0) * math.sqrt(2.0)
        found.append(
            Needs(
                experiment.name,
                {},
                comparisons,
                None,
                spread_percent,
                None,
                _runs(spread, comparisons, question),
                None,
                _found_percent(spread, comparisons, question),
                None,
                None,
            )
        )
    return tuple(found)


def largest_family(experiment: Experiment) -> int:
    """The most comparisons with a baseline that one factor of an experiment makes."""
    sizes = {factor.name: len(factor.levels) for factor in experiment.factors}
    for part in COMPARED_PARTS:
        levels = experiment.parameters.get(part)
        if part not in sizes and isinstance(levels, list):
            sizes[part] = len(levels)
    cells = math.prod(sizes.values())
    return max((cells // size * (size - 1) for size in sizes.values() if size > 1), default=1)


def _needs_of(
    pilot: Measured, experiment: Experiment, cell: Cell, partners: Sequence[Cell], comparisons: int, question: Question
) -> Needs:
    n = len(cell.figures)
    samples = stats.median(cell.known("n")).value
    about = (experiment.name, cell.labels, comparisons, n)
    none = (None, None, None, None, None, None if samples is None else int(samples), None)
    figure = compared_figure((cell,))
    figures = np.array(cell.known(figure))
    if len(figures) < 2:
        return Needs(*about, *none, f"a spread between runs needs 2 of them, there are {len(figures)}")
    if np.any(figures <= 0):
        return Needs(*about, *none, "found a run figure that is not above 0, which has no logarithm")
    spread = float(np.log(figures).std(ddof=1))
    if spread == 0.0:
        return Needs(*about, *none, "all runs of the pilot agree to the last digit: it shows no spread to plan with")
    paired = _paired_spread(cell, partners, spread)
    upper = paired * math.sqrt((n - 1) / float(scipy_stats.chi2.ppf(1.0 - _CAUTION, n - 1)))
    advised = None
    run_s, reading_s = _costs(pilot, cell)
    between, inside = cell.pool.noise() if figure == "median" and cell.pool is not None else (0.0, 0.0)
    if inside > 0.0 and samples and run_s and reading_s:
        advised = stats.samples_per_run(
            variance_between_runs=between,
            variance_of_reading=inside * samples,
            run_cost_s=run_s,
            reading_cost_s=reading_s,
        ).samples
    return Needs(
        *about,
        100.0 * math.expm1(spread),
        100.0 * math.expm1(upper),
        _runs(paired, comparisons, question),
        _runs(upper, comparisons, question),
        _found_percent(paired, comparisons, question),
        None if samples is None else int(samples),
        advised,
        paired_spread_percent=100.0 * math.expm1(paired),
    )


def _paired_spread(cell: Cell, partners: Sequence[Cell], spread: float) -> float:
    """The largest standard deviation of log differences inside blocks over the comparisons of a cell.

    Of a cell that is compared with none, and of pilots whose cells share too few blocks, that of two independent runs.
    """
    found = []
    for other in partners:
        figure = compared_figure((cell, other))
        here, there = cell.by_block(figure), other.by_block(figure)
        blocks = stats.common_blocks(here, there)
        values = [(here[block], there[block]) for block in blocks]
        if len(values) > 1 and all(a > 0 and b > 0 for a, b in values):
            found.append(float(np.std([math.log(a / b) for a, b in values], ddof=1)))
    return max(found, default=0.0) or spread * math.sqrt(2.0)


def _costs(pilot: Measured, cell: Cell) -> tuple[float | None, float | None]:
    """What a fresh start and one reading of a cell cost, in seconds: medians over its runs."""
    starts, readings = [], []
    for run_id, figures in zip(cell.run_ids, cell.figures, strict=True):
        took, measured, n = pilot.entries[run_id].elapsed_s, figures["elapsed_s"], figures["n"]
        if took is not None and n:
            starts.append(max(took - measured, 0.0) + pilot.plan.settle_s)
            readings.append(measured / n)
    return stats.median(starts).value, stats.median(readings).value


def _runs(spread: float, comparisons: int, question: Question) -> int | None:
    return stats.runs_per_cell(
        shift_sd=question.shift_log / spread,
        alpha=question.alpha,
        wanted_power=question.power,
        comparisons=comparisons,
    )


def _found_percent(spread: float, comparisons: int, question: Question) -> float | None:
    shift = stats.detectable_shift_sd(
        question.blocks, alpha=question.alpha, wanted_power=question.power, comparisons=comparisons
    )
    return None if shift is None else 100.0 * math.expm1(min(shift * spread, 50.0))


def document(question: Question, needs: Sequence[Needs], *, plan: str, pilot: Path | None) -> dict[str, Any]:
    """The answer as one JSON-ready document of schema `vtare.power/1`."""
    return {
        "schema": SCHEMA,
        "plan": plan,
        "pilot": None if pilot is None else str(pilot),
        "shift_percent": question.shift_percent,
        "power": question.power,
        "alpha": question.alpha,
        "blocks": question.blocks,
        "cells": [
            {
                "experiment": one.experiment,
                "levels": dict(one.labels),
                "comparisons": one.comparisons,
                "pilot_runs": one.pilot_runs,
                "spread_percent": one.spread_percent,
                "paired_spread_percent": one.paired_spread_percent,
                "spread_upper_percent": one.spread_upper_percent,
                "runs": one.runs,
                "runs_cautious": one.runs_cautious,
                "found_percent": one.found_percent,
                "samples": one.samples,
                "samples_advised": one.samples_advised,
                "reason": one.reason,
            }
            for one in needs
        ],
    }
