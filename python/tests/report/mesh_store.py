"""A store of a mesh as a campaign leaves it, with clusters and odd pairs that this module planted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from vtare.campaign.journal import Entry, Journal
from vtare.design import Run, make_design, write_design
from vtare.fleet.hosts import simulated_hosts
from vtare.fleet.needs import with_pairs
from vtare.plan.files import parse_plan
from vtare.plan.mesh import PAIR, hosts_of_pair

PLAN = """\
schema = "vtare.plan/1"
name = "mesh"
question = "How far are the hosts from each other?"
seed = 20
blocks = {blocks}
mesh = true

[[experiment]]
name = "delay"
title = "Round trips"
instrument = "rtt"
parameters = {{ seconds = "1 s", rate_packet_per_s = "1 kpacket/s" }}
"""
_STAMPS = ("scheduled_ns", "sent_ns", "kernel_tx_ns", "kernel_rx_ns", "arrived_ns")


@dataclass(frozen=True)
class MeshRecipe:
    """What to invent: hosts in `clusters` of equal size, `odd` pairs with how many times their usual round trip.

    A round trip is 200 us within a cluster and 800 us between two, times a factor for each run.
    """

    hosts: int = 8
    clusters: int = 2
    odd: Mapping[str, float] = field(default_factory=lambda: {"h1 to h3": 2.0})
    blocks: int = 5
    noise: float = 0.05
    seed: int = 20


def clusters_of(recipe: MeshRecipe) -> list[list[int]]:
    """The planted clusters, as positions: every n-th host."""
    return [list(range(k, recipe.hosts, recipe.clusters)) for k in range(recipe.clusters)]


def write_mesh_store(store: Path, recipe: MeshRecipe) -> Path:
    """Write a whole store; the directory itself is returned."""
    from synthetic_store import CLOCK, MACHINE

    (store / "runs").mkdir(parents=True)
    fleet = simulated_hosts(recipe.hosts)
    plan = with_pairs(parse_plan(PLAN.format(blocks=recipe.blocks), source=store / "plan.toml"), fleet)
    (store / "plan.toml").write_text(plan.text, encoding="utf-8")
    runs = make_design(plan, recipe.seed)
    write_design(store / "design.parquet", runs, plan.labels, seed=recipe.seed, program="vtare 0.1.0")
    rng = np.random.default_rng(recipe.seed)
    cluster = {fleet[i].name: k for k, hosts in enumerate(clusters_of(recipe)) for i in hosts}
    with Journal(store / "journal.sqlite") as journal:
        for run in runs:
            sender, responder = hosts_of_pair(run.factors[PAIR])
            usual_ns = 200e3 if cluster[sender] == cluster[responder] else 800e3
            usual_ns *= recipe.odd.get(run.factors[PAIR], 1.0) * np.exp(recipe.noise * rng.normal())
            _write_run(store / "runs" / run.run_id, run, usual_ns, rng, {**MACHINE, "hostname": sender}, CLOCK)
            journal.record(Entry(run.run_id, "done", 0, None, None, 1.0))
    return store


def _write_run(
    directory: Path, run: Run, usual_ns: float, rng: np.random.Generator, machine: object, clock: object
) -> None:
    directory.mkdir()
    n = 40
    rtt = np.rint(usual_ns * np.exp(0.02 * rng.normal(size=n))).astype(np.int64)
    at = np.arange(n, dtype=np.int64) * 1_000_000
    samples = pl.DataFrame({
        "peer": ["responder"] * n, "sequence": np.arange(n, dtype=np.int64), "fate": ["received"] * n,
        **{name: at + (rtt if name in ("kernel_rx_ns", "arrived_ns") else 0) for name in _STAMPS},
        "rtt_ns": rtt, "rtt_scheduled_ns": rtt, "peer_received_ns": at, "peer_replied_ns": at + 1000,
        "turnaround_ns": np.full(n, 1000, dtype=np.int64), "reordered": [False] * n,
        "duplicates": np.zeros(n, dtype=np.int64), "session": np.ones(n, dtype=np.int64), "sent_asked": [False] * n,
    })  # fmt: skip
    document = {
        "schema": "vtare.run/1", "run_id": run.run_id, "instrument": run.instrument, "seed": 7,
        "output": "samples.parquet", "parameters": run.parameters,
    }  # fmt: skip
    footer = {
        "schema": "vtare.samples/1", "program": {"name": "vtare", "version": "0.1.0"}, "run": document,
        "interrupted": False, "started_unix_ns": 1_790_000_000_000_000_000 + run.position * 10**9,
        "elapsed_ns": 1_000_000_000, "machine": machine, "clock": clock, "result": {"cells": []}, "notes": [],
    }  # fmt: skip
    samples.write_parquet(directory / "samples.parquet", metadata={"vtare": json.dumps(footer)})
    (directory / "run.json").write_text(json.dumps(document), encoding="utf-8")
    (directory / "log").write_text("", encoding="utf-8")
