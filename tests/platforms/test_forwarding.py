"""Twelve containers that forward: every frame of every flow is accounted for, and nothing is left."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from vtare.campaign.guests import guests_of
from vtare.forwarders import ForwardingRoom
from vtare.platforms import leftovers
from vtare.platforms.owner import own_prefix

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
    room = ForwardingRoom(own_prefix(), 12, kind=guests, switch="linux")
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
