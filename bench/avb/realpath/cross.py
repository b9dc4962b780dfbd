"""The cross traffic, and what it sent when."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from realpath.cells import JUMBO_MBIT, Cell
from realpath.path import SINK
from realpath.programs import ended, ready, start


def cross_words(cell: Cell, kind: str) -> list[str]:
    """The command of the cross sender."""
    size = 8972 if cell.capacity >= JUMBO_MBIT else 1472
    words = ["vtare", "load", "net", "--to", SINK, "--rate", f"{cell.cross}M", "--size", str(size), "--no-gso"]
    words += ["--tolerance", "20us", "--json", "--bin", "100us", "--cpu", "1"]
    if kind == "bursty":
        # A millisecond at twice the rate: what iperf3 and many senders with timers do, and longer bursts in between.
        words += ["--arrivals", "onoff", "--burst", "1ms"]
    return words


@dataclass
class Bins:
    """Bytes by time."""

    length_ns: int = 100_000
    from_ns: int = 0
    sums: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def read(cls, file: Path) -> Bins:
        """From what `vtare load net --out` wrote."""
        import polars

        frame = polars.read_parquet(file, columns=["bin_monotonic_ns", "ip_byte"]).sort("bin_monotonic_ns")
        if len(frame) < 2:
            return cls()
        starts = frame["bin_monotonic_ns"].to_list()
        sums = [0, *frame["ip_byte"].cum_sum().to_list()]
        return cls(starts[1] - starts[0], starts[0], sums)

    def until(self, at_ns: float) -> float:
        """Bytes before a time."""
        place = min(max((at_ns - self.from_ns) / self.length_ns, 0.0), len(self.sums) - 1.0)
        low = min(int(place), len(self.sums) - 2)
        return self.sums[low] + (place - low) * (self.sums[low + 1] - self.sums[low]) if low >= 0 else 0.0

    def rate(self, from_ns: float, to_ns: float) -> float:
        """Mean rate between two times, bit/s."""
        return (self.until(to_ns) - self.until(from_ns)) * 8e9 / (to_ns - from_ns)


@contextmanager
def cross(cell: Cell, kind: str, place: Path) -> Iterator[list[tuple[Bins, float]]]:
    """The cross traffic; its bins and the share of it that did not reach the sink are in the list at the end."""
    found: list[tuple[Bins, float]] = []
    if cell.cross == 0:
        yield found
        found.append((Bins(), 0.0))
        return
    here, there = place / "cross.parquet", place / "sink.parquet"
    sink = start("to", 1, "vtare", "load", "net", "--sink", SINK, "--json", "--cpu", "1")
    ready(sink)
    sender = start("cross", 1, *cross_words(cell, kind), "--out", str(here))
    ready(sender)
    time.sleep(0.3)
    try:
        yield found
    finally:
        sent = json.loads(ended(sender))
        time.sleep(0.2)
        came = json.loads(ended(sink))
        here_n, there_n = sent["operations"], came["operations"]
        found.append((Bins.read(here), 1 - there_n / here_n if here_n else 0.0))
        there.unlink(missing_ok=True)
