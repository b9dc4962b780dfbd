"""The complementary cumulative distribution, P(X > x)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vtare.stats._arrays import FloatArray, Values, weighted


@dataclass(frozen=True, slots=True)
class Ccdf:
    """Steps of P(X > x): from `x[i]` up to, not including, `x[i + 1]` the probability is `probability[i]`.

    Both arrays: shape (steps,). Strictly ">": at the largest reading the probability is 0. Below `x[0]` it is 1. `mean`
    is the mean of all readings.
    """

    x: FloatArray
    probability: FloatArray
    n: int
    mean: float


def ccdf(x: Values, *, weights: Values | None = None, points: int | None = None) -> Ccdf:
    """Return P(X > x) at every distinct reading, or at about `points` of them spread evenly on log-log axes.

    The points kept when thinning are true points of the full curve, first and last included, never interpolated ones.

    >>> ccdf([1.0, 2.0, 2.0, 5.0]).probability.tolist()
    [0.75, 0.25, 0.0]

    Raises:
        ValueError: no readings.
    """
    values, counts = weighted(x, weights)
    n = int(counts.sum())
    if n == 0:
        raise ValueError("no readings: a distribution needs at least one")
    distinct, place = np.unique(values, return_inverse=True)
    at = np.bincount(place, weights=counts.astype(np.float64), minlength=len(distinct))
    above = n - np.cumsum(at)
    # The cumulated counts are whole numbers below 2**53, so this is exact and the last one is 0.
    probability = above / n
    mean = float(np.dot(values, counts) / n)
    if points is not None and len(distinct) > points:
        kept = _thin(distinct, probability, points)
        distinct, probability = distinct[kept], probability[kept]
    return Ccdf(distinct, probability, n, mean)


def _thin(x: FloatArray, probability: FloatArray, points: int) -> FloatArray:
    """Keep one point per log bin of x and one per log bin of the probability: both tails stay detailed."""
    half = max(2, points // 2)
    position = np.arange(len(x))
    keep = {0, len(x) - 1}
    for axis in (np.log(np.maximum(x, np.min(x[x > 0], initial=1.0))), np.log(np.maximum(probability, 0.5 / len(x)))):
        span = axis.max() - axis.min()
        if span > 0:
            bins = np.floor((axis - axis.min()) / span * (half - 1)).astype(np.int64)
            _, first = np.unique(bins, return_index=True)
            keep.update(int(i) for i in position[first])
    return np.array(sorted(keep), dtype=np.int64)
