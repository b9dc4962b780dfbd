"""The true available bandwidth of a run over the lab's own path: capacity less cross traffic, window by window.

At a kernel shaper both are counted at the link (`link_counter`): the cross traffic that came to it in the window, and
what it carried of its rate while it was busy. Where this kernel does not count, the cross traffic is what its source
counted inside the window, in bins of 0.2 ms, less what the path loses before the bottleneck, and the capacity
the shaper's rate: a little less sure, since a source may stall between its account and the link, and a bucket
loses tokens while its processor is taken away. The sink's bins count what came through. They are no truth of a short
window: a train that overloads the path makes cross traffic wait, so that the sink sees it after the window (of 150
Mbit/s it stamped 55 inside a train of 2.4 ms). Over seconds the two must agree. The capacity is that of the shaper, of
its log where it changes, or of the log of `vtare link`. All times are on CLOCK_MONOTONIC of the sender: logs of other
machines are brought to it (`clock_relation`), and `clock_bound_ns` states how far off that may be.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import polars as pl

from vtare import documents
from vtare.errors import BadInput
from vtare.topology.clock_relation import ClockRelation, read_relations
from vtare.topology.link_counter import BEHIND_THE_LINK, LINK_COUNTER, Account, read_account, read_joined
from vtare.topology.named_hosts import RESPONDER, ROUTER, SOURCE
from vtare.topology.path import EVEN_ARRIVALS, IPERF3, PathSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

#: Files that a run's helpers leave beside the samples.
CROSS_LOG: Final = "cross.parquet"
SENT_LOG: Final = "cross-sent.parquet"
LINK_LOG: Final = "truth.parquet"
CAPACITY_LOG: Final = "capacity.jsonl"
#: Earlier names of what the link counter leaves, in stores that were written before.
_EARLIER_NAMES: Final = ("witness",)
#: Columns that `judge` adds to the samples of `avb`.
JUDGED: Final[dict[str, Any]] = {
    "from_ns": pl.Int64,
    "to_ns": pl.Int64,
    "own_window": pl.Boolean,
    "truth_bit_per_s": pl.Float64,
    "true_capacity_bit_per_s": pl.Float64,
    "counted": pl.Boolean,
    "error_percent": pl.Float64,
    "covered": pl.Boolean,
    "width_percent": pl.Float64,
    "no_truth": pl.String,
    "disturbed": pl.String,
    "clock_bound_ns": pl.Float64,
}
#: Above these a run's estimates are marked: other work in cores, and packets that the emulator let go late.
_OTHERS_CORES: Final = 0.1
_LATE_SHARE: Final = 0.01
#: The same for a window whose ends are less sure than this share of its length: clocks of two machines.
_CLOCK_SHARE: Final = 0.05
_LINK_BIN_NS: Final = 10_000_000
#: Notes of the instrument that state that a window was not the path's alone.
_SPOILING_NOTES: Final = {"receiver_overloaded": "receiver overloaded"}


@dataclass(frozen=True, slots=True)
class Cumulative:
    """A quantity that grows with time, known from the first of `edges_ns` to the last, even between two of them.

    Edges count from `origin_ns`: times since the boot of a machine have more digits than a float.
    """

    origin_ns: int
    edges_ns: NDArray[np.float64]
    total: NDArray[np.float64]

    @classmethod
    def of_bins(cls, begin_ns: NDArray[np.int64], length_ns: int, amount: NDArray[np.float64]) -> Self:
        """A course from bins that follow one another: what came in each."""
        origin = int(begin_ns[0])
        edges = (np.append(begin_ns, begin_ns[-1] + length_ns) - origin).astype(np.float64)
        return cls(origin, edges, np.concatenate([[0.0], np.cumsum(amount)]))

    @classmethod
    def unknown(cls) -> Self:
        """A course of which no time is known: its source leaves no account."""
        return cls(0, np.zeros(1), np.zeros(1))

    def on_senders(self, relation: ClockRelation) -> Self:
        """The same course by the sender's clock, where this is by another."""
        moved = relation.on_senders(self.edges_ns + self.origin_ns)
        origin = round(float(moved[0]))
        return replace(self, origin_ns=origin, edges_ns=moved - origin)

    @property
    def per_s(self) -> float | None:
        """The mean over all of the known time; None where that is none."""
        span_s = float(self.edges_ns[-1] - self.edges_ns[0]) / 1e9
        return float(self.total[-1]) / span_s if span_s > 0 else None

    def between(self, begin_ns: float, end_ns: float) -> float | None:
        """How much came between two times; None where that is not all known."""
        begin, end = begin_ns - self.origin_ns, end_ns - self.origin_ns
        if not self.edges_ns[0] <= begin <= end <= self.edges_ns[-1]:
            return None
        low, high = np.interp([begin, end], self.edges_ns, self.total)
        return float(high - low)


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known of one run's path.

    `capacity` is in bits and `cross` in bytes of the IP layer that came to the bottleneck (None: there were none);
    `missed` counts frames that the emulator did not see. `disturbed` are the reasons that hold for the whole run.
    `clock_bound_ns` is how far off the times of other machines' logs may be; None where all is on one clock.
    `cross_bit_per_s` is what the source of cross traffic sent over the whole run, and `cross_share` its share of the
    rate in the plan; None where that is not known, or a run is too short for a mean (`onoff`).
    """

    steady_bit_per_s: int | None
    capacity: Cumulative | None
    cross: Cumulative | None
    missed: Cumulative | None = None
    disturbed: tuple[str, ...] = ()
    link_counter: Account | None = None
    clock_bound_ns: float | None = None
    cross_bit_per_s: float | None = None
    cross_share: float | None = None

    def counted(self, begin_ns: int, end_ns: int) -> bool:
        """Whether what came to the link and left it in a window was counted."""
        return self.link_counter is not None and self.link_counter.knows(begin_ns, end_ns)

    def over(self, begin_ns: int, end_ns: int) -> tuple[float | None, float | None, str | None]:
        """Available bandwidth and capacity, bit/s, in a window; None with the reason where they are not known."""
        span_s = (end_ns - begin_ns) / 1e9
        if span_s <= 0:
            return None, None, "window without length"
        if self.missed is not None:
            missed = self.missed.between(begin_ns, end_ns)
            if missed is None:
                return None, None, "not logged"
            if missed > 0:
                return None, None, "link missed frames"
        capacity: float | None = self.steady_bit_per_s
        if self.capacity is not None:
            bits = self.capacity.between(begin_ns, end_ns)
            capacity = None if bits is None else bits / span_s
        if capacity is None:
            return None, None, "not logged"
        if self.link_counter is not None and self.link_counter.knows(begin_ns, end_ns):
            carried = capacity - 8.0 * self.link_counter.lost(capacity, begin_ns, end_ns) / span_s
            came = self.link_counter.crossed(begin_ns, end_ns)
            return max(0.0, carried - 8.0 * came / span_s), carried, None
        if self.cross is None:
            return capacity, capacity, None
        crossed = self.cross.between(begin_ns, end_ns)
        if crossed is None:
            return None, capacity, "not logged"
        return max(0.0, capacity - 8.0 * crossed / span_s), capacity, None


def read_truth(directory: Path, footer: Mapping[str, Any]) -> Truth | None:
    """What the helpers of a run left; None where its path was not the lab's.

    Raises:
        BadInput: a file is missing or damaged.
    """
    topology = document(directory, "topology")
    if topology is None or "path" not in topology:
        return None
    try:
        path = PathSpec.of_document(topology["path"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{directory / 'topology.json'}: no path of the lab ({error!r}); measure again") from error
    relations = read_relations(directory)
    capacity, missed, counter = read_path(directory, path)
    cross = sent = None
    if path.cross_bit_per_s and path.cross_arrivals == IPERF3:
        cross = Cumulative.unknown()
    elif path.cross_bit_per_s:
        arriving = 1.0 - path.loss_fraction
        # Its source is on the sender's own machine, unless the sender is a guest of it.
        source = (relations or {}).get(SOURCE, ClockRelation())
        cross = read_cross(directory / SENT_LOG, arriving=arriving).on_senders(source)
        if path.cross_arrivals in EVEN_ARRIVALS and arriving > 0 and cross.per_s is not None:
            sent = 8.0 * cross.per_s / arriving
    return Truth(
        steady_bit_per_s=path.steady_bit_per_s if path.bottleneck != "link" else None,
        capacity=capacity,
        cross=cross,
        missed=missed,
        disturbed=_disturbances(directory, footer),
        link_counter=counter,
        clock_bound_ns=None if relations is None else _bound_ns(relations, capacity, counter, cross),
        cross_bit_per_s=sent,
        cross_share=None if sent is None else sent / path.cross_bit_per_s,
    )


def read_path(directory: Path, path: PathSpec) -> tuple[Cumulative | None, Cumulative | None, Account | None]:
    """The course of the capacity and of missed frames (`read_capacity`), and the account of the link, on one clock.

    Raises:
        BadInput: a file is missing or damaged.
    """
    relations = read_relations(directory) or {}
    router, responder = (relations.get(role, ClockRelation()) for role in (ROUTER, RESPONDER))
    capacity, missed = (one and one.on_senders(router) for one in read_capacity(directory, path))
    if not (directory / f"{BEHIND_THE_LINK}.json").exists():
        return capacity, missed, read_link_counter(directory, router)
    if not all((document(directory, stem) or {}).get("counted") for stem in (LINK_COUNTER, BEHIND_THE_LINK)):
        return capacity, missed, None
    ends = [(directory / f"{LINK_COUNTER}.parquet", router), (directory / f"{BEHIND_THE_LINK}.parquet", responder)]
    return capacity, missed, read_joined(ends)


def _bound_ns(
    relations: Mapping[str, ClockRelation],
    capacity: Cumulative | None,
    counter: Account | None,
    cross: Cumulative | None,
) -> float | None:
    """How far off the times of what a truth is made of may be; None where that is all on the sender's clock."""
    roles = {
        ROUTER: capacity is not None or counter is not None,
        RESPONDER: counter is not None,
        SOURCE: counter is None and cross is not None,
    }
    bounds = [relation.bound_ns for role, relation in relations.items() if roles.get(role)]
    return max(bounds, default=None)


def read_link_counter(directory: Path, router: ClockRelation | None = None) -> Account | None:
    """What was counted at a run's link; None where this kernel did not count, or nobody was asked to.

    `router` is the clock of the machine that counted, where it is not the sender's.

    Raises:
        BadInput: the log is missing or damaged.
    """
    for stem in (LINK_COUNTER, *_EARLIER_NAMES):
        stated = document(directory, stem)
        if stated:
            log = directory / f"{stem}.parquet"
            if not stated.get("counted"):
                return None
            return read_joined([(log, router), (log, router)]) if router and router.comparisons else read_account(log)
    return None


def read_cross(path: Path, *, arriving: float = 1.0) -> Cumulative:
    """The bytes of cross traffic that its source or its sink counted, times the share of them that arrives.

    Raises:
        BadInput: the file is missing or damaged.
    """
    try:
        length = int(documents.parse(pl.read_parquet_metadata(path)["vtare"].encode())["bin_ns"])
        frame = pl.read_parquet(path, columns=["bin_monotonic_ns", "ip_byte"])
        begin = frame["bin_monotonic_ns"].to_numpy()
        if len(begin) == 0:
            raise ValueError("no bins")
        return Cumulative.of_bins(begin, length, arriving * frame["ip_byte"].cast(pl.Float64).to_numpy())
    except (OSError, KeyError, ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise BadInput(f"{path}: damaged, or not left by `vtare load net --out` ({error})") from error


def read_capacity(directory: Path, path: PathSpec) -> tuple[Cumulative | None, Cumulative | None]:
    """The course of the capacity, in bits, and of frames that the emulator missed; None where there is no such log.

    Raises:
        BadInput: the log is missing or damaged.
    """
    if path.bottleneck == "link":
        return _read_link(directory / LINK_LOG)
    if path.steady_bit_per_s is not None:
        return None, None
    log = directory / CAPACITY_LOG
    try:
        rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        changes = [(int(row["from_monotonic_ns"]), int(row["to_monotonic_ns"]), int(row["bit_per_s"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{log}: damaged, or not left by the shaper ({error})") from error
    if not changes:
        raise BadInput(f"{log}: it has no change, not even the first")
    # The change fell somewhere between the two times, which are a few ms apart. The last rate holds to the run's end,
    # which comes before its time is over.
    origin = changes[0][0]
    places = [(before - origin + after - origin) / 2 for before, after, _ in changes]
    phase_ns = path.phases[(len(changes) - 1) % len(path.phases)].duration_ns
    edges = np.array([*places, places[-1] + phase_ns])
    bits = np.diff(edges) / 1e9 * np.array([rate for _, _, rate in changes], dtype=np.float64)
    return Cumulative(origin, edges, np.concatenate([[0.0], np.cumsum(bits)])), None


def _read_link(path: Path) -> tuple[Cumulative, Cumulative]:
    try:
        frame = pl.read_parquet(path).filter(pl.col("lane") == "ab").sort("bin_monotonic_ns")
        begin = frame["bin_monotonic_ns"].to_numpy()
        if len(begin) == 0:
            raise ValueError("no bins")
        rate = frame["capacity_bit_per_s"].cast(pl.Float64)
        if rate.null_count():
            raise ValueError("a bin without a capacity")
        capacity = Cumulative.of_bins(begin, _LINK_BIN_NS, rate.to_numpy() * (_LINK_BIN_NS / 1e9))
        missed = frame["socket_drop_frame"].cast(pl.Float64).to_numpy()
        return capacity, Cumulative.of_bins(begin, _LINK_BIN_NS, missed)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise BadInput(f"{path}: damaged, or not left by `vtare link --log` ({error})") from error


def document(directory: Path, name: str) -> dict[str, Any] | None:
    """A helper's JSON document; None where it left none."""
    with suppress(BadInput):
        return documents.read(directory / f"{name}.json")
    return None


def _disturbances(directory: Path, footer: Mapping[str, Any]) -> tuple[str, ...]:
    disturbances = []
    others = (document(directory, "surroundings") or {}).get("others_cores")
    if others is not None and others > _OTHERS_CORES:
        disturbances.append("other work on the machine")
    sink = (((document(directory, "sink") or {}).get("net") or {}).get("sink")) or {}
    if sink.get("socket_drops"):
        disturbances.append("sink missed packets")
    lanes = (document(directory, "link") or {}).get("directions") or []
    if any((lane.get("late_share") or 0.0) > _LATE_SHARE for lane in lanes):
        disturbances.append("link was late")
    reported = {str(note.get("id")) for note in footer.get("notes", [])}
    return (*disturbances, *(text for key, text in _SPOILING_NOTES.items() if key in reported))


def judge(estimates: pl.DataFrame, truth: Truth | None) -> pl.DataFrame:
    """Set each estimate beside the truth of its own window; without a known path all of that is null.

    The window is that which the method names, else the time from its first step to its answer.
    """
    rows = [_judged(row, truth) for row in estimates.iter_rows(named=True)]
    return estimates.hstack(pl.DataFrame(rows, schema=JUDGED, orient="row"))


def _judged(row: Mapping[str, Any], truth: Truth | None) -> tuple[Any, ...]:
    own = row["window_from_ns"] is not None and row["window_to_ns"] is not None
    begin = row["window_from_ns"] if own else row["began_ns"]
    end = row["window_to_ns"] if own else row["began_ns"] + row["elapsed_ns"]
    if truth is None:
        return (begin, end, own, *[None] * (len(JUDGED) - 3))
    available, capacity, why = truth.over(begin, end)
    estimate, low, high = row["avb_bit_per_s"], row["low_bit_per_s"], row["high_bit_per_s"]
    error = covered = width = None
    if available is not None and available > 0 and estimate is not None:
        error = 100.0 * (estimate - available) / available
    if available is not None and capacity and low is not None and high is not None:
        width = 100.0 * (high - low) / capacity
        # From nothing to all that the link can carry: such an interval excludes nothing, and is no answer.
        covered = low <= available <= high if low > 0 or high < capacity else None
    bound_ns = truth.clock_bound_ns
    unsure = bound_ns is not None and bound_ns > _CLOCK_SHARE * (end - begin)
    marks = "; ".join([*truth.disturbed, *(["clocks too far from each other"] if unsure else [])]) or None
    counted = truth.counted(begin, end)
    return (begin, end, own, available, capacity, counted, error, covered, width, why, marks, bound_ns)
