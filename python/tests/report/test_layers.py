"""What the layer costs: which kinds of machine are set side by side, and that verdicts are those of other tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from comparison_frames import compared
from forwarding_store import write_forwarding_store
from synthetic_store import MISS_NS, Recipe

from vtare.number_text import ratio_range_text, ratio_text
from vtare.plan.model import Analysis
from vtare.report import layers
from vtare.report.content import content_of, layouts_of
from vtare.report.main_table import main_rows
from vtare.report.plain import markdown
from vtare.stats import Verdict
from vtare.summary import Summary, contrasts, summarise
from vtare.summary import layers as summary_layers
from vtare.summary.contrasts import ComparisonRow

PLAN = """
schema = "vtare.plan/1"
name = "layers"
question = "What does the layer cost?"
blocks = 6
control = false

[platforms.lab2]
kind = "ssh"
host = "lab2.example.org"
user = "measure"

[analysis]
margin_percent = 5

[[experiment]]
name = "sleeps"
title = "Miss of a sleep"
instrument = "sleep"
parameters = { target_ns = "1 ms", samples = 400, method = "usleep" }
baseline = { platform = "host", load = "idle" }

[experiment.factors]
platform = ["host", "docker", "lxc", "lab2"]
load = ["idle", { kind = "cpu", threads = 8, label = "cpu" }]
"""


@pytest.fixture(scope="module")
def made(reported: Callable[[Recipe], Any]) -> Any:
    # The load moves docker's and the host's sleeps far, and those of machines not at all.
    factors = {"docker": 1.0, "lxc": 1.6, "lab2": 4.0}
    recipe = Recipe(plan_text=PLAN, platform_factor=factors, between_runs=0.004, miss_ns=MISS_NS)
    return reported(recipe)


def rows_of(summary: Summary, kind: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = compared(summary.layers).filter(pl.col("kind") == kind).iter_rows(named=True)
    return {(row["level"], row["baseline"]): row for row in found}


def test_machines_containers_and_the_host_are_set_side_by_side(made: Any) -> None:
    costs = rows_of(made.summary, "cost")
    assert set(costs) == {
        ("docker", "host"), ("lxc", "host"), ("lab2", "host"), ("lab2", "docker"), ("lab2", "lxc"),
    }  # fmt: skip
    verdicts = {pair: row["verdict"] for pair, row in costs.items()}
    assert verdicts == {
        ("docker", "host"): "equivalent",
        ("lxc", "host"): "higher",
        ("lab2", "host"): "higher",
        ("lab2", "docker"): "higher",
        ("lab2", "lxc"): "higher",
    }
    for row in costs.values():
        assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
        assert row["load"] == "idle"
        assert row["figure"] == "miss_ns"
    assert math.isclose(costs["lab2", "lxc"]["ratio"], 2.5, rel_tol=0.05)


def test_what_other_tables_compare_is_shown_as_it_stands_there(made: Any) -> None:
    summary: Summary = made.summary
    for row in rows_of(summary, "cost").values():
        there = (
            compared(summary.comparisons)
            .filter((pl.col("factor") == "platform") & (pl.col("level") == row["level"]) & (pl.col("load") == "idle"))
            .row(0, named=True)
        )
        same = row["baseline"] == "host"
        assert (row["ratio"] == there["ratio"] and row["p_adjusted"] == there["p_adjusted"]) == same
        assert (row["family"] == "sleeps: what the layer costs") != same
    tails = compared(summary.tails).filter((pl.col("factor") == "load") & pl.col("ratio").is_not_null())
    mine = compared(summary.layers).filter(pl.col("kind") == "tail")
    assert mine["ratio"].to_list() == tails["ratio"].to_list()
    assert set(mine["figure"].to_list()) == {"p99"}, "400 readings give no p99.9"
    assert set(mine["verdict"].to_list()) == {"higher"}
    assert (mine["ratio_low"] > 1).all()


def test_the_report_shows_each_ratio_with_its_interval_and_verdict_in_every_form(made: Any) -> None:
    summary: Summary = made.summary
    table = layers.table(summary, layouts_of(summary))
    assert table is not None
    assert len(table.rows) == len(summary.layers) == 9
    rows = [dict(zip((column.key for column in table.columns), row, strict=True)) for row in table.rows]
    written = markdown(content_of(summary, figures=False)).replace("\u00a0", " ").replace("\\_", "_")
    for row, source in zip(rows, compared(summary.layers).iter_rows(named=True), strict=True):
        shown = {key: one.text.replace("\u00a0", " ") for key, one in row.items()}
        interval = ratio_range_text(source["judged_low"], source["judged_high"])
        assert shown["ratio"] == f"{ratio_text(source['ratio'])} ({interval})"
        margin = " within 5 %" if source["verdict"] == "equivalent" else ""
        word = "worse" if source["verdict"] == "higher" else source["verdict"]
        assert shown["verdict"] == f"{word}{margin}"
        assert shown["change"] == f"{source['factor']}: {source['level']} against {source['baseline']}"
        assert f"| {shown['change']} | {shown['ratio']} | {shown['verdict']} |" in written
    assert {row["where"].text for row in rows if row["kind"].text == "tail"} == {
        f"platform {name}" for name in ("host", "docker", "lxc", "lab2")
    }
    assert '<section id="layers"><h2>What does the layer cost?</h2>' in made.html
    assert "## What does the layer cost?" in written


def test_the_first_screen_compares_platforms_with_each_other(made: Any) -> None:
    """Machine against container, container against the host: not only each against the baseline."""
    summary: Summary = made.summary
    rows = [row for row in main_rows(summary, layouts_of(summary), "sleeps") if row.factor == "platform"]
    costs = rows_of(summary, "cost")
    assert {(row.level, row.baseline) for row in rows} == set(costs)
    for row in rows:
        source = costs[row.level, row.baseline]
        assert (row.ratio, row.ratio_low, row.ratio_high, row.verdict) == tuple(
            source[name] for name in ("ratio", "ratio_low", "ratio_high", "verdict")
        )
        medians = summary.cells.filter(pl.col("load") == "idle")
        for level, value in ((row.level, row.median), (row.baseline, row.median_baseline)):
            assert value == medians.filter(pl.col("platform") == level)["median"].item()


def test_where_no_platforms_vary_the_section_is_about_tails(five_runs: Any) -> None:
    summary: Summary = five_runs.summary
    assert set(compared(summary.layers)["kind"].to_list()) == {"tail"}
    assert layers.title(summary) == "What does load do to the tails?"
    # What takes the CPU away hits too few readings for a quantile: the mean has them all.
    means = compared(summary.layers).filter((pl.col("experiment") == "timers") & (pl.col("figure") == "mean"))
    assert means.height == 10
    assert set(means["baseline"].to_list()) == {"idle"}
    assert (means["ratio"] > 1).all()
    assert '<section id="layers"><h2>What does load do to the tails?</h2>' in five_runs.html


def test_too_few_runs_show_nothing_and_state_why(one_run: Any) -> None:
    found = one_run.summary.layers
    assert {row.verdict for row in found} <= {Verdict.INCONCLUSIVE}
    assert all(row.reason for row in found)


def tail_of(here: list[float], there: list[float]) -> ComparisonRow:
    """The row of `layers` that two cells with these p99 of their runs get."""
    about = contrasts.ComparedCells("e", "sleep", {"load": "cpu"}, "load", "cpu", "idle")
    found = contrasts.contrast_of_runs(
        dict(enumerate(here)), dict(enumerate(there)), about, "f", Analysis(), quantity="miss_ns"
    )
    (row,) = contrasts.rows_of_tails([found], "p99", Analysis())
    return summary_layers.from_tail(row)


def test_a_tail_has_the_direction_of_its_ratio_whatever_the_means_are() -> None:
    # What once appeared as "more: 0.59x": means of the runs and geometric means in opposite directions.
    here, there = [100.0, 2.0, 2.1, 1.9, 2.05], [90.0, 4.1, 4.0, 3.8, 4.1]
    assert sum(here) > sum(there)
    row = tail_of(here, there)
    assert row.ratio is not None
    assert row.ratio < 1
    assert row.verdict in ("lower", "inconclusive")


def test_direction_ratio_and_interval_of_a_tail_always_agree() -> None:
    rng = np.random.default_rng(8)
    words = set()
    for _ in range(400):
        spread = rng.choice([0.05, 0.5, 2.0], 2)
        here, there = (np.exp(rng.normal(rng.normal(0, 1), s, 6)).tolist() for s in spread)
        row = tail_of(here, there)
        words.add(row.verdict)
        assert None not in (row.ratio, row.ratio_low, row.ratio_high, row.p_adjusted)
        ratio, low, high = row.ratio or 0.0, row.ratio_low or 0.0, row.ratio_high or 0.0
        assert (row.verdict == "higher") <= (1 < low <= ratio)
        assert (row.verdict == "lower") <= (ratio <= high < 1)
        assert (row.verdict in ("higher", "lower")) <= ((row.p_adjusted or 1.0) <= 0.05)
    assert words >= {"higher", "lower", "inconclusive"}


def test_latency_of_what_forwards_is_compared_between_its_loads(tmp_path: Path) -> None:
    summary = summarise(write_forwarding_store(tmp_path / "store", shares=(0.3, 1.0)))
    found = compared(summary.layers).filter(pl.col("figure") == "p99 of latency")
    assert found.height > 0
    assert set(found["level"].to_list()) == {"100 %"}
    assert set(found["baseline"].to_list()) == {"30 %"}
    assert all(math.isclose(ratio, 4.0, rel_tol=1e-6) for ratio in found["ratio"].to_list())
