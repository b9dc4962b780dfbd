"""Available bandwidth over the lab's own path, as a user runs it: what is logged agrees, and nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from machines import PLAN_HEAD, capacity_steps, skip_unless_made

from vtare.platforms import network
from vtare.platforms.owner import own_prefix
from vtare.summary import summarise
from vtare.topology.link_counter import NAMES
from vtare.topology.links import RoutedHosts
from vtare.topology.path import PathSpec, Phase
from vtare.topology.truth import read_capacity

pytestmark = pytest.mark.e2e

#: Low rates: what is tested is the lab, on any machine, not how near a method comes.
PLAN = f"""{PLAN_HEAD}
[[experiment]]
name = "steady"
instrument = "avb"
parameters = {{ estimates = 2, most_ns = "2 s", most_byte = "300 kB" }}

[experiment.factors]
bottleneck = ["tbf", "htb", "link"]
capacity = ["40 Mbit/s"]
cross = ["10 Mbit/s"]
timers = ["os", "vtare"]
platform = ["netns"]
responder_platform = ["netns"]

{capacity_steps("tbf")}
[[experiment]]
name = "papers"
instrument = "avb"
parameters = {{ estimates = 1, most_ns = "2 s", most_byte = "300 kB" }}

[experiment.factors]
bottleneck = ["tbf"]
capacity = ["40 Mbit/s"]
cross = ["10 Mbit/s"]
cross_arrivals = ["iperf3"]

[programs.script]
command = ["sh", "-c", "echo to {{peer}} about 30 Mbit/s"]
pattern = "about ([0-9]+) Mbit"
unit = "Mbit/s"

[programs.iperf3]
command = ["iperf3", "--client", "{{peer}}", "--port", "5202", "--time", "1", "--format", "m"]
far_end = ["iperf3", "--server", "--bind", "{{peer}}", "--port", "5202", "--forceflush"]
ready = "Server listening"
pattern = '([0-9.]+) Mbits/sec +receiver'
unit = "Mbit/s"

[[experiment]]
name = "programs"
instrument = "avb"
parameters = {{ estimates = 1, most_ns = "20 s" }}

[experiment.factors]
bottleneck = ["tbf"]
capacity = ["40 Mbit/s"]
cross = ["10 Mbit/s"]
method = ["program:script", "program:iperf3"]
timers = ["os", "vtare"]
responder_platform = ["netns"]

[[experiment]]
name = "delayed"
instrument = "avb"
parameters = {{ estimates = 1, most_ns = "1 s" }}

[experiment.factors]
bottleneck = ["tbf"]
capacity = ["40 Mbit/s"]
delay = ["1 ms"]
"""


@pytest.fixture(autouse=True)
def able() -> None:
    """Skip where this machine or user cannot make a routed path, with the reason."""
    hosts = RoutedHosts(own_prefix())
    skip_unless_made(RoutedHosts.missing(), hosts, lambda: hosts.shape(PathSpec("tbf", (Phase(10**8, 10**9),))))


def document(directory: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / f"{name}.json").read_text())
    return found


def check_link_counter(directory: Path, came_byte: int, sent_byte: int, *, counts: bool) -> None:
    """What was counted at a shaper is what passed it; a kernel that does not count reports that."""
    assert (directory / "link_counter.json").exists() == counts
    if not counts:
        return
    said = document(directory, "link_counter")
    assert said["counted"] or said["reason"]
    if said["counted"]:
        total = {name: int(pl.read_parquet(directory / "link_counter.parquet")[f"{name}_byte"].sum()) for name in NAMES}
        assert came_byte <= total["cross"] <= sent_byte
        # Probes, and the control connection.
        assert total["cross"] < total["came"]
        assert came_byte < total["left"] <= total["came"]


def test_what_source_sink_and_bottleneck_logged_agrees(vtare: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    environment = {**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(vtare), *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    done = run("run", "plan.toml", "--store", "store", "--seed", "7", "--json")
    status = run("status", "store", "--json")
    runs = json.loads(status.stdout)["runs"]
    assert [entry for entry in runs if entry["status"] not in ("done", "skipped")] == [], done.stderr
    skipped = [entry["reason"] for entry in runs if entry["status"] == "skipped"]
    assert done.returncode == 0, done.stderr
    # A kernel without netem cannot delay, one without htb not shape so: both are shown with the kernel's own message.
    words = ("qdisc", "netem", "iperf3: it is not", "the program 'iperf3' is missing")
    assert all(any(word in reason for word in words) for reason in skipped), skipped
    assert not [name for name in network.namespaces() if name.startswith(own_prefix())]

    summary = summarise(tmp_path / "store")
    estimates = summary.estimates
    assert estimates["experiment"].is_in(["steady", "steps", "papers", "programs", "delayed"]).all()
    steady = estimates.filter(pl.col("experiment") == "steady")
    assert steady["no_truth"].null_count() == steady.height > 0
    assert steady["truth_bit_per_s"].is_between(0, 40e6 * (1 + 1e-9)).all()
    for (run_id, kind), _ in steady.partition_by("run_id", "bottleneck", as_dict=True).items():
        directory = tmp_path / "store" / "runs" / str(run_id)
        sent, came = document(directory, "cross")["net"], document(directory, "sink")["net"]
        logged = {name: pl.read_parquet(directory / f"{name}.parquet") for name in ("cross", "cross-sent")}
        assert logged["cross"]["packets"].sum() == came["packets"] > 0
        # The last bin is whole only where the source ended with it.
        assert 0 <= sent["packets"] - logged["cross-sent"]["packets"].sum() <= sent["packets"] / 10
        assert came["packets"] <= sent["packets"]
        check_link_counter(directory, came["ip_byte"], sent["ip_byte"], counts=kind != "link")
        if kind == "link":
            truth = pl.read_parquet(directory / "truth.parquet").filter(pl.col("lane") == "ab")
            assert set(truth["capacity_bit_per_s"]) == {40_000_000}
            # What is no probe is cross traffic to the link: the control connection, too. Its last bin is not logged.
            assert truth["cross_byte"].sum() == pytest.approx(sent["ip_byte"], rel=0.3, abs=30_000)
    for run_id in estimates.filter(pl.col("experiment") == "papers")["run_id"]:
        directory = tmp_path / "store" / "runs" / str(run_id)
        if document(directory, "link_counter")["counted"]:
            assert int(pl.read_parquet(directory / "link_counter.parquet")["cross_byte"].sum()) > 0
    programs = estimates.filter(pl.col("experiment") == "programs")
    for row in programs.iter_rows(named=True):
        assert row["truth_bit_per_s"] > 0
        # What they send is not known.
        assert (row["probe_byte"], row["trains"], row["stopped"]) == (None, None, "converged")
        assert row["avb_bit_per_s"] == (
            30_000_000 if row["method"] == "program:script" else pytest.approx(25e6, rel=0.6)
        )
    assert {(row["method"], row["timers"]) for row in programs.iter_rows(named=True)} >= {
        ("program:script", timers) for timers in ("os", "vtare")
    }
    steps = estimates.filter(pl.col("experiment") == "steps")
    if steps.height:
        log = tmp_path / "store" / "runs" / str(steps["run_id"][0]) / "capacity.jsonl"
        changes = [json.loads(line) for line in log.read_text().splitlines()]
        assert [change["bit_per_s"] for change in changes[:4]] == [20_000_000, 40_000_000, 20_000_000, 40_000_000]
        ends = [change[name] for change in changes for name in ("from_monotonic_ns", "to_monotonic_ns")]
        assert ends == sorted(ends)
        path = PathSpec.of_document(document(log.parent, "topology")["path"])
        course, _ = read_capacity(log.parent, path)
        assert course is not None
        for begin, end, carried in steps.select("from_ns", "to_ns", "true_capacity_bit_per_s").drop_nulls().iter_rows():
            bits = course.between(begin, end)
            assert bits is not None
            rate = bits * 1e9 / (end - begin)
            assert 19.9e6 <= rate <= 40.1e6
            # What a bucket lost while its processor was taken away is counted; it never carries more than its rate.
            assert 0 < carried <= rate * (1 + 1e-9)
    page = (tmp_path / "store" / "report.html").read_text(encoding="utf-8")
    assert "How near the truth?" in page or "How far off, by method?" in page
