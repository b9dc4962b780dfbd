"""The main comparisons, the table of the first screen: each level of each factor against the baseline of all else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.plan import counterpart
from vtare.plots.quantity import quantity_of
from vtare.report import text
from vtare.report.layers import ratio_level, verdict_text
from vtare.report.layout import figure_name, fixed_parts
from vtare.report.parts import Column, Table
from vtare.report.tables import where_of, why_no_ratio
from vtare.report.text import Shown
from vtare.summary.cells import COMPARED_PARTS
from vtare.summary.contrasts import ComparisonRow
from vtare.summary.layers import LayerRow, from_comparison
from vtare.summary.rows import known_of, rows_of
from vtare.summary.verdicts import HIGHER, LOWER, WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.stats import Known
    from vtare.summary import Summary

_TAILS: Final = {"p99": "p99", "p99.9": "p999"}
"""Names of tails -> columns of cells."""
_FARTHEST: Final = "p99.9"
_AT_A_GLANCE: Final = 8
"""Rows of the first screen; the table of all main comparisons is folded away below it."""


@dataclass(frozen=True, slots=True)
class MainRow:
    """One comparison: a figure at a level of a factor and at the level that it is compared with, `against`.

    `value` and `value_against` are medians over runs, in the unit of `quantity`; None where cells do not keep them.
    `reached` and `reached_against` are what was achieved of a level that was not reached, else empty.
    `at` holds the levels that both share. `verdict` is one of `WORDS`; `reason` explains one without a ratio.
    """

    experiment: str
    figure: str
    quantity: str
    factor: str
    level: str
    against: str
    value: Known | None
    value_against: Known | None
    at: Mapping[str, str]
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    p_adjusted: float | None
    verdict: str
    reason: str
    reached: str
    reached_against: str
    ratio_bound: float | None = None
    ratio_side: str | None = None


def main_rows(summary: Summary, layouts: Mapping[str, Layout], headline: str | None) -> list[MainRow]:
    """The main comparisons, those of the experiment that is drawn first."""
    order = sorted(layouts.values(), key=lambda layout: layout.experiment.name != headline)
    return [row for layout in order for row in _rows_of(summary, layout)]


def _rows_of(summary: Summary, layout: Layout) -> list[MainRow]:
    """The rows of one experiment: by factor, platforms first, then level, then the main figure before its tail."""
    own = pl.col("experiment") == layout.experiment.name
    cells = list(summary.cells.filter(own).iter_rows(named=True))
    found: dict[tuple[Any, ...], MainRow] = {}
    compared = (from_comparison(row, "") for row in rows_of(ComparisonRow, summary.comparisons.filter(own)))
    for row in (*compared, *rows_of(LayerRow, summary.layers.filter(own))):
        # What platforms cost is at the baseline by itself; figures of captures are there where captures are.
        if row.kind != "cost" and not _is_at_baseline(layout, row):
            continue
        # A tail that the runs are too short for stands in the table of all tails, with the reason.
        is_known = row.ratio is not None or row.kind != "tail"
        if is_known and row.figure != _FARTHEST:
            made = _row(layout, cells, row)
            found.setdefault((made.figure, made.factor, made.level, made.against, *made.at.items()), made)
    factors = ["platform", *(factor.name for factor in layout.experiment.factors), *layout.keys]
    rows = list(found.values())
    figures = list(dict.fromkeys(row.figure for row in rows))
    return sorted(
        rows,
        key=lambda row: (
            factors.index(row.factor) if row.factor in factors else len(factors),
            layout.rank(row.factor, row.level),
            layout.rank(row.factor, row.against),
            figures.index(row.figure),
        ),
    )


def _is_at_baseline(layout: Layout, row: LayerRow) -> bool:
    """Whether all other factors are at their baseline, and parts of a run that are not compared at their first."""
    factors = {factor.name: factor.baseline for factor in layout.experiment.factors}
    for key in layout.keys:
        if key == row.factor or (key not in factors and (key in COMPARED_PARTS or key == layout.series)):
            continue
        if row.labels.get(key) not in (None, factors.get(key, layout.order[key][0])):
            return False
    return True


def _row(layout: Layout, cells: list[dict[str, Any]], row: LayerRow) -> MainRow:
    figure, factor = row.figure, row.factor
    column = "median" if figure == layout.experiment.record.quantity else _TAILS.get(figure, figure)

    def cell_at(level: str) -> Mapping[str, Any]:
        labels = counterpart(layout.experiment, row.labels, factor, level) or {}
        wanted = {key: labels.get(key) for key in layout.keys}
        return next((cell for cell in cells if all(cell.get(key) == label for key, label in wanted.items())), {})

    here, there = cell_at(row.level), cell_at(row.against)

    return MainRow(
        experiment=layout.experiment.name,
        figure=figure,
        quantity=layout.quantity if figure in _TAILS else figure,
        factor=factor,
        level=row.level,
        against=row.against,
        value=known_of(here, column),
        value_against=known_of(there, column),
        reached=layout.reached(here),
        reached_against=layout.reached(there),
        at={key: row.labels[key] for key in layout.keys if key != factor and key in row.labels},
        ratio=row.ratio,
        ratio_low=row.ratio_low,
        ratio_high=row.ratio_high,
        p_adjusted=row.p_adjusted,
        verdict=row.verdict,
        reason=row.reason or "",
        ratio_bound=row.ratio_bound,
        ratio_side=row.ratio_side,
    )


def at_a_glance(rows: Sequence[MainRow], fixed: Mapping[str, Mapping[str, str]]) -> list[MainRow]:
    """The rows of the first screen: those of the main metric of each factor, one for each level.

    `fixed` has the one level of each part of a run at which all of them are, by experiment. Where there are too many,
    differences stay, then the largest effects. `rows` are those of `main_rows`: the first row of a factor in an
    experiment has its main metric.
    """
    metrics: dict[tuple[str, str], str] = {}
    main: dict[tuple[str, ...], MainRow] = {}
    for row in rows:
        if any(row.at.get(key, label) != label for key, label in fixed[row.experiment].items()):
            continue
        if metrics.setdefault((row.experiment, row.factor), row.figure) == row.figure:
            main.setdefault((row.experiment, row.factor, row.level, row.against), row)
    chosen = sorted(main.values(), key=_order_at_a_glance)[:_AT_A_GLANCE]
    return [row for row in main.values() if row in chosen]


def _order_at_a_glance(row: MainRow) -> tuple[bool, bool, float]:
    effect = abs(math.log(row.ratio)) if row.ratio else 0.0
    return row.verdict not in (HIGHER, LOWER), row.ratio is None, -effect


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
    return first, every if len(few) < len(rows) else None


def _table(
    summary: Summary,
    layouts: Mapping[str, Layout],
    rows: Sequence[MainRow],
    name: str,
    caption: str,
    headline: str | None,
) -> Table:
    # Rows that are not of the experiment which the answer is of name theirs.
    several = {row.experiment for row in rows} != {headline or rows[0].experiment}
    shown = []
    for row in rows:
        layout = layouts[row.experiment]
        verdict = Shown(
            verdict_text(summary, row.verdict), row.verdict, WORDS.index(row.verdict), row.verdict, row.reason
        )
        place = {**row.at, row.factor: row.level}
        shown.append((
            *([text.words(layout.experiment.name)] if several else []),
            text.words(figure_name(row.figure, short=True)),
            _side(layout, row, row.level, row.value, row.reached),
            _side(layout, row, row.against, row.value_against, row.reached_against),
            text.bound_ratio(
                row.ratio_bound,
                row.ratio_side,
                text.ratio(row.ratio, row.ratio_low, row.ratio_high, why_no_ratio(row.reason, "not estimable")),
            ),
            verdict,
            text.words(where_of(layout, place, without=row.factor) or "everywhere"),
        ))  # fmt: skip
    columns = (
        *([Column("experiment", "experiment", numeric=False)] if several else []),
        Column("metric", "metric", numeric=False, about="the figure of a run that is compared"),
        Column("here", "here", numeric=False, about="the level that is compared, with its median over runs"),
        Column("against", "against", numeric=False, about="what it is compared with, with its median over runs"),
        Column("ratio", f"ratio ({ratio_level(summary)})", about="of geometric means of run figures"),
        Column("verdict", "verdict", numeric=False, about="equivalent: inside the margin"),
        Column("where", "at", numeric=False, about="the levels that both share: the baselines of the plan"),
    )
    return Table(name, caption, columns, tuple(shown))


def _side(layout: Layout, row: MainRow, level: str, value: Known | None, reached: str) -> Shown:
    """One side of a comparison: its level, and its figure where the cells keep it."""
    is_name = row.factor in ("platform", layout.series) and not level.isdigit()
    name = layout.level(row.factor, level) if is_name else layout.key_text(row.factor, level)
    figure = "" if value is None else f": {value.prefix}{text.keep(quantity_of(row.quantity).text(value.number))}"
    return Shown(f"{name}{reached}{figure}", level, layout.rank(row.factor, level))


__all__ = ["MainRow", "at_a_glance", "main_rows", "main_tables"]
