"""A store of a campaign of forwarding guests: real files to the contract, invented answers that a test knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
from synthetic_store import CLOCK, MACHINE, SEED, run_document

from vtare.campaign.journal import Entry, Journal
from vtare.contract import columns
from vtare.design import Run, make_design, write_design
from vtare.plan.files import parse_plan
from vtare.quantities import parse, unit_of

PLAN = """
schema = "vtare.plan/1"
name = "forwarding"
question = "How much do guests forward?"
blocks = {blocks}
settle = "0 ms"
control = false

[[experiment]]
name = "spread"
title = "Throughput by the spread of the load"
instrument = "throughput"
baseline = {{ loaded = {guests} }}
parameters = {{ cpu = 0, latency_load = {shares}, bursts = {bursts} }}

[experiment.factors]
platform = ["netns"]
guests = [{guests}]
loaded = {loaded}
frame_byte = ["64 B", "1518 B"]
"""


def closed_form(guests: int, loaded: int, q: float = 0.01) -> float:
    """Jain's index of the loads as they are planned."""
    if loaded == guests:
        return 1.0
    return 1.0 / (guests * ((1 - q) ** 2 / loaded + q**2 / (guests - loaded)))


def throughput_of(frame_byte: int, jain: float) -> int:
    """Frames a second of every search: an even load passes twice what J = 0 would."""
    return round((200_000 if frame_byte == 64 else 90_000) * (1 + jain))


def write_forwarding_store(
    store: Path,
    *,
    guests: int = 12,
    loaded: tuple[int, ...] = (1, 6, 12),
    shares: tuple[float, ...] = (1.0,),
    bursts: int = 0,
    blocks: int = 3,
    most: int | None = None,
    began_s: int = 1_790_000_000,
) -> Path:
    """Write the whole store; the second block's answers are 1 % lower, the third's 1 % higher.

    The p99 of latency is 3 medians at all of the throughput (a share of 1), and a quarter of that at other shares.
    `most` is the greatest load asked for, packet/s: searches end there.
    The longest burst has 1,000 frames, of which the buffers hold 600 for 3 ms.
    """
    (store / "runs").mkdir(parents=True)
    text = PLAN.format(guests=guests, loaded=list(loaded), shares=list(shares), bursts=bursts, blocks=blocks)
    plan = parse_plan(text, source=store / "plan.toml")
    (store / "plan.toml").write_text(text, encoding="utf-8")
    runs = make_design(plan, SEED)
    write_design(store / "design.parquet", runs, plan.labels, seed=SEED, program="vtare 0.1.0")
    with Journal(store / "journal.sqlite") as journal:
        for run in runs:
            directory = store / "runs" / run.run_id
            directory.mkdir()
            _write_run(directory, run, most, began_s)
            journal.record(Entry(run.run_id, "done", 0, None, None, 1.0))
    return store


def _write_run(directory: Path, run: Run, most: int | None, began_s: int) -> None:
    unit = unit_of("frame_byte")
    assert unit is not None
    frame = int(parse(run.factors["frame_byte"], unit))
    guests, loaded = int(run.factors["guests"]), int(run.factors["loaded"])
    planned = closed_form(guests, loaded)
    rate = round(throughput_of(frame, planned) * (1.0, 0.99, 1.01)[(run.block - 1) % 3])
    censored = "range" if most is not None and rate >= most else None
    rate = rate if censored is None or most is None else most
    latency = 20_000 + 10 * frame
    known = columns()["throughput"]
    row: dict[str, Any] = dict.fromkeys(known)
    row |= {"frame_byte": frame, "guests": guests, "loaded": loaded, "kind": "answer", "search": 0,
            "throughput_packet_per_s": rate, "censored": censored}  # fmt: skip
    types = {"int64": pl.Int64, "string": pl.String}
    schema = {name: types[column["type"]] for name, column in known.items()}
    samples = pl.DataFrame([row], schema=schema, orient="row")
    cell = {
        "frame_byte": frame, "guests": guests, "loaded": loaded, "jain": planned * 0.999, "jain_planned": planned,
        "throughput_packet_per_s": rate, "throughput_bit_per_s": float(rate * frame * 8),
        "zero_loss_packet_per_s": None, "searches": 1, "unanswered": 0, "trials": 9, "void_trials": 1,
        "disturbed_trials": 0, "trial_s": 0.5, "censored": censored,
        "back_to_back": {
            "packet_per_s": 200_000, "frames": {"n": 3, "median": 1000.0}, "unanswered": 0, "censored": None,
            "buffer_ns": 3e6, "buffer_frames": 600.0, "trials": 30, "void_trials": 0,
        } if run.parameters["bursts"] else None,
        "latency_ns": {"n": 5000, "median": latency, "p99": 3 * latency, "p999": 9 * latency},
        "latencies": [
            {"load_share": share, "load_packet_per_s": share * rate, "jain": planned, "loss_ratio": 0.0,
             "latency_ns": {"median": latency, "p99": 3 * latency if share == 1 else 0.75 * latency},
             "latency_total_ns": float(latency)}
            for share in run.parameters["latency_load"]
        ],
    }  # fmt: skip
    footer = {
        "schema": "vtare.samples/1", "program": {"name": "vtare", "version": "0.1.0"}, "run": run_document(run),
        "interrupted": False, "started_unix_ns": (began_s + run.position) * 10**9,
        "elapsed_ns": 10**9, "machine": MACHINE, "clock": CLOCK, "result": {"cells": [cell]}, "notes": [],
    }  # fmt: skip
    samples.write_parquet(directory / "samples.parquet", compression="lz4", metadata={"vtare": json.dumps(footer)})
    (directory / "run.json").write_text(json.dumps(run_document(run)), encoding="utf-8")
    (directory / "log").write_text("", encoding="utf-8")
