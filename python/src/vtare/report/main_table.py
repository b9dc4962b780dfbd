"""The main comparisons, the table of the first screen: each level of each factor against the baseline of all else."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.plan.cells import counterpart
from vtare.quantity_text import quantity_of
from vtare.report import text
from vtare.report.layers import ratio_level, verdict_of
from vtare.report.layout import figure_name, fixed_parts
from vtare.report.parts import Column, Table
from vtare.report.tables import where_of, why_no_ratio
from vtare.report.text import Shown
from vtare.summary.cells import COMPARED_PARTS
from vtare.summary.contrasts import TAILS, ComparisonRow
from vtare.summary.rows import known_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.summary import Summary

_FARTHEST: Final = "p99.9"
_AT_A_GLANCE: Final = 8
"""Rows of the first screen; the table of all main comparisons is folded away below it."""


def main_rows(summary: Summary, layouts: Mapping[str, Layout], headline: str | None) -> list[ComparisonRow]:
    """The main comparisons, those of the experiment that is drawn first."""
    order = sorted(layouts.values(), key=lambda layout: layout.experiment.name != headline)
    return [row for layout in order for row in _rows_of(summary, layout)]


def _rows_of(summary: Summary, layout: Layout) -> list[ComparisonRow]:
    """The rows of one experiment: by factor, platforms first, then level, then the main figure before its tail."""
    by_levels: dict[tuple[Any, ...], ComparisonRow] = {}
    for row in (*summary.comparisons, *summary.layers):
        # What platforms cost is at the baseline by itself; figures of captures are there where captures are.
        if row.experiment != layout.experiment.name or (row.kind != "cost" and not _is_at_baseline(layout, row)):
            continue
        # A tail that the runs are too short for stands in the table of all tails, with the reason.
        is_known = row.ratio is not None or row.kind != "tail"
        if is_known and row.figure != _FARTHEST:
            by_levels.setdefault((row.figure, row.factor, row.level, row.baseline, *_shared(layout, row).items()), row)
    factors = ["platform", *(factor.name for factor in layout.experiment.factors), *layout.keys]
    rows = list(by_levels.values())
    figures = list(dict.fromkeys(row.figure for row in rows))
    return sorted(
        rows,
        key=lambda row: (
            factors.index(row.factor) if row.factor in factors else len(factors),
            layout.rank(row.factor, row.level),
            layout.rank(row.factor, row.baseline),
            figures.index(row.figure),
        ),
    )


def _is_at_baseline(layout: Layout, row: ComparisonRow) -> bool:
    """Whether all other factors are at their baseline, and parts of a run that are not compared at their first."""
    factors = {factor.name: factor.baseline for factor in layout.experiment.factors}
    for key in layout.keys:
        if key == row.factor or (key not in factors and (key in COMPARED_PARTS or key == layout.series)):
            continue
        if row.labels.get(key) not in (None, factors.get(key, layout.order[key][0])):
            return False
    return True


def _shared(layout: Layout, row: ComparisonRow) -> dict[str, str]:
    """The levels that both sides share."""
    return {key: row.labels[key] for key in layout.keys if key != row.factor and key in row.labels}


def at_a_glance(rows: Sequence[ComparisonRow], fixed: Mapping[str, Mapping[str, str]]) -> list[ComparisonRow]:
    """The rows of the first screen: those of the main metric of each factor, one for each level.

    `fixed` has the one level of each part of a run at which all of them are, by experiment. Where there are too many,
    differences stay, then the largest effects. `rows` are those of `main_rows`: the first row of a factor in an
    experiment has its main metric.
    """
    metrics: dict[tuple[str, str], str] = {}
    main: dict[tuple[str, ...], ComparisonRow] = {}
    for row in rows:
        if any(
            key != row.factor and row.labels.get(key, label) != label for key, label in fixed[row.experiment].items()
        ):
            continue
        if metrics.setdefault((row.experiment, row.factor), row.figure) == row.figure:
            main.setdefault((row.experiment, row.factor, row.level, row.baseline), row)
    chosen = sorted(main.values(), key=_order_at_a_glance)[:_AT_A_GLANCE]
    return [row for row in main.values() if row in chosen]


def _order_at_a_glance(row: ComparisonRow) -> tuple[bool, bool, float]:
    effect = abs(math.log(row.ratio)) if row.ratio else 0.0
    return not row.verdict.is_different, row.ratio is None, -effect


def main_tables(
    summary: Summary, layouts: Mapping[str, Layout], headline: str | None
) -> tuple[Table | None, Table | None]:
    """The table of the first screen, None where nothing is compared; that of all, None where it has the same rows."""
    rows = main_rows(summary, layouts, headline)
    if not rows:
        return None, None
    few = at_a_glance(rows, {
        name: fixed_parts(layout, summary.cells.filter(pl.col("experiment") == name))
        for name, layout in layouts.items()
    }) or rows[:_AT_A_GLANCE]  # fmt: skip
    first = _table(summary, layouts, few, "main", "Main comparisons", headline)
    every = _table(summary, layouts, rows, "main-all", "All main comparisons", headline)
    return first, replace(every, choice=True) if len(few) < len(rows) else None


def _table(
    summary: Summary,
    layouts: Mapping[str, Layout],
    rows: Sequence[ComparisonRow],
    name: str,
    caption: str,
    headline: str | None,
) -> Table:
    # Rows that are not of the experiment which the answer is of name theirs.
    several = {row.experiment for row in rows} != {headline or rows[0].experiment}
    shown = []
    for row in rows:
        layout = layouts[row.experiment]
        shown.append((
            *([text.words(layout.experiment.name)] if several else []),
            text.words(figure_name(row.figure, short=True)),
            _side(summary, layout, row, row.level),
            _side(summary, layout, row, row.baseline),
            text.bound_ratio(
                row.ratio_bound,
                row.ratio_side,
                text.ratio(row.ratio, row.judged_low, row.judged_high, why_no_ratio(row.reason, "not estimable")),
            ),
            verdict_of(summary, row),
            text.words(where_of(layout, row.labels, without=row.factor) or "everywhere"),
        ))  # fmt: skip
    columns = (
        *([Column("experiment", "experiment", numeric=False)] if several else []),
        Column("metric", "metric", numeric=False, about="the figure of a run that is compared"),
        Column("here", "here", numeric=False, about="the level that is compared, with its median over runs"),
        Column("against", "against", numeric=False, about="what it is compared with, with its median over runs"),
        Column(
            "ratio",
            f"ratio ({ratio_level(summary)})",
            about="of geometric means of run figures; its interval is adjusted over the family, as p is",
        ),
        Column("verdict", "verdict", numeric=False, about="equivalent: inside the margin"),
        Column("where", "at", numeric=False, about="the levels that both share: the baselines of the plan"),
    )
    return Table(name, caption, columns, tuple(shown))


def _side(summary: Summary, layout: Layout, row: ComparisonRow, level: str) -> Shown:
    """One side of a comparison: its level, what was reached of it, and its figure where the cells keep it."""
    labels = counterpart(layout.experiment, row.labels, row.factor, level) or {}
    of_cell = [pl.col(key).eq_missing(pl.lit(labels.get(key))) for key in layout.keys]
    cells = summary.cells.filter(pl.col("experiment") == layout.experiment.name, *of_cell)
    cell = cells.row(0, named=True) if cells.height else {}
    main = row.figure == layout.experiment.record.quantity
    value = known_of(cell, "median" if main else row.tail or row.quantity)
    quantity = layout.quantity if row.tail in TAILS else row.quantity
    is_name = row.factor in ("platform", layout.series)
    name = layout.named(row.factor, level) if is_name else layout.key_text(row.factor, level)
    figure = "" if value is None else f": {value.prefix}{text.keep(quantity_of(quantity).text(value.number))}"
    return Shown(f"{name}{layout.reached(cell)}{figure}", level, layout.rank(row.factor, level))
