"""A store as a campaign leaves it, written from a seed: real files to the contract, invented readings.

The plan and the design are made by the lab's own code; the readings are drawn from distributions whose medians this
module names, so that a test knows what a report must show.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from vtare.campaign.journal import Entry, Journal
from vtare.design import Run, make_design, write_design
from vtare.plan.files import parse_plan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vtare.plan.model import Plan

SEED = 20
QUANTUM_NS = 10

PLAN = """\
schema = "vtare.plan/1"
name = "synthetic"
question = "How late does a sleep wake, and what does reading the clock cost, when the machine is busy?"
seed = 20
blocks = {blocks}
control = true

[[experiment]]
name = "timers"
title = "Cost of reading the time"
instrument = "timer"
exceed = "1 us"

[experiment.parameters]
samples = 100000
seconds = "0.5 s"
source = ["rdtsc", "lfence_rdtsc", "clock_monotonic", "clock_monotonic_syscall", "vtare"]

[experiment.factors]
load = ["idle", {{ kind = "cpu", threads = 100, label = "cpu" }}, "io"]

[[experiment]]
name = "sleeps"
title = "Miss of a sleep"
instrument = "sleep"
parameters = {{ target_ns = {targets}, samples = 400 }}
exceed = "100 us"

[experiment.factors]
load = ["idle", {{ kind = "cpu", threads = 100, label = "cpu" }}, "io"]
method = ["usleep", "clock_nanosleep", "two_phase", "adaptive"]
"""

OTHER_INSTRUMENTS = """
[[experiment]]
name = "counters"
title = "Steadiness of a computation"
instrument = "counter"
parameters = {{ batches = 5, calls = 20, max_exponent = 4, unit_ms = "1 ms" }}
factors = {{ load = ["idle", "cpu"] }}

[[experiment]]
name = "noises"
title = "Time taken from a spinning thread"
instrument = "noise"
parameters = {{ seconds = "1 s" }}
factors = {{ load = ["idle", "cpu"] }}
"""

COST_NS = {
    "rdtsc": 9.6, "lfence_rdtsc": 19.8, "clock_monotonic": 24.2, "clock_monotonic_syscall": 258.0, "vtare": 9.8,
    "gettimeofday": 25.1,
}  # fmt: skip
DISK = {"type": "ext4", "device": "vda1", "in_memory": False}
COST_FACTOR = {"idle": 1.0, "cpu": 1.0, "io": 1.02}
MISS_NS = {
    "idle": {"usleep": 78e3, "clock_nanosleep": 26e3, "two_phase": 60.0, "adaptive": 60.0, "spin": 50.0},
    "cpu": {"usleep": 12.3e6, "clock_nanosleep": 8.1e6, "two_phase": 55e6, "adaptive": 14e3, "spin": 60e6},
    "io": {"usleep": 91e3, "clock_nanosleep": 31e3, "two_phase": 70.0, "adaptive": 75.0, "spin": 50.0},
}
"""True medians of the readings, in ns, by load and method."""

MACHINE: dict[str, Any] = {
    "hostname": "synthetic-host",
    "kernel": "6.1.0-synthetic",
    "architecture": "x86_64",
    "cpu_model": "Synthetic CPU <1 & 2>",
    "cpus_online": 2,
    "cpus_allowed": [0, 1],
    "cpu_flags": ["constant_tsc", "nonstop_tsc", "tsc_known_freq", "hypervisor"],
    "memory_byte": 8_589_934_592,
    "hypervisor": "kvm",
    "container": None,
    "clock_source": "tsc",
    "clock_sources_available": ["tsc", "hpet", "acpi_pm"],
    "hz": 250,
    "governor": None,
    "smt": False,
    "boot_id": "00000000-0000-0000-0000-000000000001",
    "timer_slack_ns": 50000,
    "cgroup": {"cpu_max": None, "cpuset": None, "memory_max": None},
    "steal_ns_before": 0,
    "steal_ns_after": 0,
    "load_average_1min": 0.4,
    "isolated_cpus": [],
    "preempt_model": "voluntary",
}
CLOCK: dict[str, Any] = {
    "source": "tsc",
    "trusted": True,
    "reasons": ["invariant counter", "kernel clock source is tsc"],
    "frequency_hz": 2_596_132_000.0,
    "residual_ppm": 0.002,
    "residual_ns": 14.0,
    "read_cost_ns": 9.7,
    "quantum_ns": 10.0,
}


@dataclass(frozen=True)
class Recipe:
    """What to invent: blocks, targets, other medians than `MISS_NS`, facts that differ, runs that failed."""

    blocks: int = 5
    targets: tuple[str, ...] = ("1 ms",)
    miss_ns: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: MISS_NS)
    machine: Mapping[str, Any] = field(default_factory=dict)
    between_runs: float = 0.08
    fail: tuple[tuple[str, int], ...] = ()
    """Method and block of sleep runs that end with exit code 3."""
    skip_load: str | None = None
    """A load whose runs were skipped."""
    pending_from_block: int | None = None
    """The first block that has not been measured yet."""
    all_instruments: bool = False
    frozen: tuple[str, ...] = ()
    """Methods whose readings are all the same: their spread is below the clock's quantum."""
    plan_text: str | None = None
    capped: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """Methods whose runs under the load `cpu` a time limit ended: the sleeps that a run completed, and the share of
    them that a busy CPU delayed by 60 ms."""
    platform_factor: Mapping[str, float] = field(default_factory=dict)
    """How many times the host's miss a sleep has on a platform; 1 where it is not named."""


def plan_of(recipe: Recipe, source: Path) -> Plan:
    """The plan of a recipe, checked by the lab's own code."""
    text = recipe.plan_text
    if text is None:
        template = PLAN + OTHER_INSTRUMENTS if recipe.all_instruments else PLAN
        text = template.format(blocks=recipe.blocks, targets=json.dumps(list(recipe.targets)))
    return parse_plan(text, source=source)


def _lattice(values: np.ndarray) -> np.ndarray:
    return np.rint(values / QUANTUM_NS).astype(np.int64) * QUANTUM_NS


def timer_samples(rng: np.random.Generator, sources: list[str], load: str, n: int, between_runs: float) -> pl.DataFrame:
    """Readings of `vtare timer`: a histogram up to 1 us and single readings above it."""
    frames = []
    for source in sources:
        centre_ps = COST_NS[source] * COST_FACTOR[load] * 1000 * np.exp(rng.normal(0, between_runs / 8))
        body = np.rint(centre_ps * np.exp(rng.normal(0, 0.03, n))).astype(np.int64)
        tail_n = 30 if load == "idle" else 250
        tail = np.rint(1e6 * (1 - rng.random(tail_n)) ** (-1 / (1.2 if load == "idle" else 0.6))).astype(np.int64) + 1
        tail = np.minimum(tail, 10**11)
        if source == "vtare":
            # Two reads inside one step of the clock differ by nothing: real machines show it.
            body[rng.random(n) < 0.04] = 0
        values, counts = np.unique(np.rint(body / 50).astype(np.int64) * 50, return_counts=True)
        frames.append(pl.DataFrame({
            "source": [source] * (values.size + tail_n),
            "index": [None] * values.size + np.sort(rng.choice(n, tail_n, replace=False)).tolist(),
            "cost_ps": [*values.tolist(), *tail.tolist()],
            "count": [*counts.tolist(), *([1] * tail_n)],
        }, schema={"source": pl.String, "index": pl.Int64, "cost_ps": pl.Int64, "count": pl.Int64}))  # fmt: skip
    return pl.concat(frames)


def sleep_samples(
    rng: np.random.Generator,
    methods: list[str],
    targets: list[int],
    n: int,
    medians: Mapping[str, float],
    between: float,
) -> pl.DataFrame:
    """Readings of `vtare sleep`."""
    frames = []
    for method in methods:
        for target in targets:
            centre = medians[method] * np.exp(rng.normal(0, between)) * (target / 1e6) ** 0.05
            miss = _lattice(centre * np.exp(0.12 * rng.standard_t(3, n)))
            frames.append(pl.DataFrame({
                "method": [method] * n,
                "target_ns": np.full(n, target),
                "index": np.arange(n),
                "miss_ns": miss,
                "spin_ns": np.full(n, target if method == "two_phase" else 0),
                "disturbed": rng.random(n) < 0.01,
            }, schema_overrides=dict.fromkeys(("target_ns", "index", "miss_ns", "spin_ns"), pl.Int64)))  # fmt: skip
    return pl.concat(frames)


def counter_samples(rng: np.random.Generator, p: Mapping[str, Any], load: str) -> pl.DataFrame:
    """Readings of `vtare counter`."""
    cv = 0.01 if load == "idle" else 0.1
    rows = [(b, c, 2**e) for b in range(p["batches"]) for c in range(p["calls"]) for e in range(p["max_exponent"] + 1)]
    batch, call, argument = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    base = argument * p["unit_ms"] * 1e6
    cpu = np.rint(base * (1 + cv / 5 * np.abs(rng.normal(size=base.size)))).astype(np.int64)
    wall = cpu + np.rint(base * cv * rng.exponential(size=base.size)).astype(np.int64)
    return pl.DataFrame({
        "language": ["native"] * base.size, "batch": batch, "call": call, "argument": argument,
        "order": rng.permutation(base.size), "wall_ns": wall, "cpu_ns": cpu, "gap_ns": wall - cpu,
        "involuntary_switches": rng.poisson(1.0, base.size),
    }, schema_overrides={"order": pl.Int64, "involuntary_switches": pl.Int64})  # fmt: skip


def noise_samples(rng: np.random.Generator, p: Mapping[str, Any], load: str) -> pl.DataFrame:
    """Readings of `vtare noise` on two CPUs."""
    n = 80 if load == "idle" else 400
    gaps = np.rint(10_000 * (1 - rng.random(2 * n)) ** (-1 / 1.5)).astype(np.int64)
    at = np.concatenate([np.sort(rng.integers(0, int(p["seconds"] * 1e9), n)) for _ in range(2)])
    return pl.DataFrame({"cpu": np.repeat([0, 1], n), "at_ns": at, "gap_ns": gaps}, schema_overrides={"cpu": pl.Int64})


def samples_of(run: Run, recipe: Recipe) -> pl.DataFrame:
    """The readings of one run; the same run and recipe always give the same."""
    rng = np.random.default_rng([SEED, int(run.run_id[:8], 16)])
    load = run.factors.get("load", "idle")
    p = run.parameters
    if run.instrument == "timer":
        return timer_samples(rng, p["source"], load, min(p["samples"], 100_000), recipe.between_runs)
    if run.instrument == "counter":
        return counter_samples(rng, p, load)
    if run.instrument == "noise":
        return noise_samples(rng, p, load)
    times = recipe.platform_factor.get(run.factors.get("platform", "host"), 1.0)
    medians = {method: times * median for method, median in recipe.miss_ns[load].items()}
    samples = sleep_samples(rng, p["method"], p["target_ns"], p["samples"], medians, recipe.between_runs)
    if load == "cpu":
        samples = _capped(samples, recipe, rng)
    same = pl.col("miss_ns").median().over("method", "target_ns").cast(pl.Int64)
    return samples.with_columns(miss_ns=pl.when(pl.col("method").is_in(recipe.frozen)).then(same).otherwise("miss_ns"))


def _capped(samples: pl.DataFrame, recipe: Recipe, rng: np.random.Generator) -> pl.DataFrame:
    """The sleeps that were completed before the time limit, some of them delayed by 60 ms."""
    parts = []
    for (method,), part in samples.partition_by("method", as_dict=True, maintain_order=True).items():
        n, share = recipe.capped.get(str(method), (part.height, 0.0))
        delayed = pl.Series(rng.random(min(n, part.height)) < share)
        delay = pl.Series(_lattice(6e7 * np.exp(0.1 * rng.normal(size=delayed.len()))))
        part = part.head(n)
        parts.append(part.with_columns(miss_ns=pl.when(delayed).then(delay).otherwise(pl.col("miss_ns"))))
    return pl.concat(parts)


def footer(run: Run, recipe: Recipe, samples: pl.DataFrame) -> dict[str, Any]:
    """The footer document of one run's Parquet file."""
    cells: list[dict[str, Any]] = []
    if run.instrument == "sleep":
        for method, target in samples.select("method", "target_ns").unique(maintain_order=True).iter_rows():
            busy = {"usleep": 0.015, "clock_nanosleep": 0.016, "two_phase": 1.0, "adaptive": 0.072, "spin": 1.0}[method]
            cells.append(
                {"method": method, "target_ns": target, "spin_ns_mean": 0.0, "cpu_fraction": busy, "disturbed": 0.01}
            )
    elif run.instrument == "timer":
        rng = np.random.default_rng([SEED, int(run.run_id[8:], 16)])
        cells = [
            {"source": s, "read_cost_ns": {"median": COST_NS[s] * (1 + 1e-4 * float(rng.normal()))}}
            for s in run.parameters["source"]
        ]
    elif run.instrument == "noise":
        cells = [{"cpu": cpu, "lost_fraction": 0.019, "gaps_per_s": 382.0} for cpu in (0, 1)]
    return {
        "schema": "vtare.samples/1",
        "program": {"name": "vtare", "version": "0.1.0"},
        "run": run_document(run),
        "interrupted": False,
        "started_unix_ns": 1_790_000_000_000_000_000 + run.position * 10**9,
        "elapsed_ns": 812_345_678,
        "machine": {**MACHINE, **recipe.machine},
        "clock": CLOCK,
        "result": {"cells": cells},
        "notes": [{"id": "slack_kept", "text": "timer slack left at 50000 ns: sleeps may wake that much later"}],
    }


def run_document(run: Run) -> dict[str, Any]:
    """The run.json of one run."""
    return {
        "schema": "vtare.run/1",
        "run_id": run.run_id,
        "instrument": run.instrument,
        "seed": 7,
        "output": "samples.parquet",
        "parameters": run.parameters,
    }


def load_document(run: Run) -> dict[str, Any] | None:
    """The load.json of one run, None without a load."""
    kind = run.factors.get("load", "idle")
    if kind == "idle":
        return None
    io = (
        {"written_byte": 10**8, "read_byte": 10**8, "fsyncs": 300, "socket_byte": 10**9, "file_system": DISK}
        if kind == "io"
        else None
    )
    return {
        "schema": "vtare.load/1", "kind": kind, "elapsed_s": 1.0, "threads": 100 if kind == "cpu" else 4,
        "operations": 123456, "operations_per_s": 123456.0, "cpu_fraction": 0.98 if kind == "cpu" else 0.4, "io": io,
    }  # fmt: skip


_PARTS = PLAN.format(blocks=1, targets='["1 ms"]').split("[[experiment]]")
#: One block of sleeps under two loads: its report has few figures.
SMALL = Recipe(
    blocks=1,
    plan_text=f"{_PARTS[0]}[[experiment]]{_PARTS[2]}".replace(', { kind = "cpu", threads = 100, label = "cpu" }', ""),
)


def write_store(store: Path, recipe: Recipe | None = None) -> Path:
    """Write a whole store: plan, design, journal and run directories; the directory itself is returned."""
    recipe = recipe if recipe is not None else Recipe()
    (store / "runs").mkdir(parents=True, exist_ok=True)
    plan = plan_of(recipe, store / "plan.toml")
    (store / "plan.toml").write_text(plan.text, encoding="utf-8")
    runs = make_design(plan, SEED)
    write_design(store / "design.parquet", runs, plan.labels, seed=SEED, program="vtare 0.1.0")
    with Journal(store / "journal.sqlite") as journal:
        for run in runs:
            entry = entry_of(run, recipe)
            if entry is None:
                continue
            if entry.status == "done":
                _write_run(store / "runs" / run.run_id, run, recipe)
            journal.record(entry)
    return store


def entry_of(run: Run, recipe: Recipe) -> Entry | None:
    """The journal's row of one run, None where it has not been made."""
    if recipe.pending_from_block is not None and run.block >= recipe.pending_from_block:
        return None
    if recipe.skip_load is not None and run.factors.get("load") == recipe.skip_load:
        return Entry(run.run_id, "skipped", None, f"no {recipe.skip_load} load on this machine", None, None)
    methods = run.parameters.get("method", []) if run.control is None else []
    if any(method in methods and block == run.block for method, block in recipe.fail):
        return Entry(run.run_id, "failed", 3, "exit code 3", "vtare: this machine <cannot> do it\n", 0.1)
    return Entry(run.run_id, "done", 0, None, None, 0.8)


def _write_run(directory: Path, run: Run, recipe: Recipe) -> None:
    directory.mkdir(parents=True)
    samples = samples_of(run, recipe)
    samples.write_parquet(
        directory / "samples.parquet", compression="lz4", metadata={"vtare": json.dumps(footer(run, recipe, samples))}
    )
    (directory / "run.json").write_text(json.dumps(run_document(run)), encoding="utf-8")
    load = load_document(run)
    if load is not None:
        (directory / "load.json").write_text(json.dumps(load), encoding="utf-8")
    (directory / "log").write_text("", encoding="utf-8")
