"""The shift function of pairs: a band that holds, and quantiles that are left out where too few pairs show them."""

from __future__ import annotations

import numpy as np
import pytest

from vtare import stats


def pairs(rng: np.random.Generator, n: int, *, shared: bool) -> tuple[np.ndarray, np.ndarray]:
    """Two alike: heavy-tailed runs of their own, or drift that both of a pair share."""
    if not shared:
        x, y = np.exp(0.05 * rng.standard_t(3, (2, n)))
        return x, y
    drift = np.cumsum(rng.normal(0, 0.02, n))
    x, y = np.exp(drift + rng.normal(0, 0.02, (2, n)))
    return x, y


@pytest.mark.parametrize("n", [18, 30, 120])
@pytest.mark.parametrize("shared", [False, True])
def test_the_band_holds_all_quantiles_at_once(n: int, shared: bool) -> None:
    rng = np.random.default_rng([n, shared])
    trials = 120
    held = sum(
        all(one.low <= 1 <= one.high for one in stats.quantile_shift(*pairs(rng, n, shared=shared), rng=rng))
        for _ in range(trials)
    )
    assert held / trials >= 0.93 - 3 * (0.05 * 0.95 / trials) ** 0.5


def test_a_tail_that_grows_shows_at_its_quantiles_alone() -> None:
    rng = np.random.default_rng(3)
    x, y = pairs(rng, 400, shared=False)
    y[rng.random(400) < 0.12] *= 3.0
    found = {one.probability: one for one in stats.quantile_shift(x, y, rng=rng)}
    assert found[0.95].low > 1.3
    assert found[0.3].low < 1 < found[0.3].high


def test_what_few_pairs_cannot_show_is_left_out() -> None:
    rng = np.random.default_rng(4)
    shown = {n: [one.probability for one in stats.quantile_shift(*pairs(rng, n, shared=False), rng=rng)]
             for n in (17, 18, 58, 118, 598)}  # fmt: skip
    assert shown[17] == []
    assert shown[18] == [0.3, 0.4, 0.5, 0.6, 0.7]
    assert (shown[58][0], shown[58][-1]) == (0.1, 0.9)
    assert (shown[118][-1], shown[598][-1]) == (0.95, 0.99)


def test_what_has_no_ratio_is_refused() -> None:
    rng = np.random.default_rng(5)
    with pytest.raises(ValueError, match="pass pairs"):
        stats.quantile_shift([1.0, 2.0], [1.0], rng=rng)
    with pytest.raises(ValueError, match="not above 0"):
        stats.quantile_shift([1.0, 0.0], [1.0, 1.0], rng=rng)


def test_what_never_differs_has_a_band_without_width() -> None:
    found = stats.quantile_shift([2.0] * 20, [3.0] * 20, rng=np.random.default_rng(6))
    assert {(round(one.low, 9), round(one.high, 9)) for one in found} == {(1.5, 1.5)}
