"""Student's t for a mean difference, paired or of two groups, over any number of data sets at once.

The decision rule (`vtare.stats.comparison`) and its simulations (`vtare.stats.planning`, `bench/statistics`) call the
same functions, so that a promised power is the power of the rule itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from vtare.stats._arrays import FloatArray
from vtare.stats._scipy import special


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """Mean differences with their standard errors and degrees of freedom; arrays of shape (...), a data set each."""

    mean: FloatArray
    error: FloatArray
    freedom: FloatArray

    def p(self) -> FloatArray:
        """Return the two-sided p-values; 1 where mean and error are 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(self.mean == 0.0, 0.0, np.abs(self.mean) / self.error)
        return t_p(t, self.freedom)

    def half_width(self, alpha: float) -> FloatArray:
        """Return half the width of the 1 - alpha intervals."""
        width: FloatArray = t_quantile(1.0 - alpha / 2.0, self.freedom) * self.error
        return width


def t_p(t: FloatArray, freedom: FloatArray) -> FloatArray:
    """Return the two-sided p-values of t statistics that are not negative; an infinite one has p 0. All: shape (...).

    >>> round(float(t_p(np.array(2.776), np.array(4.0))), 3)
    0.05
    """
    with np.errstate(over="ignore", divide="ignore"):
        # P(|T| > t) by the incomplete beta function: several times faster than scipy's distributions.
        p: FloatArray = np.where(
            np.isinf(freedom), 2.0 * special.ndtr(-t), special.betainc(freedom / 2.0, 0.5, freedom / (freedom + t * t))
        )
    return np.where(np.isinf(t), 0.0, p)


def t_quantile(probability: float, freedom: FloatArray) -> FloatArray:
    """Return quantiles of t, shape (...) as `freedom`; infinite degrees of freedom (the normal distribution) included.

    >>> round(float(t_quantile(0.975, np.array(4.0))), 3)
    2.776
    """
    if np.ndim(freedom) == 0:
        return np.array(_quantile(probability, float(freedom)))
    quantile: FloatArray = np.where(
        np.isinf(freedom), special.ndtri(probability), special.stdtrit(freedom, probability)
    )
    return quantile


@lru_cache(maxsize=4096)
def _quantile(probability: float, freedom: float) -> float:
    """One quantile without SciPy, whose loading takes longer than the rest of a short `vtare ab`."""
    if probability < 0.5:
        return -_quantile(1.0 - probability, freedom)
    if not (freedom > 0.0 and probability < 1.0):
        return math.inf if probability == 1.0 else math.nan
    if math.isinf(freedom):
        return NormalDist().inv_cdf(probability)
    both = 2.0 * (1.0 - probability)
    scale = math.exp(math.lgamma((freedom + 1.0) / 2.0) - math.lgamma(freedom / 2.0)) / math.sqrt(freedom * math.pi)
    low, high, t = 0.0, math.inf, NormalDist().inv_cdf(probability)
    # Newton's steps, and halves or doubles where they leave the bounds.
    for _ in range(200):
        off = _beyond(t, freedom) - both
        low, high = (t, high) if off > 0.0 else (low, t)
        density = 2.0 * scale * math.exp(-(freedom + 1.0) / 2.0 * math.log1p(t * t / freedom))
        after = t + off / density if density > 0.0 else math.inf
        if not low <= after <= high:
            after = (low + high) / 2.0 if math.isfinite(high) else 2.0 * t
        if abs(after - t) <= 1e-14 * t:
            break
        t = after
    return after


def _beyond(t: float, freedom: float) -> float:
    """P(|T| > t): the incomplete beta function by its continued fraction (DLMF 8.17.22, Lentz's way)."""
    a, b, x, rest = freedom / 2.0, 0.5, freedom / (freedom + t * t), t * t / (freedom + t * t)
    if x in (0.0, 1.0):
        return x
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    if x < (a + 1.0) / (a + b + 2.0):
        return math.exp(scale) * _fraction(a, b, x) / a
    return 1.0 - math.exp(scale) * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction, to the last digit."""
    top = 1.0
    value = under = 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        before = value
        for part in (even, odd):
            top, under = 1.0 + part / top, 1.0 / (1.0 + part * under)
            value *= top * under
        if value == before:
            break
    return value


def paired_t(d: FloatArray) -> MeanDifference:
    """Paired t: differences `d` of shape (..., blocks), with blocks - 1 degrees of freedom.

    Exact for normal differences, whatever the spreads of the two cells and of the blocks.

    >>> found = paired_t(np.array([0.1, 0.2, 0.15, 0.15]))
    >>> round(float(found.mean), 3), float(found.freedom)
    (0.15, 3.0)
    """
    n = d.shape[-1]
    error = d.std(axis=-1, ddof=1) / np.sqrt(n)
    return MeanDifference(d.mean(axis=-1), error, np.full(error.shape, n - 1.0))


def welch_t(x: FloatArray, y: FloatArray) -> MeanDifference:
    """Welch's t for the difference of two means, spreads not taken as equal (Welch 1947); shape (..., runs) each.

    >>> found = welch_t(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0, 8.0]))
    >>> round(float(found.mean), 3), round(float(found.freedom), 2)
    (-3.0, 4.08)
    """
    part_x, part_y = (v.var(axis=-1, ddof=1) / v.shape[-1] for v in (x, y))
    total = part_x + part_y
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = total**2 / (part_x**2 / (x.shape[-1] - 1) + part_y**2 / (y.shape[-1] - 1))
    # Without any spread there is nothing to estimate the degrees of freedom from.
    most = float(x.shape[-1] + y.shape[-1] - 2)
    return MeanDifference(
        x.mean(axis=-1) - y.mean(axis=-1), np.sqrt(total), np.where(np.isfinite(freedom), freedom, most)
    )
