"""A store of any size from a seed: sleeps by five methods under two loads, every run finished."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from vtare.campaign.journal import Entry, Journal
from vtare.design import Run, make_design, write_design
from vtare.plan.files import parse_plan

if TYPE_CHECKING:
    from pathlib import Path

PLAN = """\
schema = "vtare.plan/1"
name = "analysis"
question = "How late do sleeps wake?"
blocks = {blocks}
settle = "0 ms"
control = false

[[experiment]]
name = "sleeps"
instrument = "sleep"
parameters = {{ target_ns = "1 ms" }}
factors = {{ load = ["idle", "cpu"], method = ["usleep", "clock_nanosleep", "two_phase", "adaptive", "spin"] }}
"""
#: Median miss in ns of each method.
MEDIAN_NS = {"usleep": 60_000, "clock_nanosleep": 20_000, "two_phase": 2_000, "adaptive": 1_500, "spin": 1_000}


def write_store(store: Path, *, runs: int, readings: int, seed: int = 1) -> None:
    """Write a store of `runs` runs of `readings` readings each.

    Misses are log-normal with a tail: one in a hundred is ten times as long.
    """
    (store / "runs").mkdir(parents=True)
    text = PLAN.format(blocks=max(1, round(runs / 10)))
    (store / "plan.toml").write_text(text, encoding="utf-8")
    plan = parse_plan(text, source=store / "plan.toml")
    design = make_design(plan, seed)
    write_design(store / "design.parquet", design, plan.labels, seed=seed, program="vtare 0.1.0")
    with Journal(store / "journal.sqlite") as journal:
        for run in design:
            directory = store / "runs" / run.run_id
            directory.mkdir()
            _write_run(directory / "samples.parquet", run, readings, seed)
            journal.record(Entry(run.run_id, "done", 0, None, None, 1.3))


def _write_run(path: Path, run: Run, readings: int, seed: int) -> None:
    rng = np.random.default_rng([seed, run.position])
    centre = MEDIAN_NS[run.factors["method"]] * (1.5 if run.factors["load"] == "cpu" else 1.0)
    centre *= float(np.exp(0.03 * rng.normal()))
    miss = centre * np.exp(0.2 * rng.standard_normal(readings, dtype=np.float32))
    late = rng.integers(0, readings, readings // 100)
    miss[late] *= 10
    frame = pl.DataFrame(
        {
            "target_ns": np.full(readings, 1_000_000),
            "index": np.arange(readings),
            "miss_ns": np.rint(miss).astype(np.int64),
            "spin_ns": np.zeros(readings, dtype=np.int64),
            "disturbed": np.zeros(readings, dtype=bool),
        }
    ).select(pl.lit(run.factors["method"]).alias("method"), pl.all())
    frame.write_parquet(path, compression="lz4", metadata={"vtare": json.dumps(_footer(run))})


def _footer(run: Run) -> dict[str, Any]:
    return {
        "schema": "vtare.samples/1",
        "program": {"name": "vtare", "version": "0.1.0"},
        "run": {"run_id": run.run_id, "instrument": run.instrument, "parameters": run.parameters},
        "interrupted": False,
        "started_unix_ns": 1_790_000_000_000_000_000 + run.position,
        "elapsed_ns": 1_000_000_000,
        "machine": {"hostname": "bench", "kernel": "6.1.0-bench", "clock_source": "tsc", "cpu_model": "none"},
        "clock": {"source": "tsc", "trusted": True, "quantum_ns": 1.0},
        "result": {"cells": []},
        "notes": [],
    }
