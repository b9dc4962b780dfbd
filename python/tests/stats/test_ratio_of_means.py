"""The ratio of means and the step of figures: coverage, and what rounding may hide."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from vtare import stats

Draw = Callable[[np.random.Generator, int], np.ndarray]
DRAWS: dict[str, tuple[float, Draw]] = {
    "normal": (1.0, lambda rng, n: 1.0 + 0.05 * rng.normal(size=n)),
    "1 run in 10 half as long again": (1.05, lambda rng, n: np.where(rng.random(n) < 0.1, 1.5, 1.0)),
    "exponential": (2.0, lambda rng, n: 1.0 + rng.exponential(size=n)),
    "far runs": (1.1, lambda rng, n: np.where(rng.random(n) < 0.05, 3.0, 1.0) + 0.01 * rng.normal(size=n)),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_holds_the_true_ratio_of_means(name: str, paired: bool) -> None:
    mean, draw = DRAWS[name]
    rng = np.random.default_rng(list(DRAWS).index(name))
    trials, covered = 600, 0
    for _ in range(trials):
        noise = np.exp(0.02 * rng.normal(size=60))
        a = 100.0 * draw(rng, 60) * (noise if paired else 1.0)
        b = 100.0 * np.exp(0.01 * rng.normal(size=60)) * (noise if paired else 1.0)
        found = stats.ratio_of_means(a, b, paired=paired)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= mean <= found.high
    share = stats.share_of(covered, trials)
    assert share.high >= 0.93
    assert share.share <= 0.995


def test_far_runs_on_both_sides_are_no_difference() -> None:
    rng = np.random.default_rng(3)
    trials, rejected = 600, 0
    for _ in range(trials):
        a, b = (np.where(rng.random(60) < 0.03, 10.0, 1.0) + 0.01 * rng.normal(size=60) for _ in range(2))
        found = stats.ratio_of_means(a, b, paired=True)
        assert found.low is not None
        assert found.high is not None
        rejected += found.low > 1 or found.high < 1
    assert stats.share_of(rejected, trials).low <= 0.07


def test_one_value_has_no_interval_and_none_above_zero_is_refused() -> None:
    assert stats.ratio_of_means([2.0], [1.0], paired=True).low is None
    for a, b in (([], [1.0]), ([1.0, 0.0], [1.0, 1.0]), ([1.0], [-1.0])):
        with pytest.raises(ValueError, match="above 0"):
            stats.ratio_of_means(a, b, paired=True)


@pytest.mark.parametrize(("step_a", "step_b"), [(1.0, 1.0), (1.0, 0.01), (0.0, 1.0)])
def test_a_step_opens_the_interval_by_half_of_it_on_each_side(step_a: float, step_b: float) -> None:
    slack = stats.step_slack([10.0] * 9, [10.0] * 9, step=step_a, step_b=step_b, by_ranks=True)
    low, high = math.log1p(step_b / 20) - math.log1p(-step_a / 20), math.log1p(step_a / 20) - math.log1p(-step_b / 20)
    assert (slack.down, slack.up) == (pytest.approx(low), pytest.approx(high))


def test_a_step_beyond_the_value_leaves_an_end_open() -> None:
    slack = stats.step_slack([1.0] * 5, [1.0] * 5, step=2.0)
    assert math.isinf(slack.down)
    assert math.isinf(slack.up)


@pytest.mark.parametrize("seed", range(20))
def test_a_lattice_is_found_whatever_the_spread_and_none_is_seen_in_fine_figures(seed: int) -> None:
    rng = np.random.default_rng(seed)
    step = float(rng.integers(2, 1000))
    spread = float(rng.uniform(0.3, 40))
    values = step * np.rint(1000 + spread * rng.normal(size=(2, 30)))
    found = stats.step_of_runs(values[0], values[1], least=1.0)
    assert found % step == 0.0
    assert found <= 2 * step
    fine = np.rint(1e6 + 1e4 * rng.normal(size=(2, 30)))
    assert stats.step_of_runs(fine[0], fine[1], least=1.0) <= 2.0
