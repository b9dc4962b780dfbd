"""What is measured: a cell of the table, what was asked of all cells, and an estimate beside its truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CELLS = "100M/0,300M/0,300M/50,300M/100,300M/150,300M/200,300M/250,1G/500,10G/1000"
#: Capacities from which packets come in groups of UDP_SEGMENT. With a size table (stab) the kernel counts a group's
#: buffer, which holds the IP and UDP headers once: three packets of 1500 B count 4444 B, and the link is 1.3 % faster
#: than its nominal rate. Without the table it counts each packet as a frame: so the rate is that of frames of the
#: largest packets.
GROUPED_MBIT = 1000
#: Capacities from which the path takes packets of 9000 B.
JUMBO_MBIT = 10000


@dataclass(frozen=True)
class Cell:
    """A capacity and a mean of cross traffic, both Mbit/s of IP."""

    capacity: int
    cross: int

    @classmethod
    def of(cls, text: str) -> Cell:
        """Reads 300M/150 or 1G/500."""
        capacity, cross = text.split("/")
        scale = {"M": 1, "G": 1000}[capacity[-1]]
        return cls(int(capacity[:-1]) * scale, int(cross))

    def __str__(self) -> str:
        name = f"{self.capacity}M" if self.capacity < 1000 else f"{self.capacity // 1000}G"
        return f"{name}/{self.cross}"


@dataclass
class Row:
    """One estimate beside its truth."""

    cell: Cell
    shape: str
    method: str
    truth: float
    value: float | None
    low: float | None
    high: float | None
    at_least: bool
    capacity: float | None
    byte: int
    seconds: float
    window_s: float | None
    others: float
    stopped: str
    #: Share of its rate that the link did not carry in the window although it was busy; none: nobody counted.
    lost: float | None

    @property
    def error(self) -> float | None:
        """In % of the truth."""
        return None if self.value is None or self.truth <= 0 else (self.value / self.truth - 1) * 100


@dataclass(frozen=True)
class Asked:
    """What the command line asks of every cell, and what all runs share."""

    #: How often each cell is measured.
    rounds: int
    #: Estimates of the own method a round; others make a third.
    count: int
    #: What a method may take in a round, s.
    limit_s: float
    #: CPUs that other work may take.
    others: float
    #: Depth of the token bucket, times the least that works.
    bucket: float
    #: Where every estimate and its truth are written.
    rows: Path | None
    #: The key of sender and responder.
    key: Path
    #: Whether the kernel counts what passes.
    counted: bool
