"""`vtare rtt`: round trips to a responder."""

from __future__ import annotations

import math
from typing import Final

from vtare.instruments.model import Exceed, Flaw, Instrument, Metric, PlannedRun, Reached, Value, later

#: The most packets that are sent to a peer in 1 s (crates/vtare/src/rtt/parameters.rs).
_PACKET_PER_S: Final = 1_000_000
#: Instances, responder, session and captures; and what a hundred thousand packets take to write.
_AROUND_S: Final = 0.6
_FLOOD_GAP_S: Final = 1e-4


def _expected_s(asked: PlannedRun) -> float:
    value = asked.value
    gap_s = value("gap_ns") * 1e-9 if value("gap_ns") else 1.0 / value("rate_packet_per_s")
    packets = float("inf") if value("packets") is None else value("packets")
    shortest = min(asked.limit_s, packets * (_FLOOD_GAP_S if value("flood") else gap_s))
    return _AROUND_S + (shortest if math.isfinite(shortest) else float(asked.known["seconds"].default))


def _most_rows(asked: PlannedRun, timeout_s: float) -> float:
    return asked.count("peer") * _packets(asked, timeout_s)


def _packets(asked: PlannedRun, timeout_s: float) -> float:
    """The most packets to one peer."""
    value = asked.value
    per_s = 1e9 / value("gap_ns") if value("gap_ns") else value("rate_packet_per_s")
    seconds = min(timeout_s, value("seconds") or timeout_s)
    mean = seconds * (_PACKET_PER_S if value("flood") else per_s)
    # Poisson: as good as never more than ten standard deviations above the mean.
    most: float = mean + 10 * math.sqrt(mean) + 10 if value("poisson") else mean + 1
    packets: float | None = value("packets")
    return most if packets is None else min(most, packets)


def _sum(name: str, about: str = "", heading: str = "") -> Metric:
    return Metric(name, over_runs="sum", heading=heading, about=about, missing="unknown")


_NOT_CAPTURED: Final = "not captured"


def _piece(name: str, heading: str, about: str, words: str = "") -> Metric:
    """One piece of round trips that were captured on both hosts."""
    about = f"{about}, median of paired differences"
    return Metric(name, words=words, better="less", heading=heading, about=about, missing=_NOT_CAPTURED)


RECORD: Final = Instrument(
    name="rtt",
    asks="How long does a round trip take?",
    quantity="rtt_ns",
    value=Value("rtt_ns"),
    parts=("peer",),
    expected_s=_expected_s,
    most_rows=_most_rows,
    metrics=(
        Metric("rtt_ns", "RTT", "round-trip time", "round-trip time", better="less"),
        Metric("rtt_scheduled_ns", better="less", heading="from schedule",
               about="median round-trip time from the scheduled send"),
        Metric("rtt_scheduled_p99_ns", better="less", heading="p99 from schedule",
               about="99 % of round trips from the scheduled send", missing="n < 299"),
        Metric("achieved_packet_per_s", "achieved rate", better="more", about="rate achieved",
               missing="not recorded"),
        Metric("achieved_share", unit="1", better="more"),
        Metric("lost_fraction", better="less", heading="packets lost",
               about="share of the packets sent that had no reply in time", missing="not estimable"),
        Metric("overhead_ns", "overhead", "overhead between program and capture point", better="less", interval=True,
               by_level=True, missing=_NOT_CAPTURED, about="between the sender's program and its host's capture point, "
               "both ways, median of paired differences"),
        Metric("overhead_share_percent", "share", "share of the overhead", better="less", by_level=True,
               share_of=("overhead_ns", "median"), about="overhead over the round-trip time inside",
               missing=_NOT_CAPTURED),
        Metric("overhead_relative_percent", better="less", heading="relative", missing=_NOT_CAPTURED,
               about="overhead over the round-trip time at the host side"),
        Metric("responder_side_ns", better="less"),
        Metric("sender_overhead_ns", better="less"),
        _piece("wire_ns", "wire", "from capture point to capture point, both ways",
               "time on the wire, there and back"),
        _piece("wire_out_ns", "wire there", "one way, on the sender's clock"),
        _piece("wire_back_ns", "wire back", "one way, on the sender's clock"),
        Metric("clock_bound_ns", better="less", heading="clocks within", missing=_NOT_CAPTURED,
               about="how far off the wire's two ways may be"),
        _piece("responder_overhead_ns", "at the responder", "between its host's capture point and its program"),
        _piece("turnaround_ns", "turnaround", "inside the responder, as it reports it"),
        _sum("sent", "packets sent in all runs"),
        _sum("lost", "without a reply in time, in all runs; they are no readings"),
        _sum("unsent", "slots of the schedule that passed without a packet", "never sent"),
        _sum("duplicate", "replies beyond the first"),
        _sum("reordered", "replies that came after that of a later packet"),
        Metric("not_captured", over_runs="sum", about="round trips that a capture point missed", missing=_NOT_CAPTURED),
        *map(_sum, ("too_late", "no_room", "late", "paired", "negative", "capture_dropped")),
    ),
    figures=later("vtare.summary.round_trips:figures"),
    in_order=True,
    timed=True,
    hosts="two",
    series=("platform", "responder_platform", "responder", "capture"),
    layer_figures=("overhead_ns",),
    mesh_figures=("wire_ns",),
    exceed=Exceed(overlapping=True),
    flaws=(
        Flaw(("unsent",), ("sent", "unsent"), "packets were never sent", "ask for a lower rate"),
        Flaw(("not_captured",), ("paired", "not_captured"), "round trips were missed by a capture point",
             "ask for a lower rate"),
    ),
    reached=Reached(
        "rate_packet_per_s", "achieved_packet_per_s", "achieved_share",
        {"too_late": "the sender's CPU was too slow for its schedule", "no_room": "the sender's queue had no room"},
    ),
)  # fmt: skip
