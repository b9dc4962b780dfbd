"""Tables of a report: verdicts, tests, cells, what was left out."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from vtare.instruments.model import end_column
from vtare.plan.cells import counterpart
from vtare.quantity_text import quantity_of
from vtare.report import needs, text
from vtare.report.layout import figure_name, key_name, key_text, level_text
from vtare.report.parts import Column, Table, in_words
from vtare.report.text import Shown, missing
from vtare.sentences.comparison import NOT_COMPARED
from vtare.sentences.words import plural
from vtare.stats import Verdict, write_p
from vtare.summary.contrasts import ComparisonRow
from vtare.summary.factors import RankTestRow
from vtare.summary.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.summary import Summary
    from vtare.summary.factors import ComparedLevel


def json_value(column: Column, cell: Shown) -> float | str | None:
    """A number where the column holds numbers and the cell one; a range or words as they are; null where missing."""
    if not cell.raw:
        return None
    try:
        number = float(cell.raw) if column.numeric else None
    except ValueError:
        return cell.raw
    return cell.raw if number is None or not math.isfinite(number) else number


_VERDICT_ORDER: Final = {Verdict.HIGHER: 0, Verdict.LOWER: 0, Verdict.INCONCLUSIVE: 1, Verdict.EQUIVALENT: 2}
_MEDIAN_OF: Final = "median over runs of each run's figure, that of the column metric"


class _Cells:
    """Finds the cells that a comparison sets beside each other."""

    def __init__(self, summary: Summary, layouts: Mapping[str, Layout]) -> None:
        self._keys = summary.keys
        self._layouts = layouts
        self._rows = {
            (row["experiment"], *(row[key] for key in self._keys[row["experiment"]])): row
            for row in summary.cells.iter_rows(named=True)
        }

    def figure(self, row: ComparisonRow, level: str) -> Shown:
        """The main figure of one cell of a comparison, the one at this level, with its interval."""
        experiment = self._layouts[row.experiment].experiment
        labels = counterpart(experiment, row.labels, row.factor, level) or {}
        cell = self._rows.get((row.experiment, *(labels.get(key) for key in self._keys[row.experiment])))
        if cell is None:
            return missing("not measured")
        layout = self._layouts[row.experiment]
        quantity, record = row.quantity, layout.experiment.record
        column = "median" if quantity == record.quantity else quantity
        low, high = (cell.get(end_column(column, which)) for which in ("low", "high"))
        why = "no truth" if record.estimates else "no finished run"
        return _with_interval(text.of_row(cell, column, why, partial(text.figure, quantity)), quantity, low, high)


def _with_interval(shown: Shown, quantity: str, low: float | None, high: float | None) -> Shown:
    """A figure with its interval in brackets, where it has one."""
    if shown.kind == "missing" or low is None or high is None:
        return shown
    span = text.figures(quantity, low, high, "")
    return Shown(f"{shown.text} ({span.text})", f"{shown.raw} [{span.raw}]", shown.order)


def verdict_table(summary: Summary, layouts: Mapping[str, Layout]) -> Table | None:
    """Every comparison of a cell with its baseline, largest effect first; None where there is nothing to compare."""
    rows = sorted(summary.comparisons, key=_effect_order)
    if not rows:
        return None
    cells = _Cells(summary, layouts)
    margin = summary.plan.analysis.margin_percent
    quantities = {quantity_of(row.quantity) for row in rows}
    # Of several kinds of figures each row states its unit.
    is_mixed = len(quantities) > 1
    named = str if is_mixed else quantities.pop().column
    shown = [_verdict_row(summary, layouts, cells, row, is_mixed=is_mixed) for row in rows]
    level = text.level_text(1 - summary.plan.analysis.alpha)
    while_it_runs = (
        Column(
            "ratio_at_every_look",
            f"at every look ({level})",
            about="the ratio with an interval that holds however often an unfinished campaign is read",
            wide=True,
        ),
    )
    columns = (
        Column("experiment", "experiment", numeric=False),
        Column("where", "where", numeric=False, about="the levels that both cells share"),
        Column("change", "compared", numeric=False, about="factor: level against baseline"),
        Column("metric", "metric", numeric=False, about="the figure of a run that is compared", wide=True),
        Column(
            "ratio",
            f"ratio ({level})",
            about="of the geometric means of run figures, here over the baseline, in the blocks that have both; the "
            "interval is adjusted over the family",
        ),
        *(while_it_runs if summary.pending_runs else ()),
        Column("verdict", "verdict", numeric=False, about=f"equivalent means inside the margin of {margin:g} %"),
        Column(
            named("here"),
            "here",
            about=f"{_MEDIAN_OF}, with its interval ({text.levels_text(summary.cells)})",
            wide=True,
        ),
        Column(named("baseline"), "at the baseline", about=f"{_MEDIAN_OF} there", wide=True),
        Column(
            "p_adjusted",
            "p (adjusted)",
            about="that the ratio is 1; method, family and adjustment in the tip",
        ),
        Column(named("difference"), f"difference ({level})", about="difference of the two", wide=True),
        Column(
            "cliffs_delta", "Cliff's delta", about="-1 to 1: how far one cell's runs lie above the other's", wide=True
        ),
        Column("runs", "runs", about="runs here against runs at the baseline"),
        *((Column("unit", "unit", numeric=False, about="of this row in the CSV file", wide=True),) if is_mixed else ()),
    )
    return Table("verdicts", "Comparisons, largest effect first", columns, tuple(shown))


def _effect_order(row: ComparisonRow) -> tuple[int, float]:
    ratio = row.ratio
    size = abs(math.log(ratio)) if ratio is not None and ratio > 0 else 0.0
    return _VERDICT_ORDER[row.verdict], -size


def where_of(layout: Layout, labels: Mapping[str, str], *, without: str) -> str:
    """The levels of a cell without one factor, in words."""
    parts = [
        layout.series_text(labels)
        if key == layout.series and key not in ("argument", "cpu")
        else f"{layout.key_text(key, labels[key])}"
        for key in layout.keys
        if key != without and len(layout.order[key]) > 1 and key in labels
    ]
    return ", ".join(parts)


def _verdict_row(
    summary: Summary, layouts: Mapping[str, Layout], cells: _Cells, row: ComparisonRow, *, is_mixed: bool
) -> tuple[Shown, ...]:
    layout = layouts[row.experiment]
    why = row.reason or "not estimable"
    return (
        text.words(layout.experiment.name),
        text.words(where_of(layout, row.labels, without=row.factor) or "everywhere"),
        text.words(change_text(layout, row.factor, row.level, row.baseline)),
        text.words(figure_name(row.quantity, short=True)),
        text.bound_ratio(
            row.ratio_bound,
            row.ratio_side,
            text.ratio(row.ratio, row.judged_low, row.judged_high, why_no_ratio(row.reason, "a median is not above 0")),
        ),
        *((_at_every_look(row),) if summary.pending_runs else ()),
        Shown(row.word + needs.mark(row), row.word, _VERDICT_ORDER[row.verdict], row.word, why + needs.tip(row)),
        cells.figure(row, row.level),
        cells.figure(row, row.baseline),
        _p_value(row),
        _difference(row),
        text.number(row.cliffs_delta, "too few runs"),
        Shown(f"{row.n_runs} / {row.n_runs_baseline}", f"{row.n_runs}/{row.n_runs_baseline}", row.n_runs),
        *((text.words(_unit_words(row.quantity)),) if is_mixed else ()),
    )


def why_no_ratio(reason: str | None, otherwise: str) -> str:
    """Why two cells have no ratio: they were not compared at all, or another cause."""
    return NOT_COMPARED if str(reason).startswith(NOT_COMPARED) else otherwise


def _unit_words(quantity: str) -> str:
    symbol = quantity_of(quantity).symbol
    return {"1": "fraction", "%": "percent", "": "none"}.get(symbol, symbol)


def _at_every_look(row: ComparisonRow) -> Shown:
    if row.anytime_low is None or row.anytime_high is None:
        return missing("below 5 blocks no interval holds at every look")
    return text.ratio(row.ratio, row.anytime_low, row.anytime_high, why_no_ratio(row.reason, "a median is not above 0"))


def _difference(row: ComparisonRow) -> Shown:
    shown = text.change(row.quantity, row.difference, "not estimable")
    return _with_interval(shown, row.quantity, row.judged_difference_low, row.judged_difference_high)


def change_text(layout: Layout, factor: str, level: str, baseline: str) -> str:
    """What a comparison compares: `load: cpu against idle`."""
    return f"{key_name(factor)}: {layout.level(factor, level)} against {layout.level(factor, baseline)}"


def place_text(summary: Summary, where: Sequence[ComparedLevel]) -> str:
    """The place of a test in words: `load idle, target 1 ms`."""
    return ", ".join(key_text(summary.level_of, one.key, one.label) for one in where) or "everywhere"


def _p_value(row: ComparisonRow) -> Shown:
    if row.p_adjusted is None:
        return Shown("n/a (test refused)", "", None, "missing", str(row.reason))
    count = plural(row.family_size or 0, "comparison")
    about = f"{row.inference}; family {row.family}, {count}; adjusted by {row.adjustment}"
    return p_shown(row.p_adjusted, about)


def p_shown(p: float, about: str = "") -> Shown:
    """A p-value, raw or adjusted: its text and its value are the same number, and the text is never 0."""
    return Shown(write_p(p), str(p), p, "", about)


def test_table(summary: Summary) -> Table | None:
    """Every test that was made or refused; None where there is none."""
    if summary.tests.height == 0:
        return None
    rows = []
    for test in rows_of(RankTestRow, summary.tests):
        refused = test.refused
        rows.append((
            text.words(test.experiment),
            text.words(key_name(test.factor)),
            text.words(place_text(summary, test.where)),
            text.words(figure_name(test.figure, short=True)),
            text.words(test.test.replace("_", "-")),
            missing("refused") if refused else text.number(test.statistic, "not estimable"),
            missing("refused") if test.p_value is None else p_shown(test.p_value),
            missing("refused") if test.p_adjusted is None else p_shown(test.p_adjusted),
            text.words(_differing(summary, test)),
            text.words(f"{test.family} ({test.adjustment})"),
            text.count(test.n_runs, "unknown"),
            text.words(refused),
        ))  # fmt: skip
    columns = (
        *in_words("experiment", "factor", "where"),
        Column("figure", "figure of a run", numeric=False, wide=True),
        Column("test", "test", numeric=False),
        Column("statistic", "statistic"),
        Column("p_value", "p", wide=True),
        Column("p_adjusted", "p (adjusted)"),
        Column(
            "pairs",
            "levels that differ",
            numeric=False,
            about="by Nemenyi's test, or Dunn's, over all pairs",
            wide=True,
        ),
        Column("family", "family (adjustment)", numeric=False, wide=True),
        Column("blocks_or_runs", "blocks or runs", wide=True),
        Column("refused", "refused because", numeric=False, wide=True),
    )
    return Table("tests", "Tests of whole factors, on figures of runs", columns, tuple(rows))


def _differing(summary: Summary, test: RankTestRow) -> str:
    """The pairs of levels that differ: `netns < docker (0.012), host < docker (0.034)`."""

    def named(label: str) -> str:
        return level_text(summary.level_of, test.factor, label)

    return ", ".join(f"{named(pair.less)} < {named(pair.more)} ({write_p(pair.p_adjusted)})" for pair in test.pairs)


def absent_tables(summary: Summary) -> tuple[Table, ...]:
    """Runs that were skipped or failed, with reasons."""
    tables = []
    for name, frame in (("skipped", summary.skipped), ("failed", summary.failed)):
        if frame.height:
            tables.append(_absent(summary, name, frame))
    return tuple(tables)


def _absent(summary: Summary, name: str, frame: pl.DataFrame) -> Table:
    factors = [factor for factor in summary.plan.factor_names if factor in frame.columns]
    columns = [Column("experiment", "experiment", numeric=False)]
    columns += [Column(factor, key_name(factor), numeric=False, wide=True) for factor in factors]
    columns += [
        Column("block", "block"),
        Column("reason", "reason", numeric=False),
        Column("exit_code", "exit code", wide=True),
    ]
    columns += [
        Column("log_tail", "end of the log", numeric=False, wide=True),
        Column("run_id", "run", numeric=False, wide=True),
    ]
    rows: list[Sequence[Shown]] = []
    for row in frame.iter_rows(named=True):
        shown = [text.words(row["experiment"]), *(text.words(row[factor]) for factor in factors)]
        shown += [text.count(row["block"], "unknown"), text.words(row["reason"])]
        shown += [
            text.count(row.get("exit_code"), "not started"),
            text.words((row.get("log_tail") or "").strip() or None),
        ]
        shown.append(text.words(row["run_id"]))
        rows.append(shown)
    return Table(name, f"{name.capitalize()} runs", tuple(columns), tuple(tuple(row) for row in rows))
