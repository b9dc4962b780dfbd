"""Rank tests over run-level figures: Kruskal-Wallis, Friedman, Kendall's tau-b.

Feed them one figure per run, never raw samples: those are autocorrelated and would call any shift significant. A
test whose least possible p-value exceeds alpha, adjusted over its family, is refused with that reason, because it
could never find anything.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vtare.stats._arrays import FloatArray, Values, checked
from vtare.stats._scipy import stats as scipy_stats
from vtare.stats.pvalues import PValue, adjust

# Arrangements that are still counted one by one; above that they are drawn.
_EXACT_LIMIT: Final = 1_000_000
# Rank sums of two groups are counted, not arrangements: the table has this many cells at most.
_TABLE_LIMIT: Final = 20_000_000
_DRAWS: Final = 199_999
# Random numbers of one draw of all arrangements: fewer draws of more figures.
_MOST_NUMBERS: Final = 20_000_000
# Friedman counts sums, not arrangements, so it reaches further in the same time.
_FRIEDMAN_LIMIT: Final = 300_000_000
_FRIEDMAN_LEVELS: Final = 9
_MOST_SUMS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class RankTest:
    """The result of a rank test. `statistic` and `p` are None where the test was `refused`, with the reason there.

    `n` counts all figures, `groups` the groups, blocks x levels or pairs; `least_p` is the smallest p-value that the
    sizes allow.
    """

    name: str
    statistic: float | None
    p: PValue | None
    n: int
    groups: tuple[int, ...]
    least_p: float | None
    refused: str | None = None


def kruskal_wallis(
    groups: Sequence[Values],
    *,
    family: str,
    alpha: float = 0.05,
    comparisons: int = 1,
    rng: np.random.Generator | None = None,
    draws: int = _DRAWS,
) -> RankTest:
    """Test whether groups of run-level figures come from one distribution (Kruskal and Wallis 1952).

    Two groups: exact (rank sums are counted, ties too). More: every arrangement up to a million, else `draws` random
    ones from `rng` (of a fixed seed where none is given), counted with the observed one. Chi-squared is nowhere used:
    for groups of 2 and 3 it is wrong. Refused where the least possible p exceeds alpha over the `comparisons` of the
    family, the first step of Holm's adjustment.

    >>> found = kruskal_wallis([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], family="f")
    >>> round(found.p.raw, 4), found.p.exact
    (0.0286, True)
    """
    arrays = [checked(group) for group in groups]
    sizes = tuple(len(array) for array in arrays)
    n = sum(sizes)
    if len(arrays) < 2 or min(sizes, default=0) == 0:
        return RankTest("kruskal_wallis", None, None, n, sizes, None, "needs 2 groups with figures in each")
    joined = np.concatenate(arrays)
    if np.all(joined == joined[0]):
        return RankTest("kruskal_wallis", None, None, n, sizes, None, "all figures are equal: there is nothing to rank")
    arrangements = math.factorial(n) // math.prod(math.factorial(size) for size in sizes)
    # The extreme arrangement keeps its statistic when groups of equal size trade places.
    twins = math.prod(math.factorial(count) for count in Counter(sizes).values())
    least = min(1.0, float(Fraction(twins, arrangements)))
    if least > alpha / comparisons:
        why = _never(least, alpha, comparisons, f"groups of {sizes} runs")
        return RankTest("kruskal_wallis", None, None, n, sizes, least, why)
    statistic = float(scipy_stats.kruskal(*arrays).statistic)
    ranks = scipy_stats.rankdata(joined)
    if len(sizes) == 2 and min(sizes) * n * n <= _TABLE_LIMIT:
        p, exact = _rank_sum_exact(ranks, sizes[0]), True
    elif arrangements <= _EXACT_LIMIT:
        p, exact = _kruskal_exact(ranks, sizes), True
    else:
        p, exact = _kruskal_drawn(ranks, sizes, rng or np.random.default_rng(_SEED), draws), False
    return RankTest("kruskal_wallis", statistic, _single(p, family, exact), n, sizes, least)


#: Of the draws where no generator is given: the same figures have the same p.
_SEED: Final = 19_520_621


def _rank_sum_exact(ranks: FloatArray, size: int) -> float:
    """Share of all ways to choose a group of `size` whose rank sum lies at least as far from its mean."""
    # Twice the ranks are whole numbers even with ties.
    doubled = np.rint(2 * ranks).astype(np.int64)
    observed = abs(int(doubled[:size].sum()) * len(ranks) - size * int(doubled.sum()))
    size = min(size, len(ranks) - size)
    ways = _rank_sum_ways(tuple(np.sort(doubled).tolist()), size)
    away = np.abs(np.arange(len(ways)) * len(ranks) - size * int(doubled.sum()))
    return float(ways[away >= observed].sum() / ways.sum())


@lru_cache(maxsize=256)
def _rank_sum_ways(doubled: tuple[int, ...], size: int) -> FloatArray:
    """The ways to choose `size` of these values with sum 0, 1, ..., up to a factor."""
    most = sum(doubled[-size:])
    # ways[i, s]: the share of ways to choose i of the values seen so far with sum s, of all ways to choose them.
    ways: FloatArray = np.zeros((size + 1, most + 1))
    ways[0, 0] = 1.0
    for seen, value in enumerate(doubled, start=1):
        for i in range(min(seen, size), 0, -1):
            ways[i, value:] += ways[i - 1, : most + 1 - value]
        # Kept near 1, so that 10^100 ways do not overflow; only shares are asked for in the end.
        if seen % 64 == 0:
            ways /= ways.max()
    chosen: FloatArray = ways[size]
    return chosen


def _kruskal_drawn(ranks: FloatArray, sizes: tuple[int, ...], rng: np.random.Generator, draws: int) -> float:
    """Share of drawn arrangements, the observed one counted, whose sum of R_i^2 / n_i is at least the observed one."""
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])

    def statistic(arranged: FloatArray) -> FloatArray:
        squares: FloatArray = (np.add.reduceat(arranged, begins, axis=-1) ** 2 / np.array(sizes)).sum(axis=-1)
        return squares

    observed = float(statistic(ranks))
    draws = max(9_999, min(draws, _MOST_NUMBERS // len(ranks)))
    reached = 0
    for start in range(0, draws, 20_000):
        some = min(20_000, draws - start)
        drawn = statistic(rng.permuted(np.broadcast_to(ranks, (some, len(ranks))).copy(), axis=1))
        reached += int(np.sum(drawn >= observed - 1e-9 * observed))
    return (reached + 1) / (draws + 1)


def _kruskal_exact(ranks: FloatArray, sizes: tuple[int, ...]) -> float:
    """Share of all arrangements whose sum of R_i^2 / n_i is at least the observed one."""
    ends = np.cumsum(sizes)
    observed = sum(float(ranks[end - size : end].sum()) ** 2 / size for size, end in zip(sizes, ends, strict=True))
    reached = total = 0
    # One vectorised level inside, the outer groups by recursion: fast without holding every arrangement.
    stack: list[tuple[FloatArray, tuple[int, ...], float]] = [(ranks, sizes, 0.0)]
    combinations: dict[tuple[int, int], np.ndarray] = {}
    while stack:
        left, rest, so_far = stack.pop()
        size = rest[0]
        key = (len(left), size)
        if key not in combinations:
            combinations[key] = np.array(list(itertools.combinations(range(key[0]), size)), dtype=np.int64)
        chosen = combinations[key]
        sums = left[chosen].sum(axis=1)
        if len(rest) == 2:
            values = so_far + sums**2 / size + (left.sum() - sums) ** 2 / rest[1]
            reached += int(np.sum(values >= observed - 1e-9 * observed))
            total += len(values)
            continue
        for row, part in zip(chosen, sums, strict=True):
            mask = np.ones(len(left), dtype=bool)
            mask[row] = False
            stack.append((left[mask], rest[1:], so_far + float(part) ** 2 / size))
    return reached / total


def friedman(
    blocks: Sequence[Values],
    *,
    family: str,
    alpha: float = 0.05,
    comparisons: int = 1,
    rng: np.random.Generator | None = None,
    draws: int = _DRAWS,
) -> RankTest:
    """Test whether levels differ inside blocks: `blocks[i][j]` is the figure of level j in block i (Friedman 1937).

    Two levels: the sign test, exact at every number of blocks. More: exact up to 3e8 arrangements (5 blocks of 5
    levels), else `draws` random ones from `rng` (of a fixed seed where none is given), counted with the observed one.
    Blocks must be complete. Refused where the least possible p exceeds alpha over the `comparisons` of the family.

    >>> found = friedman([[1.0, 2.0]] * 6, family="f")
    >>> found.p.raw, found.p.exact
    (0.03125, True)

    Raises:
        ValueError: blocks of unequal length.
    """
    rows = [checked(block) for block in blocks]
    if len({len(row) for row in rows}) > 1:
        raise ValueError(f"blocks must be complete; found lengths {[len(row) for row in rows]}")
    n, k = len(rows), len(rows[0]) if rows else 0
    shape = (n, k)
    if n < 2 or k < 2:
        return RankTest("friedman", None, None, n * k, shape, None, "needs 2 blocks of 2 levels")
    ranks = np.array([scipy_stats.rankdata(row) for row in rows])
    spread = float(np.sum((ranks - (k + 1) / 2) ** 2))
    if spread == 0.0:
        return RankTest("friedman", None, None, n * k, shape, None, "all levels are equal in every block")
    least = 1.0 / math.factorial(k) ** (n - 1)
    if least > alpha / comparisons:
        blocks_needed = 1 + math.ceil(math.log(comparisons / alpha) / math.log(math.factorial(k)) - 1e-9)
        why = _never(least, alpha, comparisons, f"{n} blocks of {k} levels") + f"; {blocks_needed} blocks are needed"
        return RankTest("friedman", None, None, n * k, shape, least, why)
    sums = ranks.sum(axis=0)
    statistic = (k - 1) * float(np.sum((sums - n * (k + 1) / 2) ** 2)) / spread
    if k == 2:
        untied = ranks[ranks[:, 0] != ranks[:, 1]]
        first = int(np.sum(untied[:, 0] > untied[:, 1]))
        p, exact = float(scipy_stats.binomtest(first, len(untied)).pvalue), True
    elif k <= _FRIEDMAN_LEVELS and math.factorial(k) ** (n - 1) <= _FRIEDMAN_LIMIT:
        p, exact = _friedman_exact(ranks), True
    else:
        p, exact = _friedman_drawn(ranks, rng or np.random.default_rng(_SEED), draws), False
    return RankTest("friedman", statistic, _single(p, family, exact), n * k, shape, least)


def _friedman_exact(ranks: FloatArray) -> float:
    """Share of all ways to permute ranks inside blocks whose spread of rank sums is at least the observed one."""
    n, k = ranks.shape
    # Twice the ranks are whole numbers even with ties, so sums are exact keys.
    doubled = np.rint(2 * ranks).astype(np.int64)
    observed = int(np.sum((doubled.sum(axis=0) - n * (k + 1)) ** 2))
    spreads, ways = _friedman_null(tuple(sorted(tuple(sorted(row)) for row in doubled.tolist())))
    return float(ways[spreads >= observed].sum() / ways.sum())


@lru_cache(maxsize=256)
def _friedman_null(blocks: tuple[tuple[int, ...], ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The spreads of rank sums over all ways to permute ranks inside `blocks`, and how many ways give each.

    A report asks for the same few distributions again and again: without ties one for each shape.
    """
    k = len(blocks[0])
    # The spread does not depend on which level holds which sum: sums are sorted, and one number stands for all of them.
    base = 2 * k * len(blocks) + 1
    digits = base ** np.arange(k - 1, -1, -1, dtype=np.int64)
    # The first block may stay as it is: permuting all blocks alike changes nothing.
    keys, ways = np.array([blocks[0]]) @ digits, np.array([1])
    for block in blocks[1:]:
        orders, times = np.unique(list(itertools.permutations(block)), axis=0, return_counts=True)
        grown, counted = [], []
        for some in np.array_split(np.arange(len(keys)), -(-len(keys) * len(orders) // _MOST_SUMS)):
            sums = keys[some, None, None] // digits % base + orders
            met, same = np.unique(np.sort(sums, axis=2) @ digits, return_inverse=True)
            grown.append(met)
            counted.append(np.bincount(same.ravel(), np.outer(ways[some], times).ravel()).astype(np.int64))
        keys, same = np.unique(np.concatenate(grown), return_inverse=True)
        # The counts stay far below 2^53, where floating point is exact.
        ways = np.bincount(same, np.concatenate(counted)).astype(np.int64)
    sums = keys[:, None] // digits % base
    return np.sum((sums - len(blocks) * (k + 1)) ** 2, axis=1), ways


def _friedman_drawn(ranks: FloatArray, rng: np.random.Generator, draws: int) -> float:
    """Share of drawn ways to permute ranks inside blocks, the observed one counted, with at least its spread."""
    n, k = ranks.shape
    centre = n * (k + 1) / 2.0
    observed = float(np.sum((ranks.sum(axis=0) - centre) ** 2))
    draws = max(9_999, min(draws, _MOST_NUMBERS // ranks.size))
    reached = 0
    chunk = max(1, 2_000_000 // ranks.size)
    for start in range(0, draws, chunk):
        some = min(chunk, draws - start)
        drawn = rng.permuted(np.broadcast_to(ranks, (some, n, k)).copy(), axis=2).sum(axis=1)
        reached += int(np.sum(((drawn - centre) ** 2).sum(axis=1) >= observed - 1e-9 * observed))
    return (reached + 1) / (draws + 1)


def kendall_tau_b(x: Values, y: Values, *, family: str, alpha: float = 0.05) -> RankTest:
    """Return Kendall's tau-b, corrected for ties, as `statistic` (from -1 to 1), with a p-value that allows for ties.

    Where one side has two values (a level, or not) p is that of the rank sums, exact: the normal approximation rejects
    9 % of 3 against 3 runs. Without ties it is exact up to 33 pairs. Against a factor with two levels of shares p and
    1 - p tau-b cannot exceed sqrt(2 p (1 - p)): show Cliff's delta beside it.

    >>> round(kendall_tau_b([1, 2, 3, 4, 5], [1, 2, 3, 5, 4], family="f").statistic, 3)
    0.8

    Raises:
        ValueError: unequal lengths.
    """
    a, b = checked(x), checked(y)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} figures: pass pairs")
    n = len(a)
    if n < 2 or np.all(a == a[0]) or np.all(b == b[0]):
        return RankTest("kendall_tau_b", None, None, n, (n,), None, "needs 2 pairs, and neither side all equal")
    exact_p: float | None
    sums = _two_valued(a, b) or _two_valued(b, a)
    if sums is not None:
        least, exact_p, exact = *sums, True
    else:
        orders = math.factorial(n) // math.prod(math.factorial(c) for c in Counter(a.tolist()).values())
        # From 171 different figures on the number of orders is beyond a float: the least p is then the least float.
        least = min(1.0, max(float(Fraction(2, orders)), sys.float_info.min))
        tied = len(np.unique(a)) < n or len(np.unique(b)) < n
        exact_p, exact = None, not tied and n <= 33
    if least > alpha:
        return RankTest("kendall_tau_b", None, None, n, (n,), least, _never(least, alpha, 1, f"{n} pairs"))
    result = scipy_stats.kendalltau(a, b, variant="b")
    p = float(result.pvalue) if exact_p is None else exact_p
    return RankTest("kendall_tau_b", float(result.statistic), _single(p, family, exact), n, (n,), least)


def _two_valued(figures: FloatArray, level: FloatArray) -> tuple[float, float] | None:
    """The least and the found p of rank sums where `level` has two values; None where it has more, or too many runs."""
    n, first = len(level), level == level[0]
    size = int(first.sum())
    if len(np.unique(level)) != 2 or min(size, n - size) * n * n > _TABLE_LIMIT:
        return None
    ranks = scipy_stats.rankdata(figures)
    ordered = np.sort(ranks)
    least = min(_rank_sum_exact(ordered, size), _rank_sum_exact(ordered[::-1], size))
    return least, _rank_sum_exact(np.concatenate([ranks[first], ranks[~first]]), size)


def _single(p: float, family: str, exact: bool) -> PValue:
    return adjust([min(1.0, p)], family=family, adjustment="none", exact=[exact])[0]


def _never(least: float, alpha: float, comparisons: int, what: str) -> str:
    over = f"{alpha:g}" if comparisons == 1 else f"{alpha / comparisons:.3g} ({alpha:g} over {comparisons} tests)"
    return f"refused: with {what} the least possible p is {least:.3g}, above {over}"
