"""Tails at common thresholds, shift functions, and intervals that hold at every look."""

from __future__ import annotations

import numpy as np
import pytest

from vtare import stats


def cell(rng: np.random.Generator, n: int, *, scale: float = 1.0, readings: int = 400) -> dict[int, stats.Tally]:
    return {
        block: stats.tally(scale * np.exp(0.05 * rng.normal() + 0.2 * rng.normal(size=readings)))
        for block in range(n)
    }  # fmt: skip


@pytest.mark.parametrize("n", [4, 5, 10])
def test_equal_cells_exceed_a_common_threshold_alike(n: int) -> None:
    rng = np.random.default_rng(n)
    rejected = 0
    for _ in range(300):
        a, b = cell(rng, n), cell(rng, n)
        threshold = stats.common_threshold(a, b, probability=0.99)
        assert threshold is not None
        found = stats.exceedance(a, b, threshold=threshold)
        assert found is not None
        assert found.comparison.p is not None
        rejected += found.comparison.p <= 0.05
    assert stats.share_of(rejected, 300).low <= 0.07


def test_exceedance_stays_defined_where_a_tail_is_not() -> None:
    rng = np.random.default_rng(1)
    # Runs of 30 readings have no p99, and one of them was cut short to 5.
    a, b = cell(rng, 5, scale=1.5, readings=30), cell(rng, 5, readings=30)
    a[0] = stats.tally([2.5] * 5)
    found = stats.exceedance(a, b, threshold=1.6)
    assert found is not None
    assert found.share_a > found.share_b
    assert found.comparison.ratio is not None
    assert found.comparison.ratio > 3
    none = stats.exceedance(a, b, threshold=1e9)
    assert none is not None
    assert (none.share_a, none.share_b) == (0.0, 0.0)
    assert none.comparison.low is not None
    assert stats.exceedance({}, b, threshold=1.0) is None
    assert stats.common_threshold(a, b, probability=0.99) is None


@pytest.mark.parametrize("n", [4, 8])
def test_the_band_of_a_shift_function_holds_all_quantiles_at_once(n: int) -> None:
    rng = np.random.default_rng(n)
    held = 0
    for _ in range(150):
        found = stats.shift_function(cell(rng, n, scale=1.1), cell(rng, n))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += bool(np.all((found.low <= 1.1) & (found.high >= 1.1)))
    assert stats.share_of(held, 150).high >= 0.95


def test_a_shift_of_the_tail_alone_is_seen_in_the_tail_alone() -> None:
    rng = np.random.default_rng(3)
    a, b = ({k: np.exp(0.02 * rng.normal() + 0.2 * rng.normal(size=1000)) for k in range(8)} for _ in range(2))
    longer = {k: np.where(x > np.quantile(x, 0.93), 2.0 * x, x) for k, x in a.items()}
    found = stats.shift_function(
        {k: stats.tally(x) for k, x in longer.items()}, {k: stats.tally(x) for k, x in b.items()}
    )
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    at = found.quantiles.index(0.5)
    assert found.low[at] < 1 < found.high[at]
    assert found.low[found.quantiles.index(0.99)] > 1.5
    few = stats.shift_function(cell(rng, 3), cell(rng, 3))
    assert few is not None
    assert few.low is None
    assert few.reason == "refused: 3 blocks have both cells; 4 are needed"


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
