"""Simulated campaigns: how often the decision rule rejects, finds and covers. bench/statistics has all conditions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from vtare import stats


def rejected(a: np.ndarray, b: np.ndarray, *, paired: bool) -> stats.SelfTest:
    """How often the rule's own t rejects over rows of run logs, with the exact interval of that share."""
    found = stats.paired_t(a - b) if paired else stats.welch_t(a, b)
    return stats.share_of(int(np.sum(found.p() <= 0.05)), len(a))


@pytest.mark.parametrize("n", [4, 5, 9, 10, 20])
@pytest.mark.parametrize("ratio", [1.0, 5.0])
@pytest.mark.parametrize("paired", [True, False])
def test_a_a_comparisons_reject_in_3_to_7_percent(n: int, ratio: float, paired: bool) -> None:
    rng = np.random.default_rng([n, int(ratio), paired])
    found = rejected(ratio * rng.normal(size=(20_000, n)), rng.normal(size=(20_000, n)), paired=paired)
    assert found.low >= 0.03
    assert found.high <= 0.07


@pytest.mark.parametrize(("n_a", "n_b"), [(3, 5), (5, 20), (20, 5), (5, 3)])
def test_unequal_spreads_with_unequal_numbers_of_runs_do_not_raise_false_alarms(n_a: int, n_b: int) -> None:
    # Permutation of runs rejected 17.7 % (3 noisy against 5 quiet runs) and 32.5 % (5 against 20).
    rng = np.random.default_rng([n_a, n_b])
    found = rejected(5.0 * rng.normal(size=(20_000, n_a)), rng.normal(size=(20_000, n_b)), paired=False)
    assert found.low >= 0.03
    assert found.high <= 0.07


def test_vectorised_shares_are_those_of_the_rule_itself() -> None:
    rng = np.random.default_rng(1)
    a, b = np.exp(rng.normal(size=(50, 6))), np.exp(rng.normal(size=(50, 6)))
    for paired in (True, False):
        every = (stats.paired_t(np.log(a) - np.log(b)) if paired else stats.welch_t(np.log(a), np.log(b))).p()
        for x, y, p in zip(a, b, every, strict=True):
            sides = (dict(enumerate(x)), dict(enumerate(y))) if paired else (x, y)
            assert stats.compare_runs(*sides).p == pytest.approx(p)


@pytest.mark.parametrize("n", [4, 5, 9, 10, 20])
def test_intervals_of_95_percent_cover_93_to_97(n: int) -> None:
    rng = np.random.default_rng(n)
    truth = math.log(1.3)
    block = rng.normal(size=(20_000, n))
    a, b = truth + block + 0.1 * rng.normal(size=(20_000, n)), block + 0.4 * rng.normal(size=(20_000, n))
    found = stats.paired_t(a - b)
    covered = stats.share_of(int(np.sum(np.abs(found.mean - truth) <= found.half_width(0.05))), 20_000)
    assert covered.low >= 0.93
    assert covered.high <= 0.97


def test_power_never_falls_with_more_runs() -> None:
    rng = np.random.default_rng(9)
    for paired in (True, False):
        x = rng.normal(size=(8000, 40)) + 0.6
        y = rng.normal(size=(8000, 40))
        shares = [rejected(x[:, :n], y[:, :n], paired=paired).share for n in range(4, 41)]
        assert all(later >= sooner - 0.01 for sooner, later in itertools.pairwise(shares))


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
