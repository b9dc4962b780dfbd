"""What the report states of blocks and readings that follow each other, and of runs that only one side lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from conftest import Reported
from synthetic_store import Recipe

from vtare.plan.level import Level
from vtare.plan.model import Analysis, Experiment, Factor
from vtare.report import needs
from vtare.report.cell_table import cell_table
from vtare.report.content import content_of
from vtare.report.limits import limits_of
from vtare.report.method import caveats_of
from vtare.summary.cells import Cell
from vtare.summary.contrasts import ComparisonRow, compare

METHODS = Factor("method", (Level("a", "a"), Level("b", "b")), "a")
SLEEPS = Experiment("sleeps", "sleep", "sleeps", {}, (METHODS,))


def rows_of_cells(figures: dict[str, np.ndarray]) -> list[ComparisonRow]:
    cells = [
        Cell(
            {"method": name},
            figures=[{"quantity": "miss_ns", "median": float(value), "n": 100} for value in values],
            blocks=list(range(1, len(values) + 1)),
        )
        for name, values in figures.items()
    ]
    return compare(cells, {"method": "a"}, Analysis(), SLEEPS, quantum_ns=0.0)


def test_a_row_states_the_memory_that_its_interval_allows_for() -> None:
    rng = np.random.default_rng(2)
    flat = 1e4 * rng.lognormal(0, 0.001, 12)
    slow = flat * np.exp(0.05 * np.sin(np.arange(12) / 2.0))
    (row,) = rows_of_cells({"a": flat, "b": slow})
    assert row.block_memory > 0.5
    assert row.p_memory <= 0.1
    assert "the interval allows for it" in needs.tip(row)
    (steady,) = rows_of_cells({"a": flat, "b": rng.permutation(flat) * 1.1})
    assert (steady.block_memory is None) == (steady.p_memory > 0.1)
    (short,) = rows_of_cells({"a": flat[:5], "b": slow[:5]})
    assert (short.block_memory, short.p_memory, short.p_trend) == (None, None, None)


def test_the_report_names_comparisons_whose_blocks_follow_each_other(five_runs: Reported) -> None:
    following = {"block_memory": 0.6, "p_memory": 0.01, "p_trend": 1e-6}
    rows = tuple(replace(row, **following) for row in five_runs.summary.comparisons)
    lines = caveats_of(replace(five_runs.summary, comparisons=rows), five_runs.content.layouts)
    count = len(rows)
    assert any(
        line.startswith(f"In {count} of {count} comparisons each block resembles the one before") for line in lines
    )
    assert any("the difference grows or shrinks from block to block" in line for line in lines)
    plain = caveats_of(five_runs.summary, five_runs.content.layouts)
    assert not any("resembles the one before" in line for line in plain)


def test_a_p99_of_too_few_independent_readings_is_marked(five_runs: Reported) -> None:
    layout = five_runs.content.layouts["sleeps"]
    cells = five_runs.summary.cells.filter(pl.col("experiment") == "sleeps")
    for n_eff, starred in ((20.0, True), (400.0, False)):
        changed = cells.with_columns(pl.lit(n_eff).alias("n_eff"))
        table = cell_table(layout, changed, 10.0, None)
        at = [column.label for column in table.columns].index("p99")
        shown = [row[at] for row in table.rows]
        assert {cell.text.endswith("*") for cell in shown} == {starred}
        assert not starred or "amounts to 20 independent readings, this quantile needs 299" in shown[0].title
        lines = needs.dependent_tails(replace(five_runs.summary, cells=changed))
        assert len([line for line in lines if line.startswith("p99*: in ")]) == starred


def test_a_report_names_comparisons_of_which_one_side_lost_runs(reported: object, five_runs: Reported) -> None:
    lost: Reported = reported(Recipe(blocks=6, fail=(("adaptive", 2), ("adaptive", 4))))  # type: ignore[operator]
    (limit,) = (limit for limit in limits_of(lost.summary) if "lacks runs" in limit.short)
    # Of adaptive, in every load, against usleep; loads against idle lost as many on both sides.
    assert limit.short == "in 3 comparisons one side lacks runs (2 of 6 at adaptive against 0 of 6 at usleep)"
    assert "that side seems faster than it is" in limit.full
    assert limit.full in content_of(lost.summary, figures=False).answer.limits
    assert not [limit for limit in limits_of(five_runs.summary) if "lacks runs" in limit.short]
