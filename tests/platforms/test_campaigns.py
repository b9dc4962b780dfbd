"""Campaigns over containers with others in the background; many of them; and what a killed lab leaves."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from machines import wait_until

from vtare.platforms import open_platform
from vtare.platforms.owner import own_prefix

pytestmark = [pytest.mark.e2e, pytest.mark.platform]

PLAN = """
schema = "vtare.plan/1"
name = "containers"
question = "What do neighbours change?"
blocks = 1
settle = "1 ms"
"""
TIMERS = """
[[experiment]]
name = "timers"
instrument = "timer"
parameters = { source = "clock_monotonic", samples = 2000 }

[experiment.factors]
platform = ["host", KIND]
background = [0, 2]
background_load = ["cpu"]
"""
ROUND_TRIPS = """
[[experiment]]
name = "round-trips"
instrument = "rtt"
parameters = { seconds = "0.3 s", rate_packet_per_s = "500 packet/s", blocking = true }

[experiment.factors]
platform = [KIND]
responder_platform = [KIND]
capture = ["on"]
background = [COUNT]
background_load = LOADS
background_side = SIDES
"""


def vtare_run(vtare: Path, *words: str, cwd: Path, check: bool = True) -> Any:
    """Run a command of the lab and return its JSON document."""
    environment = {**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(vtare), *words, "--json"],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert not check or done.returncode in (0, 1, 3), done.stderr
    return json.loads(done.stdout)


def run_plan(vtare: Path, text: str, directory: Path) -> list[Path]:
    """Run a plan to its end and return the directories of its runs."""
    (directory / "plan.toml").write_text(text)
    told = vtare_run(vtare, "run", "plan.toml", "--store", "store", "--seed", "3", cwd=directory)
    status = vtare_run(vtare, "status", "store", cwd=directory)
    refused = [run["reason"] for run in status["runs"]]
    if any("cannot capture" in str(reason) for reason in refused):
        pytest.skip(f"this machine cannot capture: {refused[0]}")
    assert told["done"] == told["total"], refused
    return sorted((directory / "store" / "runs").iterdir())


@pytest.fixture(params=["docker", "lxc"])
def kind(request: pytest.FixtureRequest, static_vtare: Path, namespaces: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """A platform that this machine has."""
    if request.param == "docker":
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("docker_host"))
    reason = open_platform(request.param, binary=static_vtare, owner=own_prefix()).missing()
    if reason is not None:
        pytest.skip(reason)
    return str(request.param)


def test_neighbours_work_while_a_container_measures(kind: str, static_vtare: Path, tmp_path: Path) -> None:
    loads = '["none", "cpu", "counter", "io", { kind = "net", rate = "5 Mbit/s" }]'
    text = PLAN + TIMERS + ROUND_TRIPS.replace("COUNT", "2").replace("LOADS", loads).replace("SIDES", '["responder"]')
    runs = run_plan(static_vtare, text.replace("KIND", f'"{kind}"'), tmp_path)
    seen = set()
    for run in runs:
        assert not (run / "key").exists()
        if not (run / "background.json").exists():
            continue
        told = json.loads((run / "background.json").read_text())
        seen.add(told["load"])
        assert told["instances"] == len(told["reports"]) == 2
        for report in told["reports"]:
            assert report["kind"] == {"none": "idle"}.get(told["load"], told["load"])
            assert (report["operations"] > 0) == (told["load"] != "none")
        if told["load"] == "net":
            assert told["offered"]["net"]["received"]["packets"] > 0
    assert seen == {"none", "cpu", "counter", "io", "net"}


def test_128_containers_stand_in_the_background_of_a_run(static_vtare: Path, namespaces: None, tmp_path: Path) -> None:
    reason = open_platform("lxc", binary=static_vtare, owner=own_prefix()).missing()
    if reason is not None:
        pytest.skip(reason)
    text = PLAN + ROUND_TRIPS.replace("COUNT", "128").replace("LOADS", '["none"]').replace("SIDES", '["sender"]')
    (run,) = run_plan(static_vtare, text.replace("KIND", '"lxc"'), tmp_path)
    told = json.loads((run / "background.json").read_text())
    assert len({report["instance"] for report in told["reports"]}) == told["instances"] == 128


@pytest.mark.alone
def test_what_a_killed_lab_leaves_is_found_and_removed(kind: str, static_vtare: Path, tmp_path: Path) -> None:
    text = PLAN + ROUND_TRIPS.replace("COUNT", "2").replace("LOADS", '["cpu"]').replace("SIDES", '["sender"]')
    (tmp_path / "plan.toml").write_text(text.replace("KIND", f'"{kind}"').replace("0.3 s", "60 s"))
    environment = {**os.environ, "PATH": f"{static_vtare.parent}:{os.environ['PATH']}"}
    with (tmp_path / "log").open("wb") as log:
        lab = subprocess.Popen(
            [str(static_vtare), "run", "plan.toml", "--store", "store"],
            cwd=tmp_path, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        runs = tmp_path / "store" / "runs"
        # A minute of measuring is time enough to be killed in.
        wait_until(
            "a run is being made",
            lambda: lab.poll() is not None or any(b"ready" in path.read_bytes() for path in runs.glob(".tmp-*/log")),
        )
        assert lab.poll() is None, (tmp_path / "log").read_text()
    finally:
        lab.send_signal(signal.SIGKILL)
        lab.wait()
    told = vtare_run(static_vtare, "clean", cwd=tmp_path)
    mine = [name for name in told["removed"] if name.startswith(f"vtare-{lab.pid}-")]
    assert len([name for name in mine if name.endswith(f"-{kind}")]) == 4, told
    again = vtare_run(static_vtare, "clean", cwd=tmp_path)
    assert not any(name.startswith(f"vtare-{lab.pid}-") for name in (*again["removed"], *again["kept"])), again


def finished(store: Path) -> dict[str, str]:
    """The digest of the samples of each finished run."""
    samples = store.glob("runs/[0-9a-f]*/samples.parquet")
    return {path.parent.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in samples}


@pytest.mark.attack
@pytest.mark.alone
def test_a_campaign_killed_at_random_moments_loses_no_finished_run(
    kind: str, static_vtare: Path, tmp_path: Path
) -> None:
    text = PLAN.replace("blocks = 1", "blocks = 3") + TIMERS.replace("[0, 2]", "[0, 1]")
    (tmp_path / "plan.toml").write_text(text.replace("KIND", f'"{kind}"'))
    environment = {**os.environ, "PATH": f"{static_vtare.parent}:{os.environ['PATH']}"}
    store, moments = tmp_path / "store", random.Random(seed := random.SystemRandom().randrange(2**32))
    kept: dict[str, str] = {}
    pids = []
    for _ in range(6):
        words = ["resume", "store"] if store.exists() else ["run", "plan.toml", "--store", "store"]
        with (tmp_path / "log").open("wb") as log:
            lab = subprocess.Popen(
                [str(static_vtare), *words],
                cwd=tmp_path, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        pids.append(lab.pid)
        with suppress(subprocess.TimeoutExpired):
            lab.wait(moments.uniform(0.5, 8.0))
        lab.kill()
        lab.wait()
        now = finished(store)
        assert kept.items() <= now.items(), f"seed {seed}"
        kept = now
    told = vtare_run(static_vtare, "resume", "store", cwd=tmp_path)
    assert told["done"] == told["total"] == 12, f"seed {seed}: {told}"
    assert kept.items() <= finished(store).items(), f"seed {seed}"
    vtare_run(static_vtare, "clean", cwd=tmp_path)
    left = vtare_run(static_vtare, "clean", cwd=tmp_path)
    mine = tuple(f"vtare-{pid}-" for pid in pids)
    assert not [name for name in (*left["removed"], *left["kept"]) if name.startswith(mine)], f"seed {seed}: {left}"
