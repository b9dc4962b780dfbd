"""The join of round trips with captures: exact sums, first copies, places of loss, wrapped numbers, clear errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtare.errors import BadInput
from vtare.overhead.figures import PIECES, figures_of
from vtare.overhead.files import Capture, Flow, read_capture, read_round_trips
from vtare.overhead.join import Joined, join, unwrapped

PEER = "10.77.2.2:8462"
NEAR = "10.77.1.2:40000"
SESSION = -(2**62) - 5
FLOW = Flow(PEER, PEER, SESSION)
#: Offsets of the three clocks: of the samples, of the sender's host and of the responder's host.
CLOCKS = (0, 7_000_000_000_123, 1_790_000_000_000_000_000)


@dataclass(frozen=True)
class Trip:
    """One packet: its number, where it got to (8: back in the program) and the time from place to place, in ns.

    Places: 0 the sender's program, 1 its host side, 2 the responder's host side, 3 its program, 4 out of it again, 5
    its host side, 6 the sender's host side, 7 the program.
    """

    sequence: int
    reached: int
    steps: tuple[int, ...]

    def at(self, place: int) -> int:
        return 1_000_000 * self.sequence + sum(self.steps[:place])


trips = st.lists(
    st.tuples(st.integers(0, 7), st.tuples(*[st.integers(-50, 2_000_000)] * 7)), min_size=1, max_size=40
).map(lambda drawn: [Trip(i, reached, steps) for i, (reached, steps) in enumerate(drawn)])


def samples(packets: list[Trip]) -> pl.DataFrame:
    back = [packet.reached == 7 for packet in packets]
    return pl.DataFrame(
        {
            "peer": [PEER] * len(packets),
            "sequence": [packet.sequence for packet in packets],
            "fate": ["received" if came else "lost" for came in back],
            "sent_ns": [packet.at(0) for packet in packets],
            "rtt_ns": [p.at(7) - p.at(0) if came else None for p, came in zip(packets, back, strict=True)],
            "turnaround_ns": [p.at(4) - p.at(3) if came else None for p, came in zip(packets, back, strict=True)],
        },
        schema_overrides={"rtt_ns": pl.Int64, "turnaround_ns": pl.Int64},
    )


def capture(
    packets: list[Trip],
    side: str,
    *,
    copies: int = 1,
    form: str = "full",
    bits: int | None = None,
    session: int = SESSION,
    missed: frozenset[int] = frozenset(),
) -> Capture:
    """What a capture point saw, in the order of time; `missed` numbers were not seen on the way there."""
    there, back, clock = (1, 6, CLOCKS[1]) if side == "sender" else (2, 5, CLOCKS[2])
    rows = []
    for packet in packets:
        for place, kind in ((there, "request"), (back, "reply")):
            if packet.reached >= place and not (kind == "request" and packet.sequence in missed):
                number = packet.sequence if bits is None else packet.sequence % 2**bits
                ends = (NEAR, PEER) if kind == "request" else (PEER, NEAR)
                rows += [(clock + packet.at(place) + 9 * copy, kind, number, *ends) for copy in range(copies)]
    frame = pl.DataFrame(
        sorted(rows),
        schema={
            "captured_ns": pl.Int64, "kind": pl.String, "sequence": pl.Int64, "source": pl.String,
            "destination": pl.String,
        },
        orient="row",
    )  # fmt: skip
    return Capture(
        Path(f"{side}.parquet"),
        frame.with_columns(pl.lit(session, pl.Int64).alias("session"), pl.lit(form).alias("form")),
        0,
    )


def both(packets: list[Trip], copies: int = 1) -> Joined:
    # A capture with no packet of the flow is an error of its own: one that always came back keeps it out of the way.
    packets = [*packets, Trip(len(packets), 7, (1,) * 7)]
    return join(
        samples(packets),
        FLOW,
        sender=capture(packets, "sender", copies=copies),
        responder=capture(packets, "responder", copies=copies),
    )


@given(trips, st.integers(1, 3))
def test_pieces_add_up_to_the_round_trip_of_every_packet_whatever_the_clocks(packets: list[Trip], copies: int) -> None:
    joined = both(packets, copies)
    total = joined.packets.select(pl.sum_horizontal(PIECES)).to_series()
    assert total.to_list() == joined.packets["rtt_ns"].to_list()
    came_back = {packet.sequence: packet for packet in packets if packet.reached == 7}
    for row in joined.packets.iter_rows(named=True):
        packet = came_back.get(row["sequence"])
        if packet is not None:
            a, b, c, _, e, f, g = packet.steps
            expected = (a + g, b + f, c + e, packet.steps[3])
            assert tuple(row[name] for name in PIECES) == expected


@given(trips, st.integers(1, 3))
def test_every_packet_is_received_or_lost_at_one_place(packets: list[Trip], copies: int) -> None:
    joined = both(packets, copies)
    assert joined.sent == joined.received + sum(joined.lost.values())
    places = {"sender_out": (0,), "wire_out": (1,), "responder": (2, 3, 4), "wire_back": (5,), "sender_in": (6,)}
    for place, reached in places.items():
        assert joined.lost[place] == sum(packet.reached in reached for packet in packets)
    seen = sum((p.reached >= 1) + (p.reached >= 6) + (p.reached >= 2) + (p.reached >= 5) for p in packets) + 4
    assert joined.copies == (copies - 1) * seen
    assert joined.unknown == 0


@settings(max_examples=50)
@given(st.lists(st.integers(-32_000, 32_000), min_size=1, max_size=60), st.integers(0, 2**16 - 1))
def test_unwrapping_finds_whole_numbers_from_their_lower_bits(steps: list[int], first: int) -> None:
    whole = [first]
    for step in steps:
        whole.append(whole[-1] + step)
    carried = pl.Series("sequence", [number % 2**16 for number in whole], dtype=pl.Int64)
    assert unwrapped(carried, 16).to_list() == whole
    assert unwrapped(carried, None).to_list() == carried.to_list()


def some(count: int, reached: int = 7, first: int = 0) -> list[Trip]:
    return [Trip(first + i, reached, (3, 20, 4, 100, 5, 30, 6)) for i in range(count)]


def test_numbers_of_sixteen_bits_wrap_and_still_join() -> None:
    packets = [*some(3, first=0), *some(70_000, first=3)]
    echo = capture(packets, "sender", form="short", bits=16, session=3)
    echo = Capture(echo.path, echo.frame.with_columns(form=pl.lit("icmp")), 0)
    joined = join(samples(packets), Flow(PEER, PEER, 3), sender=echo, responder=None)
    assert joined.packets.height == len(packets)
    assert joined.packets["sender_overhead_ns"].unique().to_list() == [9]


def test_of_several_copies_the_first_counts() -> None:
    packets = some(5)
    once = join(samples(packets), FLOW, sender=capture(packets, "sender"), responder=None)
    thrice = join(samples(packets), FLOW, sender=capture(packets, "sender", copies=3), responder=None)
    assert once.packets.equals(thrice.packets)
    assert (once.copies, thrice.copies) == (0, 20)


def test_with_one_capture_point_what_it_does_not_bound_is_null() -> None:
    packets = [*some(4), *some(2, reached=3, first=4)]
    sender = join(samples(packets), FLOW, sender=capture(packets, "sender"), responder=None)
    assert sender.packets["wire_ns"].null_count() == 4
    assert sender.packets["sender_overhead_ns"].to_list() == [9] * 4
    assert sender.lost == {"sender_out": 0, "beyond_sender": 2, "sender_in": 0}
    figures = figures_of(sender)
    assert figures["pieces"]["wire_ns"] is None
    assert figures["overhead_ns"]["median"] == 9
    assert figures["overhead_share_percent"] == pytest.approx(100 * 9 / 168)
    assert figures["overhead_relative_percent"] == pytest.approx(100 * 9 / 159)
    responder = join(samples(packets), FLOW, sender=None, responder=capture(packets, "responder"))
    assert responder.packets["responder_overhead_ns"].to_list() == [9] * 4
    assert responder.lost == {"before_responder": 0, "responder": 2, "behind_responder": 0}
    assert figures_of(responder)["overhead_ns"] is None


def test_round_trips_that_a_capture_point_missed_are_counted_and_in_no_piece() -> None:
    packets = some(6)
    joined = join(
        samples(packets),
        FLOW,
        sender=capture(packets, "sender", missed=frozenset({1, 2})),
        responder=capture(packets, "responder"),
    )
    assert joined.not_captured == {
        "sender_request": 2, "sender_reply": 0, "responder_request": 0, "responder_reply": 0,
    }  # fmt: skip
    assert joined.packets["sequence"].to_list() == [0, 3, 4, 5]


def test_negative_pieces_are_kept_and_counted() -> None:
    packets = [Trip(i, 7, (-8, 20, 4, 100, 5, 30, 6)) for i in range(3)]
    figures = figures_of(
        join(samples(packets), FLOW, sender=capture(packets, "sender"), responder=capture(packets, "responder"))
    )
    assert figures["overhead_ns"]["median"] == -2
    assert figures["negative"]["sender_overhead_ns"] == 3
    assert figures["negative"]["wire_ns"] == 0


def test_packets_never_sent_are_no_losses_and_captured_strangers_are_counted() -> None:
    packets = some(4)
    table = samples(packets).with_columns(
        fate=pl.when(pl.col("sequence") == 3).then(pl.lit("too_late")).otherwise(pl.col("fate")),
        rtt_ns=pl.when(pl.col("sequence") == 3).then(None).otherwise(pl.col("rtt_ns")),
    )
    joined = join(table, FLOW, sender=capture(packets, "sender"), responder=None)
    assert (joined.sent, joined.received, joined.unknown) == (3, 3, 2)


def test_short_probes_are_distinguished_by_address_and_handle() -> None:
    packets = some(3)
    mine = capture(packets, "sender", form="short", bits=32, session=2)
    other = capture(packets, "sender", form="short", bits=32, session=9)
    mixed = Capture(mine.path, pl.concat([mine.frame, other.frame]).sort("captured_ns"), 0)
    assert join(samples(packets), Flow(PEER, PEER, 2), sender=mixed, responder=None).packets.height == 3
    with pytest.raises(BadInput, match=r"holds 2 sessions to 10.77.2.2:8462 \(2, 9\), none of which is 5"):
        join(samples(packets), Flow(PEER, PEER, 5), sender=mixed, responder=None)
    elsewhere = Capture(other.path, other.frame.with_columns(destination=pl.lit("10.0.0.9:8462")), 0)
    far = pl.concat([mine.frame, elsewhere.frame.filter(pl.col("kind") == "request")]).sort("captured_ns")
    joined = join(samples(packets), Flow(PEER, PEER, None), sender=Capture(mine.path, far, 0), responder=None)
    assert joined.packets.height == 3


def test_a_capture_of_something_else_is_refused_with_the_way_out() -> None:
    packets = some(3)
    with pytest.raises(BadInput, match=r"no packet of 10\.77\.2\.2:8462 \(session bffffffffffffffb\) among 6 captured"):
        join(samples(packets), FLOW, sender=capture(packets, "sender", session=1), responder=None)


def test_a_run_of_which_nothing_came_back_needs_nothing_captured() -> None:
    packets = some(3, reached=0)
    nothing = capture(some(1, reached=0), "sender")
    joined = join(samples(packets), FLOW, sender=nothing, responder=nothing)
    assert (joined.sent, joined.received, joined.lost["sender_out"]) == (3, 0, 3)
    figures = figures_of(joined)
    assert figures["overhead_ns"] is None
    assert figures["overhead_share_percent"] is None
    assert figures["pieces"] == dict.fromkeys(PIECES)


def write(path: Path, frame: pl.DataFrame, instrument: str, cells: list[dict[str, object]]) -> Path:
    footer = {"schema": "vtare.samples/1", "run": {"instrument": instrument}, "result": {"cells": cells}}
    frame.write_parquet(path, metadata={"vtare": json.dumps(footer)})
    return path


def test_files_are_read_with_their_session_and_their_drops(tmp_path: Path) -> None:
    packets = some(3)
    rtt = samples(packets).with_columns(arrived_ns=pl.col("sent_ns") + pl.col("rtt_ns"))
    cells: list[dict[str, object]] = [{"peer": PEER, "address": PEER, "session": f"{SESSION % 2**64:016x}"}]
    old = read_round_trips(write(tmp_path / "old.parquet", rtt, "rtt", cells))
    assert old.flows == (FLOW,)
    new = rtt.with_columns(session=pl.lit(77, pl.Int64))
    assert read_round_trips(write(tmp_path / "new.parquet", new, "rtt", cells)).flows[0].session == 77
    seen = capture(packets, "sender").frame
    told = [{"lost": 3, "file": {"dropped_by_interface": None, "dropped_by_system": 2}}]
    assert read_capture(write(tmp_path / "c.parquet", seen, "capture", list(told))).dropped == 5
    assert read_capture(write(tmp_path / "d.parquet", seen, "capture", [{"lost": None}])).dropped is None


def test_wrong_files_are_named_with_what_was_wanted(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"gone.parquet: no such file; make one with `vtare capture IFACE"):
        read_capture(tmp_path / "gone.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadInput, match="damaged, or not made by `vtare rtt"):
        read_round_trips(tmp_path / "bad.parquet")
    seen = write(tmp_path / "c.parquet", capture(some(1), "sender").frame, "capture", [])
    with pytest.raises(BadInput, match="the samples are of capture: use a file of `vtare rtt"):
        read_round_trips(seen)
    short = write(tmp_path / "s.parquet", capture(some(1), "sender").frame.drop("kind"), "capture", [])
    with pytest.raises(BadInput, match="column 'kind' is missing"):
        read_capture(short)
