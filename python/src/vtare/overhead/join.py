"""Join round trips with captures by session and sequence number. Pure: frames in, frames out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from vtare.errors import BadInput

if TYPE_CHECKING:
    from vtare.overhead.files import Capture, Flow
    from vtare.topology.clock_relation import ClockRelation

_REQUESTS: Final = ("request", "echo_request", "stamp_request", "one_way")
_REPLIES: Final = ("reply", "echo_reply", "stamp_reply")
#: Bits of the sequence number that a form carries; None where it carries all of them.
_BITS: Final[dict[str, int | None]] = {"full": None, "short": 32, "stamp": 32, "icmp": 16}
_NEVER_SENT: Final = ("too_late", "no_room")
_STAMPS: Final = ("sender_request", "sender_reply", "responder_request", "responder_reply")


@dataclass(frozen=True, slots=True)
class Joined:
    """One far end's round trips with what the capture points saw of each.

    `packets` has one row per packet that came back in time and that every capture point saw on both ways: `sequence,
    rtt_ns, outside_ns` (sender's host side, reply minus request), `responder_side_ns` (the same at the responder's),
    `sender_overhead_ns, wire_ns, responder_overhead_ns, turnaround_ns`; null throughout where there was no such capture
    point, or the responder reported no turnaround. `wire_out_ns` and `wire_back_ns` are the wire's two ways: they need
    a common clock and are known to within `clock_bound_ns`, all three null where the clocks were not compared.

    `lost` is where the lost packets were last seen, by place; `late` came back after the timeout; `not_captured`
    counts packets that came back though a capture point missed them, by stamp; `copies` are further captures of one
    packet, `unknown` captured numbers that were never sent; `dropped` is what each capture point had no room for, by
    side: then a packet may have been where it was not seen.
    """

    peer: str
    packets: pl.DataFrame
    sent: int
    received: int
    late: int
    lost: Mapping[str, int]
    not_captured: Mapping[str, int]
    copies: int
    unknown: int
    dropped: Mapping[str, int | None]
    clock_bound_ns: float | None = None


def join(
    samples: pl.DataFrame,
    flow: Flow,
    *,
    sender: Capture | None,
    responder: Capture | None,
    clock: ClockRelation | None = None,
) -> Joined:
    """Join the samples of one far end with what was captured on either side. The first copy of each packet counts.

    `clock` is how the responder's clock is related to the sender's; None where nobody compared them.

    Raises:
        BadInput: a capture holds nothing of this far end though packets came back, or several sessions that cannot be
            distinguished.
    """
    rows = samples.filter(
        (pl.col("peer").cast(pl.String) == flow.peer) & ~pl.col("fate").cast(pl.String).is_in(_NEVER_SENT)
    ).with_columns(pl.col("fate").cast(pl.String), pl.col("sequence").cast(pl.Int64))
    copies, unknown = 0, 0
    came_back = rows.get_column("rtt_ns").count() > 0
    for side, capture in (("sender", sender), ("responder", responder)):
        mine = None if capture is None else _of_flow(capture, flow, must_be_there=came_back)
        for way, kinds in (("request", _REQUESTS), ("reply", _REPLIES)):
            name = f"{side}_{way}"
            if mine is None:
                rows = rows.with_columns(pl.lit(None, pl.Int64).alias(name))
                continue
            seen, extra = _first_copies(mine, kinds, name)
            copies += extra
            unknown += seen.join(rows, on="sequence", how="anti").height
            rows = rows.join(seen, on="sequence", how="left", maintain_order="left")
    back = rows.filter(pl.col("rtt_ns").is_not_null())
    wanted = [name for name in _STAMPS if (sender if name.startswith("sender") else responder) is not None]
    whole = back.filter(pl.all_horizontal(pl.col(name).is_not_null() for name in wanted)) if wanted else back
    return Joined(
        peer=flow.peer,
        packets=_pieces(whole, clock),
        clock_bound_ns=None if clock is None or sender is None or responder is None else clock.bound_ns,
        sent=rows.height,
        received=back.height,
        late=rows.filter(pl.col("fate") == "late").height,
        lost=_places(rows.filter(pl.col("fate") == "lost"), sender is not None, responder is not None),
        not_captured={name: back.get_column(name).null_count() for name in wanted},
        copies=copies,
        unknown=unknown,
        dropped={side: capture.dropped for side, capture in (("sender", sender), ("responder", responder)) if capture},
    )


def _pieces(rows: pl.DataFrame, clock: ClockRelation | None) -> pl.DataFrame:
    outside = pl.col("sender_reply") - pl.col("sender_request")
    beyond = pl.col("responder_reply") - pl.col("responder_request")
    ahead = pl.lit(None, pl.Int64)
    if clock is not None and rows.get_column("sender_request").null_count() == 0:
        differences = clock.ahead(rows.get_column("sender_request").cast(pl.Float64).to_numpy())
        ahead = pl.lit(pl.Series(differences).round().cast(pl.Int64))
    return rows.select(
        "sequence",
        "rtt_ns",
        outside.alias("outside_ns"),
        beyond.alias("responder_side_ns"),
        (pl.col("rtt_ns") - outside).alias("sender_overhead_ns"),
        (outside - beyond).alias("wire_ns"),
        (pl.col("responder_request") - ahead - pl.col("sender_request")).alias("wire_out_ns"),
        (pl.col("sender_reply") + ahead - pl.col("responder_reply")).alias("wire_back_ns"),
        (beyond - pl.col("turnaround_ns")).alias("responder_overhead_ns"),
        "turnaround_ns",
    )


def _places(lost: pl.DataFrame, has_sender: bool, has_responder: bool) -> dict[str, int]:
    """Where lost packets were last seen. A place that no capture point bounds is part of the wider one around it."""
    names: tuple[str, ...]
    stamps: tuple[str, ...]
    if has_sender and has_responder:
        names = ("sender_out", "wire_out", "responder", "wire_back", "sender_in")
        stamps = ("sender_request", "responder_request", "responder_reply", "sender_reply")
    elif has_sender:
        names = ("sender_out", "beyond_sender", "sender_in")
        stamps = ("sender_request", "sender_reply")
    elif has_responder:
        names = ("before_responder", "responder", "behind_responder")
        stamps = ("responder_request", "responder_reply")
    else:
        return {"somewhere": lost.height}
    place = pl.lit(names[0])
    for stamp, name in zip(stamps, names[1:], strict=True):
        place = pl.when(pl.col(stamp).is_not_null()).then(pl.lit(name)).otherwise(place)
    counts = dict(lost.select(place.alias("place")).group_by("place").len().iter_rows())
    return {name: int(counts.get(name, 0)) for name in names}


def _of_flow(capture: Capture, flow: Flow, *, must_be_there: bool) -> pl.DataFrame:
    """The captured packets of one far end, in the order they were captured.

    Packets that came back must have passed; where none did, all may have been lost before.
    """
    frame = capture.frame.with_columns(pl.col("form", "kind", "source", "destination").cast(pl.String))
    full = frame.filter(pl.col("form") == "full")
    mine = full.clear() if flow.session is None else full.filter(pl.col("session") == flow.session)
    if mine.height == 0:
        mine = _by_address(frame.filter(pl.col("form") != "full"), flow, capture)
    if mine.height == 0 and must_be_there:
        raise BadInput(
            f"{capture.path}: no packet of {flow.peer} (session {_hex(flow.session)}) among {frame.height} captured; "
            "capture where its probes pass, from before the run until after it"
        )
    return mine.sort("captured_ns", maintain_order=True)


def _by_address(frame: pl.DataFrame, flow: Flow, capture: Capture) -> pl.DataFrame:
    """Short, STAMP and ICMP probes: their number is short and may be another's, too, so the far end's address counts.

    Where addresses are translated on the way, nothing matches, and the number alone must do.
    """
    if flow.address is not None:
        host = flow.address.rpartition(":")[0].strip("[]") or flow.address
        far = pl.when(pl.col("kind").is_in(_REPLIES)).then(pl.col("source")).otherwise(pl.col("destination"))
        at_far_end = frame.filter(
            pl.when(pl.col("form") == "icmp").then(far.is_in([host, flow.address])).otherwise(far == flow.address)
        )
        frame = at_far_end if at_far_end.height else frame
    numbers = frame.get_column("session").unique().to_list()
    if len(numbers) > 1 and flow.session in numbers:
        # Reflectors older than RFC 8972 send zeros where the identifier was.
        zeroed = (pl.col("form") == "stamp") & (pl.col("session") == 0) & pl.col("kind").is_in(_REPLIES)
        return frame.filter((pl.col("session") == flow.session) | zeroed)
    if len(numbers) > 1:
        shown = ", ".join(str(number) for number in sorted(numbers, key=str)[:5])
        raise BadInput(
            f"{capture.path}: holds {len(numbers)} sessions to {flow.address or flow.peer} ({shown}), none of which is "
            f"{flow.session}; capture one run alone"
        )
    return frame


def _hex(session: int | None) -> str:
    return "unknown" if session is None else f"{session % 2**64:016x}"


def _first_copies(frame: pl.DataFrame, kinds: tuple[str, ...], name: str) -> tuple[pl.DataFrame, int]:
    """Sequence number and time of each packet's first copy, and how many further copies there were."""
    rows = frame.filter(pl.col("kind").is_in(kinds))
    form = rows.get_column("form")[0] if rows.height else "full"
    numbers = unwrapped(rows.get_column("sequence").cast(pl.Int64), _BITS.get(form))
    first = rows.select(numbers.alias("sequence"), "captured_ns").group_by("sequence").agg(pl.col("captured_ns").min())
    return first.rename({"captured_ns": name}), rows.height - first.height


def unwrapped(numbers: pl.Series, bits: int | None) -> pl.Series:
    """Whole sequence numbers from their lower `bits`, in the order of arrival.

    Each number is the one nearest to its predecessor, so neighbours may be up to half the range apart, in either
    direction: 32 767 packets for 16 bits. The first one is taken as it is, so a capture must begin with its run.
    """
    if bits is None or len(numbers) == 0:
        return numbers
    span = 1 << bits
    steps = (numbers.diff().fill_null(0) + span // 2) % span - span // 2
    return (steps.cum_sum() + int(numbers[0])).alias(numbers.name)
