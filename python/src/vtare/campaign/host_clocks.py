"""Compare the clocks of the machines of a run with the sender's, before the run and after it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import polars as pl

from vtare.campaign.children import Helper, RunFailed, beginning, end, wait_ready
from vtare.errors import BadInput, Interrupted
from vtare.overhead.files import RoundTrips, read_round_trips
from vtare.process import ending_text
from vtare.topology.clock_relation import CLOCKS_FILE, CLOCKS_SCHEMA, ClockComparison, ClockRelation
from vtare.topology.named_hosts import SENDER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vtare.campaign.files import Files
    from vtare.campaign.stop import StopRequest
    from vtare.platforms.protocol import Instance

CLOCK_PORT: Final = 8463
#: 20 ms: clocks that drift apart by 100 ppm move by 2 us meanwhile.
_PACKETS: Final = ("--rate", "5000", "--count", "100", "--timeout", "500ms", "--no-gso")
#: A busy machine may delay all packets of a comparison: it is made again until what it leaves open is short.
_NARROW_NS, _TRIES = 100_000, 3
_LONGEST_S: Final = 30.0
_MOST_BYTE: Final = 16 << 20


class HostClocks:
    """The clocks of the machines of one run; with none, or the sender's alone, there is nothing to compare."""

    def __init__(
        self, servers: Mapping[str, Instance], alike: Mapping[str, str] | None = None, *, sender_answers: bool = False
    ) -> None:
        """Compare those of these servers, by role; each role of `alike` has the clock of the role that it names.

        `sender_answers`: it is a guest, which only answers; the others ask it.
        """
        self._alike = alike or {}
        self._sender_answers = sender_answers
        self._sender = servers.get(SENDER)
        self._others = {role: server for role, server in servers.items() if server is not self._sender}
        self._found: dict[str, list[ClockComparison]] = {role: [] for role in self._others}

    @property
    def several(self) -> bool:
        """Whether the run's hosts have clocks of their own."""
        return bool(self._others)

    def start(self, directory: Path, key: Path, helpers: list[Helper], stop: StopRequest) -> None:
        """Start what answers on each of the others, and wait until it does; it sleeps while the run is made.

        Raises:
            RunFailed: one could not start.
            Interrupted: a stop was requested.
        """
        for role, server in self._others.items():
            log, ready = directory / f"clock-{role}.log", directory / f"clock-{role}.json"
            _, answers = self._ends(server)
            words = ["serve", "--listen", f"{answers.address}:{CLOCK_PORT}", "--key-file", str(key), "--json"]
            child = answers.start(words, directory=directory, stdout=ready, stderr=log)
            helpers.append(Helper(f"clock of the {role}", child, log))
            wait_ready(helpers[-1], lambda ready=ready: b"\n" in beginning(ready), stop)  # type: ignore[misc]

    def compare(self, directory: Path, key: Path, stop: StopRequest) -> None:
        """Compare each of the others with the sender's.

        Raises:
            RunFailed: a machine did not answer.
            Interrupted: a stop was requested.
        """
        for role, server in self._others.items():
            best: ClockComparison | None = None
            for _ in range(_TRIES):
                comparison = self._compared(role, server, directory, key, stop)
                if best is None or (comparison is not None and comparison.width_ns < best.width_ns):
                    best = comparison
                if best is not None and best.width_ns < _NARROW_NS:
                    break
            if best is None:
                raise RunFailed(f"the {role}'s clock could not be compared with the sender's: no packet came back")
            self._found[role].append(best)

    def write(self, directory: Path, files: Files) -> None:
        """Write the document `vtare.clocks/1`, where there is more than one clock."""
        if self.several:
            hosts = {role: ClockRelation(tuple(comparisons)).document() for role, comparisons in self._found.items()}
            shared = {role: hosts[other] for role, other in self._alike.items()}
            document = {"schema": CLOCKS_SCHEMA, "hosts": {**hosts, **shared}}
            files.write(directory / CLOCKS_FILE, json.dumps(document, indent=2).encode())

    def _ends(self, server: Instance) -> tuple[Instance, Instance]:
        """Who asks and who answers where the sender's clock is compared with that of a server."""
        assert self._sender is not None
        return (server, self._sender) if self._sender_answers else (self._sender, server)

    def _compared(
        self, role: str, server: Instance, directory: Path, key: Path, stop: StopRequest
    ) -> ClockComparison | None:
        asks, answers = self._ends(server)
        out, log = directory / f"clock-{role}.parquet", directory / f"compare-{role}.log"
        words = ["rtt", f"{answers.address}:{CLOCK_PORT}", *_PACKETS, "--key-file", str(key), "--out", str(out)]
        child = asks.start(words, directory=directory, stdout=log, stderr=log)
        code = child.wait(_LONGEST_S, stop_fd=stop.fd)
        if code is None:
            end(child, stop)
        if stop.requested:
            raise Interrupted("stopped while clocks were compared")
        if code != 0:
            how = f"{_LONGEST_S:.0f} s were not enough" if code is None else ending_text(code)
            raise RunFailed(f"the {role}'s clock could not be compared with the sender's ({how})", code, log=log)
        asks.fetch(directory, {out.name: _MOST_BYTE})
        try:
            comparison = compared(read_round_trips(out))
            return comparison.reversed if comparison is not None and self._sender_answers else comparison
        except BadInput as error:
            raise RunFailed(f"the {role}'s clock could not be compared with the sender's: {error}") from error
        finally:
            for left in (out, log):
                with suppress(OSError):
                    left.unlink()


def compared(trips: RoundTrips) -> ClockComparison | None:
    """How far the far end's clock is ahead, from the stamps of round trips; None where no packet came back.

    Raises:
        BadInput: these are no samples of `vtare rtt`.
    """
    (flow,) = trips.flows
    if flow.origin_monotonic_ns is None:
        raise BadInput(f"{trips.path}: states no origin of its times")
    rows = trips.frame.select(
        (flow.origin_monotonic_ns + pl.col("sent_ns")).alias("sent"),
        (pl.col("peer_replied_ns") - flow.origin_monotonic_ns - pl.col("arrived_ns")).alias("low"),
        (pl.col("peer_received_ns") - flow.origin_monotonic_ns - pl.col("sent_ns")).alias("high"),
    ).drop_nulls()
    if rows.height == 0:
        return None
    low, high = rows.select(pl.col("low").max(), pl.col("high").min()).row(0)
    if low > high:
        # The clocks moved against each other by more than the delays: the quickest round trip alone.
        low, high = rows.sort(pl.col("high") - pl.col("low")).select("low", "high").row(0)
    return ClockComparison(round(float(rows["sent"].mean())), int(low), int(high))  # type: ignore[arg-type]
