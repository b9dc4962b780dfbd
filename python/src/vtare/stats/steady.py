"""Where a series has settled: MSER-5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked
from vtare.stats.autocorrelation import autocorrelation


@dataclass(frozen=True, slots=True)
class Warmup:
    """How many readings to cut from the start. `settled` is False where the best cut lies at the end of the search.

    A run that has not settled is labelled, not dropped; `cut` is 0 for one too short to judge.
    """

    cut: int
    n: int
    settled: bool
    reason: str | None = None


def mser5(x: Values) -> Warmup:
    """Return the warm-up by the marginal standard error rule on means of 5 readings (White, Cobb and Spratt 2000).

    The cut d minimises sum (y_i - mean_d)^2 / (k - d)^2 over the batch means y_d .. y_k, searched in the first half.

    >>> mser5(np.concatenate([np.linspace(50.0, 10.0, 50), 10.0 + np.sin(np.arange(500.0))])).cut
    50
    """
    values = checked(x)
    n = len(values)
    batches = n // 5
    if batches < 10:
        return Warmup(0, n, False, f"MSER-5 needs 50 readings, there are {n}")
    means = values[: batches * 5].reshape(batches, 5).mean(axis=1)
    # Shifted by the mean: the running sums of squares would otherwise lose the small spread of large readings.
    shifted = means - means.mean()
    left = np.arange(batches, 0, -1, dtype=np.float64)
    sums = np.cumsum(shifted[::-1])[::-1]
    squares = np.cumsum((shifted**2)[::-1])[::-1]
    error = np.maximum(squares - sums**2 / left, 0.0) / left**2
    searched = batches // 2 + 1
    best = int(np.argmin(error[:searched]))
    settled = best < searched - 1
    return Warmup(best * 5, n, settled, None if settled else "the series still changes in its second half")


LONG_SERIES: Final = 1000
"""Readings from which a run is long enough for its warm-up to be judged."""
LEAST_EFFECTIVE: Final = 20
"""Independent readings that a series must amount to before it can be called not settled."""


def settle(x: Values, *, quantum: float = 0.0) -> Warmup:
    """Judge the warm-up of a whole run: MSER-5, guarded against the heavy tails of times.

    One gap of 10 ms among readings of 100 ns would make MSER-5 cut all that comes before it, and with it the tail that
    the run was made to see. So the rule sees readings limited to their 1 to 99 % range, and its cut counts only where
    the median of what it takes away lies outside the middle half of what stays; else there is no warm-up. A run has
    not settled where the two halves of what stays lie outside each other's middle halves; nothing is cut then. A run of
    fewer than 1000 readings, or whose readings amount to fewer than 20 independent ones, is not judged and counts as
    settled. `quantum` is the step that readings move in: what
    differs by no more than that does not differ.

    >>> settle(np.concatenate([np.full(200, 50.0), 10.0 + np.sin(np.arange(2000.0))])).cut
    200
    """
    values = checked(x)
    n = len(values)
    if n < LONG_SERIES:
        return Warmup(0, n, True, f"not judged: a warm-up is looked for from {LONG_SERIES} readings on, there are {n}")
    low, high = np.quantile(values, [0.01, 0.99])
    truncation = mser5(np.clip(values, low, high))
    cut = truncation.cut
    if cut and not _outside(values[:cut], values[cut:], quantum):
        cut = 0
    elif not truncation.settled:
        return _unsettled(values, str(truncation.reason))
    middle = cut + (n - cut) // 2
    first, second = values[cut:middle], values[middle:]
    if _outside(first, second, quantum) and _outside(second, first, quantum):
        return _unsettled(values, "the two halves of the series lie apart")
    return Warmup(cut, n, True)


def _unsettled(values: FloatArray, why: str) -> Warmup:
    """Not settled, unless the readings follow each other so closely that any such series looks like that."""
    n = len(values)
    halves = values[: n // 2], values[n // 2 :]
    # Of what is left of each half without its own line: a change from half to half is no memory, nor is a steady rise.
    memory = [autocorrelation(_without_line(half)) for half in halves]
    effective = sum(float(one.n) if one.n_eff is None else one.n_eff for one in memory)
    if effective >= LEAST_EFFECTIVE:
        return Warmup(0, n, False, why)
    return Warmup(
        0, n, True,
        f"not judged: {n} readings follow each other so closely that they amount to {effective:.0f} independent ones, "
        f"{LEAST_EFFECTIVE} are needed",
    )  # fmt: skip


def _without_line(values: FloatArray) -> FloatArray:
    """What a straight line leaves of a series."""
    at = np.arange(len(values), dtype=np.float64)
    at -= at.mean()
    left: FloatArray = values - values.mean() - at * (np.dot(at, values) / np.dot(at, at))
    return left


def _outside(some: FloatArray, others: FloatArray, quantum: float) -> bool:
    """Whether the median of some readings lies outside the middle half of others."""
    low, high = np.quantile(others, [0.25, 0.75])
    return not low - quantum <= float(np.median(some)) <= high + quantum
