"""How many runs a campaign needs: from the spread of a pilot's runs, or from one that the user states."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from scipy import special

from vtare import stats
from vtare.records.answer import Answered, answered
from vtare.sentences import campaign as wording
from vtare.summary.cells import COMPARED_PARTS, Cell, compared_figure
from vtare.summary.contrasts import pairs
from vtare.summary.measured import MeasuredStore, read_measured, refuse_empty

if TYPE_CHECKING:
    from vtare.plan.model import Experiment, Plan
    from vtare.records import campaigns as records

#: How surely the true spread is below the upper limit that a pilot gives for it (Browne 1995).
_CAUTION: Final = 0.8


@dataclass(frozen=True, slots=True)
class Needs:
    """What one figure of one cell (or one experiment, with a stated spread) needs.

    `quantity` is the figure of a run that all other fields are about; None where a spread was stated. `spread_percent`
    is the standard deviation of this figure over runs and `paired_spread_percent` that of its differences inside
    blocks, of the comparison of this cell that varies most: what the decision rule meets. `spread_upper_percent` is the
    latter's 80 % upper limit; `runs` finds the shift with the wanted power if that spread is the true one,
    `runs_cautious` on average over what a pilot of so few blocks leaves open; `found_percent` is the shift that the
    plan's own number of blocks finds. `samples` were taken in a run of the pilot, `samples_advised` are worth their
    time. What is not known is None, with the reason.
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
    quantity: str | None = None


@dataclass(frozen=True, slots=True)
class PowerQuestion:
    """What is asked: the shift to find (in percent), with which power, and whether to allow for many comparisons."""

    shift_percent: float
    power: float
    alpha: float
    blocks: int

    @property
    def shift_log(self) -> float:
        """The shift as a difference of logarithms."""
        return math.log1p(self.shift_percent / 100.0)


def needs_from_pilot(store: Path, question: PowerQuestion) -> tuple[Needs, ...]:
    """What each cell of a pilot store needs.

    Raises:
        BadInput: no store, or no finished run in it.
    """
    pilot = read_measured(store, resample=True)
    refuse_empty(pilot)
    needs = []
    for experiment in pilot.plan.experiments:
        cells = pilot.work.cells[experiment.name]
        compared = list(pairs(cells, pilot.work.baselines(experiment), experiment))
        counts = Counter(about.factor for _, _, about in compared)
        comparisons = max(counts.values(), default=1)
        for cell in cells:
            partners = [one if other is cell else other for one, other, _ in compared if cell in (one, other)]
            costs = _costs(pilot, cell)
            needs += needs_by_figure(cell, partners, comparisons, question, experiment.name, costs=costs)
    return tuple(needs)


def needs_from_spread(plan: Plan, spread_percent: float, question: PowerQuestion) -> tuple[Needs, ...]:
    """What each experiment of a plan needs when its run medians differ by `spread_percent`."""
    needs = []
    for experiment in plan.experiments:
        comparisons = largest_family(experiment)
        # Nothing is known of blocks: the differences of two independent runs.
        spread = math.log1p(spread_percent / 100.0) * math.sqrt(2.0)
        needs.append(
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
    return tuple(needs)


def largest_family(experiment: Experiment) -> int:
    """The most comparisons with a baseline that one factor of an experiment makes."""
    sizes = {factor.name: len(factor.levels) for factor in experiment.factors}
    for part in COMPARED_PARTS:
        levels = experiment.parameters.get(part)
        if part not in sizes and isinstance(levels, list):
            sizes[part] = len(levels)
    cells = math.prod(sizes.values())
    return max((cells // size * (size - 1) for size in sizes.values() if size > 1), default=1)


def needs_by_figure(
    cell: Cell,
    partners: Sequence[Cell],
    comparisons: int,
    question: PowerQuestion,
    experiment: str,
    *,
    costs: tuple[float | None, float | None] = (None, None),
) -> list[Needs]:
    """What a cell needs by each figure that it is compared by: next to another cell that may be another figure.

    `costs` are those of a fresh start and of one reading, in seconds.
    """
    by_figure: dict[str, list[Cell]] = {}
    for other in partners:
        by_figure.setdefault(compared_figure((cell, other)), []).append(other)
    return [
        _needs_by(figure, cell, others, comparisons, question, experiment, costs)
        for figure, others in (by_figure or {compared_figure((cell,)): []}).items()
    ]


def _needs_by(
    figure: str, cell: Cell, partners: Sequence[Cell], comparisons: int, question: PowerQuestion, experiment: str,
    costs: tuple[float | None, float | None],
) -> Needs:  # fmt: skip
    samples = stats.median(cell.known("n")).value
    readings = None if samples is None else int(samples)
    quantity = str(cell.figures[0]["quantity"]) if figure == "median" else figure
    about = (experiment, cell.labels, comparisons, len(cell.figures))

    def without(reason: str) -> Needs:
        return Needs(*about, None, None, None, None, None, readings, None, reason, quantity=quantity)

    figures = np.array(cell.known(figure))
    if len(figures) < 2:
        return without(f"a spread between runs needs 2 of them, there are {len(figures)}")
    if np.any(figures <= 0):
        return without("found a run figure that is not above 0, which has no logarithm")
    spread = float(np.log(figures).std(ddof=1))
    if spread == 0.0:
        return without("all runs of the pilot agree to the last digit: it shows no spread to plan with")
    paired, freedom = _paired_spread(cell, figure, partners) or (spread * math.sqrt(2.0), len(figures) - 1)
    upper = paired * math.sqrt(freedom / (2.0 * float(special.gammaincinv(freedom / 2.0, 1.0 - _CAUTION))))
    advised = None
    run_s, reading_s = costs
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
        _runs(paired, comparisons, question, freedom=float(freedom)),
        _found_percent(paired, comparisons, question),
        readings,
        advised,
        paired_spread_percent=100.0 * math.expm1(paired),
        quantity=quantity,
    )


def _paired_spread(cell: Cell, figure: str, partners: Sequence[Cell]) -> tuple[float, int] | None:
    """The largest standard deviation of log differences inside blocks over the comparisons of a cell by one figure.

    With its degrees of freedom. None of a cell that is compared with none, and where cells share too few blocks.
    """
    spreads = []
    for other in partners:
        here, there = cell.by_block(figure), other.by_block(figure)
        blocks = stats.common_blocks(here, there)
        values = [(here[block], there[block]) for block in blocks]
        if len(values) > 1 and all(a > 0 and b > 0 for a, b in values):
            spreads.append((float(np.std([math.log(a / b) for a, b in values], ddof=1)), len(values) - 1))
    return max((one for one in spreads if one[0] > 0.0), default=None)


def _costs(pilot: MeasuredStore, cell: Cell) -> tuple[float | None, float | None]:
    """What a fresh start and one reading of a cell cost, in seconds: medians over its runs."""
    starts, readings = [], []
    for run_id, figures in zip(cell.run_ids, cell.figures, strict=True):
        took, measured, n = pilot.entries[run_id].elapsed_s, figures["elapsed_s"], figures["n"]
        if took is not None and n:
            starts.append(max(took - measured, 0.0) + pilot.plan.settle_s)
            readings.append(measured / n)
    return stats.median(starts).value, stats.median(readings).value


def _runs(spread: float, comparisons: int, question: PowerQuestion, *, freedom: float | None = None) -> int | None:
    return stats.runs_per_cell(
        shift_sd=question.shift_log / spread,
        alpha=question.alpha,
        wanted_power=question.power,
        comparisons=comparisons,
        freedom=freedom,
    )


def _found_percent(spread: float, comparisons: int, question: PowerQuestion) -> float | None:
    shift = stats.detectable_shift_sd(
        question.blocks, alpha=question.alpha, wanted_power=question.power, comparisons=comparisons
    )
    return None if shift is None else 100.0 * math.expm1(min(shift * spread, 50.0))


def answer(question: PowerQuestion, needs: Sequence[Needs]) -> Answered:
    """How many blocks are enough for every cell, or why that is not known."""
    wanted = [one.runs if one.pilot_runs is None else one.runs_cautious for one in needs]
    known = [runs for runs in wanted if runs is not None]
    limits = list(dict.fromkeys(one.reason for one in needs if one.reason is not None))
    if not known or len(known) < sum(one.reason is None for one in needs):
        return answered([wording.enough_unknown(question.shift_percent)], "unknown", limits=limits)
    text = wording.enough_answer(question.shift_percent, question.power, max(known), question.blocks)
    return answered([text], "enough" if max(known) <= question.blocks else "too_few", limits=limits)


def document(question: PowerQuestion, needs: Sequence[Needs], *, plan: str, pilot: Path | None) -> records.Power:
    """The answer as one JSON-ready document of schema `vtare.power/1`."""
    return {
        "schema": "vtare.power/1",
        "answer": answer(question, needs),
        "plan": plan,
        "pilot": None if pilot is None else str(pilot),
        "shift_percent": question.shift_percent,
        "power": question.power,
        "alpha": question.alpha,
        "blocks": question.blocks,
        "cells": [_of_cell(one) for one in needs],
    }


def _of_cell(needs: Needs) -> records.NeedsOfCell:
    values = asdict(needs)
    return cast("records.NeedsOfCell", {"levels": values.pop("labels"), **values})
