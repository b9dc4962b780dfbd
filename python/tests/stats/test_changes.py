"""Change points of series that grow: what is found, what alarms nobody, and what further points cannot change."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from vtare import stats
from vtare.stats import changes


def shuffled(seed: int, n: int) -> np.ndarray:
    """A series without a change: normal scores in random order."""
    return np.random.default_rng(seed).normal(size=n)


def brute_force(x: np.ndarray) -> tuple[int, float]:
    """The best split of a window and its Q, by the definition."""
    z = scipy_stats.norm.ppf((scipy_stats.rankdata(x) - 0.5) / len(x))
    best = (0, -1.0)
    for k in range(changes.LEAST_SIDE, len(x) - changes.LEAST_SIDE + 1):
        a, b = z[:k], z[k:]

        def apart(u: np.ndarray, v: np.ndarray) -> float:
            return float(np.abs(u[:, None] - v[None, :]).mean())

        q = len(a) * len(b) / len(x) * (2 * apart(a, b) - apart(a, a) - apart(b, b))
        best = max(best, (k, q), key=lambda one: one[1])
    return best


def test_a_step_is_found_where_the_energy_distance_of_both_sides_is_greatest() -> None:
    x = shuffled(1, 40)
    x[28:] += 4.0
    found = stats.newest_change(x)
    assert found is not None
    assert found.index == brute_force(x)[0]
    assert found.before == pytest.approx(np.median(x[:28]))
    assert found.after == pytest.approx(np.median(x[28:]))


def test_the_limits_are_those_of_permutations() -> None:
    greatest = changes.greatest_of_permutations(20, 4000, np.random.default_rng(5))
    above = int((greatest > changes.LIMITS[20]).sum())
    # 6 are expected of 4000; 17 or more have a probability of 2e-4.
    assert above <= 16
    assert (greatest > 0.9 * changes.LIMITS[20]).sum() > 6


def test_further_points_move_no_change_and_take_none_back() -> None:
    x = shuffled(2, 120)
    x[50:] += 3.0
    x[90:] -= 5.0
    whole = stats.change_points(x)
    assert [abs(change.index - at) <= 2 for change, at in zip(whole, (50, 90), strict=True)] == [True, True]
    for n in range(60, 120, 7):
        assert stats.change_points(x[:n]) == tuple(change for change in whole if change.found_at <= n)


def test_a_single_spike_is_no_change_however_large_it_is() -> None:
    for seed in range(8):
        x = shuffled(seed, 60)
        without = stats.change_points(x)
        x[30] = 1e9
        assert len(stats.change_points(x)) <= len(without)


def test_a_constant_series_and_one_with_two_values_in_random_order_have_no_change() -> None:
    assert stats.change_points([20.0] * 200) == ()
    assert stats.change_points(np.random.default_rng(4).choice([20.0, 21.0], size=200)) == ()


def test_steps_of_two_standard_deviations_are_found_soon_and_few_alarms_are_false() -> None:
    rng = np.random.default_rng(20261124)
    false, delays = 0, []
    for _ in range(30):
        x = rng.normal(size=140)
        x[100:] += 2.0
        found = stats.change_points(x)
        false += sum(change.found_at <= 100 for change in found)
        delays += [change.found_at - 100 for change in found if change.found_at > 100][:1]
    # 3000 points without a change: about 2 alarms; 9 or more have a probability below 1e-3.
    assert false <= 8
    assert np.median(delays) <= 10
    assert len(delays) >= 27


def test_missing_points_are_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        stats.change_points([1.0, float("nan")])
