"""The file service outside the instance under load: `vtare load nbd`, by itself and as a load of a campaign."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from machines import skip_unless_made

from vtare.platforms import network
from vtare.platforms.owner import own_prefix
from vtare.topology.links import TwoHosts

pytestmark = pytest.mark.e2e

PLAN = """
schema = "vtare.plan/1"
name = "file-service"
question = "Does a file service outside slow the clock down?"
blocks = 1
settle = "50 ms"
control = false

[[experiment]]
name = "timer"
title = "Cost of a read"
instrument = "timer"
parameters = { samples = 1000, source = ["clock_monotonic"] }

[experiment.factors]
platform = ["host", "netns"]
load = ["nbd", "idle"]

[[experiment]]
name = "beside"
title = "Cost of a read beside others"
instrument = "timer"
parameters = { samples = 1000, source = ["clock_monotonic"] }

[experiment.factors]
background = [2]
background_load = ["nbd"]

[[experiment]]
name = "round-trips"
title = "Round trips beside others"
instrument = "rtt"
parameters = { rate_packet_per_s = "1 kpacket/s", seconds = "0.3 s" }

[experiment.factors]
background = [1]
background_load = [{ kind = "nbd", threads = 2 }]
background_side = ["responder"]
"""


@pytest.fixture(autouse=True)
def able() -> None:
    """Skip where there is no server."""
    if shutil.which("qemu-nbd") is None:
        pytest.skip("the program 'qemu-nbd' is missing (Debian: qemu-utils)")


def served(vtare: Path, *more: str) -> tuple[subprocess.Popen[bytes], str]:
    """A server that is ready, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen(
        [str(vtare), "load", "nbd", "--serve", address, "--json", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert server.stderr is not None
    assert server.stderr.readline() == b"ready\n"
    return server, address


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def test_what_the_client_moved_is_what_the_server_has(vtare: Path, tmp_path: Path) -> None:
    server, address = served(vtare, "--dir", str(tmp_path))
    words = [str(vtare), "load", "nbd", "--to", address, "--threads", "3", "--seconds", "2", "--json"]
    done = subprocess.run(words, capture_output=True, check=False, timeout=60)
    server.send_signal(signal.SIGTERM)
    report = json.loads(server.communicate(timeout=30)[0])["nbd"]
    assert done.returncode == 0, done.stderr
    client = json.loads(done.stdout)["nbd"]["client"]
    assert client["written_byte"] >= client["buffered"]["written_byte"] + client["fua"]["written_byte"] > 0
    assert client["flushes"] > 0
    assert client["size_byte"] == report["server"]["size_byte"]
    # Each stream writes at least one round of 1 MiB, at most its region of 16.
    assert 3 << 20 <= report["server"]["stored_byte"] <= (3 * 16 + 1) << 20
    assert list(tmp_path.iterdir()) == []


def test_a_killed_server_leaves_no_process(vtare: Path) -> None:
    server, _ = served(vtare)
    (child,) = children(server.pid)
    server.kill()
    server.communicate()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    # Somebody has to reap it; what is left of it then runs no more.
    with suppress(FileNotFoundError):
        assert "Z" in Path(f"/proc/{child}/stat").read_text(encoding="ascii").rpartition(")")[2]


def test_a_taken_address_and_a_wrong_server_are_named(vtare: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = [str(vtare), "load", "nbd"]
        refused = subprocess.run([*words, "--serve", address], capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 3
    assert "qemu-utils" in refused.stderr
    nobody = subprocess.run([*words, "--to", address], capture_output=True, text=True, timeout=60, check=False)
    assert nobody.returncode == 3
    assert f"vtare load nbd --serve {address}" in nobody.stderr


def test_a_campaign_serves_beside_its_instance_and_keeps_one_report(vtare: Path, tmp_path: Path) -> None:
    skip_unless_made(TwoHosts.missing(), TwoHosts(own_prefix()))
    (tmp_path / "plan.toml").write_text(PLAN)
    words = [str(vtare), "run", "plan.toml", "--store", "store", "--json"]
    environment = {**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}"}
    campaign = subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    _, errors = campaign.communicate(timeout=120)
    assert campaign.returncode == 0, errors
    reports = [json.loads(path.read_text()) for path in (tmp_path / "store" / "runs").glob("*/load.json")]
    nbd = [report["nbd"] for report in reports if report["kind"] == "nbd"]
    assert (len(reports), len(nbd)) == (6, 2)
    beside = [json.loads(path.read_text()) for path in (tmp_path / "store" / "runs").glob("*/background.json")]
    assert sorted(one["instances"] for one in beside) == [1, 2]
    for found in beside:
        assert found["load"] == "nbd"
        assert found["offered"]["written_byte_per_s"] > 0
        # Each has a file of its own: what two clients wrote to one, neither would find again.
        assert len({report["nbd"]["address"] for report in found["reports"]}) == found["instances"]
        nbd += [report["nbd"] for report in found["reports"]]
    for one in nbd:
        assert one["role"] == "client"
        assert one["client"]["written_byte"] > 0
        assert one["server"]["stored_byte"] > 0
        assert one["server"]["file_system"]["type"]
    # Names of the lab begin with the process that made them.
    assert not [name for name in network.namespaces() if name.startswith(f"vtare-{campaign.pid}-")]
