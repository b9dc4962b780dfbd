"""Looks at pairs that grow: the error of all looks together, and the intervals that belong to them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from vtare import stats


def test_looks_spend_alpha_and_no_more() -> None:
    rng = np.random.default_rng(20261124)
    shares = (0.1, 0.3, 0.4, 0.7, 1.0)
    looks = stats.Looks(alpha=0.05)
    bounds = [scipy_stats.norm.isf(looks.level(share) / 2.0) for share in shares]
    steps = rng.normal(size=(200_000, len(shares))) * np.sqrt(np.diff((0.0, *shares)))
    z = np.cumsum(steps, axis=1) / np.sqrt(shares)
    crossed = np.abs(z) > bounds
    assert crossed.any(axis=1).mean() == pytest.approx(0.05, abs=0.002)
    assert crossed[:, :3].any(axis=1).mean() == pytest.approx(0.05 * 0.4**2, abs=0.0015)


def test_a_look_without_more_information_has_no_level_but_the_last_one_uses_what_is_left() -> None:
    looks = stats.Looks(alpha=0.05)
    looks.level(0.5)
    assert looks.level(0.5) == 0.0
    assert looks.level(0.4) == 0.0
    assert looks.level(0.4, last=True) == pytest.approx(0.05, abs=0.002)


@pytest.mark.parametrize("n", [6, 9, 25, 60])
def test_the_interval_is_that_of_the_signed_rank_test(n: int) -> None:
    d = np.random.default_rng(n).normal(loc=0.3, size=n)
    found = stats.paired_shift(d, alpha=0.05)
    assert found.low is not None
    assert found.high is not None
    # Just inside the interval a shift is not rejected, just outside it is.
    for end, outward in ((found.low, -1e-9), (found.high, 1e-9)):
        inside = scipy_stats.wilcoxon(d - (end - outward), method="exact").pvalue
        outside = scipy_stats.wilcoxon(d - (end + outward), method="exact").pvalue
        assert outside <= 0.05 < inside


def test_few_pairs_have_a_value_and_no_interval() -> None:
    found = stats.paired_shift([0.1, 0.2, 0.3, 0.4, 0.5])
    assert (found.value, found.low, found.half_width) == (pytest.approx(0.3), None, None)
    assert stats.paired_shift([0.1, 0.2, 0.3, 0.4, 0.5], alpha=0.0625).low == pytest.approx(0.1)
