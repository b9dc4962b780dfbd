"""The ratio of two means: what all runs together took, rare slow ones included, which no middle value shows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked
from vtare.stats.step_slack import step_slack
from vtare.stats.t_rule import t_quantile


@dataclass(frozen=True, slots=True)
class MeanRatio:
    """The ratio of the mean of `a` over that of `b`, with its interval; no ends below 2 values a side."""

    value: float
    low: float | None
    high: float | None
    n: int
    level: float

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width, of the logarithm of the ratio."""
        if self.low is None or self.high is None or self.low <= 0:
            return None
        return math.log(self.high / self.low) / 2.0


def ratio_of_means(
    a: Values, b: Values, *, alpha: float = 0.05, paired: bool, step: float = 0.0, step_b: float | None = None
) -> MeanRatio:
    """Return the ratio of the means of two sides with positive values, and its interval at 1 - alpha.

    Each end is the farther one of two: that of Student's t for x - r y (Fieller 1954), and that of Hall's correction
    for skewness (Hall 1992). Where 1 run in 10 takes half as long again, t alone covers 85 % in 32 runs; with Hall's
    alone a single far run, which skews any sample, would bring an end nearer.
    `paired` values were made together and share their noise. `step` is that in which the values move, `step_b` that of
    `b` where it is another one.

    >>> found = ratio_of_means([11.0, 12.1, 9.9, 13.2], [10.0, 11.0, 9.0, 12.0], paired=True)
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (1.1, 1.1, 1.1)

    Raises:
        ValueError: a side without a value, or a value that is not above 0.
    """
    x, y = checked(a), checked(b)
    if len(x) == 0 or len(y) == 0 or x.min() <= 0 or y.min() <= 0:
        raise ValueError("a ratio of means needs values above 0 on both sides")
    n = min(len(x), len(y))
    value = float(x.mean() / y.mean())
    if n < 2:
        return MeanRatio(value, None, None, n, 1.0 - alpha)
    error, skew, freedom = _of_pairs(x, y) if paired else _of_groups(x, y)
    quantile = float(t_quantile(1.0 - alpha / 2.0, np.array(freedom)))
    low_t, high_t = _fieller(x, y, quantile, paired=paired)
    slack = step_slack(x, y, step=step, step_b=step_b, on_log=True)
    centre = math.log(value)
    low = min(low_t, centre - _without_skew(quantile, skew) * error) - slack.down
    high = max(high_t, centre - _without_skew(-quantile, skew) * error) + slack.up
    return MeanRatio(value, math.exp(low), math.exp(high) if high < 700 else math.inf, n, 1.0 - alpha)


def _fieller(x: FloatArray, y: FloatArray, quantile: float, *, paired: bool) -> tuple[float, float]:
    """The least and greatest log of a ratio r for which t does not reject that the mean of x - r y is 0."""
    square = quantile**2
    of_x, of_y = (square * float(np.var(side, ddof=1)) / len(side) for side in (x, y))
    both = square * float(np.cov(x, y)[0, 1]) / len(x) if paired else 0.0
    a, b, c = float(y.mean()) ** 2 - of_y, float(x.mean() * y.mean()) - both, float(x.mean()) ** 2 - of_x
    root = math.sqrt(max(0.0, b * b - a * c))
    # Where a mean is not distinct from 0, the ratio has no end on that side.
    high = math.log((b + root) / a) if a > 0 and b + root > 0 else math.inf
    low = math.log(c / (b + root)) if c > 0 and b + root > 0 else -math.inf
    return low, high


def _of_pairs(x: FloatArray, y: FloatArray) -> tuple[float, float, float]:
    """The standard error of the log ratio, the skewness of its estimate, and the degrees of freedom."""
    d = x / x.mean() - y / y.mean()
    return float(d.std(ddof=1)) / math.sqrt(len(d)), _skewness(_third(d) / len(d) ** 2, d.var() / len(d)), len(d) - 1.0


def _of_groups(x: FloatArray, y: FloatArray) -> tuple[float, float, float]:
    """The same of sides that share no noise (Welch)."""
    u, v = x / x.mean(), y / y.mean()
    parts = np.array([side.var(ddof=1) / len(side) for side in (u, v)])
    total = float(parts.sum())
    weights = float((parts**2 / np.array([len(u) - 1, len(v) - 1])).sum())
    freedom = total**2 / weights if weights > 0 else min(len(u), len(v)) - 1.0
    skew = _skewness(_third(u) / len(u) ** 2 - _third(v) / len(v) ** 2, total)
    return math.sqrt(total), skew, freedom


def _third(values: FloatArray) -> float:
    """The third central moment."""
    return float(((values - values.mean()) ** 3).mean())


def _skewness(third: float, variance: float) -> float:
    # Below it, what is left is rounding of floats.
    return third / variance**1.5 if variance > 1e-24 else 0.0


def _without_skew(quantile: float, skew: float) -> float:
    """A quantile of Student's t where the estimate has this skewness: the inverse of Hall's cubic transformation."""
    if abs(skew) < 1e-9:
        return quantile
    return 3.0 / skew * (float(np.cbrt(1.0 + skew * (quantile - skew / 6.0))) - 1.0)
