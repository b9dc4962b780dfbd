"""The ratio of two means: what all runs together took, rare slow ones included, which no middle value shows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vtare.stats._arrays import Values, checked
from vtare.stats.clock_step import step_slack
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

    The logarithm of the ratio is taken as linear in both means (delta method) with Student's t. `paired` values were
    made together and share their noise; `step` is that in which the values move (`step_b`: those of `b`).

    >>> found = ratio_of_means([11.0, 12.1, 9.9, 13.2], [10.0, 11.0, 9.0, 12.0], paired=True)
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (1.1, 1.1, 1.1)

    Raises:
        ValueError: a side without a value, or a value that is not above 0.
    """
    x, y = checked(a), checked(b)
    if len(x) == 0 or len(y) == 0 or x.min() <= 0 or y.min() <= 0:
        raise ValueError("found a side without a value above 0, expected values above 0 on both")
    n = min(len(x), len(y))
    value = float(x.mean() / y.mean())
    if n < 2:
        return MeanRatio(value, None, None, n, 1.0 - alpha)
    u, v = x / x.mean(), y / y.mean()
    if paired:
        error, freedom = float((u - v).std(ddof=1)) / math.sqrt(n), float(n - 1)
    else:
        parts = np.array([side.var(ddof=1) / len(side) for side in (u, v)])
        error = math.sqrt(float(parts.sum()))
        weights = float((parts**2 / np.array([len(x) - 1, len(y) - 1])).sum())
        freedom = float(parts.sum()) ** 2 / weights if weights > 0 else float(n - 1)
    half = float(t_quantile(1.0 - alpha / 2.0, np.array(freedom))) * error
    slack = step_slack(x, y, step=step, step_b=step_b)
    low, high = (math.log(value) + end for end in (-half - slack.down, half + slack.up))
    return MeanRatio(value, math.exp(low), math.exp(high) if high < 700 else math.inf, n, 1.0 - alpha)
