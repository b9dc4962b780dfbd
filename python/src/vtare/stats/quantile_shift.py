"""The shift function: by how much each quantile of one thing differs from that of another, with one band.

Two things may have the same median and different tails. The ratio is taken quantile by quantile (Doksum 1974). The band
is simultaneous: it holds all shown quantiles at once, at the stated level.

`quantile_shift`: of pairs of figures (Wilcox and Erceg-Hurn 2012), each quantile estimated as Harrell and Davis (1982)
do, a smooth mean of order statistics whose resamples are not discrete. Pairs are drawn in blocks (Kuensch 1989): what
hits both runs of a pair, or several pairs in a row, stays together.

`shift_of_blocks`: of quantiles that are known in each block for both things.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked
from vtare.stats._scipy import stats as scipy_stats
from vtare.stats.location import least_n

if TYPE_CHECKING:
    from collections.abc import Sequence

QUANTILES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
LEAST_PAIRS: Final = 18
_TIMES_LEAST: Final = 2
"""How many times `least_n` pairs a quantile needs: nearer the edge of the sample its resamples are too much alike."""
_DRAWS: Final = 1000
_DRAWS_OF_T: Final = 4000
_SHRUNK: Final = 0.1
"""How much of the correlation between quantiles is given up: few blocks overstate it, which would narrow the band."""


@dataclass(frozen=True, slots=True)
class QuantileShift:
    """The ratio at one quantile, second over first, and the ends of the band there."""

    probability: float
    ratio: float
    low: float
    high: float


def quantile_shift(
    first: Values, second: Values, *, level: float = 0.95, rng: np.random.Generator
) -> tuple[QuantileShift, ...]:
    """Return the ratio of each quantile that this number of pairs can show; empty below 18 pairs.

    `first[k]` and `second[k]` are a pair; all are above 0. A quantile is left out below twice `least_n` pairs: with 30
    pairs 20 to 80 % are shown, with 58 also 10 and 90 %, with 118 and 598 also 95 and 99 %.

    >>> x = np.exp(np.random.default_rng(1).normal(scale=0.1, size=30))
    >>> found = quantile_shift(x, 1.1 * x, rng=np.random.default_rng(2))
    >>> [one.probability for one in found], round(found[0].ratio, 3)
    ([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], 1.1)

    Raises:
        ValueError: the numbers of values differ, or one is not above 0.
    """
    x, y = checked(first), checked(second)
    if len(x) != len(y):
        raise ValueError(f"{len(x)} and {len(y)} values: pass pairs")
    if len(x) and min(x.min(), y.min()) <= 0:
        raise ValueError("a value is not above 0: pass ones with a ratio")
    n = len(x)
    shown = [p for p in QUANTILES if _TIMES_LEAST * least_n(p) <= n]
    if n < LEAST_PAIRS or not shown:
        return ()
    weights = _harrell_davis(n, shown)
    block = math.ceil(n ** (1 / 3))
    starts = rng.integers(0, n, (_DRAWS, math.ceil(n / block)))
    drawn = ((starts[:, :, None] + np.arange(block)) % n).reshape(_DRAWS, -1)[:, :n]
    ratio = np.log(np.sort(y) @ weights) - np.log(np.sort(x) @ weights)
    resampled = np.log(np.sort(y[drawn], axis=1) @ weights) - np.log(np.sort(x[drawn], axis=1) @ weights)
    spread = resampled.std(axis=0, ddof=1)
    # Where both move as one to the last digit nothing is left to chance.
    away = np.divide(np.abs(resampled - ratio), spread, out=np.zeros_like(resampled), where=spread > 0)
    # The normal quantile that belongs to this one becomes that of Student's t: resamples of n are narrower than n.
    normal = float(np.quantile(away.max(axis=1), level))
    reach = spread * float(scipy_stats.t.isf(scipy_stats.norm.sf(normal), n - 1)) * math.sqrt(n / (n - block))
    return _band(shown, ratio, reach)


def shift_of_blocks(
    probabilities: Sequence[float], differences: FloatArray, *, level: float = 0.95, rng: np.random.Generator
) -> tuple[QuantileShift, ...]:
    """Return the ratio at each probability from differences of logarithms inside blocks, shape (blocks, quantiles).

    The band is each quantile's mean plus and minus its standard error times the `level` quantile of the greatest of all
    |t|, simulated with the correlation of the differences.

    >>> d = np.log([[1.1, 1.2], [1.1, 1.3], [1.1, 1.1], [1.1, 1.2]])
    >>> found = shift_of_blocks([0.5, 0.9], d, rng=np.random.default_rng(2))
    >>> [round(one.ratio, 3) for one in found], round(found[0].low, 3), found[1].low < 1.1
    ([1.1, 1.198], 1.1, True)

    Raises:
        ValueError: fewer than 2 blocks, or another number of quantiles than of probabilities.
    """
    blocks, quantiles = differences.shape
    if blocks < 2 or quantiles != len(probabilities):
        raise ValueError(
            f"differences have the shape {differences.shape}: pass 2 blocks or more of {len(probabilities)}"
        )
    error = differences.std(axis=0, ddof=1) / math.sqrt(blocks)
    return _band(probabilities, differences.mean(axis=0), _greatest_t(differences, level, rng) * error)


def _band(probabilities: Sequence[float], ratio: FloatArray, reach: FloatArray) -> tuple[QuantileShift, ...]:
    """Ratios with the ends of their band, from logarithms and how far the band reaches to each side."""
    return tuple(
        QuantileShift(p, math.exp(at), math.exp(at - r), math.exp(at + r))
        for p, at, r in zip(probabilities, ratio.tolist(), reach.tolist(), strict=True)
    )


def _greatest_t(differences: FloatArray, level: float, rng: np.random.Generator) -> float:
    """The `level` quantile of the greatest |t| over the columns of rows with the correlation of these."""
    n, k = differences.shape
    spread = differences.std(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.nan_to_num(np.corrcoef(differences, rowvar=False)) if k > 1 else np.ones((1, 1))
    correlation = (1 - _SHRUNK) * np.atleast_2d(correlation)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    # A level nearer 1 needs more draws beyond it.
    draws = int(_DRAWS_OF_T * min(5.0, max(1.0, 0.05 / (1.0 - level))))
    # Row by row, each with all its draws beside each other: sums over the rows then run at the speed of memory.
    drawn = root @ np.ascontiguousarray(rng.normal(size=(draws, n, k)).transpose(1, 2, 0))
    mean = drawn.sum(axis=0) / n
    drawn -= mean
    drawn *= drawn
    t = np.abs(mean) / np.sqrt(drawn.sum(axis=0) / ((n - 1) * n))
    t[spread == 0] = 0.0
    return float(np.quantile(t.max(axis=0), level))


def _harrell_davis(n: int, probabilities: Sequence[float]) -> FloatArray:
    """The weight of each order statistic (rows) in each quantile (columns)."""
    p = np.asarray(probabilities)[:, None]
    below = scipy_stats.beta.cdf(np.arange(n + 1) / n, (n + 1) * p, (n + 1) * (1 - p))
    weights: FloatArray = np.diff(below, axis=1).T
    return weights
