"""Campaigns between machines that a plan names: each is a namespace with sshd, and has nothing of the lab."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import polars as pl
import pytest
from machines import (
    JOINED,
    PATIENCE_S,
    PLAN_HEAD,
    ROUTED,
    Sshd,
    capacity_steps,
    plan_tables,
    skip_unless_made,
    three_machines,
    wait_until,
)

from vtare.design import make_design
from vtare.plan.files import parse_plan
from vtare.platforms import network, open_platform
from vtare.platforms.binary import not_static
from vtare.platforms.owner import own_prefix
from vtare.summary import summarise
from vtare.topology.clock_relation import read_relations
from vtare.topology.link_counter import BEHIND_THE_LINK, LINK_COUNTER
from vtare.topology.links import TwoHosts

if TYPE_CHECKING:
    from vtare.platforms.protocol import Server

pytestmark = pytest.mark.e2e

PLAN = (
    PLAN_HEAD
    + """
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
affinity = ["0"]
"""
)


#: A path over the router's queue, beside a load and others.
STEADY = """
[[experiment]]
name = "path"
instrument = "avb"
parameters = { estimates = 2, most_ns = "2 s", most_byte = "300 kB" }

[experiment.factors]
capacity = ["40 Mbit/s"]
cross = ["10 Mbit/s"]
cross_cpu = [0]
mtu_byte = ["2000 B"]
affinity = ["0"]
load = [{ kind = "cpu", threads = 1 }]
load_side = ["responder"]
background = [1]
background_load = [{ kind = "net", rate = "1 Mbit/s" }]
background_side = ["responder"]
"""
STEPS = capacity_steps("htb")
#: `vtare link` on the router has a capacity in steps, delay and loss of its own.
LINK = """
[[experiment]]
name = "link"
instrument = "avb"
parameters = { estimates = 2, most_ns = "2 s", most_byte = "300 kB" }

[experiment.factors]
bottleneck = ["link"]
capacity_steps = ["20 Mbit/s:0.2 s, 40 Mbit/s:0.2 s"]
cross = ["10 Mbit/s"]
delay = ["1 ms"]
loss = ["0.1 %"]
"""
#: As short as trials can be; other work on the machine voids none.
FORWARDING = """
[[experiment]]
name = "forwarding"
instrument = "throughput"

[experiment.parameters]
tx_port = "t0"
rx_port = "t1"
flow = ["FLOW"]
frame_byte = ["64 B"]
searches = 1
trial_ns = "50 ms"
trial_sum_ns = "50 ms"
zero_loss = false
width = 0.3
most_packet_per_s = "2 kpacket/s"
latency_trials = 1
latency_trial_ns = "50 ms"
most_others = 1
engine = "packet"
analyser = "packet"
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


def run_or_skip(vtare: Path, place: Path) -> None:
    """Run the plan; skip where this machine's kernel has not what it needs."""
    done = run(vtare, place, "run", "plan.toml", "--store", "store", "--seed", "7", "--json")
    found = statuses(vtare, place)
    assert done.returncode == 0, done.stderr + json.dumps(found)
    for entry in found:
        assert entry["status"] == "skipped"
        assert any(word in entry["reason"] for word in ("qdisc", "no sender works here")), entry
        pytest.skip(entry["reason"])


def document(directory: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / f"{name}.json").read_text())
    return found


def nothing_left(machines: dict[str, Sshd], vtare: Path) -> None:
    for machine in machines.values():
        assert list(machine.work.iterdir()) == []
        assert machine.processes() == []
        qdiscs = subprocess.run(
            ["tc", "-n", machine.namespace, "qdisc", "show"], capture_output=True, text=True, check=True
        )
        assert all(line.split()[1] == "noqueue" for line in qdiscs.stdout.splitlines()), qdiscs.stdout
        links = json.loads(network.run_tool(("ip", "-n", machine.namespace, "-j", "link", "show")))
        assert {link["mtu"] for link in links if link["ifname"] != "lo"} == {network.USUAL_MTU_BYTE}


@pytest.mark.alone
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
            assert document(directory, "load")["kind"] == "cpu"
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


@pytest.mark.alone
def test_a_path_over_a_routers_queue_is_counted_on_both_sides_of_it(
    vtare: Path, tmp_path: Path, machines: dict[str, Sshd]
) -> None:
    (tmp_path / "plan.toml").write_text(
        PLAN_HEAD + STEADY + STEPS + plan_tables(machines, ("sender", "responder", "router"))
    )
    run_or_skip(vtare, tmp_path)
    estimates = summarise(tmp_path / "store").estimates
    assert estimates["no_truth"].is_null().all()
    for experiment in ("path", "steps"):
        some = estimates.filter(pl.col("experiment") == experiment)
        assert some.height > 0
        directory = tmp_path / "store" / "runs" / str(some["run_id"][0])
        topology, relations = document(directory, "topology"), read_relations(directory)
        assert relations is not None
        assert set(relations) == {"responder", "router"}
        assert all(one.low_ns <= 0 <= one.high_ns for found in relations.values() for one in found.comparisons)
        assert some["clock_bound_ns"].is_in([found.bound_ns for found in relations.values()]).all()
        places = [document(directory, stem) for stem in (LINK_COUNTER, BEHIND_THE_LINK)]
        assert all(place["counted"] or place["reason"] for place in places)
        assert some["counted"].all() == all(place["counted"] for place in places)
        if experiment == "steps":
            assert "htb" in topology["link"]["shapers"]["out0"]
            assert some["truth_bit_per_s"].is_between(5e6, 40.1e6).all()
            log = (directory / "capacity.jsonl").read_text().splitlines()
            rates = [json.loads(line)["bit_per_s"] for line in log]
            assert rates[:4] == [20_000_000, 40_000_000, 20_000_000, 40_000_000]
            continue
        # Cross traffic takes some of the router's 40 Mbit/s all the time.
        assert some["truth_bit_per_s"].is_between(15e6, 40e6, closed="none").all()
        assert "tbf" in topology["link"]["shapers"]["out0"]
        assert {device["mtu"] for device in topology["link"]["devices"].values()} == {2000}
        sent, came = (document(directory, name)["net"] for name in ("cross", "sink"))
        assert 0 < came["packets"] <= sent["packets"]
        assert document(directory, "background")["offered"]["net"]["received"]["packets"] > 0
        assert document(directory, "load")["operations"] > 0
    nothing_left(machines, vtare)


def test_a_link_in_steps_with_delay_on_the_router_has_a_truth(
    vtare: Path, tmp_path: Path, machines: dict[str, Sshd]
) -> None:
    tables = plan_tables(machines, ("sender", "responder", "router"), JOINED)
    (tmp_path / "plan.toml").write_text(PLAN_HEAD + LINK + tables)
    run_or_skip(vtare, tmp_path)
    (directory,) = (tmp_path / "store" / "runs").iterdir()
    estimates = summarise(tmp_path / "store").estimates
    known = estimates.filter(pl.col("no_truth").is_null())
    assert known["true_capacity_bit_per_s"].is_between(19.9e6, 40.1e6).all()
    log = pl.read_parquet(directory / "truth.parquet").filter(pl.col("lane") == "ab")
    assert set(log["capacity_bit_per_s"]) >= {20_000_000, 40_000_000}
    assert log["cross_byte"].sum() > 0
    relations = read_relations(directory)
    assert relations is not None
    assert set(relations) == {"router"}
    assert known["clock_bound_ns"].is_in([relations["router"].bound_ns]).all()
    nothing_left(machines, vtare)


def test_a_tester_measures_what_forwards_between_its_ports(
    vtare: Path, tmp_path: Path, machines: dict[str, Sshd]
) -> None:
    tester, device = machines["sender"], machines["router"]
    bridge = network.make_bridge(device.namespace, "f")
    steps = [bridge, network.Step(("ip", "-n", device.namespace, "link", "set", "f", "up"))]
    for number in (0, 1):
        far = (device.namespace, f"f{number}")
        steps += network.pair((tester.namespace, f"t{number}"), far, network.USUAL_MTU_BYTE)
        steps.append(network.Step(("ip", "-n", far[0], "link", "set", far[1], "master", "f", "up")))
        steps.append(network.Step(("ip", "-n", tester.namespace, "link", "set", f"t{number}", "up")))
    network.carry_out(steps)
    try:
        shown = network.run_tool(("ip", "-n", tester.namespace, "-j", "link", "show", "dev", "t1"))
        flow = json.loads(shown)[0]["address"]
        text = PLAN_HEAD + FORWARDING.replace("FLOW", flow) + plan_tables(machines, ("sender",))
        (tmp_path / "plan.toml").write_text(
            text.replace('[hosts]\nsender = "m-sender"', '[hosts]\ntester = "m-sender"')
        )
        run_or_skip(vtare, tmp_path)
    finally:
        for number in (0, 1):
            network.run_tool(("ip", "-n", tester.namespace, "link", "delete", f"t{number}"))
        network.run_tool(("ip", "-n", device.namespace, "link", "delete", "f"))
    (file,) = summarise(tmp_path / "store").sample_set.files
    (cell,) = file.footer["result"]["cells"]
    assert cell["sent"] == cell["received"] + cell["lost"] > 0
    assert document(file.path.parent, "platform")["remote"]["host"] == f"root@{tester.host}"
    nothing_left(machines, vtare)


#: How many faults are injected, each drawn by its number.
FAULTS = int(os.environ.get("VTARE_FAULTS", "1"))


KINDS = ("host killed", "connection cut", "silence", "lab killed")
#: Each machine of each topology is hit: a path over the router's queue, one over `vtare link`, two machines.
PLACES = (
    ("queue", "router"),
    ("link", "router"),
    ("pair", "responder"),
    ("pair", "sender"),
    ("queue", "responder"),
    ("queue", "sender"),
    ("link", "responder"),
    ("link", "sender"),
)


def plan_of_faults(topology: str, machines: dict[str, Sshd]) -> str:
    """A plan of a short run and a long one in this topology."""
    if topology == "pair":
        text = PLAN[: PLAN.index("[experiment.factors]")].replace(', seconds = "0.3 s"', "")
        text += '[experiment.factors]\nseconds = ["0.1 s", "60 s"]\ncapture = ["on"]\n'
        return text + plan_tables(machines, ("sender", "responder"))
    path, addresses = (STEADY, ROUTED) if topology == "queue" else (LINK, JOINED)
    text = PLAN_HEAD + path.replace("estimates = 2, ", "") + 'seconds = ["1 s", "60 s"]\n'
    return text + plan_tables(machines, ("sender", "responder", "router"), addresses)


@pytest.mark.parametrize("number", range(FAULTS))
def test_a_fault_in_mid_run_loses_no_finished_run_and_leaves_nothing(
    vtare: Path, tmp_path: Path, machines: dict[str, Sshd], number: int
) -> None:
    drawn = random.Random(number)
    fault = KINDS[number % len(KINDS)]
    topology, place = PLACES[number // len(KINDS) % len(PLACES)]
    hit = machines[place]
    text = plan_of_faults(topology, machines)
    (tmp_path / "plan.toml").write_text(text)
    plan = parse_plan(text, source=Path("plan.toml"))
    seed = next(seed for seed in range(100) if make_design(plan, seed)[0].parameters["seconds"] < 60)
    runs = tmp_path / "store" / "runs"
    environment = {**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}"}
    words = [str(vtare.with_name("vtare-lab")), "run", "plan.toml", "--store", "store", "--seed", str(seed)]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as lab:

        def in_second() -> bool:
            return runs.exists() and len(finished(runs)) == 1 and machines["sender"].runs([b"measure"])

        # Some hundred commands over SSH come before that, which a busy machine takes 0.3 s each for.
        wait_until("the second run measures", lambda: in_second() or lab.poll() is not None, 5 * PATIENCE_S)
        assert lab.poll() is None, lab.communicate()
        time.sleep(drawn.uniform(0.0, 0.5))
        match fault:
            case "lab killed":
                lab.send_signal(signal.SIGKILL)
            case "connection cut":
                hit.cut()
            case "silence":
                hit.silence()
            case _:
                hit.kill()
        lab.communicate(timeout=240)
    if fault == "host killed":
        hit.boot()
    hit.unsilence()
    assert run(vtare, tmp_path, "clean").returncode == 0
    wait_until("nothing runs any more", lambda: all(machine.processes() == [] for machine in machines.values()))
    nothing_left(machines, vtare)
    (entry,) = statuses(vtare, tmp_path)
    assert entry["status"] in ("pending", "failed")
    (whole,) = finished(runs)
    assert (whole / "samples.parquet").stat().st_size > 0
    print(f"fault {number}: {fault}, {place} of {topology}: {entry['status']}")


def test_a_machine_that_hears_nothing_of_the_lab_ends_everything_by_itself(
    vtare: Path, tmp_path: Path, machines: dict[str, Sshd]
) -> None:
    hit = machines["router"]
    platform = open_platform("away", binary=vtare, owner=own_prefix(), settings={"kind": "ssh", **hit.settings()})
    try:
        (server,) = cast("Sequence[Server]", platform.start(1))
        server.undo_with([("ip", "link", "set", "dev", "in0", "mtu", "1500")])
        server.run(("ip", "link", "set", "dev", "in0", "mtu", "1400"))
        out, log = tmp_path / "out", tmp_path / "log"
        child = server.start(["load", "cpu"], directory=tmp_path, stdout=out, stderr=log)
        wait_until("the load runs", lambda: b"ready" in log.read_bytes())
        server.keep(5)
        # What is not sent before the silence never arrives.
        wait_until("the machine knows it", lambda: hit.runs([b"timeout", b"5"]) or child.returncode is not None)
        # Later TCP's own time limit, 25 s, may end it for the lab.
        assert child.returncode is None
        hit.silence()
        wait_until("the machine has ended everything", lambda: not hit.runs([b"load"]) and not any(hit.work.iterdir()))
        hit.unsilence()
    finally:
        hit.unsilence()
        platform.stop()
    wait_until("nothing runs any more", lambda: hit.processes() == [])
    nothing_left(machines, vtare)
