"""Tails of two cells: how often readings exceed a common threshold, and how far each quantile is shifted."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from vtare.stats._arrays import FloatArray
from vtare.stats.comparison import Comparison, common_blocks, compare_runs, refusal
from vtare.stats.location import least_n
from vtare.stats.t_rule import paired_t, welch_t

if TYPE_CHECKING:
    from vtare.stats.tally import Tally

#: Quantiles of a shift function: deciles, then the tail.
SHIFT_QUANTILES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Exceedance:
    """How often readings of two cells exceed one threshold: shares of all their readings, and the rule's comparison.

    The comparison is of shares of runs, (k + 0.5) / (n + 1) of k exceedances in n readings: defined where a run has
    none, and of a run that was cut short for those that it has.
    """

    threshold: float
    share_a: float
    share_b: float
    comparison: Comparison


def exceedance(
    a: Mapping[Hashable, Tally], b: Mapping[Hashable, Tally], *, threshold: float, alpha: float = 0.05
) -> Exceedance | None:
    """Compare P(x > threshold) of two cells by the rule of all comparisons; runs by block. None without readings.

    A p99 is not known of a run of fewer than 299 readings, or is beyond the end of one that was cut short: how often a
    common threshold is exceeded stays defined.

    >>> from vtare.stats import tally
    >>> a = {block: tally([10.0] * 95 + [99.0] * (5 + block)) for block in range(5)}
    >>> b = {block: tally([10.0] * 99 + [99.0]) for block in range(5)}
    >>> found = exceedance(a, b, threshold=50.0)
    >>> round(found.share_a, 3), round(found.share_b, 3), found.comparison.ratio > 4
    (0.069, 0.01, True)
    """
    here, there = ({k: t for k, t in side.items() if t.n} for side in (a, b))
    if not here or not there:
        return None
    shares = [
        {k: (_above(t, threshold) + 0.5) / (t.n + 1.0) for k, t in side.items()} for side in (here, there)
    ]  # fmt: skip
    pooled = [
        sum(_above(t, threshold) for t in side.values()) / sum(t.n for t in side.values()) for side in (here, there)
    ]
    return Exceedance(threshold, pooled[0], pooled[1], compare_runs(shares[0], shares[1], alpha=alpha))


def common_threshold(a: Mapping[Hashable, Tally], b: Mapping[Hashable, Tally], *, probability: float) -> float | None:
    """Return a threshold for both cells: the quantile of their readings, every run with the same weight.

    None where the runs together are too short for it.

    >>> from vtare.stats import tally
    >>> common_threshold({1: tally(range(500))}, {1: tally(range(1000, 1500))}, probability=0.99)
    1489.0
    """
    runs = [t for side in (a, b) for t in side.values() if t.n]
    if sum(t.n for t in runs) < least_n(probability):
        return None
    values = np.concatenate([t.values for t in runs])
    weights = np.concatenate([t.counts / t.n for t in runs])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, probability * reached[-1] * (1.0 - 1e-12))])


def _above(counted: Tally, threshold: float) -> int:
    return int(counted.counts[np.searchsorted(counted.values, threshold, side="right") :].sum())


@dataclass(frozen=True, slots=True)
class ShiftFunction:
    """Ratios of the quantiles of two cells (a over b): one value a quantile in every array.

    `low` and `high` are a simultaneous band: it holds all true ratios at once at `level`. None where inference is
    refused, with the reason.
    """

    quantiles: tuple[float, ...]
    ratio: FloatArray
    low: FloatArray | None
    high: FloatArray | None
    level: float
    n_blocks: int | None
    reason: str | None = None


def shift_function(
    a: Mapping[Hashable, Tally],
    b: Mapping[Hashable, Tally],
    *,
    quantiles: Sequence[float] = SHIFT_QUANTILES,
    alpha: float = 0.05,
) -> ShiftFunction | None:
    """Compare two cells quantile by quantile, with a band for all together (Doksum 1974, over runs).

    Each run gives its quantiles; their logarithms are compared over runs as the decision rule does (paired where blocks
    are common), at alpha over the number of quantiles (Bonferroni). Quantiles that a run is too short for are left out.
    None where a side has no readings or a quantile is not above 0.

    >>> from vtare.stats import tally
    >>> rng = np.random.default_rng(1)
    >>> a, b = ({k: tally(s * np.exp(0.1 * rng.normal(size=400))) for k in range(8)} for s in (1.2, 1.0))
    >>> found = shift_function(a, b)
    >>> bool(found.low[4] < 1.2 < found.high[4]), found.n_blocks
    (True, 8)
    """
    here, there = ({k: t for k, t in side.items() if t.n} for side in (a, b))
    if not here or not there:
        return None
    shortest = min(t.n for side in (here, there) for t in side.values())
    kept = tuple(q for q in quantiles if shortest >= least_n(max(q, 1.0 - q)))
    blocks = common_blocks(here, there)
    rows = [[here[k] for k in blocks], [there[k] for k in blocks]] if blocks else [[*here.values()], [*there.values()]]
    found = [np.array([[t.ordered.quantile(q) for t in side] for q in kept]) for side in rows]
    if not kept or any(np.any(x <= 0) for x in found):
        return None
    x, y = (np.log(side) for side in found)
    ratio = np.exp(x.mean(axis=1) - y.mean(axis=1))
    n_blocks = len(blocks) if blocks else None
    why = refusal(x.shape[1], y.shape[1], n_blocks=n_blocks)
    if why is not None:
        return ShiftFunction(kept, ratio, None, None, 1.0 - alpha, n_blocks, why)
    t = paired_t(x - y) if blocks else welch_t(x, y)
    half = t.half_width(alpha / len(kept))
    return ShiftFunction(kept, ratio, np.exp(t.mean - half), np.exp(t.mean + half), 1.0 - alpha, n_blocks)


@dataclass(frozen=True, slots=True)
class Autocorrelation:
    """How readings of one run follow each other: lag-1 autocorrelation, and the independent readings they amount to."""

    lag1: float | None
    n_eff: float | None
    n: int


def autocorrelation(x: FloatArray) -> Autocorrelation:
    """Return the lag-1 autocorrelation of a series and n_eff = n (1 - r) / (1 + r), at most n (as of an AR(1) series).

    Readings are limited to their 1 to 99 % range first: one far reading would make any series look independent.

    >>> found = autocorrelation(np.tile([1.0, 1.0, 2.0, 2.0], 250))
    >>> abs(found.lag1) < 0.01, found.n
    (True, 1000)
    """
    n = len(x)
    if n < 3:
        return Autocorrelation(None, None, n)
    limited = np.clip(x, *np.quantile(x, [0.01, 0.99]))
    centred = limited - limited.mean()
    total = float(np.dot(centred, centred))
    if total <= 0.0:
        return Autocorrelation(None, None, n)
    r = float(np.dot(centred[1:], centred[:-1])) / total
    return Autocorrelation(r, min(float(n), max(1.0, n * (1.0 - r) / (1.0 + r))) if r > -1 else float(n), n)
