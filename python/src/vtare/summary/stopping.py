"""The stopping rule of a plan: whether a campaign is precise enough to end before its last block.

Asked between blocks. It looks at the widths of intervals alone, never at p-values: stopping once p is small finds
differences that are not there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtare import stats
from vtare.sentences.comparison import NOT_COMPARED
from vtare.summary.measured import read_measured

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.plan.model import StopRule
    from vtare.summary.cells import Cell
    from vtare.summary.contrasts import ComparisonRow


@dataclass(frozen=True, slots=True)
class Precision:
    """How precise a campaign is so far: whether it may stop, and a sentence with the reason."""

    stop: bool
    reason: str


def judge_precision(store: Path, rule: StopRule) -> Precision:
    """Judge a store by its plan's rule: every comparison's ratio, or every cell's median where nothing is compared.

    Raises:
        vtare.errors.BadInput: the path is no store, or its runs must not be pooled.
    """
    measured = read_measured(store)
    only = rule.experiment
    every = [row for row in measured.work.comparisons() if only in (None, row.experiment)]
    # What more runs cannot make comparable keeps no campaign going.
    compared = [row for row in every if not str(row.reason).startswith(NOT_COMPARED)]
    if every and not compared:
        return Precision(True, f"no comparison can be made: {every[0].reason}")
    by_name = measured.work.cells if only is None else {only: measured.work.cells[only]}
    cells = [] if compared else [cell for some in by_name.values() for cell in some]
    what = "ratio" if compared else "median"
    intervals = [
        (_named(row), row.ratio_low, row.ratio_high, min(row.n_runs, row.n_runs_baseline)) for row in compared
    ] + [_of_cell(cell) for cell in cells]
    if not intervals:
        return Precision(False, "no run can be used yet")
    target = math.log1p(rule.precision_percent / 100.0)
    most = measured.plan.blocks + rule.more_blocks
    judged = [
        stats.stop(low, high, runs=runs, target=target, least=min(rule.least_blocks, most), most=most + 1)
        for _, low, high, runs in intervals
    ]
    open_ones = [(one, name) for one, (name, *_) in zip(judged, intervals, strict=True) if one.word != "precise"]
    if not open_ones:
        widest = max(one.half_width or 0.0 for one in judged)
        return Precision(
            True,
            f"the half-width of every interval of a {what} ({len(judged)}) is within {rule.precision_percent:g} %; "
            f"the widest has {_percent(widest)}{_no_equivalence(measured.plan.analysis.margin_ratio, rule, compared)}",
        )
    worst, name = max(open_ones, key=lambda pair: math.inf if pair[0].half_width is None else pair[0].half_width)
    if worst.half_width is None:
        why = f"{name} has no interval"
    elif worst.half_width <= target:
        why = f"{name} has {worst.runs} runs of the {rule.least_blocks} that are wanted"
    else:
        why = f"{name} has a half-width of {_percent(worst.half_width)}"
    return Precision(
        False, f"{len(open_ones)} of {len(judged)} intervals are not yet within {rule.precision_percent:g} %: {why}"
    )


def _no_equivalence(margin_ratio: float, rule: StopRule, rows: Sequence[ComparisonRow]) -> str:
    """Why a campaign that stops at this precision cannot show equivalence; empty where it can."""
    margin = 100.0 * (margin_ratio - 1.0)
    if not rows:
        return ""
    if rule.precision_percent >= margin:
        return (
            f"; equivalence within {margin:.3g} % needs intervals narrower than that: set precision_percent below the "
            "margin"
        )
    coarse = sum("the clock moves in steps" in str(row.reason) for row in rows)
    if coarse:
        return f"; {coarse} of {len(rows)} cannot be shown equivalent: the clock's step exceeds the margin"
    return ""


def _percent(half_width: float) -> str:
    """A half-width on the log scale as a percentage."""
    return f"{100.0 * math.expm1(half_width):.3g} %"


def _named(row: ComparisonRow) -> str:
    """A comparison for people."""
    return f"{row.experiment}: {row.factor} {row.level} against {row.baseline}"


def _of_cell(cell: Cell) -> tuple[str, float | None, float | None, int]:
    """A cell for people, the interval of its median over runs, and how many they are."""
    interval = stats.median_interval(cell.known("median"))
    return ", ".join(cell.labels.values()), interval.low, interval.high, len(cell.figures)
