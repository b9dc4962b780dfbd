"""Where a sample lies and how wide it is: quantiles of Hyndman-Fan type 7, robust spreads."""

from __future__ import annotations

import math

import numpy as np

from vtare.stats._arrays import Estimate, Sorted, Values, in_order

_EMPTY = "no readings"


def least_n(probability: float) -> int:
    """Return the smallest sample from which a quantile in the tail can be estimated.

    The rule of statistics.md: the probability that the largest of n readings lies above the quantile must be 95 %,
    so n = ceil(log 0.05 / log p): 299 for p99, 2995 for p99.9 (mirrored below the median; 1 for the median itself).

    >>> least_n(0.99), least_n(0.999)
    (299, 2995)
    """
    tail = max(probability, 1.0 - probability)
    if tail <= 0.5:
        return 1
    if tail >= 1.0:
        return 1
    return math.ceil(math.log(0.05) / math.log(tail))


def quantile(x: Values | Sorted, probability: float, *, weights: Values | None = None) -> Estimate:
    """Return a quantile (Hyndman-Fan type 7), or None below the least sample that can hold it.

    `weights` counts how often each reading occurred. `quantile(x, 0.99)` of 298 readings has no value.

    >>> round(quantile(range(1000), 0.99).value, 2), quantile(range(100), 0.99).value is None
    (989.01, True)

    Raises:
        ValueError: the probability is outside 0 to 1.
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"probability is {probability}: use 0 to 1")
    sample = x if isinstance(x, Sorted) else in_order(x, weights)
    needed = least_n(probability)
    if sample.n == 0:
        return Estimate(None, 0, _EMPTY)
    if sample.n < needed:
        return Estimate(None, sample.n, f"the {probability:g} quantile needs {needed} readings, there are {sample.n}")
    return Estimate(sample.quantile(probability), sample.n)


def median(x: Values | Sorted, *, weights: Values | None = None) -> Estimate:
    """Return the median: the middle reading, or the mean of the two middle ones.

    >>> median([3.0, 1.0]).value
    2.0
    """
    return quantile(x, 0.5, weights=weights)


def half_iqr(x: Values | Sorted, *, weights: Values | None = None) -> Estimate:
    """Return half the interquartile range (p75 - p25) / 2: what Kirova et al. 2019 call "MAD".

    >>> half_iqr([1.0, 2.0, 3.0, 4.0, 5.0]).value
    1.0
    """
    sample = x if isinstance(x, Sorted) else in_order(x, weights)
    if sample.n == 0:
        return Estimate(None, 0, _EMPTY)
    return Estimate((sample.quantile(0.75) - sample.quantile(0.25)) / 2.0, sample.n)


def mad_raw(x: Values | Sorted, *, weights: Values | None = None) -> Estimate:
    """Return the median of |x - median(x)|, without any factor that makes it look like a standard deviation.

    >>> mad_raw([1.0, 2.0, 3.0, 4.0, 100.0]).value
    1.0
    """
    sample = x if isinstance(x, Sorted) else in_order(x, weights)
    if sample.n == 0:
        return Estimate(None, 0, _EMPTY)
    counts = None if sample.n == len(sample.values) else np.diff(sample.cumulated, prepend=0)
    return median(np.abs(sample.values - sample.quantile(0.5)), weights=counts)
