"""Intervals that hold at every look, and how many independent readings a run amounts to."""

from __future__ import annotations

import numpy as np
import pytest

from vtare import stats


def test_looking_after_every_block_leaves_the_truth_out_in_at_most_5_percent() -> None:
    rng = np.random.default_rng(4)
    outside = ordinary = 0
    for _ in range(400):
        d = 0.3 * rng.normal(size=30)
        looks = [stats.confidence_sequence(d[:n]) for n in range(2, 31)]
        outside += any(one.low is not None and one.high is not None and not one.low <= 0 <= one.high for one in looks)
        ts = [stats.paired_t(d[:n]) for n in range(4, 31)]
        ordinary += any(abs(t.mean) > t.half_width(0.05) for t in ts)
    assert stats.share_of(outside, 400).low <= 0.05
    assert outside <= 20
    # What the same looks make of t intervals.
    assert ordinary > 60


def test_anytime_intervals_of_few_or_unpaired_runs_have_no_end() -> None:
    assert stats.confidence_sequence([0.1]).low is None
    assert stats.confidence_sequence([0.1, 0.2, 0.1, 0.2]).low is None
    assert stats.anytime_ratio(stats.compare_runs([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])).low is None


def test_readings_that_follow_each_other_amount_to_fewer() -> None:
    rng = np.random.default_rng(5)
    assert stats.autocorrelation(rng.normal(size=4000)).n_eff == pytest.approx(4000, rel=0.1)
    walk = np.cumsum(rng.normal(size=4000))
    found = stats.autocorrelation(walk)
    assert found.n_eff is not None
    assert found.n_eff < 20
    assert stats.autocorrelation(np.ones(100)).lag1 is None
