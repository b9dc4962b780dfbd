"""The methods: vtare's own, the published ones that it has, and iperf3's TCP beside them."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from realpath.cells import JUMBO_MBIT, Cell
from realpath.path import PEER
from realpath.programs import ended, start

#: Estimates of pathchirp alone take half a minute: what a method may take at most, s.
MOST_S = 20
OWN = "abacus"
#: Its special cases, each switched off: `abacus-calm` and so on.
ABLATED = [f"{OWN}-{case}" for case in ("tight_link", "moving", "part", "delayed_whole", "settled", "several")]
#: The row of iperf3: seconds of a test, and bytes of a segment's payload and of its IP packet (with TCP time stamps).
IPERF3, IPERF3_S, IPERF3_PORT = "iperf3", 1, "5201"
SEGMENT = {1500: (1448, 1500), 9000: (8948, 9000)}
#: Notes of a run that are printed.
NOTEWORTHY = {"single_sends", "receiver_overloaded", "path_mtu", "not_niced"}
#: Cost of a single send, ns, from the last run of the own method in a cell.
SEND_COST_NS: dict[Cell, float] = {}


def known() -> list[str]:
    """The methods of this vtare that estimate available bandwidth."""
    said = subprocess.run(["vtare", "avb", "--method", "help"], check=True, capture_output=True, text=True).stdout
    names = [text.split()[0] for text in said.splitlines() if text[:1].strip()]
    others = [IPERF3] if shutil.which("iperf3") else []
    return [f"{OWN}:thorough", *(name for name in names if name not in ("adr", "pathrate")), *others]


def is_own(method: str) -> bool:
    """Whether a method is vtare's own, whatever the preset and whatever is switched off."""
    return method.split(":")[0].split("-")[0] == OWN


@contextmanager
def responder(key: Path) -> Iterator[None]:
    """`vtare serve` at the receiver."""
    words = ("vtare", "serve", "--listen", "0.0.0.0:8462", "--key-file", str(key), "--cpu", "1", "--json")
    process = start("to", 1, *words)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        ended(process)


@dataclass(frozen=True)
class Run:
    """One run of `vtare avb`: its samples, what it complained of, and what a send costs it, ns."""

    found: list[dict[str, Any]]
    wrong: str
    send_cost_ns: float | None = None


def estimates(method: str, count: int, key: Path, place: Path, limit_s: float, peer: str = PEER) -> Run:
    """Runs `vtare avb` from the sender's namespace."""
    out = place / "avb.parquet"
    out.unlink(missing_ok=True)
    name, _, without = method.partition("-") if is_own(method) else (method, "", "")
    words = ["vtare", "avb", peer, "--method", name, "--count", str(count), "--seconds", str(limit_s)]
    words += ["--set", f"without={without}"] if without else []
    words += [] if is_own(method) else ["--max-time", f"{MOST_S}s"]
    process = start("from", 0, *words, "--cpu", "0", "--json", "--out", str(out), "--key-file", str(key))
    try:
        said, wrong = process.communicate(timeout=limit_s + 60)
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
    import polars

    rows = polars.read_parquet(out).to_dicts() if out.exists() else []
    if process.returncode != 0:
        return Run(rows, f"exit {process.returncode}: {wrong.strip()[-300:]}")
    document = json.loads(said)
    notes = "; ".join(note["text"] for note in document.get("notes", []) if note["id"] in NOTEWORTHY)
    return Run(rows, notes, document["cells"][0].get("send_cost_ns"))


def iperf3(cell: Cell, count: int) -> tuple[list[dict[str, Any]], str]:
    """What the TCP of iperf3 gets, as rows like those of `estimates`."""
    server = start("to", 1, "iperf3", "-s", "-p", IPERF3_PORT)
    payload, packet = SEGMENT[9000 if cell.capacity >= JUMBO_MBIT else 1500]
    found: list[dict[str, Any]] = []
    try:
        for _ in range(count):
            began = time.monotonic_ns()
            words = ("iperf3", "-J", "-c", PEER.split(":")[0], "-p", IPERF3_PORT, "-t", str(IPERF3_S))
            document: dict[str, Any] = {}
            for _ in range(50):
                client = start("from", 0, *words)
                said, _ = client.communicate(timeout=60)
                document = json.loads(said)
                if "refused" not in document.get("error", ""):
                    break
                # The server does not listen yet.
                time.sleep(0.1)
                began = time.monotonic_ns()
            if "end" not in document or "sum_received" not in document["end"]:
                return found, f"iperf3: {document.get('error', 'no result')}"
            end = document["end"]
            found.append(
                dict.fromkeys(("low_bit_per_s", "high_bit_per_s", "capacity_bit_per_s", "window_from_ns"))
                | {
                    "began_ns": began,
                    "elapsed_ns": time.monotonic_ns() - began,
                    "avb_bit_per_s": end["sum_received"]["bits_per_second"] * packet / payload,
                    "at_least": False,
                    "probe_byte": int(end["sum_sent"]["bytes"] * packet / payload),
                    "stopped": "converged",
                }
            )
    finally:
        ended(server)
    return found, ""
