"""Campaigns as units: false alarms under campaign offsets, coverage, and how many campaigns it takes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from vtare import stats
from vtare.summary.campaigns import campaigns_needed, interleaved, shift_between

OFFSETS = (0.0, 0.5, 1.0, 2.0)
TRIALS = 1000
SLACKS = (stats.NO_SLACK, stats.StepSlack(1.0, 0.5, 0.5, 0.0, 0.0))


def simulated(offset: float, before: int, after: int, *, seed: int, paired: bool = False) -> tuple[float, float]:
    """Shares rejected and covering of A/A comparisons: five runs of SD 1 a campaign, campaigns of SD `offset`."""
    rng = np.random.default_rng([seed, before, after, int(10 * offset)])
    rejected = covered = 0
    for _ in range(TRIALS):
        sides = [(rng.normal(0, offset, n) + rng.normal(0, 1, (n, 5)).mean(axis=1)).tolist() for n in (after, before)]
        found = shift_between(*sides, paired=paired)
        assert found.p is not None
        assert found.low is not None
        assert found.high is not None
        rejected += found.p <= 0.05
        covered += found.low <= 0 <= found.high
    return rejected / TRIALS, covered / TRIALS


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize(("before", "after", "paired"), [(3, 3, False), (5, 5, False), (2, 5, False), (4, 4, True)])
def test_a_campaigns_offset_is_not_called_a_change(offset: float, before: int, after: int, paired: bool) -> None:
    rejected, covered = simulated(offset, before, after, seed=7, paired=paired)
    # 3 to 7 % and 93 to 97 %, give or take three standard errors of the simulation.
    error = 3 * math.sqrt(0.05 * 0.95 / TRIALS)
    assert 0.03 - error <= rejected <= 0.07 + error
    assert covered == pytest.approx(1 - rejected, abs=1e-9)


@pytest.mark.parametrize("offset", OFFSETS)
def test_two_campaigns_a_side_are_cautious(offset: float) -> None:
    rejected, _ = simulated(offset, 2, 2, seed=11)
    assert 0.01 <= rejected <= 0.05


def test_the_same_tests_as_scipy() -> None:
    here, there = [1.0, 1.4, 1.3, 1.9], [0.9, 1.1, 1.0, 1.35]
    welch = scipy_stats.ttest_ind(here, there, equal_var=False)
    found = shift_between(here, there)
    assert (found.p, found.freedom) == pytest.approx((welch.pvalue, welch.df))
    interval = welch.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    pairs = scipy_stats.ttest_rel(here, there)
    assert shift_between(here, there, paired=True).p == pytest.approx(pairs.pvalue)


def test_one_campaign_on_a_side_gives_an_estimate_and_nothing_else() -> None:
    found = shift_between([1.0], [0.5, 0.6, 0.7])
    assert found.estimate == pytest.approx(0.4)
    assert (found.low, found.high, found.p, found.method) == (None, None, None, "refused")


def test_p_and_interval_agree_whatever_the_data() -> None:
    rng = np.random.default_rng(5)
    for _ in range(1000):
        here, there = (rng.normal(0, rng.choice([0.0, 1.0]), rng.integers(2, 5)).tolist() for _ in range(2))
        found = shift_between(here, [y + rng.choice([0, 2]) for y in there], slack=SLACKS[int(rng.integers(2))])
        assert found.p is not None
        assert found.low is not None
        assert found.high is not None
        assert (found.p <= 0.05) == (found.low > 0 or found.high < 0)
        assert found.low <= found.estimate <= found.high


def test_a_step_of_the_clock_is_no_change() -> None:
    # Two medians one step apart, the same in all campaigns of a side.
    found = shift_between([10.0] * 5, [9.0] * 5, slack=stats.step_slack([10.0] * 5, [9.0] * 5, step=1.0, on_log=False))
    assert found.p == 1.0


def test_the_number_of_campaigns_finds_the_shift_as_often_as_promised() -> None:
    assert campaigns_needed(1.0, 1.0) == 17
    assert campaigns_needed(1.0, 0.01) is None
    needed = campaigns_needed(1.0, 2.0)
    assert needed is not None
    rng = np.random.default_rng(3)
    found = [
        shift_between(rng.normal(2, 1, needed).tolist(), rng.normal(0, 1, needed).tolist()).p or 1.0
        for _ in range(1000)
    ]
    assert 0.75 <= np.mean(np.array(found) <= 0.05) <= 0.9


def test_campaigns_alternate_or_they_do_not() -> None:
    assert interleaved([1, 3, 5], [2, 4, 6])
    assert interleaved([1, 4], [2, 3])
    assert not interleaved([1, 2], [3, 4])
    assert not interleaved([1, 3, 5], [2, 4])


def test_what_a_family_of_cells_needs_is_what_finds_a_change_in_it() -> None:
    """20 cells, one of which changed: the campaigns that a pilot of 3 a side asks for find it as often as promised."""
    rng = np.random.default_rng(8)
    found = []
    for _ in range(400):
        pilot = rng.normal(0, 1, (2, 3))
        spread = math.sqrt(float(pilot.var(axis=1, ddof=1).mean()))
        needed = campaigns_needed(spread, 1.5, comparisons=20, freedom=4.0)
        assert needed is not None
        cells = rng.normal(0, 1, (2, needed, 20))
        cells[0, :, 0] += 1.5
        p = scipy_stats.ttest_ind(cells[0], cells[1], equal_var=False).pvalue
        found.append(stats.adjust(p.tolist(), family="f", adjustment="holm")[0].adjusted <= 0.05)
    assert 0.75 <= np.mean(found) <= 0.86
