"""Programs in the kernel (XDP) at both ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parts.wire import PEER, SIZE, busy, responder, run

#: The highest rate that vtare sends at.
MOST = 1_000_000
XDP = "programs in the kernel (XDP)"


def of(key: Path) -> list[str]:
    """What every sender of vtare's is told."""
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
        cell, said = in_kernel(key, rate, seconds)
        if cell is None:
            print(f"{rate:>9} {said}")
            continue
        trip = cell["rtt_ns"]
        figures = [trip["median"], trip["half_iqr"], trip["p99"], trip["p999"]]
        shown = [
            f"{'-' if value is None else f'{value / 1e3:.2f}':>{width}}"
            for value, width in zip(figures, (9, 10, 8, 8), strict=True)
        ]
        unsent = cell["scheduled"] - cell["sent"]
        achieved = cell["achieved_packet_per_s"]
        verdict = "" if achieved >= 0.95 * rate else "   MISSED (want 0.95 of it)"
        print(f"{rate:>9}{achieved:>10.0f}{cell['lost']:>9}{cell['sent_late']:>9}{unsent:>9}{''.join(shown)}{verdict}")
