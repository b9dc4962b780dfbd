"""The counter in a report: described by its coefficient of variation, its levels ranked over matched runs."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest
from comparison_frames import compared

from vtare.report.content import layouts_of
from vtare.report.families import families_of
from vtare.report.pages import counter
from vtare.sentences.template import plain
from vtare.summary import Summary, summarise


@pytest.fixture(scope="module")
def summary(language_store: Path) -> Summary:
    return summarise(language_store)


def test_levels_are_ranked_over_matched_runs(summary: Summary) -> None:
    layout = layouts_of(summary)["counter"]
    table = counter.rank_table(summary, layout)
    assert table is not None
    keys = [column.key for column in table.columns]
    rows = {row[1].raw: dict(zip(keys, row, strict=True)) for row in table.rows}
    assert set(rows) == {"rust", "c"}
    assert [row["sets"].raw for row in rows.values()] == ["6", "6"]
    assert math.isclose(sum(float(row["mean_rank"].raw) for row in rows.values()), 3.0)
    assert rows["c"]["ratio"].raw == "baseline"
    assert float(rows["rust"]["ratio"].raw.split()[0]) > 0
    assert 0 < float(rows["c"]["p_adjusted"].raw) <= 1
    # Two levels: the test of the factor is that of its one contrast.
    assert rows["c"]["p_contrast"].raw == "baseline"
    assert rows["rust"]["p_contrast"].raw == rows["rust"]["p_adjusted"].raw


def test_each_configuration_is_ranked_at_each_argument(summary: Summary) -> None:
    layout = layouts_of(summary)["counter"]
    table = counter.configuration_table(summary, layout)
    assert table is not None
    arguments = [column.key for column in table.columns][1:-1]
    assert arguments == [f"argument_{argument}" for argument in layout.order["argument"]]
    for at in range(1, 1 + len(arguments)):
        shown = [row[at].raw.removesuffix(")").split(" (") for row in table.rows]
        (first, its_rank), (second, other_rank) = sorted((float(cv), float(rank)) for cv, rank in shown)
        assert (its_rank, other_rank) == ((1.5, 1.5) if first == second else (1.0, 2.0))
    means = [float(row[-1].raw) for row in table.rows]
    assert means == sorted(means)
    assert sum(means) == pytest.approx(3.0)


def test_the_rank_and_the_cv_are_those_of_the_runs(summary: Summary) -> None:
    layout = layouts_of(summary)["counter"]
    table = counter.rank_table(summary, layout)
    assert table is not None
    figure = {row[1].raw: float(row[3].raw) for row in table.rows}
    for language, cv in figure.items():
        known = summary.runs.filter(pl.col("language") == language)["cv"].to_list()
        assert math.isclose(cv, math.exp(sum(map(math.log, known)) / len(known)), rel_tol=1e-9)


def test_the_answer_is_shown_by_the_coefficient_of_variation(summary: Summary) -> None:
    told = [plain(sentence) for sentence in counter.sentences(summary, layouts_of(summary)["counter"])]
    assert len(told) == 2
    assert "(language c) varies by" in told[0]
    assert told[1].startswith("Against language c it is ")
    assert "with rust" in told[1]


def test_cells_are_compared_by_it_too(summary: Summary) -> None:
    assert set(compared(summary.comparisons)["quantity"].to_list()) == {"cv"}
    cells = summary.cells
    assert cells.filter(pl.col("cv_low") > pl.col("cv")).height == 0
    assert cells.filter(pl.col("cv_high") < pl.col("cv")).height == 0


def test_the_families_of_the_ranks_are_among_those_that_the_report_counts(summary: Summary) -> None:
    layouts = layouts_of(summary)
    assert counter.PAGE.tested is not None
    tested = counter.PAGE.tested(summary, layouts["counter"])
    assert tested
    assert {p.family for p in tested} <= {family.name for family in families_of(summary, layouts)}
