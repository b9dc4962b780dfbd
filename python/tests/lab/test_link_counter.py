"""What was counted at a link: what it lost of its rate is what it did not carry while it was busy, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vtare.errors import BadInput
from vtare.topology.clock_relation import CLOCKS_SCHEMA, ClockComparison, ClockRelation
from vtare.topology.link_counter import BEHIND_THE_LINK, LINK_COUNTER_LOG, NAMES, Account, read_account, read_joined
from vtare.topology.path import PathSpec, Phase
from vtare.topology.truth import SENT_LOG, Truth, judge, read_link_counter, read_path, read_truth

BIN_NS = 50_000
START = 16_000_000_000_000
#: 300 Mbit/s: 1875 B a bin.
RATE, IN_A_BIN = 300_000_000, 1875
bins = st.lists(st.integers(0, 4000), min_size=200, max_size=400)


def link(came: NDArray[np.int64], works: NDArray[np.bool_], limit: int = 10**9) -> NDArray[np.int64]:
    """What leaves a link that carries its rate in the bins in which it works, and drops beyond a limit."""
    queue, left = 0, np.zeros_like(came)
    for at, byte in enumerate(came):
        queue = min(limit, queue + int(byte))
        left[at] = min(queue, IN_A_BIN) if works[at] else 0
        queue -= left[at]
    return left


def account(came: NDArray[np.int64], left: NDArray[np.int64], cross: NDArray[np.int64] | None = None) -> Account:
    return Account.of(START, BIN_NS, {"came": came, "cross": came if cross is None else cross, "left": left})


def write_account(path: Path, counted: Mapping[str, Sequence[int]], start_ns: int = START) -> None:
    """A log as `vtare link-counter` writes it; null where a name is not counted."""
    facts = {"schema": "vtare.link_counter/1", "from_monotonic_ns": start_ns, "bin_ns": BIN_NS}
    length = len(next(iter(counted.values())))
    schema = {f"{name}_byte": pl.Int64 for name in NAMES}
    frame = pl.DataFrame({f"{name}_byte": counted.get(name, [None] * length) for name in NAMES}, schema=schema)
    frame.write_parquet(path, metadata={"vtare": json.dumps(facts)})


def window(begin: int, end: int) -> tuple[int, int]:
    return START + begin * BIN_NS, START + end * BIN_NS


@given(bins)
def test_a_link_that_always_works_loses_nothing(came: list[int]) -> None:
    arrived = np.array(came)
    seen = account(arrived, link(arrived, np.ones(len(came), dtype=np.bool_)))
    # A busy time begins and ends inside a bin.
    assert seen.lost(RATE, *window(10, len(came) - 10)) == pytest.approx(0.0, abs=IN_A_BIN)


@given(st.integers(60, 120), st.integers(1, 30))
def test_a_busy_link_that_stands_still_loses_what_it_would_have_carried(at: int, length: int) -> None:
    came = np.where(np.arange(400) < 300, 2000, 0)
    works = np.ones(400, dtype=np.bool_)
    works[at : at + length] = False
    seen = account(came, link(came, works))
    lost_byte, _, looked_ns = seen.lost_while_busy(RATE, *window(40, 200))
    assert lost_byte == pytest.approx(length * IN_A_BIN, abs=IN_A_BIN)
    # What came in 160 bins leaves in as many as that takes, and in those in which the link stands still.
    takes = 160 * 2000 / IN_A_BIN + length
    assert looked_ns == pytest.approx(takes * BIN_NS, abs=2 * BIN_NS)
    assert seen.lost(RATE, *window(40, 200)) == pytest.approx(lost_byte * 160 / takes, rel=0.02)


@given(st.integers(2, 20), st.integers(100, 1000))
def test_a_burst_that_waits_behind_a_link_at_rest_leaves_it_what_it_carries(times: int, rest: int) -> None:
    # A train many times as fast as the link: what came in 20 bins leaves in many, and for `rest` of them nothing does.
    came = np.where(np.arange(2000) < 20, times * IN_A_BIN, 0)
    works = np.ones(2000, dtype=np.bool_)
    works[10 : 10 + rest] = False
    share = account(came, link(came, works)).lost(RATE, *window(0, 20)) / (20 * IN_A_BIN)
    assert share == pytest.approx(rest / (20 * times + rest), abs=0.05)


@given(st.integers(60, 230), st.integers(1, 30))
def test_what_waits_behind_the_link_to_be_counted_is_not_lost(at: int, length: int) -> None:
    came = np.where(np.arange(400) < 300, 2000, 0)
    left = link(came, np.ones(400, dtype=np.bool_))
    # The next device looks at nothing for a while, and then at all of it: in the window, or behind its end.
    left[at + length] += left[at : at + length].sum()
    left[at : at + length] = 0
    assert account(came, left).lost(RATE, *window(40, 200)) == pytest.approx(0.0, abs=IN_A_BIN)


def test_an_idle_link_that_stands_still_loses_nothing() -> None:
    came = np.full(300, 200)
    works = np.arange(300) % 3 == 0
    assert account(came, link(came, works)).lost(RATE, *window(20, 280)) == 0.0


def test_the_time_is_known_in_which_a_loss_would_have_shown() -> None:
    came = np.where(np.arange(400) < 100, 4000, 0)
    seen = account(came, link(came, np.ones(400, dtype=np.bool_)))
    # It carries for 213 bins what came in 100; at both ends the queue is short.
    all_of_it = 100 * 4000 / IN_A_BIN * BIN_NS
    lost, busy_ns, _ = seen.lost_while_busy(RATE, *window(0, 390))
    assert lost == pytest.approx(0.0, abs=IN_A_BIN)
    assert busy_ns == pytest.approx(all_of_it, abs=4 * BIN_NS)
    idle = np.full(300, 200)
    nothing = account(idle, link(idle, np.ones(300, dtype=np.bool_))).lost_while_busy(RATE, *window(20, 280))
    assert nothing[:2] == (0.0, 0.0)


def test_what_a_full_queue_dropped_is_no_queue_later() -> None:
    came = np.concatenate([np.full(100, 10_000), np.full(400, 500)])
    left = link(came, np.ones(500, dtype=np.bool_), limit=50_000)
    assert came.sum() > left.sum() + 500_000
    # Idle, with what was dropped never to leave: that is neither busy nor loss.
    assert account(came, left).lost(RATE, *window(200, 480)) == 0.0


def test_what_crossed_and_what_was_carried_are_those_of_the_window() -> None:
    cross = np.arange(100)
    seen = account(cross + 7, cross + 7, cross)
    assert seen.crossed(*window(10, 20)) == pytest.approx(sum(range(10, 20)))
    assert seen.carried(*window(10, 20)) == pytest.approx(sum(range(17, 27)))
    assert seen.crossed(START + BIN_NS // 2, START + BIN_NS) == pytest.approx(0.0)
    assert seen.knows(*window(0, 100))
    assert not seen.knows(*window(0, 101))
    assert not seen.knows(*window(-1, 5))


def test_the_truth_is_what_the_link_carried_less_what_crossed() -> None:
    came, works = np.where(np.arange(400) < 300, 2000, 0), np.ones(400, dtype=np.bool_)
    works[100:110] = False
    cross = np.full(400, 1000)
    truth = Truth(RATE, None, None, link_counter=account(came, link(came, works), cross))
    begin, end = window(50, 250)
    available, capacity, why = truth.over(begin, end)
    assert why is None
    assert truth.counted(begin, end)
    assert capacity == pytest.approx(RATE * 190 / 200, rel=0.01)
    assert available == pytest.approx(RATE * 190 / 200 - 160e6, rel=0.02)
    # What was not counted has the shaper's word.
    assert truth.over(*window(350, 450)) == (RATE, RATE, None)
    assert not truth.counted(*window(350, 450))


def test_a_log_reads_as_it_was_written_and_a_damaged_one_is_refused_by_name(tmp_path: Path) -> None:
    write_account(tmp_path / LINK_COUNTER_LOG, {name: [0, 1, 2, 3, 4, 0, 1, 2] for name in NAMES})
    seen = read_account(tmp_path / LINK_COUNTER_LOG)
    assert (seen.from_ns, seen.bin_ns) == (START, BIN_NS)
    assert seen.left.tolist() == [0, 0, 1, 3, 6, 10, 10, 11, 13]
    (tmp_path / "link_counter.json").write_text(json.dumps({"counted": True}))
    (tmp_path / LINK_COUNTER_LOG).write_bytes(b"PAR1")
    with pytest.raises(BadInput, match=LINK_COUNTER_LOG):
        read_link_counter(tmp_path)
    (tmp_path / "link_counter.json").write_text(json.dumps({"counted": False, "reason": "no such kernel"}))
    assert read_link_counter(tmp_path) is None


def test_what_an_earlier_version_counted_is_read_under_its_name(tmp_path: Path) -> None:
    write_account(tmp_path / "witness.parquet", {name: [10, 20, 30] for name in NAMES})
    (tmp_path / "witness.json").write_text(json.dumps({"counted": True}))
    seen = read_link_counter(tmp_path)
    assert seen is not None
    assert seen.left[-1] == 60


#: How far the clocks of the router and of the responder are ahead of the sender's, and how sure that is.
AHEAD = {"router": 7_000_000_000_123, "responder": -3_000_000_000_017}
UNSURE_NS = 5_000


def between_machines(directory: Path, *, cross_byte: int, works: Sequence[bool] | None = None) -> Truth:
    """A run between three machines with clocks of their own: 3 MB in 75 ms, more than the link carries."""
    # At the end it is quiet: what never leaves counts as dropped.
    came = np.repeat([2000, 0], [1500, 500])
    left = link(came, np.array(works or [True] * 2000))
    write_account(directory / LINK_COUNTER_LOG, {"came": came.tolist(), "cross": [cross_byte] * 2000},
                  START + AHEAD["router"])  # fmt: skip
    write_account(directory / f"{BEHIND_THE_LINK}.parquet", {"left": left.tolist()}, START + AHEAD["responder"])
    for stem in (LINK_COUNTER_LOG.removesuffix(".parquet"), BEHIND_THE_LINK):
        (directory / f"{stem}.json").write_text(json.dumps({"counted": True}))
    hosts = {
        role: ClockRelation(tuple(
            ClockComparison(at, ahead - UNSURE_NS, ahead + UNSURE_NS) for at in (START - 10**6, START + 10**9)
        )).document()
        for role, ahead in AHEAD.items()
    }  # fmt: skip
    (directory / "clocks.json").write_text(json.dumps({"schema": CLOCKS_SCHEMA, "hosts": hosts}))
    path = PathSpec("tbf", (Phase(RATE, 10**9),))
    (directory / "topology.json").write_text(json.dumps({"path": path.document()}))
    truth = read_truth(directory, {})
    assert truth is not None
    return truth


def test_what_two_machines_counted_is_joined_on_the_senders_clock(tmp_path: Path) -> None:
    stops = [True] * 1000 + [False] * 100 + [True] * 900
    truth = between_machines(tmp_path, cross_byte=500, works=stops)
    assert truth.clock_bound_ns == UNSURE_NS
    begin, end = window(200, 1400)
    assert truth.counted(begin, end)
    available, capacity, why = truth.over(begin, end)
    # What came in 1200 bins takes 1280, and 100 in which the link sends nothing; 500 of 1875 B a bin are cross traffic.
    works_share = 1 - 100 / (1200 * 2000 / IN_A_BIN + 100)
    assert why is None
    assert capacity == pytest.approx(RATE * works_share, rel=0.005)
    assert available == pytest.approx(RATE * (works_share - 500 / IN_A_BIN), rel=0.01)


def test_an_estimate_of_a_guest_is_judged_by_what_its_host_counted(tmp_path: Path) -> None:
    """All but the sender is on one machine: one log, one source, and one clock that is not the guest's."""
    ahead, (begin, end) = AHEAD["router"], window(200, 1400)
    came = np.repeat([2000, 0], [1500, 500])
    counted = {"came": came, "left": link(came, np.ones(2000, dtype=np.bool_)), "cross": np.full(2000, 500)}
    write_account(tmp_path / LINK_COUNTER_LOG, {name: it.tolist() for name, it in counted.items()}, START + ahead)
    (tmp_path / "link_counter.json").write_text(json.dumps({"counted": True}))
    relation = ClockRelation((ClockComparison(START, ahead - UNSURE_NS, ahead + UNSURE_NS),)).document()
    hosts = dict.fromkeys(("router", "responder", "source"), relation)
    (tmp_path / "clocks.json").write_text(json.dumps({"schema": CLOCKS_SCHEMA, "hosts": hosts}))
    path = PathSpec("tbf", (Phase(RATE, 10**9),), cross_bit_per_s=round(500 / IN_A_BIN * RATE))
    (tmp_path / "topology.json").write_text(json.dumps({"path": path.document()}))
    sent = {"bin_monotonic_ns": START + ahead + BIN_NS * np.arange(2000), "ip_byte": np.full(2000, 500)}
    pl.DataFrame(sent).write_parquet(tmp_path / SENT_LOG, metadata={"vtare": json.dumps({"bin_ns": BIN_NS})})
    expected = pytest.approx(RATE * (1 - 500 / IN_A_BIN), rel=0.01)
    truth = read_truth(tmp_path, {})
    assert truth is not None
    assert (truth.clock_bound_ns, truth.counted(begin, end), truth.over(begin, end)[0]) == (UNSURE_NS, True, expected)
    # Where this kernel does not count, the source's own account is brought to the guest's clock, too.
    (tmp_path / "link_counter.json").write_text(json.dumps({"counted": False, "reason": "Linux 6.1"}))
    truth = read_truth(tmp_path, {})
    assert truth is not None
    assert (truth.clock_bound_ns, truth.counted(begin, end), truth.over(begin, end)[0]) == (UNSURE_NS, False, expected)


def test_an_estimate_between_machines_states_how_sure_its_window_is(tmp_path: Path) -> None:
    truth = between_machines(tmp_path, cross_byte=0)
    begin, _ = window(200, 300)
    rows = [{"window_from_ns": begin, "window_to_ns": begin + length_ns, "avb_bit_per_s": 1e8, "low_bit_per_s": 0.0,
             "high_bit_per_s": 1e9} for length_ns in (50_000_000, 90_000)]  # fmt: skip
    long, short = judge(pl.DataFrame(rows), truth).rows(named=True)
    assert (long["clock_bound_ns"], long["disturbed"]) == (UNSURE_NS, None)
    assert (short["clock_bound_ns"], short["disturbed"]) == (UNSURE_NS, "clocks too far from each other")


def test_steps_of_a_router_are_brought_to_the_senders_clock(tmp_path: Path) -> None:
    between_machines(tmp_path, cross_byte=0)
    path = PathSpec("tbf", (Phase(RATE, 10**7), Phase(2 * RATE, 10**7)))
    at = START + AHEAD["router"]
    rows = [{"bit_per_s": phase.bit_per_s, "from_monotonic_ns": at + n * 10**7, "to_monotonic_ns": at + n * 10**7}
            for n, phase in enumerate(path.phases)]  # fmt: skip
    (tmp_path / "capacity.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    capacity, missed, counter = read_path(tmp_path, path)
    assert missed is None
    assert counter is not None
    assert capacity is not None
    assert capacity.between(START + 5 * 10**6, START + 15 * 10**6) == pytest.approx(1.5 * RATE / 100, rel=1e-3)


def test_where_one_machine_does_not_count_nothing_was_counted(tmp_path: Path) -> None:
    between_machines(tmp_path, cross_byte=0)
    (tmp_path / f"{BEHIND_THE_LINK}.json").write_text(json.dumps({"counted": False, "reason": "Linux 6.1"}))
    assert read_path(tmp_path, PathSpec("tbf", (Phase(RATE, 10**9),))) == (None, None, None)
    write_account(tmp_path / LINK_COUNTER_LOG, {"came": [1]})
    with pytest.raises(BadInput, match="left not counted"):
        read_account(tmp_path / LINK_COUNTER_LOG)


def test_packets_that_seem_to_leave_before_they_came_are_no_queue(tmp_path: Path) -> None:
    # A packet each 40 bins passes an idle link within a bin; the clock behind it is compared a third of a bin off.
    came = np.where(np.arange(4000) % 40 == 0, 1500, 0)
    came[3900:] = 0
    ends = []
    for name, ahead in (("router", 0), ("responder", BIN_NS // 3)):
        file = tmp_path / f"{name}.parquet"
        write_account(file, {"came": came.tolist(), "cross": came.tolist(), "left": came.tolist()})
        relation = ClockRelation(tuple(ClockComparison(at, ahead - 100, ahead + 100) for at in (START, START + 10**9)))
        ends.append((file, relation))
    seen = read_joined(ends)
    assert seen.lost(RATE, *window(80, 3000)) == 0.0
    assert (seen.came - seen.left).max() <= 1500
    assert np.median(seen.came - seen.left) == pytest.approx(0.0, abs=1)
