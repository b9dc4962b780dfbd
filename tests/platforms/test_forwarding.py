"""Containers and machines that forward: every frame of every flow is accounted for, and nothing is left.

Machines are emulated where this host has no virtualization: no figure is judged, and what dies or hangs costs its cell.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machines import wait_until

from vtare.campaign.execute import RunOutcome, RunSettings, execute
from vtare.campaign.files import Files
from vtare.campaign.forwarding import ForwardingPlacement, ForwardingRun, ForwardingSetup, guests_of
from vtare.campaign.stop import StopRequest
from vtare.design import Run
from vtare.platforms import leftovers, qemu
from vtare.platforms.guest import request as request_module
from vtare.platforms.owner import own_prefix
from vtare.topology.forwarding import ForwardingTopology
from vtare.topology.instance_factors import IDLE

pytestmark = [pytest.mark.e2e, pytest.mark.platform]

#: As short as trials can be; other work on the machine voids none.
TRIALS = (
    "--frame 64 --searches 1 --trial 50ms --trial-sum 50ms --no-zero-loss --width 30% --max-rate 2000 "
    "--latency-trials 1 --latency-trial 50ms --latency-rate 1000 --others 100% --cpu 0 --json"
)


@pytest.mark.parametrize("kind", ["docker", "lxc"])
def test_twelve_containers_forward_and_every_frame_is_accounted_for(
    kind: str, request: pytest.FixtureRequest, static_vtare: Path, monkeypatch: pytest.MonkeyPatch, namespaces: None
) -> None:
    if kind == "docker":
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("docker_host"))
    guests = guests_of(kind, static_vtare, own_prefix())
    assert guests is not None
    room = ForwardingTopology(own_prefix(), 12, kind=guests, switch="linux")
    reason = room.missing()
    if reason is None and 0 not in os.sched_getaffinity(0):
        reason = "CPU 0 is not for this process"
    if reason is not None:
        pytest.skip(reason)
    with room:
        flows = [word for flow in room.flows for word in ("--flow", flow)]
        line = [str(static_vtare), "throughput", "--tx", "p0", "--rx", "p1", *flows, *TRIALS.split()]
        inside = ["ip", "netns", "exec", room.tester, *line]
        done = subprocess.run(inside, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode == 3:
            pytest.skip(f"this machine cannot send such frames: {done.stderr}")
        assert done.returncode == 0, done.stderr
        assert room.facts()["platform"] == kind
    (cell,) = json.loads(done.stdout)["cells"]
    assert cell["guests"] == 12
    assert cell["sent"] == cell["received"] + cell["lost"]
    assert cell["received"] > 0
    for at in cell["latencies"]:
        assert len(at["flows"]) == 12
        assert all(flow["sent"] == flow["received"] + flow["lost"] for flow in at["flows"])
    assert not [leftover.name for leftover in leftovers() if leftover.name.startswith(f"{own_prefix()}-{kind}-")]


#: Slow enough for an emulated machine, and short: on a busy host each trial is made again, and waited for.
FEW = {
    "frame_byte": [64], "searches": 1, "trial_ns": 100_000_000, "trial_sum_ns": 100_000_000, "zero_loss": False,
    "width": 0.5, "most_packet_per_s": 400, "latency_load": [0.5], "latency_packet_per_s": [100], "latency_trials": 1,
    "latency_trial_ns": 100_000_000, "most_others": 1, "most_ns": 3_000_000_000, "cpu": 0,
}  # fmt: skip


@pytest.fixture
def setup(static_vtare: Path, namespaces: None) -> Iterator[ForwardingSetup]:
    """A setup whose guests may be machines; removed after the test."""
    setup = ForwardingSetup(static_vtare, own_prefix())
    reason = setup.missing(ForwardingPlacement("qemu", 2, "linux"))
    if reason is None and 0 not in os.sched_getaffinity(0):
        reason = "CPU 0 is not for this process"
    if reason is not None:
        pytest.skip(reason)
    yield setup
    setup.close()
    assert not [one.name for one in leftovers() if one.name.startswith(f"{own_prefix()}-d")]


def measure(made: ForwardingRun, directory: Path) -> RunOutcome:
    directory.mkdir()
    run = Run(0, 1, 1, "0123456789abcdef", "e", "throughput", None, {}, dict(FEW))
    settings = RunSettings(seed=1, load=IDLE, settle_s=0.0, timeout_s=900.0)
    with StopRequest() as stop:
        outcome = execute(run, settings, directory, setup=made, files=Files(), stop=stop)
    if outcome.status == "skipped":
        pytest.skip(f"this machine cannot send such frames: {outcome.reason}")
    return outcome


@pytest.mark.alone
def test_machines_forward_and_one_that_hangs_is_named(
    setup: ForwardingSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ForwardingPlacement("qemu", 2, "linux", tester_cpu=0)
    with setup.entered(wanted, tmp_path) as made:
        outcome = measure(made, tmp_path / "first")
        assert outcome.status == "done", outcome
        topology = json.loads((tmp_path / "first/topology.json").read_text())
        assert (topology["platform"], topology["guests"], topology["switch"]) == ("qemu", 2, "linux")
        assert [guest["nic"] for guest in topology["guest"]] == ["virtio", "virtio"]
        # Frames came through both, and none was made up.
        result = json.loads((tmp_path / "first/run.json").read_text())
        assert len(result["parameters"]["device_pid"]) == 2
    with setup.entered(wanted, tmp_path) as again:
        (one, other) = [qemu.directory_of(f"{own_prefix()}-d{index}") for index in range(2)]
        (pid,) = qemu.running_in(other)
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(request_module, "ANSWER_S", 3.0)
        outcome = measure(again, tmp_path / "second")
        assert outcome.status == "failed", outcome
        assert "-d1: no answer within 3 s" in str(again.cause())
        assert list(qemu.running_in(one))


PLAN = """
schema = "vtare.plan/1"
name = "machines-that-forward"
question = "What does a machine that dies cost?"
blocks = 1
settle = "1 ms"
control = false

[[experiment]]
name = "few"
instrument = "throughput"
run_timeout = "900 s"

[experiment.parameters]
searches = 1
trial_ns = "100 ms"
trial_sum_ns = "100 ms"
zero_loss = false
width = 0.5
most_packet_per_s = "400 packet/s"
latency_load = [0.5]
latency_packet_per_s = ["100 packet/s"]
latency_trial_ns = "100 ms"
most_others = 1
most_ns = "3 s"
cpu = 0

[experiment.factors]
platform = ["qemu"]
guests = [1]
switch = ["linux"]
frame_byte = ["64 B"]
latency_trials = [1, 1000]
"""


def test_a_machine_killed_in_the_middle_of_a_cell_costs_this_cell_alone(
    setup: ForwardingSetup, static_vtare: Path, tmp_path: Path
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    environment = {**os.environ, "PATH": f"{static_vtare.parent}:{os.environ['PATH']}"}
    with (tmp_path / "log").open("wb") as log:
        lab = subprocess.Popen(
            [str(static_vtare), "run", "plan.toml", "--store", "store", "--seed", "3"],
            cwd=tmp_path, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    runs = tmp_path / "store/runs"

    def at_work() -> bool:
        assert lab.poll() is None, (tmp_path / "log").read_text()
        for path in runs.glob(".tmp-*/run.json"):
            document: dict[str, Any] = json.loads(path.read_text() or "{}")
            if document.get("parameters", {}).get("latency_trials") == 1000:
                log = path.parent / "log"
                return log.exists() and b"ready" in log.read_bytes()
        return False

    try:
        wait_until("the long cell is being measured", at_work, 300)
        (directory,) = Path("/tmp").glob(f"vtare-{lab.pid}-*-d0-qemu")
        (pid,) = qemu.running_in(directory)
        os.kill(pid, signal.SIGKILL)
        lab.wait(900)
    finally:
        lab.kill()
        lab.wait()
    shown = subprocess.run(
        [str(static_vtare), "status", "store", "--json"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    status = json.loads(shown.stdout)
    if status["skipped"]:
        pytest.skip(f"this machine cannot send such frames: {status['runs'][0]['reason']}")
    assert (status["done"], status["failed"]) == (1, 1), status
    (failed,) = status["runs"]
    assert failed["factors"]["latency_trials"] == "1000"
    assert "guest" in failed["reason"]
    assert "signal 9" in failed["reason"]
    assert not list(Path("/tmp").glob(f"vtare-{lab.pid}-*"))
