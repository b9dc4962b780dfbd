"""Distributions cut down to what a figure can show, without moving a single point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from vtare.plots.inputs import CcdfLine, RunBox

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

CCDF_POINTS: Final = 300


def sorted_counts(values: ArrayLike, weights: ArrayLike | None = None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Distinct values in rising order and how many readings had each.

    Args:
        values: readings, any order.
        weights: how many times each was read (1 each when left out).

    Raises:
        ValueError: no reading at all, a reading that is not finite, or a weight below 1.
    """
    x = np.asarray(values, dtype=np.float64).ravel()
    w = np.ones(x.size, dtype=np.int64) if weights is None else np.asarray(weights, dtype=np.int64).ravel()
    if x.size == 0:
        raise ValueError("there are no readings: pass at least one")
    if x.size != w.size:
        raise ValueError(f"{w.size} weights for {x.size} readings: pass one each")
    if not np.isfinite(x).all():
        raise ValueError("a reading is not finite: leave missing readings out before plotting")
    if (w < 1).any():
        raise ValueError(f"the smallest weight is {int(w.min())}: pass counts, 1 or more")
    distinct, inverse = np.unique(x, return_inverse=True)
    counts = np.zeros(distinct.size, dtype=np.int64)
    np.add.at(counts, inverse, w)
    return distinct, counts


def weighted_quantile(distinct: NDArray[np.float64], counts: NDArray[np.int64], q: float) -> float:
    """Quantile of Hyndman-Fan type 7 of readings given as sorted distinct values and counts; exact, no expansion."""
    if not 0 <= q <= 1:
        raise ValueError(f"quantile is {q}: use 0 to 1")
    cumulative = np.cumsum(counts)
    position = q * (int(cumulative[-1]) - 1)
    below = int(np.floor(position))
    low = distinct[np.searchsorted(cumulative, below, side="right")]
    high = distinct[np.searchsorted(cumulative, min(below + 1, int(cumulative[-1]) - 1), side="right")]
    return float(low + (position - below) * (high - low))


def ccdf_line(
    label: str, style: str, values: ArrayLike, weights: ArrayLike | None = None, *, points: int = CCDF_POINTS
) -> CcdfLine:
    """The curve P(X > x), strict, at no more than about `points` of the distinct values.

    Every kept point lies on the full curve. Kept are values spaced evenly in log x (the body) and in log P (the tail),
    and always the first, the last but one and the last.
    """
    if points < 10:
        raise ValueError(f"{points} points are too few: use 10 or more")
    distinct, counts = sorted_counts(values, weights)
    n = int(counts.sum())
    above = n - np.cumsum(counts)
    mean = float(np.dot(distinct, counts) / n)
    keep = np.arange(distinct.size)
    if distinct.size > points:
        half = points // 2
        first_positive = int(np.searchsorted(distinct, 0.0, side="right"))
        start = distinct[min(first_positive, distinct.size - 1)]
        if start > 0 and distinct[-1] > start:
            by_x = np.searchsorted(distinct, np.geomspace(start, distinct[-1], half))
        else:
            by_x = np.linspace(0, distinct.size - 1, half).astype(np.int64)
        # `above` falls, so it is searched from its end.
        by_p = distinct.size - 1 - np.searchsorted(above[::-1], np.geomspace(1, n, points - half - 3))
        ends = np.array([0, distinct.size - 2, distinct.size - 1])
        keep = np.unique(np.clip(np.concatenate([by_x, by_p, ends]), 0, distinct.size - 1))
    return CcdfLine(label=label, style=style, x=distinct[keep], p=above[keep] / n, mean=mean, n=n)


def run_box(values: ArrayLike, weights: ArrayLike | None = None) -> RunBox:
    """The exact quantiles of one run; p99 is None below 299 readings, where it cannot be estimated."""
    distinct, counts = sorted_counts(values, weights)
    q1, median, q3 = (weighted_quantile(distinct, counts, q) for q in (0.25, 0.5, 0.75))
    p99 = weighted_quantile(distinct, counts, 0.99) if int(counts.sum()) >= 299 else None
    return RunBox(min=float(distinct[0]), q1=q1, median=median, q3=q3, max=float(distinct[-1]), p99=p99)
