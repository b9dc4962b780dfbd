"""Own platforms and outliers beside those of the same platform in the papers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from synthetic_store import Recipe

from vtare.papers.published import read_rows
from vtare.report.overlay import Overlay, overlay
from vtare.summary import summarise

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
