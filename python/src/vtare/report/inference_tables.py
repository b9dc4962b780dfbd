"""Tables of what was inferred beside the main comparisons: tails, interactions, levels, outliers, controls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from vtare.quantity_text import quantity_of
from vtare.report import text
from vtare.report.exceedances import exceedance_table
from vtare.report.inference import scenario_name
from vtare.report.layout import figure_name, key_name
from vtare.report.parts import Column, Table, in_words
from vtare.report.pooled_ranks import pooled_ranks_table
from vtare.report.tables import change_text, p_shown, place_text, where_of
from vtare.report.text import Shown, missing
from vtare.summary.cells import ControlRow, OutlierRow
from vtare.summary.contrasts import ComparisonRow
from vtare.summary.factors import InteractionRow, LevelRow
from vtare.summary.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.report.layout import Layout
    from vtare.summary import Summary


_Tested = ComparisonRow | InteractionRow | LevelRow


def inference_tables(summary: Summary, layout: Layout) -> tuple[Table, ...]:
    """Every table of this module that one experiment has."""
    made = (
        exceedance_table(summary, layout), _tails(summary, layout), _interactions(summary, layout),
        _levels(summary, layout), _outliers(summary, layout), pooled_ranks_table(summary, layout),
    )  # fmt: skip
    return tuple(table for table in made if table is not None)


def _of(frame: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    return frame.filter(pl.col("experiment") == layout.experiment.name)


def _p(row: _Tested) -> tuple[Shown, Shown]:
    """The p-value, raw and adjusted; both missing where the test was refused."""
    if row.p_value is None:
        return missing("refused"), missing("refused")
    adjusted = row.p_adjusted
    return (
        p_shown(row.p_value),
        missing("not adjusted") if adjusted is None else p_shown(adjusted),
    )


_P_COLUMNS = (Column("p_value", "p", wide=True), Column("p_adjusted", "p (adjusted)"))
_FAMILY = Column("family", "family (adjustment)", numeric=False, wide=True)
_REFUSED = Column("refused", "refused because", numeric=False, wide=True)


def _family(row: _Tested) -> Shown:
    return text.words(f"{row.family} ({row.adjustment})")


def _table(layout: Layout, kind: str, title: str, columns: Sequence[Column], rows: Sequence[tuple[Shown, ...]]
           ) -> Table | None:  # fmt: skip
    if not rows:
        return None
    title = f"{layout.experiment.title}: {title}"
    return Table(f"{kind}-{layout.experiment.name}", title, tuple(columns), tuple(rows))


def _tails(summary: Summary, layout: Layout) -> Table | None:
    rows = []
    for row in (row for row in summary.tails if row.experiment == layout.experiment.name):
        rows.append((
            text.words(where_of(layout, row.labels, without=row.factor) or "everywhere"),
            text.words(change_text(layout, row.factor, row.level, row.baseline)),
            text.words(row.figure),
            text.bound_ratio(
                row.ratio_bound,
                row.ratio_side,
                text.ratio(row.ratio, row.judged_low, row.judged_high, "not estimable"),
            ),
            text.change(row.quantity, row.difference, "not estimable"),
            *_p(row),
            _of_runs(row), _family(row), text.words(row.refused),
        ))  # fmt: skip
    columns = (
        Column("where", "where", numeric=False, about="the levels that both cells share"),
        Column("change", "compared", numeric=False),
        Column("tail", "tail", numeric=False),
        Column("ratio_of_means", f"ratio ({text.level_text(1 - summary.plan.analysis.alpha)})",
               about="of the geometric means of each run's tail; interval and p by one t, paired by block"),
        Column(quantity_of(layout.quantity).column("difference"), "difference",
               about="of the geometric means of each run's tail", wide=True),
        *_P_COLUMNS,
        Column("runs", "runs", about="runs that have the tail, here against the baseline"),
        _FAMILY, _REFUSED,
    )  # fmt: skip
    return _table(layout, "tails", "tails, by the rule of all comparisons", columns, rows)


def _of_runs(row: ComparisonRow) -> Shown:
    """How many runs of how many have the figure, here and at the baseline: `3 of 5 / 5 of 5`."""
    counts = [(row.n_runs, row.without), (row.n_runs_baseline, row.without_baseline)]
    shown = " / ".join(f"{known} of {known + without}" for known, without in counts)
    return Shown(shown, shown, row.n_runs, text.DIFFERS if any(n for _, n in counts) else "")


def _interactions(summary: Summary, layout: Layout) -> Table | None:
    rows = []
    for row in rows_of(InteractionRow, _of(summary.interactions, layout)):
        rows.append((
            text.words(" x ".join(key_name(factor) for factor in row.factors)),
            text.words(place_text(summary, row.where)),
            text.number(row.f, "refused"),
            _freedoms(row),
            *_p(row), text.count(row.n_runs, "unknown"), text.words(row.scale), _family(row),
            text.words(row.refused),
        ))  # fmt: skip
    columns = (
        Column("effect", "factors", numeric=False),
        Column("where", "where", numeric=False),
        Column("f", "F", about="ANOVA-type statistic of the contrasts of run figures"),
        Column("freedom", "degrees of freedom", about="of the effect and of the error"),
        *_P_COLUMNS,
        Column("runs", "runs", wide=True),
        Column("scale", "scale", numeric=False, wide=True,
               about="log: an interaction is a ratio that depends on the other"),
        _FAMILY, _REFUSED,
    )  # fmt: skip
    return _table(layout, "interactions", "interactions, without equal spreads assumed", columns, rows)


def _freedoms(row: InteractionRow) -> Shown:
    if row.freedom is None or row.freedom_error is None:
        return Shown("n/a", "", None, "missing", str(row.refused))
    shown = f"{row.freedom:.3g}, {row.freedom_error:.3g}"
    return Shown(shown, shown.replace(", ", "/"), row.freedom)


def _levels(summary: Summary, layout: Layout) -> Table | None:
    rows = []
    for row in rows_of(LevelRow, _of(summary.levels, layout)):
        runs = "all" if row.n_level is None else str(row.n_level)
        rows.append((
            text.words(key_name(row.factor)),
            text.words(row.level or "as a number"),
            text.words(place_text(summary, row.where)),
            text.words(figure_name(row.figure, short=True)),
            text.number(row.tau_b, "refused"),
            text.number(row.tau_bound, "not estimable"),
            text.number(row.cliffs_delta, "ordered factor"),
            *_p(row),
            Shown(f"{runs} / {row.n_runs}", f"{runs}/{row.n_runs}", row.n_runs),
            _family(row), text.words(row.refused),
        ))  # fmt: skip
    columns = (
        *in_words("factor", "level", "where"),
        Column("figure", "figure of a run", numeric=False),
        Column("tau_b", "tau-b"),
        Column("tau_bound", "at most", about="the most that tau-b can reach for a level of this share"),
        Column("cliffs_delta", "Cliff's delta", about="-1 to 1: the level's runs against all others"),
        *_P_COLUMNS,
        Column("runs", "runs", about="at the level, of all"),
        _FAMILY, _REFUSED,
    )  # fmt: skip
    return _table(layout, "levels", "levels of factors, by Kendall's tau-b", columns, rows)


def _outliers(summary: Summary, layout: Layout) -> Table | None:
    rows = []
    outliers = rows_of(OutlierRow, _of(summary.outliers, layout))
    for row in sorted(outliers, key=lambda one: layout.sort_key(one.labels)):
        rows.append((
            text.words(scenario_name(layout, row.labels)),
            text.count(row.n, "unknown"),
            text.count(row.outliers, "refused"),
            text.percent(row.fraction, "refused"),
            text.percent(row.share, "no outliers" if row.fraction is not None else "refused"),
            text.words(row.scale),
            text.percent(row.pooled_fraction, "refused"),
            text.percent(row.pooled_share, "no outliers"),
            text.words(", ".join(row.outlying_runs) or None),
            text.words(row.reason),
        ))  # fmt: skip
    columns = (
        Column("scenario", "cell", numeric=False),
        Column("n", "readings"),
        Column("outliers", "outliers", about="robust z beyond 3.5 inside the cell"),
        Column("fraction", "of its readings"),
        Column("share", "of all outliers", about="of this experiment"),
        Column("scale", "scored on", numeric=False, wide=True),
        Column(
            "pooled_fraction",
            "pooled: of its readings",
            about="robust z beyond 3.5 among all cells of the platform, each by 1000 quantiles",
            wide=True,
        ),
        Column(
            "pooled_share",
            "pooled: of the platform's",
            about="share of the platform's outliers, as Oliveira's tables 4 to 6",
            wide=True,
        ),
        Column(
            "outlying_runs",
            "runs apart",
            numeric=False,
            about="runs whose median lies as far from the others",
            wide=True,
        ),
        Column("reason", "refused because", numeric=False, wide=True),
    )
    return _table(layout, "outliers", "outliers by scenario", columns, rows)


def control_table(summary: Summary) -> Table | None:
    """Every control run with its verdict; None where the plan has no control."""
    if summary.controls.height == 0:
        return None
    rows = []
    for row in sorted(rows_of(ControlRow, summary.controls), key=lambda one: one.block):
        drifted = bool(row.drifted)
        rows.append((
            text.count(row.block, "unknown"), text.words(row.control), text.words(row.part),
            text.time(row.median, "no reading"), text.time(row.centre, ""), text.time(row.limit, ""),
            Shown("drifted: the block is flagged" if drifted else "steady", "drifted" if drifted else "steady",
                  int(drifted), text.DIFFERS if drifted else ""),
            text.words(row.run_id),
        ))  # fmt: skip
    columns = (
        Column("block", "block"),
        Column("control", "in the block", numeric=False),
        Column("part", "measured", numeric=False),
        Column("median_ns", "median"),
        Column("centre_ns", "centre", about="median of all controls", wide=True),
        Column("limit_ns", "limit", about="3 times the typical half interquartile range of a control run", wide=True),
        Column("verdict", "verdict", numeric=False),
        Column("run_id", "run", numeric=False, wide=True),
    )
    return Table("controls", "Control runs", columns, tuple(rows))
