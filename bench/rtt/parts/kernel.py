"""Programs in the kernel (XDP) at both ends."""

from __future__ import annotations

import json
import random
import shutil
import statistics
from pathlib import Path
from typing import Any

from figures import figure

from parts.figures import interval
from parts.wire import PEER, SIZE, Ended, busy, responder, run

#: The highest rate that vtare sends at.
MOST = 1_000_000
XDP = "programs in the kernel (XDP)"


def of(key: Path) -> list[str]:
    """The options of every sender of vtare's."""
    return ["--key-file", str(key), "--cpu", "0"]


def in_kernel(key: Path, rate: int, seconds: float, *more: str, size: int = SIZE) -> tuple[dict[str, Any] | None, str]:
    """The figures of a run with programs at both ends, or why there are none."""
    serve = ["vtare", "serve", "--listen", "0.0.0.0:8462", "--key-file", str(key), "--cpu", "1", "--xdp", "vb"]
    words = [
        "vtare",
        "rtt",
        PEER,
        "--size",
        str(size),
        "--seconds",
        str(seconds),
        *of(key),
        "--engine",
        "xdp",
        "--json",
    ]
    pace = [] if more else ["--rate", str(rate)]
    try:
        with responder(serve):
            ended = run([*words, *pace, *more], cpu=None)
    except RuntimeError as error:
        return None, str(error)
    if not ended.out:
        return None, ended.err.strip()
    cell: dict[str, Any] = json.loads(ended.out)["cells"][0]
    return cell, ""


def part_xdp(key: Path, seconds: float) -> None:
    """Prints what programs in the kernel reach at four rates."""
    print(f"\n{XDP}, {SIZE} B, {seconds:g} s each, us; {busy():.1f} CPUs busy before")
    heads = {"achieved": 10, "lost": 9, "late": 9, "unsent": 9, "median": 9, "half IQR": 10, "p99": 8, "p99.9": 8}
    print(f"{'asked':>9}" + "".join(f"{name:>{width}}" for name, width in heads.items()))
    for rate in (1_000, 100_000, 500_000, MOST):
        cell, reason = in_kernel(key, rate, seconds)
        if cell is None:
            print(f"{rate:>9} {reason}")
            continue
        trip = cell["rtt_ns"]
        figures = [trip["median"], trip["half_iqr"], trip["p99"], trip["p999"]]
        shown = [
            f"{'-' if value is None else f'{value / 1e3:.2f}':>{width}}"
            for value, width in zip(figures, (9, 10, 8, 8), strict=True)
        ]
        for word, ns in zip(("median", "half IQR", "p99", "p99.9"), figures, strict=True):
            figure(f"{XDP} at {rate}/s/{word}", ns and ns / 1e3, "us")
        unsent = cell["scheduled"] - cell["sent"]
        achieved = figure(f"{XDP} at {rate}/s/achieved", cell["achieved_packet_per_s"], "packet/s")
        verdict = "" if achieved >= 0.95 * rate else "   MISSED (want 0.95 of it)"
        print(f"{rate:>9}{achieved:>10.0f}{cell['lost']:>9}{cell['sent_late']:>9}{unsent:>9}{''.join(shown)}{verdict}")


def part_work(key: Path, program: Path, rounds: int, beside: Path | None) -> None:
    """Prints the CPU time of one round trip of the programs, and what the kernel's own path takes of it.

    `beside` holds `vtare` and `bench-rtt` of another tree: measured in turns with these.
    """
    builds = {"this tree": (shutil.which("vtare") or "vtare", str(program))}
    if beside:
        builds["the other tree"] = (str(beside / "vtare"), str(beside / "bench-rtt"))
    packet: dict[str, list[float]] = {name: [] for name in builds}
    least: dict[str, list[float]] = {name: [] for name in builds}
    floor = []
    for _ in range(rounds):
        with responder([str(program), "bounce", "vb"], ready_s=0.5):
            floor.append(float(figures(run([str(program), "floor", "va", "5", str(SIZE), "0"]))["packet_ns"]))
        for name in random.sample(list(builds), len(builds)):
            vtare, bench = builds[name]
            serve = [vtare, "serve", "--listen", "0.0.0.0:8462", "--key-file", str(key), "--xdp", "vb"]
            with responder([*serve, "--limit", "rate=10000000"]):
                words = [bench, "programs", f"{PEER}:8462", str(key), "1000000", str(SIZE), "0"]
                found = figures(run(words, cpu=None))
            packet[name].append(float(found["packet_ns"]))
            least[name].append(float(found["least_rtt_ns"]))
    print(f"\nCPU time of a round trip, {XDP}, {SIZE} B, frame by frame without pause, ns, median of {rounds} rounds")
    kernel = statistics.median(floor)
    print(
        f"{'the path alone':<16}{figure('CPU time of the path alone', kernel, 'ns'):>7.0f}   frames sent, turned "
        f"round and dropped as they are: the limit"
    )
    for name in builds:
        own = [value - other for value, other in zip(packet[name], floor, strict=True)]
        print(
            f"{name:<16}{figure(f'CPU time of a round trip, {name}', statistics.median(packet[name]), 'ns'):>7.0f}  "
            f" the programs' work {statistics.median(own):.0f}; "
            f"least round trip {statistics.median(least[name]):.0f}"
        )
    if beside:
        for what, less in (("whole", [0.0] * rounds), ("the programs' work", floor)):
            pairs = zip(packet["this tree"], packet["the other tree"], less, strict=True)
            ratio, low, high = interval([(here - path) / (there - path) for here, there, path in pairs])
            figure(f"this tree / the other, {what}", ratio, "", (low, high))
            verdict = "" if ratio <= 0.5 else "   MISSED (want 0.50)"
            print(f"  this tree / the other, {what}: {ratio:.2f} [{low:.2f}, {high:.2f}]{verdict}")


def figures(ended: Ended) -> dict[str, Any]:
    """The JSON line of a measurement."""
    if not ended.out:
        raise SystemExit(f"bench-rtt: {ended.err.strip()}")
    found: dict[str, Any] = json.loads(ended.out)
    return found
