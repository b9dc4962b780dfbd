"""The procedure of Kirova et al. on a campaign of one's own: only where the plan asks, and by scipy's own figures."""

from __future__ import annotations

import itertools
from dataclasses import replace

import polars as pl
import pytest
from conftest import Reported
from scipy import stats as scipy_stats

from vtare.plan.model import TUKEY_ON_RANKS, Analysis
from vtare.report.content import layouts_of
from vtare.report.inference_tables import inference_tables
from vtare.report.parts import Table
from vtare.summary import Summary


def pooled(summary: Summary, experiment: str) -> Table | None:
    tables = inference_tables(summary, layouts_of(summary)[experiment])
    return next((table for table in tables if table.id.startswith("pooled-ranks")), None)


def test_without_the_plans_word_there_is_no_such_table(five_runs: Reported) -> None:
    assert pooled(five_runs.summary, "timers") is None


@pytest.mark.parametrize("experiment", ["timers", "sleeps"])
def test_each_pair_of_levels_has_tukeys_p_on_the_joint_ranks_of_all_runs(five_runs: Reported, experiment: str) -> None:
    summary = five_runs.summary
    asked = replace(summary, plan=replace(summary.plan, analysis=Analysis(also=TUKEY_ON_RANKS)))
    table = pooled(asked, experiment)
    assert table is not None
    layout = layouts_of(summary)[experiment]
    runs = summary.runs.filter((pl.col("experiment") == experiment) & pl.col("control").is_null())
    expected = []
    for key, figure in itertools.product(layout.keys, ("median", "half_iqr", "min", "max")):
        groups = [
            group
            for label in layout.order[key]
            if len(group := runs.filter(pl.col(key) == label)[figure].drop_nulls().to_list()) > 1
        ]
        if len(groups) < 2:
            continue
        ranks = iter(scipy_stats.rankdata([value for group in groups for value in group]))
        found = scipy_stats.tukey_hsd(*[[next(ranks) for _ in group] for group in groups])
        expected += [float(found.pvalue[i, j]) for i, j in itertools.combinations(range(len(groups)), 2)]
    columns = [column.key for column in table.columns]
    shown = [row[columns.index("p_pair")].order for row in table.rows]
    assert len(expected) > 4
    assert shown == pytest.approx(expected, abs=1e-9)
    for row in table.rows:
        cells = dict(zip(columns, row, strict=True))
        both = max(float(str(cells[name].order)) for name in ("p_factor", "p_pair"))
        assert (cells["differs"].text == "yes") is (both <= summary.plan.analysis.alpha)
