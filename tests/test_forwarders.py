"""Throughput through twelve forwarding namespaces, as a user runs it; and that nothing of them is left."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from machines import skip_unless_made

from vtare.forwarders import ForwardingTopology
from vtare.platforms import network
from vtare.platforms.owner import own_prefix
from vtare.summary import summarise

pytestmark = pytest.mark.e2e

#: As short as trials can be; other work on the machine voids none.
PLAN = """
schema = "vtare.plan/1"
name = "forwarding-namespaces"
question = "How much do namespaces forward?"
blocks = 1
settle = "1 ms"

[[experiment]]
name = "spread"
title = "Spread of the load"
instrument = "throughput"

[experiment.parameters]
searches = 1
trial_ns = "50 ms"
trial_sum_ns = "50 ms"
zero_loss = false
width = 0.3
most_packet_per_s = "2 kpacket/s"
latency_trials = 1
latency_trial_ns = "50 ms"
latency_packet_per_s = ["1 kpacket/s"]
most_others = 1
cpu = 0

[experiment.factors]
guests = [12]
loaded = [6, 12]
frame_byte = ["64 B"]
"""


TRIALS = (
    "--frame 64 --searches 1 --trial 50ms --trial-sum 50ms --no-zero-loss --width 30% --max-rate 1000 "
    "--latency-trials 0 --others 100% --cpu 0 --json"
)


@pytest.fixture(autouse=True)
def able() -> None:
    """Skip where this machine or user cannot make the room, with the reason."""
    room = ForwardingTopology(own_prefix(), 1, switch="linux")
    reason = None if 0 in os.sched_getaffinity(0) else "CPU 0 is not for this process"
    skip_unless_made(room.missing() or reason, room)


def test_twelve_namespaces_forward_and_every_frame_is_accounted_for(vtare: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    environment = {**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}"}
    words = [str(vtare), "run", "plan.toml", "--store", "store", "--seed", "7", "--json"]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    shown = subprocess.run(
        [str(vtare), "status", "store", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    refused = [run["reason"] for run in json.loads(shown.stdout)["runs"] if run["status"] == "skipped"]
    if refused or "no sender works here" in shown.stdout:
        pytest.skip(f"this machine cannot send such frames: {refused or shown.stdout}")
    assert done.returncode == 0, done.stderr + shown.stdout
    summary = summarise(tmp_path / "store")
    assert summary.runs.height == 2
    for file in summary.sample_set.files:
        (cell,) = file.footer["result"]["cells"]
        assert cell["guests"] == 12
        assert cell["sent"] == cell["received"] + cell["lost"] > 0
        assert cell["jain"] == pytest.approx(cell["jain_planned"], abs=0.2)
        for at in cell["latencies"]:
            assert len(at["flows"]) == 12
            assert all(flow["sent"] == flow["received"] + flow["lost"] for flow in at["flows"])
        topology = json.loads((file.path.parent / "topology.json").read_text(encoding="utf-8"))
        assert (topology["guests"], topology["switch"]) == (12, topology["switch"])
    planned = {row["loaded"]: row["jain_planned"] for row in summary.cells.iter_rows(named=True)}
    assert planned["6"] == pytest.approx(0.5101, abs=1e-4)
    assert planned["12"] == pytest.approx(1.0)
    page = (tmp_path / "store" / "report.html").read_text(encoding="utf-8")
    assert "MLRsearch" in page


def test_a_room_that_cannot_be_made_leaves_nothing() -> None:
    room = ForwardingTopology(own_prefix(), 2, switch="linux")
    network.carry_out(network.make_namespace(room.guests[1]))
    try:
        with pytest.raises(network.NetworkError):
            room.make()
        assert not [name for name in network.namespaces() if name.startswith(own_prefix())]
    finally:
        network.remove_namespaces([room.guests[1]])


def test_a_second_name_of_the_machines_own_network_is_cleaned_whoever_else_is_in_there() -> None:
    # As a lab leaves one that was killed while it worked in Open vSwitch's namespace; no process has had this start.
    name = f"vtare-{os.getpid()}-fffffffffff-s"
    network.run_tool(("ip", "netns", "attach", name, str(os.getpid())))
    try:
        (left,) = [one for one in network.leftovers() if one.name == name]
        assert left.kept_because is None
        left.remove()
        assert name not in network.namespaces()
    finally:
        network.remove_namespaces([name])


def test_frames_for_one_guest_reach_no_other(vtare: Path) -> None:
    with ForwardingTopology(own_prefix(), 3, switch="linux") as room:
        line = [str(vtare), "throughput", "--tx", "p0", "--rx", "p1", "--flow", room.flows[1], *TRIALS.split()]
        inside = ["ip", "netns", "exec", room.tester, *line]
        done = subprocess.run(inside, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode == 3:
            pytest.skip(f"this machine cannot send such frames: {done.stderr}")
        assert done.returncode == 0, done.stderr
        came = []
        for slot in room.slots:
            words = ("ip", "-n", slot.name, "-s", "-j", "link", "show", "dev", slot.interfaces[0].device)
            (link,) = json.loads(network.run_tool(words))
            came.append(link["stats64"]["rx"]["packets"])
    assert came[1] > 0
    assert (came[0], came[2]) == (0, 0)
