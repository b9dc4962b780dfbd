"""The procedure of Kirova et al. 2019 on a campaign of one's own: Kruskal-Wallis, then Tukey's HSD on ranks.

Each factor is tested over all runs of an experiment, whatever the other factors are, by four figures of each run.
Blocks and other factors are not taken out, so that a difference may be another factor's: rely on the report's own
comparisons. This table is made where a plan asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from vtare import stats
from vtare.plan.model import TUKEY_ON_RANKS
from vtare.report import text
from vtare.report.layout import figure_name, key_name
from vtare.report.parts import Column, Table
from vtare.report.tables import p_shown
from vtare.report.text import missing
from vtare.sentences import titles
from vtare.sentences.answers import DIFFERS

if TYPE_CHECKING:
    from vtare.report.layout import Layout
    from vtare.report.text import Shown
    from vtare.summary import Summary

#: The paper's parameters of each data set; half the interquartile range stands for its MAD, which runs do not have.
FIGURES: Final = ("median", "half_iqr", "min", "max")
_LEAST: Final = 2


def pooled_ranks_table(summary: Summary, layout: Layout) -> Table | None:
    """Every pair of levels of every factor, by every figure; None where the plan does not ask, or nothing varies."""
    if summary.plan.analysis.also != TUKEY_ON_RANKS:
        return None
    name = layout.experiment.name
    runs = summary.runs.filter((pl.col("experiment") == name) & pl.col("control").is_null())
    rows = [row for key in layout.keys for figure in FIGURES for row in _pairs(summary, layout, runs, key, figure)]
    if not rows:
        return None
    columns = (
        Column("factor", "factor", numeric=False),
        Column("figure", "figure of a run", numeric=False),
        Column("pair", "levels", numeric=False),
        Column("runs", "runs", about="at either level"),
        Column("p_factor", "p of the factor", about="Kruskal and Wallis, over all levels, not adjusted"),
        Column(
            "p_pair", "p of the pair", about="Tukey's HSD on the joint ranks, adjusted over the pairs of this factor"
        ),
        Column("differs", DIFFERS, numeric=False, about="p of the factor and of the pair at most alpha"),
    )
    return Table(f"pooled-ranks-{name}", f"{layout.experiment.title}: {titles.POOLED_RANKS}", columns, tuple(rows))


def _pairs(summary: Summary, layout: Layout, runs: pl.DataFrame, key: str, figure: str) -> list[tuple[Shown, ...]]:
    if figure not in runs.columns:
        return []
    known = runs.filter(pl.col(key).is_not_null() & pl.col(figure).is_not_null())
    groups = {
        label: group
        for label in layout.order[key]
        if len(group := known.filter(pl.col(key) == label)[figure].cast(pl.Float64).to_list()) >= _LEAST
    }
    if len(groups) < _LEAST:
        return []
    labels, values, alpha = list(groups), list(groups.values()), summary.plan.analysis.alpha
    family = f"{layout.experiment.name}: {key}, pooled"
    factor_p = stats.kruskal_wallis(values, family=family, alpha=alpha).p
    rows: list[tuple[Shown, ...]] = []
    for pair in stats.tukey_on_ranks(values, family=family):
        differs = factor_p is not None and factor_p.raw <= alpha and pair.p.raw <= alpha
        rows.append((
            text.words(key_name(key)),
            text.words(figure_name(figure, short=True)),
            text.words(f"{layout.level(key, labels[pair.first])} and {layout.level(key, labels[pair.second])}"),
            text.words(f"{len(values[pair.first])} / {len(values[pair.second])}"),
            missing("refused") if factor_p is None else p_shown(factor_p.raw),
            p_shown(pair.p.raw),
            text.words("yes" if differs else "not shown"),
        ))  # fmt: skip
    return rows
