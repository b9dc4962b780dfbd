"""Round trips between two namespaces with captures on both host sides, as a user runs them; what a kill leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from json_schemas import validate
from machines import PLAN_HEAD, skip_unless_made

from vtare.campaign.execute import RunSettings, execute
from vtare.campaign.files import Files
from vtare.campaign.stop import StopRequest
from vtare.campaign.two_hosts import Roles, TwoHostSetup
from vtare.design import Run
from vtare.overhead.figures import figures_of
from vtare.overhead.files import read_capture, read_round_trips
from vtare.overhead.join import join
from vtare.platforms import network
from vtare.platforms.owner import own_prefix
from vtare.summary import summarise
from vtare.topology.instance_factors import IDLE
from vtare.topology.links import TwoHosts

pytestmark = pytest.mark.e2e

PLAN = f"""{PLAN_HEAD}
[[experiment]]
name = "rates"
title = "Round trips"
instrument = "rtt"
parameters = {{ rate_packet_per_s = "1 kpacket/s", seconds = "SECONDS s" }}

[experiment.factors]
platform = ["host", "netns"]
responder_platform = ["netns"]
capture = ["off", "on"]
"""


@pytest.fixture(autouse=True)
def able() -> None:
    """Skip where this machine or user cannot make namespaces, with the reason."""
    skip_unless_made(TwoHosts.missing(), TwoHosts(own_prefix()))


def command(vtare: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    return [str(vtare), *words], {**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}"}


def test_captured_round_trips_fall_into_pieces_that_add_up(root: Path, vtare: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.replace("SECONDS", "0.3"))
    words, environment = command(vtare, "run", "plan.toml", "--store", "store", "--seed", "7", "--json")
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    status = subprocess.run(
        [str(vtare), "status", "store", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    refused = [run["reason"] for run in json.loads(status.stdout)["runs"] if run["status"] == "skipped"]
    if refused:
        pytest.skip(f"this machine cannot capture: {refused[0]}")
    assert done.returncode == 0, done.stderr + status.stdout
    summary = summarise(tmp_path / "store")
    captured = summary.runs.filter(summary.runs["capture"] == "on")
    assert captured.height == 2
    for run in captured.iter_rows(named=True):
        # A packet may be lost on a busy machine, none without being counted.
        assert run["sent"] == run["n"] + run["lost"] == 300
        assert run["paired"] + run["not_captured"] == run["n"]
        assert run["paired"] > 0
        directory = tmp_path / "store" / "runs" / run["run_id"]
        told = subprocess.run(
            [str(vtare), "overhead", "samples.parquet", "--sender-capture", "capture-sender.parquet",
             "--responder-capture", "capture-responder.parquet", "--json"],
            cwd=directory, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        document = json.loads(told.stdout)
        validate(document)
        (cell,) = document["cells"]
        assert cell["sent"] == cell["received"] + cell["late"] + sum(cell["lost_at"].values())
        # Means of pieces add up as the pieces do; medians need not.
        whole = sum(piece["mean"] for piece in cell["pieces"].values())
        assert whole == pytest.approx(cell["rtt_ns"]["mean"])
        # The bridges and the link between are on one machine: causes come before effects, on one clock.
        assert cell["pieces"]["wire_ns"]["min"] > 0
        assert cell["pieces"]["sender_overhead_ns"]["min"] > 0
        assert cell["overhead_ns"] == cell["pieces"]["sender_overhead_ns"]
    plain = summary.runs.filter(summary.runs["capture"] == "off")
    assert plain["overhead_ns"].null_count() == plain.height == 2
    page = (tmp_path / "store" / "report.html").read_text(encoding="utf-8")
    assert "With captures on both hosts it takes" in page


#: Where a narrow queue is put, as namespace and device; the piece that grows by it, the place of its drops.
QUEUES = [
    ("sender-0", "eth0", "sender_overhead_ns", "sender_out"),
    ("sender", "up0", "wire_ns", "wire_out"),
    ("responder-0", "eth0", "responder_overhead_ns", "responder"),
    ("responder", "up0", "wire_ns", "wire_back"),
]
#: Half of what is offered (1000 datagrams of 106 B a second) passes; the rest waits for 30 ms or is dropped.
QUEUE = "tbf rate 424kbit burst 400 limit 1590"


@pytest.mark.parametrize(("where", "device", "piece", "place"), QUEUES, ids=[case[3] for case in QUEUES])
def test_a_narrow_queue_shows_in_the_piece_and_place_where_it_was_put(
    vtare: Path, tmp_path: Path, where: str, device: str, piece: str, place: str
) -> None:
    setup = TwoHostSetup(vtare, own_prefix())
    try:
        roles = Roles(sender="netns", responder="netns", capture="on")
        with setup.entered(roles, tmp_path) as made, StopRequest() as stop:
            side, _, index = where.partition("-")
            inside = ("ip", "netns", "exec", f"{own_prefix()}-{side[0]}" + (f"-{index}" if index else ""), "tc")
            try:
                network.run_tool((*inside, "qdisc", "add", "dev", device, "root", *QUEUE.split()))
            except network.NetworkError as error:
                pytest.skip(f"this kernel has no token bucket: {error}")
            run = Run(0, 1, 1, "0123456789abcdef", "e", "rtt", None, {}, {"rate_packet_per_s": 1000, "seconds": 1.0})
            settings = RunSettings(seed=1, load=IDLE, settle_s=0.0, timeout_s=120.0)
            outcome = execute(run, settings, tmp_path, setup=made, files=Files(), stop=stop)
            (queue,) = json.loads(network.run_tool((*inside, "-s", "-j", "qdisc", "show", "dev", device)))
    finally:
        setup.close()
    if outcome.status == "skipped":
        pytest.skip(str(outcome.reason))
    assert outcome.status == "done", outcome
    trips = read_round_trips(tmp_path / "samples.parquet")
    captures = {side: read_capture(tmp_path / f"capture-{side}.parquet") for side in ("sender", "responder")}
    found: Any = figures_of(
        join(trips.frame, trips.flows[0], sender=captures["sender"], responder=captures["responder"])
    )
    lost = sum(found["lost_at"].values())
    assert found["sent"] == found["received"] + found["late"] + lost
    # Every loss is where the queue is; the queue counts them, too, and drops of the control connection with them.
    assert found["lost_at"][place] == lost > 0
    assert lost <= queue["drops"]
    pieces = found["pieces"]
    assert max(pieces, key=lambda name: pieces[name]["median"]) == piece


def owned_by(pid: int) -> list[str]:
    return [name for name in network.namespaces() if name.startswith(f"vtare-{pid}-")]


def start(vtare: Path, directory: Path) -> subprocess.Popen[str]:
    """Start a campaign of long runs and wait until it has namespaces."""
    (directory / "plan.toml").write_text(PLAN.replace("SECONDS", "60"))
    words, environment = command(vtare, "run", "plan.toml", "--store", "store", "--seed", "7")
    process = subprocess.Popen(
        words, cwd=directory, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while len(owned_by(process.pid)) < 3:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "no namespace was made within 60 s"
        time.sleep(0.05)
    return process


def test_an_interrupted_campaign_takes_its_namespaces_along(vtare: Path, tmp_path: Path) -> None:
    process = start(vtare, tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert owned_by(process.pid) == []


@pytest.mark.alone
def test_what_a_killed_campaign_leaves_is_found_and_removed(vtare: Path, tmp_path: Path) -> None:
    process = start(vtare, tmp_path)
    _, environment = command(vtare)
    clean = [str(vtare), "clean", "--json"]
    living = json.loads(subprocess.run(clean, env=environment, capture_output=True, text=True, check=True).stdout)
    assert set(owned_by(process.pid)) <= set(living["kept"])
    process.kill()
    process.wait(timeout=60)
    left = owned_by(process.pid)
    assert len(left) >= 3
    # The programs in them die with the lab, also the responder, which has given up its privileges.
    deadline = time.monotonic() + 30
    while any(network.run_tool(("ip", "netns", "pids", name)).split() for name in left):
        assert time.monotonic() < deadline, "a program outlived the lab by 30 s"
        time.sleep(0.05)
    done = subprocess.run(clean, env=environment, capture_output=True, text=True, check=True)
    assert set(left) <= set(json.loads(done.stdout)["removed"])
    assert owned_by(process.pid) == []
