"""What is free on a path, by `vtare path` and by `vtare avb`: over shapers whose rate is known, and over none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

HERE, THERE = "10.117.0.1", "10.117.0.2"
KEY = "5a" * 32
#: Bytes of an Ethernet frame, which a shaper counts, with 1500 bytes of IP.
FRAME_BYTE = 1514


@pytest.fixture
def ends(vtare: Path) -> Iterator[tuple[str, str]]:
    """Two namespaces joined by a veth pair; `vtare serve` runs in the second."""
    if os.geteuid() or not shutil.which("ip") or not shutil.which("tc"):
        pytest.skip("namespaces with a shaper need root, ip and tc")
    here, there = (f"vtare-free-{os.getpid()}-{end}" for end in "ab")
    try:
        for name in (here, there):
            must("ip", "netns", "add", name)
            must("ip", "-n", name, "link", "set", "dev", "lo", "up")
        must("ip", "link", "add", "va", "netns", here, "type", "veth", "peer", "name", "vb", "netns", there)
        for name, device, address in ((here, "va", HERE), (there, "vb", THERE)):
            must("ip", "-n", name, "addr", "add", f"{address}/24", "dev", device)
            must("ip", "-n", name, "link", "set", "dev", device, "up")
        serve = ["ip", "netns", "exec", there, str(vtare), "serve", "--json"]
        with subprocess.Popen(serve, env={**os.environ, "VTARE_KEY": KEY}, stdout=subprocess.PIPE) as far:
            assert far.stdout is not None
            far.stdout.readline()
            yield here, str(vtare)
            far.terminate()
    finally:
        for name in (here, there):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def must(*words: str) -> None:
    """Run a command; where it is refused, skip with the reason."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(words)}: {done.stderr.strip()}")


def forward(here: str, vtare: str, command: str) -> dict[str, Any]:
    """What a command finds on the way to the far end."""
    words = ["ip", "netns", "exec", here, vtare, command, THERE, "--json"]
    environment = {**os.environ, "VTARE_KEY": KEY}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    cell: dict[str, Any] = json.loads(done.stdout)["cells"][0]
    return cell


@pytest.mark.parametrize(
    ("rate", "burst", "latency"),
    [("100mbit", "16k", "50ms"), ("1gbit", "1m", "10ms"), ("2gbit", "256k", "5ms"), ("10gbit", "1m", "10ms")],
)
def test_no_answer_claims_more_than_a_shaper_lets_pass(
    ends: tuple[str, str], rate: str, burst: str, latency: str
) -> None:
    """A token bucket passes the first bytes as fast as they come: what they show is not free."""
    here, vtare = ends
    must(
        "tc",
        "-n",
        here,
        "qdisc",
        "add",
        "dev",
        "va",
        "root",
        "tbf",
        *f"rate {rate} burst {burst} latency {latency}".split(),
    )
    unit = {"m": 1e6, "g": 1e9}[rate[-4]]
    truth = float(rate[:-4]) * unit * 1500 / FRAME_BYTE
    for command, at_least in (("path", "avb_at_least"), ("avb", "at_least")):
        cell = forward(here, vtare, command)
        free = cell["avb_bit_per_s"]
        if free is None:
            # A machine whose CPUs are busy may disturb each train; it must say so.
            assert cell["stopped"] not in ("converged", None), cell
            continue
        assert free <= 1.03 * truth, (command, cell)
        capacity = cell.get("capacity_bit_per_s")
        assert capacity is None or free <= capacity, (command, cell)
        if not cell[at_least] and rate == "100mbit":
            assert free >= 0.9 * truth, (command, cell)


def test_a_fast_path_gets_the_bytes_that_its_rate_needs(ends: tuple[str, str]) -> None:
    """Without a limit given, `path` says how much is free however fast the path is."""
    here, vtare = ends
    cell = forward(here, vtare, "path")
    assert cell["avb_bit_per_s"] is not None, cell
    assert cell["avb_bit_per_s"] > 1e9, cell
