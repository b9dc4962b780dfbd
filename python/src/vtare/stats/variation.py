"""How much readings vary: coefficient of variation, Jain's index, the interval of a median over runs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from vtare.stats._arrays import Values, checked
from vtare.stats._scipy import stats as scipy_stats


@dataclass(frozen=True, slots=True)
class Variation:
    """Coefficient of variation, sigma / mean (Lampe et al. 2013), and its split by group.

    `cv` uses the sample standard deviation of all readings. `within` and `between` come from the one-way random-effects
    model: the square roots of the variance inside groups and of the variance of true group means, each over the mean;
    a negative estimate of the latter is 0. All are None where they cannot be estimated, with the reason.
    """

    cv: float | None
    within: float | None
    between: float | None
    n: int
    groups: int
    reason: str | None = None


def coefficient_of_variation(x: Values, *, groups: Sequence[Hashable] | None = None) -> Variation:
    """Return sigma / mean of `x`, split within and between `groups` (one label per reading) where they are given.

    >>> coefficient_of_variation([90.0, 100.0, 110.0]).cv
    0.1

    Raises:
        ValueError: as many labels as readings are wanted.
    """
    values = checked(x)
    n = len(values)
    labels = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    if labels is not None and len(labels) != n:
        raise ValueError(f"{n} readings but {len(labels)} group labels")
    count = 0 if labels is None else int(labels.max(initial=-1)) + 1
    if n < 2:
        return Variation(None, None, None, n, count, f"a spread needs 2 readings, there are {n}")
    mean = float(values.mean())
    if mean <= 0:
        return Variation(
            None, None, None, n, count, f"the mean is {mean:g}; a coefficient of variation needs one above 0"
        )
    cv = float(values.std(ddof=1)) / mean
    if labels is None or count < 2 or n <= count:
        return Variation(
            cv, None, None, n, count, None if labels is None else "the split needs 2 groups and repeats in them"
        )
    sizes = np.bincount(labels).astype(np.float64)
    means = np.bincount(labels, weights=values) / sizes
    inside = float(np.sum((values - means[labels]) ** 2)) / (n - count)
    among = float(np.sum(sizes * (means - mean) ** 2)) / (count - 1)
    # The size that stands for all groups when they are of unequal size.
    typical = (n - float(np.sum(sizes**2)) / n) / (count - 1)
    true_between = max(0.0, (among - inside) / typical)
    return Variation(cv, math.sqrt(inside) / mean, math.sqrt(true_between) / mean, n, count)


@dataclass(frozen=True, slots=True)
class Fairness:
    """Jain's index of `n` achieved loads: 1 where all are equal, 1/n where one has all. None where all are 0."""

    value: float | None
    n: int
    reason: str | None = None


def jain_index(loads: Values) -> Fairness:
    """Return Jain's fairness index (sum x)^2 / (n sum x^2) of *achieved* loads (Jain, Chiu and Hawe 1984).

    >>> round(jain_index([1.0, 1.0, 0.0]).value, 3)
    0.667

    Raises:
        ValueError: a load below 0.
    """
    values = checked(loads)
    if np.any(values < 0):
        raise ValueError("a load below 0 has no share")
    peak = float(values.max(initial=0.0))
    if peak == 0.0:
        return Fairness(None, len(values), "no load was achieved" if len(values) else "no readings")
    # Scaled by the largest, so that rates of 1e200 do not overflow when squared.
    scaled = values / peak
    return Fairness(float(scaled.sum() ** 2 / (len(values) * np.sum(scaled**2))), len(values))


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval. `low` and `high` are None where too few runs stand behind it, with the reason."""

    low: float | None
    high: float | None
    level: float
    method: str
    n: int
    reason: str | None = None


def median_interval(run_figures: Values, *, level: float = 0.95) -> Interval:
    """Return an interval for the median over runs from one figure per run: the unit of inference is the run.

    The distribution-free interval between two order statistics (sign test), whose exact level is given in `level`: at
    least 0.95 from 6 runs on. With 3, 4 and 5 runs it is their whole range, which covers the median in 75, 87.5 and
    93.75 % of cases and is labelled so; a t interval would claim 95 % and reach, with 3 runs, two and a half standard
    deviations to either side. Below 3 runs there is none.

    >>> found = median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    >>> found.low, found.high, found.level
    (1.0, 6.0, 0.96875)
    """
    values = np.sort(checked(run_figures))
    n = len(values)
    if n < 3:
        return Interval(None, None, level, "none", n, f"an interval over runs needs 3 of them, there are {n}")
    # Largest k with P(X(k) < median < X(n + 1 - k)) >= level.
    k = int(scipy_stats.binom.ppf((1.0 - level) / 2.0, n, 0.5))
    if k > 0 and scipy_stats.binom.cdf(k - 1, n, 0.5) > (1.0 - level) / 2.0:
        k -= 1
    k = max(k, 1)
    exact = 1.0 - 2.0 * float(scipy_stats.binom.cdf(k - 1, n, 0.5))
    return Interval(float(values[k - 1]), float(values[n - k]), exact, "order statistics", n)
