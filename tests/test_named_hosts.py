"""Campaigns between machines that a plan names: each is a namespace with sshd, and has nothing of the lab."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from machines import Sshd, plan_tables, skip_unless_made, three_machines, wait_until

from vtare.clock_relation import read_relations
from vtare.design import make_design
from vtare.links import TwoHosts
from vtare.plan import parse_plan
from vtare.platforms.binary import not_static
from vtare.platforms.owner import own_prefix
from vtare.summary import summarise

pytestmark = pytest.mark.e2e

PLAN = """
schema = "vtare.plan/1"
name = "machines"
question = "Where does the time go between two machines?"
blocks = 1
settle = "1 ms"

[[experiment]]
name = "rates"
title = "Round trips"
instrument = "rtt"
parameters = { rate_packet_per_s = "1 kpacket/s", seconds = "0.3 s" }

[experiment.factors]
capture = ["on"]

[[experiment]]
name = "beside"
title = "Round trips beside others"
instrument = "rtt"
parameters = { rate_packet_per_s = "1 kpacket/s", seconds = "0.3 s" }

[experiment.factors]
load = [{ kind = "cpu", threads = 1 }]
load_side = ["responder"]
background = [8]
background_load = [{ kind = "net", rate = "1 Mbit/s" }]
background_side = ["responder"]
"""


ROUTED = """
schema = "vtare.plan/1"
name = "machines"
question = "Is the truth known on three machines?"
blocks = 1
settle = "1 ms"

[[experiment]]
name = "path"
title = "A path over a router"
instrument = "avb"
parameters = { estimates = 2, most_ns = "2 s", most_byte = "300 kB" }

[experiment.factors]
capacity = ["40 Mbit/s"]
cross = ["10 Mbit/s"]
"""


@pytest.fixture(scope="module")
def machines(vtare: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Sshd]]:
    """Three machines with sshd, the notes of whose connections are kept apart from the user's own."""
    reason = not_static(vtare)
    if reason is not None:
        pytest.skip(reason)
    skip_unless_made(TwoHosts.missing(), TwoHosts(own_prefix()))
    place = tmp_path_factory.mktemp("machines")
    with pytest.MonkeyPatch.context() as patch, three_machines(place) as made:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        yield made


def run(vtare: Path, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        [str(vtare), *words], cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def statuses(vtare: Path, place: Path) -> list[dict[str, Any]]:
    """The runs that are not done."""
    found: list[dict[str, Any]] = json.loads(run(vtare, place, "status", "store", "--json").stdout)["runs"]
    return found


def finished(runs: Path) -> list[Path]:
    """The directories of runs that are done."""
    return [entry for entry in runs.iterdir() if not entry.name.startswith(".")]


def nothing_left(machines: dict[str, Sshd], vtare: Path) -> None:
    for machine in machines.values():
        assert list(machine.work.iterdir()) == []
        assert machine.processes() == []
        qdiscs = subprocess.run(
            ["tc", "-n", machine.namespace, "qdisc", "show"], capture_output=True, text=True, check=True
        )
        assert all(line.split()[1] == "noqueue" for line in qdiscs.stdout.splitlines()), qdiscs.stdout


def test_captures_on_both_machines_and_their_clocks_split_the_round_trip(
    vtare: Path, tmp_path: Path, machines: dict[str, Sshd]
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN + plan_tables(machines, ("sender", "responder")))
    shown = run(vtare, tmp_path, "plan", "plan.toml")
    assert f"responder on m-responder (ssh root@{machines['responder'].host})" in shown.stdout, shown.stderr
    done = run(vtare, tmp_path, "run", "plan.toml", "--store", "store", "--seed", "7", "--json")
    found = statuses(vtare, tmp_path)
    assert done.returncode == 0, done.stderr + json.dumps(found)
    skipped = [entry["reason"] for entry in found if entry["status"] == "skipped"]
    if skipped:
        pytest.skip(f"this machine cannot capture: {skipped[0]}")
    summary = summarise(tmp_path / "store")
    for row in summary.runs.iter_rows(named=True):
        directory = tmp_path / "store" / "runs" / row["run_id"]
        assert row["sent"] + row["unsent"] == 300
        assert row["sent"] == row["n"] + row["lost"] > 0
        relations = read_relations(directory)
        assert relations is not None
        (relation,) = relations.values()
        assert len(relation.comparisons) == 2
        # The machines of these tests share one clock: it is ahead of itself by nothing, and the bound must hold that.
        assert all(one.low_ns <= 0 <= one.high_ns for one in relation.comparisons)
        assert 0 < relation.bound_ns < 5e6
        topology = json.loads((directory / "topology.json").read_text())
        assert topology["responder"]["remote"]["host"] == f"root@{machines['responder'].host}"
        assert topology["responder"]["capture_interface"] == "eth0"
        if row["capture"] is None:
            # More than one connection may carry: an sshd allows ten sessions each.
            beside = json.loads((directory / "background.json").read_text())
            assert (beside["platform"], beside["side"], len(beside["reports"])) == ("host", "responder", 8)
            assert beside["offered"]["net"]["received"]["packets"] > 0
            continue
        assert row["paired"] + row["not_captured"] == row["n"]
        assert row["paired"] > 0
        # A router is on the way, and the stamps of both sides are on one clock here.
        assert row["wire_ns"] > 0
        assert row["wire_out_ns"] + row["wire_back_ns"] == pytest.approx(row["wire_ns"], rel=0.5)
        assert row["clock_bound_ns"] == pytest.approx(relation.bound_ns, rel=0.5)
    assert summary.runs.filter(pl.col("capture") == "on").height == 1
    nothing_left(machines, vtare)


def test_a_path_over_a_routers_queue_with_cross_traffic_has_a_truth(
    vtare: Path, tmp_path: Path, machines: dict[str, Sshd]
) -> None:
    (tmp_path / "plan.toml").write_text(ROUTED + plan_tables(machines, ("sender", "responder", "router")))
    done = run(vtare, tmp_path, "run", "plan.toml", "--store", "store", "--seed", "7", "--json")
    assert done.returncode == 0, done.stderr
    for entry in statuses(vtare, tmp_path):
        assert (entry["status"], "qdisc" in entry["reason"]) == ("skipped", True)
        pytest.skip(entry["reason"])
    (directory,) = (tmp_path / "store" / "runs").iterdir()
    estimates = summarise(tmp_path / "store").estimates
    assert estimates["no_truth"].null_count() == estimates.height > 0
    # Cross traffic takes some of the router's 40 Mbit/s all the time.
    assert estimates["truth_bit_per_s"].is_between(15e6, 40e6, closed="none").all()
    topology = json.loads((directory / "topology.json").read_text())
    assert "tbf" in topology["link"]["shapers"]["out0"]
    sent, came = (json.loads((directory / f"{name}.json").read_text())["net"] for name in ("cross", "sink"))
    assert 0 < came["packets"] <= sent["packets"]
    relations = read_relations(directory)
    assert relations is not None
    assert set(relations) == {"responder", "router"}
    assert all(one.low_ns <= 0 <= one.high_ns for found in relations.values() for one in found.comparisons)
    nothing_left(machines, vtare)


#: How many faults are injected, each drawn by its number.
FAULTS = int(os.environ.get("VTARE_FAULTS", "1"))


@pytest.mark.parametrize("number", range(FAULTS))
def test_a_fault_in_mid_run_loses_no_finished_run_and_leaves_nothing(
    vtare: Path, tmp_path: Path, machines: dict[str, Sshd], number: int
) -> None:
    drawn = random.Random(number)
    fault = ("host killed", "lab killed", "connection cut")[number % 3]
    hit = machines[drawn.choice(("sender", "responder"))]
    text = PLAN[: PLAN.index("[experiment.factors]")].replace(', seconds = "0.3 s"', "")
    text += '[experiment.factors]\nseconds = ["0.1 s", "60 s"]\n' + plan_tables(machines, ("sender", "responder"))
    (tmp_path / "plan.toml").write_text(text)
    plan = parse_plan(text, source=Path("plan.toml"))
    seed = next(seed for seed in range(100) if make_design(plan, seed)[0].parameters["seconds"] < 1)
    runs = tmp_path / "store" / "runs"
    environment = {**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}"}
    words = [str(vtare.with_name("vtare-lab")), "run", "plan.toml", "--store", "store", "--seed", str(seed)]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as lab:

        def in_second() -> bool:
            return runs.exists() and len(finished(runs)) == 1 and machines["sender"].runs([b"measure"])

        wait_until("the second run measures", lambda: in_second() or lab.poll() is not None)
        assert lab.poll() is None, lab.communicate()
        time.sleep(drawn.uniform(0.0, 0.5))
        if fault == "lab killed":
            lab.send_signal(signal.SIGKILL)
        elif fault == "connection cut":
            hit.cut()
        else:
            hit.kill()
        lab.communicate(timeout=240)
    if fault == "host killed":
        hit.boot()
    assert run(vtare, tmp_path, "clean").returncode == 0
    wait_until("nothing runs any more", lambda: all(machine.processes() == [] for machine in machines.values()))
    nothing_left(machines, vtare)
    (entry,) = statuses(vtare, tmp_path)
    assert entry["status"] in ("pending", "failed")
    (whole,) = finished(runs)
    assert (whole / "samples.parquet").stat().st_size > 0
