"""Throughput through twelve forwarding namespaces, as a user runs it; and that nothing of them is left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from machines import skip_unless_made, wait_until

from vtare.platforms import network
from vtare.platforms.owner import own_prefix
from vtare.summary import summarise
from vtare.topology import guest_slots
from vtare.topology.forwarding import ForwardingTopology

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


@pytest.mark.alone
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


@pytest.fixture(params=["linux", "ovs"])
def switch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each kind of switch; Open vSwitch by daemons of the test's own, which pass frames on in user mode."""
    if request.param == "linux":
        yield "linux"
        return
    programs = {name: shutil.which(name) for name in ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl")}
    absent = [name for name, place in programs.items() if place is None]
    if absent:
        pytest.skip(f"there is no {absent[0]} (Debian: openvswitch-switch)")
    with tempfile.TemporaryDirectory(prefix="vtare-ovs-") as text, ExitStack() as stack:
        place = Path(text)
        for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"):
            monkeypatch.setenv(name, text)
        database, socket = str(place / "conf.db"), f"unix:{place}/db.sock"
        subprocess.run(["ovsdb-tool", "create", database], check=True, timeout=60)
        started = (
            ["ovsdb-server", database, f"--remote=p{socket}", "--pidfile", "--log-file"],
            ["ovs-vswitchd", socket, "--pidfile", "--log-file"],
        )
        for words in started:
            daemon = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(daemon.wait, 60)
            stack.callback(daemon.terminate)
            wait_until(f"{words[0]} is ready", (place / f"{words[0]}.pid").exists)
            if words[0] == "ovsdb-server":
                subprocess.run(["ovs-vsctl", "--no-wait", "init"], check=True, timeout=60)
        yield "ovs"


#: Sends 20 frames of a type that nobody answers.
SENDER = """
import socket, sys
device, destination, source = sys.argv[1:]
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind((device, 0))
for _ in range(20):
    port.send(bytes.fromhex((destination + source).replace(":", "")) + b"\\x88\\xb5" + bytes(46))
"""


def received(namespace: str, device: str) -> int:
    (link,) = json.loads(network.run_tool(("ip", "-n", namespace, "-s", "-j", "link", "show", "dev", device)))
    return int(link["stats64"]["rx"]["packets"])


def _arrived(namespace: str, device: str, least: int) -> bool:
    return received(namespace, device) >= least


def test_no_guest_reaches_another_on_either_bridge(switch: str) -> None:
    with ForwardingTopology(own_prefix(), 2, switch=switch) as room:
        assert room.facts()["switch"] == switch
        one, other = room.slots
        for side, tester in enumerate(("p0", "p1")):
            device = one.interfaces[side].device
            before = received(other.name, other.interfaces[side].device)
            already = received(room.tester, tester)
            for destination in (other.interfaces[side].mac, guest_slots.tester_mac(side)):
                send = (sys.executable, "-c", SENDER, device, destination, one.interfaces[side].mac)
                network.run_tool(("ip", "netns", "exec", one.name, *send))
            wait_until("the tester's frames", partial(_arrived, room.tester, tester, already + 20))
            # A bridge of either kind passes frames on in their order. Single packets of IPv6 are of its own interface.
            assert received(other.name, other.interfaces[side].device) < before + 10


def test_frames_for_one_guest_reach_no_other(vtare: Path, switch: str) -> None:
    with ForwardingTopology(own_prefix(), 3, switch=switch) as room:
        line = [str(vtare), "throughput", "--tx", "p0", "--rx", "p1", "--flow", room.flows[1], *TRIALS.split()]
        inside = ["ip", "netns", "exec", room.tester, *line]
        done = subprocess.run(inside, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode == 3:
            pytest.skip(f"this machine cannot send such frames: {done.stderr}")
        assert done.returncode == 0, done.stderr
        came = [received(slot.name, slot.interfaces[0].device) for slot in room.slots]
    # The bridges of Open vSwitch are interfaces of this machine's own, which sends single packets of IPv6 there.
    noise = 0 if switch == "linux" else 20
    assert came[1] > noise
    assert max(came[0], came[2]) <= noise
