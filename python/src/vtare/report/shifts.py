"""Which part of the distribution moves: the shift function of a cell against its baseline, as a figure and a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare import plots
from vtare.plan.cells import counterpart
from vtare.report import text
from vtare.report.figures import slug
from vtare.report.parts import Column, Panel, Question, Table
from vtare.report.tables import change_text, where_of
from vtare.report.text import Shown
from vtare.sentences import captions, titles
from vtare.sentences.comparison import NOT_COMPARED
from vtare.stats import QuantileShift, Verdict
from vtare.summary.cells import rng_for
from vtare.summary.completion import is_capped
from vtare.summary.contrasts import ComparisonRow
from vtare.summary.shift import ORDER, pairs_of, shift_function

if TYPE_CHECKING:
    from vtare.report.layout import Layout
    from vtare.summary import Summary

_MOST_DRAWN: Final = 6
"""Comparisons that are drawn, those with the largest shift first; the table has all."""
_Runs = dict[int, Mapping[str, Any]]
SURVIVORS: Final = "a time limit ended runs: their quantiles describe the readings that were completed"


@dataclass(frozen=True, slots=True)
class Shifts:
    """The shift functions of a table, the largest first, and comparisons that have none, each with the reason.

    The band of all of them together holds every quantile of every comparison at once with the level of the plan.
    """

    known: tuple[tuple[ComparisonRow, tuple[QuantileShift, ...]], ...]
    left_out: tuple[tuple[ComparisonRow, str], ...] = ()


def shifts_of(summary: Summary, layout: Layout) -> Shifts:
    """The comparisons of an experiment's load (else of its rows) with their shift functions."""
    if not layout.experiment.record.timed:
        return Shifts(())
    name = layout.experiment.name
    rows = [row for row in summary.comparisons if row.experiment == name]
    factors = list(dict.fromkeys(row.factor for row in rows))
    factor = next((one for one in ("load", layout.series, *factors) if one in factors), None)
    runs = summary.runs.filter((pl.col("experiment") == name) & pl.col("control").is_null())
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs.iter_rows(named=True):
        cells.setdefault(tuple(run[key] for key in layout.keys), []).append(run)
    left_out: list[tuple[ComparisonRow, str]] = []
    compared: list[tuple[ComparisonRow, _Runs, _Runs]] = []
    for row in (one for one in rows if one.factor == factor):
        labels = [
            counterpart(layout.experiment, row.labels, row.factor, level) or {} for level in (row.level, row.baseline)
        ]
        sides = [cells.get(tuple(side.get(key) for key in layout.keys), []) for side in labels]
        if str(row.reason).startswith(NOT_COMPARED) or row.ratio_side is not None:
            left_out.append((row, str(row.reason)))
        elif any(is_capped(run) for side in sides for run in side):
            left_out.append((row, SURVIVORS))
        else:
            compared.append((row, pairs_of(sides[0]), pairs_of(sides[1])))
    # One band for the table: a family of many comparisons shows a shift somewhere by chance.
    level = 1 - summary.plan.analysis.alpha / max(1, len(compared))
    known = []
    for row, here, there in compared:
        rng = rng_for(summary.seed, name, "shift", repr([row.labels.get(key) for key in layout.keys]))
        shifts = shift_function(here, there, level=level, rng=rng)
        if shifts:
            known.append((row, shifts))
    known.sort(key=lambda one: -max(abs(math.log(shift.ratio)) for shift in one[1]))
    return Shifts(tuple(known), tuple(left_out))


def shift_figure(summary: Summary, layout: Layout, found: Shifts) -> Question | None:
    """A row for each quantile, a heading for each comparison; None where there is nothing to draw."""
    if not found.known:
        return None
    rows = [
        plots.RatioRow(
            _quantile(shift.probability),
            (plots.RatioMark("ratio", shift.ratio, not shift.low <= 1 <= shift.high, shift.low, shift.high),),
            _compared(layout, row),
        )
        for row, shifts in found.known[:_MOST_DRAWN]
        for shift in shifts
    ]
    drawing = plots.ratio_dots(
        rows, name=slug("shift-function", layout.experiment.name), label="quantile here over quantile at the baseline",
        margin_ratio=summary.plan.analysis.margin_ratio,
    )  # fmt: skip
    left = len(found.known) - _MOST_DRAWN
    more = [captions.more_comparisons(left)] if left > 0 else []
    caption = " ".join([captions.shift_function(len(found.known), _level(summary)), *more, *_left_out(found)])
    title = titles.SHIFT
    panel = Panel(layout.experiment.title, drawing)
    return Question(slug("shift", layout.experiment.name), title, caption, (panel,))


def shift_table(summary: Summary, layout: Layout, found: Shifts) -> Table | None:
    """A row for each comparison, a column for each quantile; those of survivors have no figure."""
    if not found.known:
        return None
    all_shifts = [shift for _, shifts in found.known for shift in shifts]
    shown = [name for name in ORDER if any(shift.probability == ORDER[name] for shift in all_shifts)]
    rows = []
    for row, shifts, why in (
        *((row, shifts, "not in all runs") for row, shifts in found.known),
        *((row, (), why) for row, why in found.left_out),
    ):
        at = {shift.probability: shift for shift in shifts}
        where = text.words(where_of(layout, row.labels, without=row.factor) or "everywhere")
        change = text.words(change_text(layout, row.factor, row.level, row.baseline))
        rows.append((where, change, *(_cell(at.get(ORDER[name]), why) for name in shown)))
    columns = (
        Column("where", "where", numeric=False, about="the levels that both cells share"),
        Column("change", "compared", numeric=False),
        *(Column(f"ratio_{name}", _quantile(ORDER[name]), about=f"ratio; band of the whole table: {_level(summary)}")
          for name in shown),
    )  # fmt: skip
    title = f"{layout.experiment.title}: shift function, ratio by quantile"
    return Table(f"shift-{layout.experiment.name}", title, columns, tuple(rows))


def _left_out(found: Shifts) -> list[str]:
    """How many comparisons are not in the figure, by reason."""
    return [captions.not_drawn(count, why) for why, count in Counter(why for _, why in found.left_out).items()]


def _cell(shift: QuantileShift | None, why: str) -> Shown:
    if shift is None:
        return text.missing(why)
    shown = text.ratio(shift.ratio, shift.low, shift.high, "")
    verdict = Verdict.HIGHER if shift.low > 1 else Verdict.LOWER if shift.high < 1 else Verdict.INCONCLUSIVE
    return Shown(shown.text, shown.raw, shown.order, verdict.change("less") or "")


def _compared(layout: Layout, row: ComparisonRow) -> str:
    where = where_of(layout, row.labels, without=row.factor)
    change = change_text(layout, row.factor, row.level, row.baseline)
    return f"{where}: {change}" if where else change


def _quantile(probability: float) -> str:
    return f"{100 * probability:g} %"


def _level(summary: Summary) -> str:
    return text.level_text(1 - summary.plan.analysis.alpha)
