"""The truth of a window: exact where everything is logged, absent where it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtare.errors import BadInput
from vtare.topology.path import PathSpec, Phase
from vtare.topology.truth import (
    CAPACITY_LOG,
    LINK_LOG,
    SENT_LOG,
    Cumulative,
    Truth,
    judge,
    read_capacity,
    read_cross,
    read_truth,
)

MS = 1_000_000
START = 16_000_000_000_000
amounts = st.lists(st.integers(0, 10**6), min_size=1, max_size=40)
shares = st.tuples(*[st.floats(0, 1)] * 3).map(sorted)


def course(values: list[int], length: int = MS) -> Cumulative:
    begin = START + length * np.arange(len(values), dtype=np.int64)
    return Cumulative.of_bins(begin, length, np.array(values, dtype=np.float64))


@given(amounts, shares)
def test_what_came_adds_up_over_adjacent_windows_and_is_never_negative(values: list[int], at: list[float]) -> None:
    known = course(values)
    a, b, c = (START + share * MS * len(values) for share in at)
    whole, first, second = known.between(a, c), known.between(a, b), known.between(b, c)
    assert whole is not None
    assert first is not None
    assert second is not None
    assert first >= 0
    assert whole == pytest.approx(first + second, abs=1e-3 + 1e-9 * sum(values))


@given(amounts)
def test_all_bins_together_are_all_that_came(values: list[int]) -> None:
    assert course(values).between(START, START + MS * len(values)) == pytest.approx(sum(values))


@given(st.integers(-5, 50), st.integers(1, 50))
def test_a_window_that_is_not_all_logged_has_no_truth(begin_ms: int, length_ms: int) -> None:
    begin, end = START + begin_ms * MS, START + (begin_ms + length_ms) * MS
    inside = begin_ms >= 0 and begin_ms + length_ms <= 20
    truth = Truth(steady_bit_per_s=10**8, capacity=None, cross=course([1000] * 20))
    available, _, why = truth.over(begin, end)
    assert (available is not None) == inside == (why is None)


@given(st.floats(0, 19), st.floats(0.01, 1), st.integers(0, 37_000))
def test_even_cross_traffic_leaves_the_rest_in_every_window(begin_ms: float, length_ms: float, byte: int) -> None:
    truth = Truth(steady_bit_per_s=3 * 10**8, capacity=None, cross=course([byte] * 20))
    begin = START + round(begin_ms * MS)
    available, capacity, why = truth.over(begin, begin + round(length_ms * MS))
    assert (capacity, why) == (3 * 10**8, None)
    assert available == pytest.approx(3 * 10**8 - 8000 * byte, abs=1.0)


def test_more_cross_traffic_than_the_capacity_leaves_nothing_and_no_error() -> None:
    truth = Truth(steady_bit_per_s=10**6, capacity=None, cross=course([1000] * 20))
    assert truth.over(START, START + MS)[0] == 0.0
    row = judge(estimates(avb_bit_per_s=10**5), truth).row(0, named=True)
    assert (row["truth_bit_per_s"], row["error_percent"]) == (0.0, None)


def test_a_window_in_which_the_emulator_missed_frames_has_no_truth() -> None:
    truth = Truth(None, course([10**5] * 4), None, missed=course([0, 0, 1, 0]))
    assert truth.over(START, START + 2 * MS)[2] is None
    assert truth.over(START + MS, START + 3 * MS) == (None, None, "link missed frames")


def estimates(**changed: Any) -> pl.DataFrame:
    row = {
        "began_ns": START, "elapsed_ns": 10 * MS, "window_from_ns": None, "window_to_ns": None,
        "avb_bit_per_s": 110_000_000, "low_bit_per_s": None, "high_bit_per_s": None,
    } | changed  # fmt: skip
    return pl.DataFrame([row], schema=dict.fromkeys(row, pl.Int64))


@pytest.mark.parametrize(
    ("low", "high", "covered"), [(90, 110, True), (100, 100, True), (101, 120, False), (80, 99, False), (None, 9, None)]
)
def test_an_interval_covers_the_truth_or_not(low: int | None, high: int, covered: bool | None) -> None:
    ends = {"low_bit_per_s": None if low is None else low * 10**6, "high_bit_per_s": high * 10**6}
    row = judge(estimates(**ends), Truth(10**8, None, None)).row(0, named=True)
    assert row["covered"] is covered
    assert row["error_percent"] == pytest.approx(10.0)


def test_the_methods_own_window_goes_before_its_whole_time() -> None:
    known = Truth(3 * 10**8, None, course([0] * 5 + [12_500] * 5))
    late = judge(estimates(window_from_ns=START + 5 * MS, window_to_ns=START + 10 * MS), known).row(0, named=True)
    whole = judge(estimates(), known).row(0, named=True)
    assert (late["own_window"], late["truth_bit_per_s"]) == (True, pytest.approx(200e6))
    assert (whole["own_window"], whole["truth_bit_per_s"]) == (False, pytest.approx(250e6))


def test_without_a_path_of_the_lab_nothing_is_stated_of_truth(tmp_path: Path) -> None:
    assert read_truth(tmp_path, {}) is None
    row = judge(estimates(), None).row(0, named=True)
    assert [row[name] for name in ("truth_bit_per_s", "error_percent", "covered", "no_truth", "disturbed")] == [
        None
    ] * 5


def test_steps_hold_from_the_middle_of_their_change_on(tmp_path: Path) -> None:
    path = PathSpec("tbf", (Phase(10**8, 10 * MS), Phase(2 * 10**8, 10 * MS)))
    changes = [(START, START + 2 * MS, 10**8), (START + 10 * MS, START + 12 * MS, 2 * 10**8)]
    lines = [{"from_monotonic_ns": a, "to_monotonic_ns": b, "bit_per_s": rate} for a, b, rate in changes]
    (tmp_path / CAPACITY_LOG).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    capacity, missed = read_capacity(tmp_path, path)
    assert missed is None
    truth = Truth(None, capacity, None)
    assert truth.over(START + 2 * MS, START + 8 * MS)[0] == pytest.approx(1e8)
    assert truth.over(START + 12 * MS, START + 20 * MS)[0] == pytest.approx(2e8)
    assert truth.over(START + 6 * MS, START + 16 * MS)[0] == pytest.approx(1.5e8)
    assert truth.over(START + 20 * MS, START + 30 * MS)[2] == "not logged"


@pytest.mark.parametrize("content", [b"", b"PAR1", None])
def test_logs_that_are_no_logs_are_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    for name in (SENT_LOG, LINK_LOG, CAPACITY_LOG):
        if content is not None:
            (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=SENT_LOG):
        read_cross(tmp_path / SENT_LOG)
    with pytest.raises(BadInput, match=LINK_LOG):
        read_capacity(tmp_path, PathSpec("link", (Phase(10**8, MS),)))
    with pytest.raises(BadInput, match=CAPACITY_LOG):
        read_capacity(tmp_path, PathSpec("tbf", (Phase(10**8, MS), Phase(10**9, MS))))


@pytest.mark.parametrize(("arrivals", "sent"), [("constant", 10**8), ("poisson", 10**8), ("onoff", None)])
def test_the_share_of_cross_traffic_that_was_sent_is_known_where_a_run_is_long_enough_for_a_mean(
    tmp_path: Path, arrivals: str, sent: int | None
) -> None:
    """Of 200 Mbit/s the source sent 100; a tenth was lost on the way, which is not the source's fault."""
    path = PathSpec("tbf", (Phase(10**9, MS),), cross_bit_per_s=2 * 10**8, cross_arrivals=arrivals, loss_fraction=0.1)
    (tmp_path / "topology.json").write_text(json.dumps({"path": path.document()}))
    bins = {"bin_monotonic_ns": START + MS * np.arange(20), "ip_byte": np.full(20, 12_500)}
    pl.DataFrame(bins).write_parquet(tmp_path / SENT_LOG, metadata={"vtare": json.dumps({"bin_ns": MS})})
    truth = read_truth(tmp_path, {})
    assert truth is not None
    assert truth.cross_bit_per_s == (None if sent is None else pytest.approx(sent))
    assert truth.cross_share == (None if sent is None else pytest.approx(0.5))
