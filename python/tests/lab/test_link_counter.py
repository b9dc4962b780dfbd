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
from vtare.link_counter import LINK_COUNTER_LOG, NAMES, Account, read_account
from vtare.truth import Truth, read_link_counter

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


def write_account(path: Path, counted: Mapping[str, Sequence[int]]) -> None:
    """A log as `vtare link-counter` writes it."""
    facts = {"schema": "vtare.link_counter/1", "from_monotonic_ns": START, "bin_ns": BIN_NS}
    frame = pl.DataFrame({f"{name}_byte": counted[name] for name in NAMES})
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
    lost = account(came, link(came, works)).lost(RATE, *window(40, 200))
    assert lost == pytest.approx(length * IN_A_BIN, abs=IN_A_BIN)


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
    lost, busy_ns = seen.lost_while_busy(RATE, *window(0, 390))
    assert lost == pytest.approx(0.0, abs=IN_A_BIN)
    assert busy_ns == pytest.approx(all_of_it, abs=4 * BIN_NS)
    idle = np.full(300, 200)
    assert account(idle, link(idle, np.ones(300, dtype=np.bool_))).lost_while_busy(RATE, *window(20, 280)) == (0.0, 0.0)


def test_what_a_full_queue_dropped_is_no_queue_later() -> None:
    came = np.concatenate([np.full(100, 10_000), np.full(400, 500)])
    left = link(came, np.ones(500, dtype=np.bool_), limit=50_000)
    assert came.sum() > left.sum() + 500_000
    # Idle, with what was dropped never to leave: that is neither busy nor loss.
    assert account(came, left).lost(RATE, *window(200, 480)) == 0.0


def test_cross_traffic_is_that_which_came_in_the_window() -> None:
    cross = np.arange(100)
    seen = account(cross + 7, cross + 7, cross)
    assert seen.crossed(*window(10, 20)) == pytest.approx(sum(range(10, 20)))
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
