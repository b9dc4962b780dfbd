"""Intervals that hold at every look: for reports of campaigns that are still running."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vtare.stats._arrays import Values, checked
from vtare.stats.comparison import Comparison


@dataclass(frozen=True, slots=True)
class AnytimeInterval:
    """An interval whose level holds over all looks together; None where so few blocks leave it without an end."""

    low: float | None
    high: float | None
    n: int
    level: float


def confidence_sequence(d: Values, *, alpha: float = 0.05) -> AnytimeInterval:
    """Return the interval of the mean of `d` that may be asked for after each value, at 1 - alpha over all looks.

    Normal values of unknown spread: the mixture of t likelihood ratios over effect sizes N(0, 1), which is scale
    invariant, so that no look beyond 1 / alpha has a chance above alpha (Lai 1976; Wang and Ramdas 2023). About 1.7
    times as wide as a t interval; without an end below 5 values at alpha 0.05.

    >>> found = confidence_sequence([0.10, 0.12, 0.09, 0.11, 0.10, 0.12, 0.08, 0.11, 0.10, 0.09])
    >>> round(found.low, 3), round(found.high, 3)
    (0.086, 0.118)
    """
    values = checked(d)
    n = len(values)
    if n < 2:
        return AnytimeInterval(None, None, n, 1.0 - alpha)
    half = _half_width(n, float(values.std(ddof=1)) / math.sqrt(n), alpha)
    mean = float(values.mean())
    low, high = (None, None) if half is None else (mean - half, mean + half)
    return AnytimeInterval(low, high, n, 1.0 - alpha)


def anytime_ratio(comparison: Comparison) -> AnytimeInterval:
    """Return the interval of a paired comparison's ratio that holds at every look; no ends where cells are not paired.

    The clock's step is allowed for as in the comparison's own interval.

    >>> from vtare.stats import compare_runs
    >>> found = compare_runs({k: 11.0 + k % 3 for k in range(9)}, {k: 10.0 + k % 2 for k in range(9)})
    >>> anytime_ratio(found).low < found.low < found.high < anytime_ratio(found).high
    True
    """
    n, error = comparison.n_blocks, comparison.error
    half = None if n is None or error is None or comparison.ratio is None else (
        _half_width(n, error, 1.0 - comparison.level)
    )  # fmt: skip
    if half is None:
        return AnytimeInterval(None, None, n or 0, comparison.level)
    low, high = comparison.slack.widened(comparison.shift - half, comparison.shift + half)
    if max(abs(low), abs(high)) >= 700:
        return AnytimeInterval(None, None, n or 0, comparison.level)
    return AnytimeInterval(math.exp(low), math.exp(high), n or 0, comparison.level)


def _half_width(n: int, error: float, alpha: float) -> float | None:
    """Where the mixture of likelihood ratios reaches 1 / alpha; None where no mean does."""
    wide = 1.0 + n
    reach = (math.sqrt(wide) / alpha) ** (2.0 / n)
    if reach >= wide:
        return None
    # (1 + x) / (1 + x / wide) = reach, with x = t^2 / (n - 1).
    return error * math.sqrt((n - 1) * (reach - 1.0) / (1.0 - reach / wide))
