"""Blocks that follow each other: a memory is seen, an interval allows for it, and independent blocks lose little."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))

import independent_inference

from vtare import stats


def series(rng: np.random.Generator, trials: int, n: int, memory: float) -> np.ndarray:
    """AR(1) series of unit variance, shape (trials, n)."""
    noise = rng.normal(size=(trials, n))
    noise[:, 0] /= math.sqrt(1.0 - memory**2)
    return lfilter([math.sqrt(1.0 - memory**2)], [1.0, -memory], noise, axis=1)


def rejected(rng: np.random.Generator, trials: int, n: int, memory: float) -> tuple[float, float]:
    """Shares of A/A comparisons that the rule and a plain t reject."""
    x, y = (0.05 * series(rng, trials, n, memory) for _ in range(2))
    rule = [
        stats.compare_runs(dict(enumerate(np.exp(a))), dict(enumerate(np.exp(b)))).p for a, b in zip(x, y, strict=True)
    ]
    return float(np.mean([p is not None and p <= 0.05 for p in rule])), float(
        np.mean(stats.paired_t(x - y).p() <= 0.05)
    )


@pytest.mark.parametrize(("n", "most"), [(10, 0.27), (20, 0.18), (40, 0.14)])
def test_an_interval_allows_for_the_memory_of_blocks(n: int, most: float) -> None:
    rule, plain = rejected(np.random.default_rng(n), 400, n, 0.7)
    assert plain > 0.3
    assert rule < most


@pytest.mark.parametrize("n", [8, 10, 20])
def test_independent_blocks_lose_little(n: int) -> None:
    rule, plain = rejected(np.random.default_rng([n, 1]), 800, n, 0.0)
    assert plain - 0.02 <= rule <= plain
    assert 0.02 <= rule <= 0.07


def test_estimate_interval_and_p_stay_of_one_formula() -> None:
    rng = np.random.default_rng(4)
    seen = 0
    for row in 0.05 * series(rng, 200, 12, 0.8) + 0.04:
        found = stats.compare_runs(dict(enumerate(np.exp(row))), dict.fromkeys(range(12), 1.0))
        assert found.low is not None
        assert found.high is not None
        assert found.p is not None
        assert found.low <= found.ratio <= found.high
        assert (found.p <= 0.05) == (found.low > 1 or found.high < 1)
        seen += found.dependence is not None and found.dependence.seen
    assert seen > 100


def test_a_trend_is_tested_in_the_order_of_blocks() -> None:
    drift = {block: math.exp(0.02 * block) for block in range(1, 11)}
    shuffled = dict(sorted(drift.items(), key=lambda one: (one[0] * 7) % 11))
    for figures in (drift, shuffled):
        found = stats.compare_runs(figures, dict.fromkeys(drift, 1.0)).dependence
        assert found is not None
        assert found.p_trend < 1e-4
        assert found.seen
    assert stats.dependence(np.arange(7.0)) is None
    assert stats.dependence(np.ones(10)) is None


def test_another_program_widens_alike() -> None:
    """The script that recomputes reports without code of vtare gives the same interval."""
    rng = np.random.default_rng(6)
    agreed = 0
    for row in 0.05 * series(rng, 40, 12, 0.6):
        here = {block: float(value) for block, value in enumerate(np.exp(row), 1)}
        there = dict.fromkeys(here, 1.0)
        ours, theirs = stats.compare_runs(here, there), independent_inference.paired(here, there)
        assert ours.dependence is not None
        if abs(ours.dependence.p_memory - 0.1) > 0.02:
            assert (ours.low, ours.high, ours.p) == pytest.approx((theirs.low, theirs.high, theirs.p), rel=1e-6)
            agreed += ours.dependence.seen
    assert agreed > 10
