"""Small campaigns with a known truth, written as real stores from a seed: for the self-tests of the statistics."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from scipy.signal import lfilter

from vtare.campaign.journal import Entry, Journal
from vtare.design import Run, make_design, write_design
from vtare.plan.files import parse_plan

if TYPE_CHECKING:
    from pathlib import Path

PLAN = """\
schema = "vtare.plan/1"
name = "self-test"
question = "Does the second method miss its target as the first does?"
blocks = {blocks}
settle = "0 ms"
control = false
{analysis}
[[experiment]]
name = "sleeps"
instrument = "sleep"
parameters = {{ target_ns = "1 ms", samples = {samples} }}
factors = {{ method = {methods}{loads} }}
"""
METHODS = ("usleep", "clock_nanosleep", "two_phase", "adaptive")
LOADS = ("idle", "cpu", "io")
MEDIAN_NS = 60_000.0


@dataclass(frozen=True)
class Truth:
    """What is true of a campaign: how far the second method's medians and tails lie above the first's, and the spreads.

    `between` is the standard deviation of logarithms of true run medians, `inside` that of readings, which follow each
    other by AR(1) `memory`. `block` moves both methods of a block alike. `scale` moves the whole campaign.
    `methods` and `loads` are the numbers of levels; only the second method differs. `step` is what readings move in, in
    ns, whatever the clock states.
    """

    blocks: int = 6
    samples: int = 300
    ratio: float = 1.0
    tail_ratio: float = 1.0
    between: float = 0.05
    inside: float = 0.2
    memory: float = 0.5
    block: float = 0.0
    scale: float = 1.0
    step: int = 1
    methods: int = 2
    loads: int = 1
    kernel: str = "6.1.0-self-test"
    schema: str = "vtare.samples/1"
    analysis: str = ""


def write_campaign(store: Path, truth: Truth, seed: int) -> Path:
    """Write a store whose every run is finished; the directory itself is returned."""
    (store / "runs").mkdir(parents=True)
    loads = f", load = {json.dumps(LOADS[: truth.loads])}" if truth.loads > 1 else ""
    text = PLAN.format(
        blocks=truth.blocks, samples=truth.samples, analysis=truth.analysis,
        methods=json.dumps(METHODS[: truth.methods]), loads=loads,
    )  # fmt: skip
    (store / "plan.toml").write_text(text, encoding="utf-8")
    plan = parse_plan(text, source=store / "plan.toml")
    runs = make_design(plan, seed)
    write_design(store / "design.parquet", runs, plan.labels, seed=seed, program="vtare 0.1.0")
    rng = np.random.default_rng([seed, 1])
    moved = np.exp(truth.block * rng.normal(size=truth.blocks))
    with Journal(store / "journal.sqlite") as journal:
        for run in runs:
            directory = store / "runs" / run.run_id
            directory.mkdir()
            frame = _readings(run, truth, float(moved[run.block - 1]), rng)
            frame.write_parquet(
                directory / "samples.parquet",
                compression="lz4",
                metadata={"vtare": json.dumps(_footer(run, truth, seed))},
            )
            journal.record(Entry(run.run_id, "done", 0, None, None, 1.3))
    return store


def _readings(run: Run, truth: Truth, moved: float, rng: np.random.Generator) -> pl.DataFrame:
    second = run.factors["method"] == "clock_nanosleep"
    n = truth.samples
    noise = rng.normal(size=n)
    x = lfilter([np.sqrt(1 - truth.memory**2)], [1.0, -truth.memory], noise)
    centre = MEDIAN_NS * truth.scale * moved * np.exp(truth.between * rng.normal()) * (truth.ratio if second else 1.0)
    stretch = np.where(x > 1.5, truth.tail_ratio if second else 1.0, 1.0)
    # A counter that moves in steps is read at any time between two of them.
    begin = rng.uniform(0, truth.step, n) if truth.step > 1 else 0.5
    steps = np.floor((begin + centre * np.exp(truth.inside * x) * stretch) / truth.step)
    miss = (truth.step * steps).astype(np.int64)
    return pl.DataFrame(
        {
            "method": [run.factors["method"]] * n,
            "target_ns": np.full(n, 1_000_000),
            "index": np.arange(n),
            "miss_ns": miss,
            "spin_ns": np.zeros(n, dtype=np.int64),
            "disturbed": np.zeros(n, dtype=bool),
        }
    )


def _footer(run: Run, truth: Truth, seed: int) -> dict[str, Any]:
    return {
        "schema": truth.schema,
        "program": {"name": "vtare", "version": "0.1.0"},
        "run": {"run_id": run.run_id, "instrument": run.instrument, "parameters": run.parameters},
        "interrupted": False,
        "started_unix_ns": 1_790_000_000_000_000_000 + seed * 10**9 + run.position,
        "elapsed_ns": 1_000_000_000,
        "machine": {"hostname": "self-test", "kernel": truth.kernel, "clock_source": "tsc", "cpu_model": "none"},
        "clock": {"source": "tsc", "trusted": True, "quantum_ns": 1.0},
        "result": {"cells": []},
        "notes": [],
    }
