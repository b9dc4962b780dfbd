"""Which groups differ after a rank test over all of them: Dunn, Nemenyi, Tukey's HSD on ranks.

Like the rank tests, they want one figure per run, never raw samples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked
from vtare.stats._scipy import stats as scipy_stats
from vtare.stats.pvalues import Adjustment, PValue, adjust


@dataclass(frozen=True, slots=True)
class PairTest:
    """One pair of a multiple comparison: positions of the two groups and the p-value, adjusted over all pairs."""

    first: int
    second: int
    p: PValue


def dunn(groups: Sequence[Values], *, family: str, adjustment: Adjustment = "holm") -> tuple[PairTest, ...]:
    """Compare all pairs of groups after Kruskal-Wallis (Dunn 1964), on the joint ranks, with ties corrected.

    The p-values are normal approximations.

    >>> (pair,) = dunn([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], family="f")
    >>> pair.first, pair.second, round(pair.p.raw, 4)
    (0, 1, 0.0495)

    Raises:
        ValueError: fewer than 2 groups, or an empty one.
    """
    arrays = _groups(groups)
    ranks, parts = _joint_ranks(arrays)
    _, tied = np.unique(ranks, return_counts=True)
    n = len(ranks)
    variance = n * (n + 1) / 12.0 - float((tied**3 - tied).sum()) / (12.0 * max(n - 1, 1))
    pairs = list(itertools.combinations(range(len(arrays)), 2))
    raw = [2.0 * float(scipy_stats.norm.sf(_distance(parts[i], parts[j], variance))) for i, j in pairs]
    values = adjust(raw, family=family, adjustment=adjustment)
    return tuple(PairTest(i, j, p) for (i, j), p in zip(pairs, values, strict=True))


def nemenyi_friedman(blocks: Sequence[Values], *, family: str) -> tuple[PairTest, ...]:
    """Compare all pairs of levels after Friedman: `blocks[i][j]` is the figure of level j in block i (Demsar 2006).

    >>> found = nemenyi_friedman([[1.0, 2.0, 3.0]] * 4, family="f")
    >>> [round(pair.p.raw, 2) for pair in found]
    [0.33, 0.01, 0.33]

    Raises:
        ValueError: blocks of unequal length, fewer than 2 blocks or 2 levels.
    """
    rows = [checked(block) for block in blocks]
    if len(rows) < 2 or len({len(row) for row in rows}) != 1 or len(rows[0]) < 2:
        raise ValueError(
            f"blocks have the lengths {[len(row) for row in rows]}: pass 2 or more complete ones of 2 or more levels"
        )
    blocks_of, levels = len(rows), len(rows[0])
    means = scipy_stats.rankdata(np.array(rows), axis=1).mean(axis=0)
    error = math.sqrt(levels * (levels + 1) / (6.0 * blocks_of))
    distances = [abs(float(one - other)) / error for one, other in itertools.combinations(means, 2)]
    return _from_range(_range_p(distances, levels), levels, family)


def tukey_on_ranks(groups: Sequence[Values], *, family: str) -> tuple[PairTest, ...]:
    """Compare all pairs of groups by Tukey's HSD on the joint ranks: the "ranking analogue" of Kirova et al. 2019.

    Unequal sizes are allowed (Tukey-Kramer).

    >>> found = tukey_on_ranks([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], family="f")
    >>> [round(pair.p.raw, 3) for pair in found]
    [0.024, 0.001, 0.024]

    Raises:
        ValueError: fewer than 2 groups, or one with fewer than 2 figures.
    """
    arrays = _groups(groups)
    if min(len(array) for array in arrays) < 2:
        raise ValueError("needs 2 figures in each group")
    _, parts = _joint_ranks(arrays)
    table = np.asarray(scipy_stats.tukey_hsd(*parts).pvalue)
    return _from_range(
        [float(table[i, j]) for i, j in itertools.combinations(range(len(parts)), 2)], len(parts), family
    )


def _groups(groups: Sequence[Values]) -> list[FloatArray]:
    arrays = [checked(group) for group in groups]
    if len(arrays) < 2 or any(len(array) == 0 for array in arrays):
        raise ValueError("needs 2 groups with figures in each")
    return arrays


def _joint_ranks(arrays: Sequence[FloatArray]) -> tuple[FloatArray, list[FloatArray]]:
    """The ranks over all groups, and those of each group."""
    ranks = scipy_stats.rankdata(np.concatenate(arrays))
    return ranks, np.split(ranks, np.cumsum([len(array) for array in arrays])[:-1])


def _distance(one: FloatArray, other: FloatArray, variance: float) -> float:
    """How far two mean ranks are apart, in their standard error; 0 where all ranks are tied."""
    error = math.sqrt(variance * (1.0 / len(one) + 1.0 / len(other)))
    return abs(float(one.mean() - other.mean())) / error if error > 0.0 else 0.0


def _range_p(distances: Sequence[float], count: int) -> list[float]:
    return [float(scipy_stats.studentized_range.sf(one * math.sqrt(2.0), count, np.inf)) for one in distances]


def _from_range(values: Sequence[float], count: int, family: str) -> tuple[PairTest, ...]:
    pairs = list(itertools.combinations(range(count), 2))
    return tuple(
        PairTest(i, j, PValue(p, p, family, len(pairs), "studentized range", False))
        for (i, j), p in zip(pairs, (min(1.0, max(0.0, value)) for value in values), strict=True)
    )
