"""What is free on a path, by `vtare path` and by `vtare avb`: over shapers whose rate is known, and over none."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machines import joined_namespaces

from vtare.platforms import network

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

HERE, THERE = "10.117.0.1", "10.117.0.2"
KEY = "5a" * 32
#: Bytes of an Ethernet frame, which a shaper counts, with 1500 bytes of IP.
FRAME_BYTE = 1514


@pytest.fixture
def ends(vtare: Path) -> Iterator[tuple[str, str]]:
    """A namespace from where `vtare serve` in another one is reached, and the program."""
    with joined_namespaces("free", HERE, THERE) as (here, there):
        serve = ["ip", "netns", "exec", there, str(vtare), "serve", "--json"]
        with subprocess.Popen(serve, env={**os.environ, "VTARE_KEY": KEY}, stdout=subprocess.PIPE) as far:
            assert far.stdout is not None
            far.stdout.readline()
            yield here, str(vtare)
            far.terminate()


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
    shape = f"rate {rate} burst {burst} latency {latency}"
    network.run_tool(("tc", "-n", here, "qdisc", "add", "dev", "va", "root", "tbf", *shape.split()))
    unit = {"m": 1e6, "g": 1e9}[rate[-4]]
    truth = float(rate[:-4]) * unit * 1500 / FRAME_BYTE
    for command, at_least in (("path", "avb_at_least"), ("avb", "at_least")):
        cells = [forward(here, vtare, command) for _ in range(3)]
        for cell in cells:
            free, capacity = cell["avb_bit_per_s"], cell.get("capacity_bit_per_s")
            # A machine whose CPUs are busy may disturb each train; it must say so.
            assert free is not None or cell["stopped"] not in ("converged", None), cell
            assert free is None or capacity is None or free <= capacity, (command, cell)
        # One run in some ten is disturbed by the machine.
        known = [(cell["avb_bit_per_s"], cell[at_least]) for cell in cells if cell["avb_bit_per_s"] is not None]
        if known:
            assert statistics.median_low([free for free, _ in known]) <= 1.03 * truth, (command, cells)
        if rate == "100mbit" and not any(bound for _, bound in known):
            assert statistics.median_high([free for free, _ in known]) >= 0.9 * truth, (command, cells)


def test_a_fast_path_gets_the_bytes_that_its_rate_needs(ends: tuple[str, str]) -> None:
    """Without a limit given, `path` says how much is free however fast the path is."""
    here, vtare = ends
    cell = forward(here, vtare, "path")
    assert cell["avb_bit_per_s"] is not None, cell
    assert cell["avb_bit_per_s"] > 1e9, cell
