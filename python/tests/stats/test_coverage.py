"""Simulated campaigns: how often the decision rule rejects, finds and covers. bench/statistics does it with stores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from vtare import stats


def run_medians(rng: np.random.Generator, n: int, *, shift: float = 0.0, between: float = 0.08) -> np.ndarray:
    """Run medians of a cell whose runs differ by 8 %, skewed as times are."""
    return np.exp(shift + between * rng.normal(size=n))


def heavy(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.exp(0.08 * rng.standard_t(4, size=n))


def compare(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> stats.Comparison:
    return stats.compare_medians(a, b, rng=rng, resamples=999)


@pytest.mark.parametrize(("n", "trials"), [(4, 2000), (5, 2000), (9, 2000), (10, 1000), (20, 600)])
def test_a_a_comparisons_reject_in_3_to_7_percent(n: int, trials: int) -> None:
    def rejects(rng: np.random.Generator) -> bool:
        p = compare(run_medians(rng, n), run_medians(rng, n), rng).p
        assert p is not None
        return p <= 0.05

    found = stats.self_test(rejects, trials=trials, seed=n)
    # The share itself is asked for, less what this many trials cannot tell.
    assert found.high >= 0.03
    assert found.low <= 0.07
    assert 0.02 < found.share < 0.075


def test_runs_of_heavy_tails_are_not_called_different_more_often() -> None:
    def rejects(rng: np.random.Generator) -> bool:
        p = compare(heavy(rng, 6), heavy(rng, 6), rng).p
        return p is not None and p <= 0.05

    assert stats.self_test(rejects, trials=1500, seed=1).low <= 0.05


@pytest.mark.parametrize(("n", "trials"), [(4, 1500), (5, 1500), (8, 1500), (12, 600)])
def test_intervals_of_95_percent_cover_93_to_97(n: int, trials: int) -> None:
    def covers(rng: np.random.Generator) -> bool:
        found = compare(run_medians(rng, n, shift=math.log(1.3), between=0.1), run_medians(rng, n), rng)
        assert found.low is not None
        assert found.high is not None
        return found.low <= 1.3 <= found.high

    found = stats.self_test(covers, trials=trials, seed=n)
    assert found.high >= 0.93
    assert found.low <= 0.97


def test_an_injected_shift_of_10_percent_is_found() -> None:
    # 10 runs whose medians differ by 5 %: log(1.1) is 1.9 of their standard deviations.
    def finds(rng: np.random.Generator) -> bool:
        a, b = (run_medians(rng, 10, shift=s, between=0.05) for s in (math.log(1.1), 0.0))
        found = compare(a, b, rng)
        return stats.verdict(found, p_adjusted=found.p, margin_ratio=1.01).word == "differs"

    found = stats.self_test(finds, trials=300, seed=3)
    assert found.share > 0.9


def readings(rng: np.random.Generator, n: int, *, shift: float = 0.0) -> list[np.ndarray]:
    """Runs of autocorrelated readings (AR(1) 0.9) that differ from each other."""

    def series() -> np.ndarray:
        x: np.ndarray = lfilter([math.sqrt(1 - 0.81)], [1.0, -0.9], rng.normal(size=300))[100:]
        return np.exp(shift + 0.05 * rng.normal() + 0.1 * x)

    return [series() for _ in range(n)]


def test_the_hierarchical_bootstrap_covers_the_truth_with_autocorrelated_readings() -> None:
    def covers(rng: np.random.Generator) -> bool:
        pools = [stats.RunPool.of(readings(rng, 10, shift=s), rng=rng, size=40) for s in (0.2, 0.0)]
        found = stats.compare_medians(*pools, rng=rng, resamples=499)
        assert found.method == "hierarchical bootstrap"
        assert found.low is not None
        assert found.high is not None
        return found.low <= math.exp(0.2) <= found.high

    found = stats.self_test(covers, trials=200, seed=5)
    # A naive interval over the pooled readings would cover about a fifth (statistics.md).
    assert found.high >= 0.95
    assert found.share >= 0.91


def test_permutation_of_tails_rejects_an_a_a_pair_in_about_5_percent() -> None:
    def rejects(rng: np.random.Generator) -> bool:
        p = stats.permute_runs(heavy(rng, 6), heavy(rng, 6), family="a/a", rng=rng).p
        return p is not None and p.raw <= 0.05

    found = stats.self_test(rejects, trials=800, seed=9)
    assert found.low <= 0.05
    assert found.high >= 0.03


def test_the_aligned_rank_transform_finds_no_interaction_where_effects_only_add() -> None:
    levels = {"load": [], "method": []}  # type: dict[str, list[int]]
    blocks = []
    for block in range(5):
        for load in range(3):
            for method in range(2):
                levels["load"].append(load)
                levels["method"].append(method)
                blocks.append(block)
    load, method, block = (np.array(x) for x in (levels["load"], levels["method"], blocks))

    def rejects(rng: np.random.Generator, interaction: float = 0.0) -> bool:
        # Main effects far larger than the noise: ranks without alignment would invent an interaction here.
        y = 3.0 * load + 5.0 * method + rng.normal(size=5)[block] + rng.normal(size=30) + interaction * load * method
        (test,) = stats.aligned_rank_tests(y, levels, family="f", block=blocks)
        assert test.p is not None
        return test.p.raw <= 0.05

    none = stats.self_test(rejects, trials=400, seed=2)
    assert none.low <= 0.06
    assert stats.self_test(lambda rng: rejects(rng, 2.0), trials=50, seed=2).share > 0.9


def test_friedman_rejects_an_a_a_campaign_at_most_as_often_as_alpha() -> None:
    def rejects(rng: np.random.Generator) -> bool:
        p = stats.friedman(rng.normal(size=(6, 1)) + rng.normal(size=(6, 3)), family="a/a").p
        return p is not None and p.raw <= 0.05

    assert stats.self_test(rejects, trials=400, seed=17).low <= 0.05


def test_plans_name_the_numbers_of_runs_that_ranks_need() -> None:
    # statistics.md: 80 % power for a shift of 3, 2 and 1.5 standard deviations takes 4, 6 and 10 runs by ranks.
    rng = np.random.default_rng(8)
    for n, shift in ((4, 3.0), (6, 2.0), (10, 1.5)):
        assert stats.simulated_rank_power(n, shift_sd=shift, trials=2000, rng=rng) > 0.77
    assert stats.simulated_rank_power(5, shift_sd=2.0, trials=2000, rng=rng) < 0.74


def test_the_planned_power_is_what_the_rule_has() -> None:
    for n, shift in ((5, 2.0), (9, 1.5)):

        def finds(rng: np.random.Generator, n: int = n, shift: float = shift) -> bool:
            p = compare(np.exp(0.1 * (rng.normal(size=n) + shift)), np.exp(0.1 * rng.normal(size=n)), rng).p
            return p is not None and p <= 0.05

        found = stats.self_test(finds, trials=800, seed=n)
        assert found.low - 0.03 <= stats.power(n, shift_sd=shift) <= found.high + 0.03
