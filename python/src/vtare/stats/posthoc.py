"""Which groups differ after a rank test over all of them: Dunn, Nemenyi, Tukey's HSD on ranks.

Like the rank tests, they want one figure per run, never raw samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from vtare.stats._arrays import FloatArray, Values, checked
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
    # Here, not above: the import draws in a plotting library and costs a second.
    import scikit_posthocs

    arrays = _groups(groups)
    table = scikit_posthocs.posthoc_dunn([array.tolist() for array in arrays], p_adjust=None).to_numpy()
    pairs = list(itertools.combinations(range(len(arrays)), 2))
    values = adjust([float(table[i, j]) for i, j in pairs], family=family, adjustment=adjustment)
    return tuple(PairTest(i, j, p) for (i, j), p in zip(pairs, values, strict=True))


def nemenyi(groups: Sequence[Values], *, family: str) -> tuple[PairTest, ...]:
    """Compare all pairs of groups after Kruskal-Wallis by the studentized range of mean ranks (Nemenyi 1963).

    >>> found = nemenyi([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], family="f")
    >>> [round(pair.p.raw, 2) for pair in found]
    [0.37, 0.02, 0.37]

    Raises:
        ValueError: fewer than 2 groups, or an empty one.
    """
    import scikit_posthocs

    arrays = _groups(groups)
    table = scikit_posthocs.posthoc_nemenyi([array.tolist() for array in arrays], dist="tukey").to_numpy()
    return _from_range(table, len(arrays), family)


def nemenyi_friedman(blocks: Sequence[Values], *, family: str) -> tuple[PairTest, ...]:
    """Compare all pairs of levels after Friedman: `blocks[i][j]` is the figure of level j in block i (Demsar 2006).

    >>> found = nemenyi_friedman([[1.0, 2.0, 3.0]] * 4, family="f")
    >>> [round(pair.p.raw, 2) for pair in found]
    [0.33, 0.01, 0.33]

    Raises:
        ValueError: blocks of unequal length, fewer than 2 blocks or 2 levels.
    """
    import scikit_posthocs

    rows = [checked(block) for block in blocks]
    if len(rows) < 2 or len({len(row) for row in rows}) != 1 or len(rows[0]) < 2:
        raise ValueError(
            f"expected 2 or more complete blocks of 2 or more levels, found lengths {[len(row) for row in rows]}"
        )
    table = scikit_posthocs.posthoc_nemenyi_friedman(np.array(rows)).to_numpy()
    return _from_range(table, len(rows[0]), family)


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
    ranks = scipy_stats.rankdata(np.concatenate(arrays))
    parts = np.split(ranks, np.cumsum([len(array) for array in arrays])[:-1])
    return _from_range(np.asarray(scipy_stats.tukey_hsd(*parts).pvalue), len(arrays), family)


def _groups(groups: Sequence[Values]) -> list[FloatArray]:
    arrays = [checked(group) for group in groups]
    if len(arrays) < 2 or any(len(array) == 0 for array in arrays):
        raise ValueError("needs 2 groups with figures in each")
    return arrays


def _from_range(table: Any, count: int, family: str) -> tuple[PairTest, ...]:
    pairs = list(itertools.combinations(range(count), 2))
    values = [min(1.0, max(0.0, float(table[i, j]))) for i, j in pairs]
    return tuple(
        PairTest(i, j, PValue(p, p, family, len(pairs), "studentized range", False))
        for (i, j), p in zip(pairs, values, strict=True)
    )
