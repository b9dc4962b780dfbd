"""Where one run decides: verdicts without it, estimates by ranks, and runs of two kinds."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked
from vtare.stats.comparison import common_blocks, refusal
from vtare.stats.t_rule import MeanDifference, paired_t, welch_t

#: The gap between two groups of normal values, in pooled standard deviations, that 1 % of samples of that size exceed
#: at the place where it is widest (60,000 samples each, groups of 2 or more); from 20 on not below 2.3.
_GAP_RUNS: Final = (5, 6, 7, 8, 9, 10, 12, 15, 20)
_GAPS: Final = (10.3, 7.5, 6.1, 5.1, 4.4, 3.9, 3.2, 2.7, 2.3)


@dataclass(frozen=True, slots=True)
class Influence:
    """Whether single runs decide a comparison. Keys are blocks (paired), or (side, key or position) of a run.

    `changes` lists those without which the answer to "is there a difference?" changes; `differs` is the answer with
    all of them.
    """

    differs: bool
    changes: tuple[Any, ...]

    @property
    def decided_by(self) -> Any | None:
        """The one run or block that decides; None where none does, or any of several."""
        return self.changes[0] if len(self.changes) == 1 else None


def influence(
    a: Values | Mapping[Any, float], b: Values | Mapping[Any, float], *, alpha: float = 0.05
) -> Influence | None:
    """Leave out each run (each block, where cells are paired) and test again at `alpha`; None where there is no test.

    The numbers of runs and degrees of freedom of the whole are kept: what is asked is what this run does to the mean
    and the spread, not what one run fewer costs. Give the raw alpha that the family's adjustment left.

    >>> a = {1: 5.5, 2: 5.6, 3: 5.4, 4: 5.5, 5: 55.0}
    >>> b = {1: 5.0, 2: 5.1, 3: 5.0, 4: 5.0, 5: 5.1}
    >>> influence(a, b)
    Influence(differs=False, changes=(5,))
    """
    blocks = common_blocks(a, b) if isinstance(a, Mapping) and isinstance(b, Mapping) else []
    if blocks and isinstance(a, Mapping) and isinstance(b, Mapping):
        x, y = checked([a[k] for k in blocks]), checked([b[k] for k in blocks])
        keys: list[Any] = list(blocks)
    else:
        x, y = (checked(list(v.values()) if isinstance(v, Mapping) else v) for v in (a, b))
        names = [list(v) if isinstance(v, Mapping) else list(range(len(v))) for v in (a, b)]
        keys = [("a", k) for k in names[0]] + [("b", k) for k in names[1]]
    if refusal(len(x), len(y), n_blocks=len(blocks) if blocks else None) is not None:
        return None
    if np.all(x > 0) and np.all(y > 0):
        x, y = np.log(x), np.log(y)
    if blocks:
        d = x - y
        whole, without = paired_t(d), paired_t(_without_each(d))
        scale = math.sqrt((len(d) - 1) / len(d))
        parts = [MeanDifference(without.mean, without.error * scale, np.full(len(d), float(whole.freedom)))]
    else:
        whole = welch_t(x, y)
        parts = []
        for left, right in ((_without_each(x), y), (x, _without_each(y))):
            one = welch_t(left, np.broadcast_to(right, (len(left), right.shape[-1]))) if left.ndim > 1 else (
                welch_t(np.broadcast_to(left, (len(right), len(left))), right)
            )  # fmt: skip
            counts = [len(x), len(y)]
            spread = left.var(axis=-1, ddof=1) / counts[0] + right.var(axis=-1, ddof=1) / counts[1]
            parts.append(MeanDifference(one.mean, np.sqrt(spread), np.full(one.mean.shape, float(whole.freedom))))
    differs = bool(whole.p() <= alpha)
    changed = np.concatenate([part.p() <= alpha for part in parts]) != differs
    return Influence(differs, tuple(key for key, change in zip(keys, changed, strict=True) if change))


def _without_each(x: FloatArray) -> FloatArray:
    """A row for each value, without it."""
    n = len(x)
    rows: FloatArray = np.broadcast_to(x, (n, n))[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    return rows


@dataclass(frozen=True, slots=True)
class RankEstimate:
    """The ratio of two cells by ranks (Hodges and Lehmann 1963), with its exact interval at `level`.

    `low` and `high` are None where inference is refused; `level` may be below the wanted one where runs are few.
    """

    ratio: float | None
    low: float | None
    high: float | None
    level: float | None


def hodges_lehmann(
    a: Values | Mapping[Any, float], b: Values | Mapping[Any, float], *, level: float = 0.95
) -> RankEstimate:
    """Return the ratio of two cells that no single run can move far; None where a figure is not above 0.

    On logarithms. Paired where blocks are common: the median of the means of all pairs of differences, with the
    interval of the signed-rank test. Else the median of all differences, with that of the rank-sum test. Fewer than 6
    blocks know no interval of 95 %: the widest is given, with the level that it has (4 blocks: 87.5 %).

    >>> found = hodges_lehmann({1: 10.0, 2: 10.1, 3: 9.9, 4: 10.2, 5: 55.0}, {k: 5.0 for k in range(1, 6)})
    >>> round(found.ratio, 2), round(found.low, 2), round(found.level, 4)
    (2.02, 1.98, 0.9375)
    """
    blocks = common_blocks(a, b) if isinstance(a, Mapping) and isinstance(b, Mapping) else []
    if blocks and isinstance(a, Mapping) and isinstance(b, Mapping):
        x, y = checked([a[k] for k in blocks]), checked([b[k] for k in blocks])
    else:
        x, y = (checked(list(v.values()) if isinstance(v, Mapping) else v) for v in (a, b))
    if len(x) == 0 or len(y) == 0 or np.any(x <= 0) or np.any(y <= 0):
        return RankEstimate(None, None, None, None)
    x, y = np.log(x), np.log(y)
    if blocks:
        d = x - y
        rows, columns = np.triu_indices(len(d))
        points, ways = np.sort((d[rows] + d[columns]) / 2.0), _signed_rank_ways(len(d))
    else:
        points, ways = np.sort((x[:, None] - y[None, :]).ravel()), _rank_sum_ways(len(x), len(y))
    ratio = math.exp(float(np.median(points)))
    if refusal(len(x), len(y), n_blocks=len(blocks) if blocks else None) is not None:
        return RankEstimate(ratio, None, None, None)
    # The k-th smallest and largest points end the interval whose test statistic is at least k on either side.
    below = np.cumsum(ways) / ways.sum()
    k = max(1, int(np.searchsorted(below, (1.0 - level) / 2.0, side="right")))
    reached = 1.0 - 2.0 * float(below[k - 1])
    return RankEstimate(ratio, math.exp(points[k - 1]), math.exp(points[-k]), reached)


def _signed_rank_ways(n: int) -> FloatArray:
    """In how many ways the signed-rank statistic of n differences is 0, 1, ..., as shares of all."""
    ways = np.array([1.0])
    for rank in range(1, n + 1):
        grown = np.zeros(len(ways) + rank)
        grown[: len(ways)] += ways / 2.0
        grown[rank:] += ways / 2.0
        ways = grown
    return ways


def _rank_sum_ways(n_a: int, n_b: int) -> FloatArray:
    """In how many ways the Mann-Whitney statistic of two groups is 0, 1, ..., n_a n_b, as shares of all."""
    # counts[i] holds the distribution for i chosen of the values seen so far.
    counts = [np.array([1.0])] + [np.zeros(1) for _ in range(n_a)]
    for seen in range(n_a + n_b):
        for i in range(min(seen, n_a - 1), -1, -1):
            moved = seen - i
            grown = np.zeros(max(len(counts[i + 1]), len(counts[i]) + moved))
            grown[: len(counts[i + 1])] += counts[i + 1]
            grown[moved : moved + len(counts[i])] += counts[i]
            counts[i + 1] = grown
    full = np.zeros(n_a * n_b + 1)
    kept = counts[n_a][: n_a * n_b + 1]
    full[: len(kept)] = kept
    return full


@dataclass(frozen=True, slots=True)
class Modes:
    """Runs of two kinds: keys of the runs of the `upper` group, and its geometric mean over that of the others."""

    upper: tuple[Hashable, ...]
    ratio: float
    gap: float


def find_modes(figures: Mapping[Any, float], *, step: float = 0.0) -> Modes | None:
    """Return the two groups that the runs of one cell fall into; None where they are of one kind, or fewer than 5.

    Runs are of two kinds where the widest gap between their logarithms, with 2 runs or more on either side, exceeds
    what 1 % of normal samples show. Heavier tails (t with 4 degrees of freedom) are called two kinds in at most 3 %.
    `step` is what readings move in: a gap of one step may be none, and runs that agree differ by what it rounds off.

    >>> find_modes({1: 10.0, 2: 18.1, 3: 10.1, 4: 18.0, 5: 9.9, 6: 10.05, 7: 18.2}).upper
    (2, 4, 7)
    """
    keys = list(figures)
    values = checked(list(figures.values()))
    n = len(values)
    if n < _GAP_RUNS[0] or np.any(values <= 0):
        return None
    order = np.argsort(values, kind="stable")
    x = np.log(values[order])
    cuts = np.arange(2, n - 1)
    inside = np.array([x[:k].var() * k + x[k:].var() * (n - k) for k in cuts])
    upper_end, lower_end = values[order][cuts], values[order][cuts - 1]
    gaps = np.log(np.maximum(upper_end - step, lower_end) / lower_end)
    rounded = (step / np.exp(x.mean())) ** 2 / 12.0
    with np.errstate(divide="ignore", invalid="ignore"):
        wide = np.where(gaps > 0, gaps / np.sqrt(inside / (n - 2) + rounded), 0.0)
    at = int(np.argmax(wide))
    if wide[at] <= float(np.interp(n, _GAP_RUNS, _GAPS)):
        return None
    k = int(cuts[at])
    upper = tuple(keys[i] for i in sorted(order[k:].tolist()))
    return Modes(upper, math.exp(float(x[k:].mean() - x[:k].mean())), float(gaps[at]))
