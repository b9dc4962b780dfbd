"""A capture at the far end of the wire, and the gaps in it."""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parts.wire import responder


def gaps_of(capture: Path) -> list[float]:
    """The gaps between the UDP packets of a capture with ns stamps, us."""
    data = capture.read_bytes()
    if len(data) < 24 or data[:4] != b"\x4d\x3c\xb2\xa1":
        return []
    at, stamps = 24, []
    while at + 16 <= len(data):
        seconds, nanos, length, _ = struct.unpack_from("<IIII", data, at)
        stamps.append(seconds * 1_000_000_000 + nanos)
        at += 16 + length
    return [(b - a) / 1e3 for a, b in itertools.pairwise(stamps)]


@contextmanager
def capturing(place: Path, port: int) -> Iterator[Path]:
    """tcpdump at the far end of the wire, heads only."""
    file = place / "capture.pcap"
    words = [
        "tcpdump",
        "-i",
        "vb",
        "-Z",
        "root",
        "-n",
        "-s",
        "64",
        "-B",
        "65536",
        "--time-stamp-precision",
        "nano",
        "-w",
        str(file),
    ]
    with responder([*words, "udp", "dst", "port", str(port)], cpu=1):
        yield file
        time.sleep(0.5)
