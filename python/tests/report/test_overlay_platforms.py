"""Own platforms and outliers beside those of the same platform in the papers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from synthetic_store import OTHER_INSTRUMENTS, SMALL, Recipe, write_store
from synthetic_store import PLAN as FULL_PLAN

from vtare.cli import app
from vtare.papers.published import read_rows
from vtare.report.content import content_of
from vtare.report.overlay import Overlay, overlay
from vtare.summary import summarise
from vtare.watch.history import History
from vtare.watch.store import round_place

PLAN = """
schema = "vtare.plan/1"
name = "machines"
question = "What does the layer cost?"
blocks = 4
control = false

[[experiment]]
name = "sleeps"
title = "Miss of a sleep"
instrument = "sleep"
parameters = { target_ns = "1 ms", samples = 400, method = "usleep" }
baseline = { platform = "host", load = "idle" }

[experiment.factors]
platform = ["host", "docker", "qemu"]
load = ["idle"]
"""


def rows_of(found: Overlay, name: str) -> list[dict[str, Any]]:
    (table,) = (table for table in found.document()["tables"] if table["id"] == name)
    rows: list[dict[str, Any]] = table["rows"]
    return rows


def test_each_platform_stands_beside_the_published_figure_of_the_same_one(reported: Callable[[Recipe], Any]) -> None:
    made = reported(Recipe(plan_text=PLAN, platform_factor={"qemu": 2.0}))
    rows = {row["platform"]: row for row in rows_of(overlay(made.summary, "kirova2019"), "placement-platforms")}
    # Docker is in no paper of Kirova et al.
    assert set(rows) == {"host", "qemu"}
    for ours, theirs in (("host", "HostOS"), ("qemu", "QEMU")):
        (published,) = (
            float(row["median_ns"])
            for row in read_rows("kirova2019_table2_sleep_miss")
            if (row["platform"], row["load"], row["function"]) == (theirs, "idle", "uSleep")
        )
        row = rows[ours]
        assert row["beside"] == f"{theirs}, uSleep"
        assert row["published_ns"] == published
        assert row["ratio"] == pytest.approx(row["median_ns"] / published)


def test_times_and_coefficients_of_variation_stand_in_tables_of_their_own(reported: Callable[[Recipe], Any]) -> None:
    made = reported(Recipe(all_instruments=True))
    assert {e.instrument for e in made.summary.plan.experiments} >= {"timer", "counter"}
    tables = {table.id: table for table in content_of(made.summary, figures=False).section("placement").tables()}
    assert {"placement", "placement-cv"} == set(tables)
    for table in tables.values():
        assert table.rows
        for row in table.rows:
            missing = [cell.text for cell in row if "n/a" in cell.text and "needs 3 runs" not in cell.text]
            assert not missing, (table.id, missing)


def test_outliers_of_a_technology_stand_beside_the_published_shares_and_add_up(two_host_store: Path) -> None:
    summary = summarise(two_host_store)
    renamed = summary.outliers.with_columns(pl.col("platform").replace({"netns": "lxc"}))
    shares = pl.Series("pooled_share", [0.5 ** (at + 1) for at in range(renamed.height)])
    found = overlay(dataclasses.replace(summary, outliers=renamed.with_columns(shares)), "oliveira")
    rows = rows_of(found, "standing-outliers")
    assert {row["platform"] for row in rows} == {"lxc"}
    assert all("NET, responder server, 1 or 1000 21.3 %" in row["published"] for row in rows)
    figures = [row["pooled_share"] for row in rows]
    assert figures == sorted(figures, reverse=True)


def test_no_column_of_a_standing_states_nothing_in_every_row(tmp_path: Path) -> None:
    head, *_ = FULL_PLAN.split("[[experiment]]")
    (counters,) = (part for part in OTHER_INSTRUMENTS.split("[[experiment]]") if '"counters"' in part)
    store = write_store(
        tmp_path / "store", Recipe(plan_text=f"{head.format(blocks=4)}[[experiment]]{counters.format()}")
    )
    for made in (summarise(store), summarise(write_store(tmp_path / "all", Recipe(all_instruments=True)))):
        for table in overlay(made, None).tables:
            assert table.rows
            for at, column in enumerate(table.columns):
                assert any(row[at].raw for row in table.rows), (table.id, column.label)
            assert "the only one" not in {shown.text for row in table.rows for shown in row}


def test_what_was_published_of_kvm_stands_beside_no_container(two_host_store: Path) -> None:
    summary = summarise(two_host_store)
    rows = rows_of(overlay(summary, "oliveira"), "standing-shares")
    assert rows
    assert {(row["standing"], row["published"]) for row in rows} == {(None, None)}
    guests = summary.cells.with_columns(pl.lit("qemu").alias("platform"))
    rows = rows_of(overlay(dataclasses.replace(summary, cells=guests), "oliveira"), "standing-shares")
    assert all(str(row["standing"]).endswith("the quartiles") for row in rows)


def test_the_newest_round_of_a_watch_is_set_among_the_papers(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    (watched / "rounds").mkdir(parents=True)
    with History(watched):
        pass
    done = CliRunner().invoke(app, ["papers", "--store", str(watched)])
    assert "keeps the samples of no round" in str(done.exception)
    for number in (0, 1):
        write_store(round_place(watched, number), SMALL)
    done = CliRunner().invoke(app, ["papers", "--store", str(watched), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["store"].endswith("00000001")
