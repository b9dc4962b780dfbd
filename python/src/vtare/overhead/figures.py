"""From joined packets to figures: medians of paired differences, shares, and what could not be paired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from vtare import stats

if TYPE_CHECKING:
    import polars as pl

    from vtare.overhead.join import Joined
    from vtare.records import papers

#: The wire's two ways, which need a common clock: known to within the bound of the clocks' comparison.
ONE_WAY: Final = ("wire_out_ns", "wire_back_ns")
PIECES: Final = ("sender_overhead_ns", "wire_ns", "responder_overhead_ns", "turnaround_ns")
"""The pieces of a round trip, in the order in which they stand around it; they add up to it packet by packet."""


def describe(values: pl.Series) -> papers.Described | None:
    """`{n, median, half_iqr, min, max, mean, p99, p999}` of the known values; None where none is known."""
    known = values.drop_nulls().to_numpy().astype(np.float64)
    if len(known) == 0:
        return None
    ordered = stats.in_order(known, None)
    return {
        "n": ordered.n,
        "median": stats.median(ordered).value,
        "half_iqr": stats.half_iqr(ordered).value,
        "min": float(known.min()),
        "max": float(known.max()),
        "mean": float(known.mean()),
        "p99": stats.quantile(ordered, 0.99).value,
        "p999": stats.quantile(ordered, 0.999).value,
    }


def figures_of(joined: Joined) -> papers.OverheadCell:
    """One far end's figures (docs/guide/overhead.md). What no capture point bounds is null, never 0.

    `overhead_ns` is what the sender's virtualization adds: the difference between the round-trip time inside and the
    one at its host side, packet by packet. `overhead_share_percent` sets its median against the median round-trip time
    inside, `overhead_relative_percent` against that at the host side (statistics.md).
    """
    packets = joined.packets
    inside, outside = describe(packets["rtt_ns"]), describe(packets["outside_ns"])
    overhead = describe(packets["sender_overhead_ns"])
    pieces = {name: describe(packets[name]) for name in PIECES}
    return {
        "peer": joined.peer,
        "sent": joined.sent,
        "received": joined.received,
        "late": joined.late,
        "paired": packets.height,
        "rtt_ns": inside,
        "rtt_wire_ns": outside,
        "overhead_ns": overhead,
        "overhead_share_percent": _percent(overhead, inside),
        "overhead_relative_percent": _percent(overhead, outside),
        "responder_side_ns": describe(packets["responder_side_ns"]),
        "pieces": pieces,
        "one_way": {name: describe(packets[name]) for name in ONE_WAY},
        "clock_bound_ns": joined.clock_bound_ns,
        "negative": {name: int((packets[name] < 0).sum()) for name in PIECES if pieces[name] is not None},
        "lost_at": dict(joined.lost),
        "not_captured": dict(joined.not_captured),
        "copies": joined.copies,
        "unknown": joined.unknown,
        "dropped": dict(joined.dropped),
    }


def _percent(part: papers.Described | None, whole: papers.Described | None) -> float | None:
    if part is None or whole is None or part["median"] is None or not whole["median"]:
        return None
    return float(100.0 * part["median"] / whole["median"])
