"""The tools that measure round trips: vtare and its peers, each for some seconds."""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from parts.wire import PEER, RATE, SIZE, run


@dataclass
class Measured:
    """What one tool gave: round trips in us, packets sent and planned, CPU time and wall time in s."""

    rtt_us: list[float] = field(default_factory=list)
    sent: int = 0
    planned: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    reason: str | None = None
    #: Share of the watched time that the sending thread lost to gaps of 10 us and more; vtare alone knows it.
    lost_time: list[float] = field(default_factory=list)

    def add(self, other: Measured) -> None:
        """Takes another round in."""
        self.rtt_us += other.rtt_us
        self.sent += other.sent
        self.planned += other.planned
        self.cpu_s += other.cpu_s
        self.wall_s += other.wall_s
        self.reason = self.reason or other.reason
        self.lost_time += other.lost_time


def in_turn(rounds: int, names: Sequence[str]) -> Iterator[list[str]]:
    """The order of the tools in each round: random, and every second round the reverse of the one before (ABBA)."""
    order: list[str] = []
    for number in range(rounds):
        order = order[::-1] if number % 2 else random.sample(list(names), len(names))
        yield order


def vtare(key: Path, *more: str, to_kernel: bool = False, port: int = 8462) -> Callable[[float], Measured]:
    """A sender of vtare's own.

    With `to_kernel` round trips end at the kernel's stamp of the reply, as those of ping and fping do.
    """

    def measure(seconds: float) -> Measured:
        with tempfile.TemporaryDirectory() as place:
            peer = PEER if "--icmp" in more else f"{PEER}:{port}"
            words = ["vtare", "rtt", peer, "--rate", str(RATE), "--size", str(SIZE), "--seconds", str(seconds)]
            key_words = [] if "--icmp" in more else ["--key-file", str(key)]
            samples = Path(place) / "rtt.parquet"
            ended = run([*words, *key_words, "--cpu", "0", "--json", "--out", str(samples), *more], cpu=None)
            if ended.code != 0:
                return Measured(reason=ended.err.strip() or ended.out.strip()[:200])
            cell = json.loads(ended.out)["cells"][0]
            lost = [cell["canary"]["lost_fraction"] or 0.0]
            trips = round_trips(samples, to_kernel=to_kernel)
            sizes = (cell["sent"], cell["scheduled"], ended.cpu_s, ended.wall_s)
            return Measured(trips, *sizes, lost_time=lost)

    return measure


def round_trips(samples: Path, *, to_kernel: bool) -> list[float]:
    """The round trips in a samples file, us."""
    import polars

    frame = polars.read_parquet(samples, columns=["fate", "rtt_ns", "sent_ns", "kernel_rx_ns"])
    frame = frame.filter(polars.col("fate") == "received")
    column = frame["kernel_rx_ns"] - frame["sent_ns"] if to_kernel else frame["rtt_ns"]
    return [ns / 1e3 for ns in column.drop_nulls().to_list()]


def ping(seconds: float) -> Measured:
    """iputils ping; below 2 ms it is a closed loop, whatever interval is asked for."""
    count = int(seconds * RATE)
    ended = run(["ping", "-n", "-i", "0.001", "-c", str(count), "-s", str(SIZE), "-w", str(int(seconds) + 1), PEER])
    times = [float(ms) * 1e3 for ms in re.findall(r"time=([\d.]+) ms", ended.out)]
    sent = re.search(r"(\d+) packets transmitted", ended.out)
    return Measured(times, int(sent.group(1)) if sent else 0, count, ended.cpu_s, ended.wall_s)


def fping(seconds: float) -> Measured:
    """fping in its counting mode."""
    count = int(seconds * RATE)
    ended = run(["fping", "-c", str(count), "-p", "1", "-i", "1", "-b", str(SIZE), "-t", "500", PEER])
    times = [float(ms) * 1e3 for ms in re.findall(r"bytes, ([\d.]+) ms", ended.out)]
    sent = re.search(r"xmt/rcv/%loss = (\d+)/", ended.err)
    planned = max(count, int(ended.wall_s * RATE))
    reason = None if sent else ended.err.strip()[-200:]
    return Measured(times, int(sent.group(1)) if sent else 0, planned, ended.cpu_s, ended.wall_s, reason)


def irtt(seconds: float) -> Measured:
    """irtt with its default timer."""
    words = ["irtt", "client", "-i", "1ms", "-d", f"{seconds}s", "-l", str(SIZE), "-q", "-o", "-", PEER]
    ended = run(words)
    start = ended.out.find("{")
    if start < 0:
        return Measured(reason=(ended.err or ended.out).strip()[-200:])
    document = json.loads(ended.out[start:])
    trips = document["round_trips"]
    times = [trip["delay"]["rtt"] / 1e3 for trip in trips if "rtt" in trip.get("delay", {})]
    return Measured(times, len(trips), int(seconds * RATE), ended.cpu_s, ended.wall_s)


def sockperf(seconds: float) -> Measured:
    """sockperf under load; its log holds every packet it counts."""
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "log.csv"
        words = [
            "sockperf",
            "under-load",
            "-i",
            PEER,
            "-p",
            "11111",
            "--mps",
            str(RATE),
            "-t",
            str(max(1, int(seconds))),
        ]
        ended = run([*words, "-m", str(SIZE), "--reply-every", "1", "--full-rtt", "--full-log", str(log)])
        if not log.exists():
            return Measured(reason=(ended.err + ended.out).strip()[-200:])
        times = []
        for line in log.read_text().splitlines():
            parts = line.split(",")
            # packet, txTime(sec), rxTime(sec), rtt(usec)
            if len(parts) == 4:
                with suppress(ValueError):
                    times.append(float(parts[3]))
        sent = re.search(r"SentMessages=(\d+)", ended.out)
        return Measured(
            times, int(sent.group(1)) if sent else len(times), int(seconds) * RATE, ended.cpu_s, ended.wall_s
        )
