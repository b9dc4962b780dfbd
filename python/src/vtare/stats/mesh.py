"""What a matrix of pairs shows: groups of hosts that see the others alike, and pairs that differ from those like them.

Both are claimed only where they hold against noise: a group is split where no permutation of its pairs splits as well,
with the error of all splits bounded (Meinshausen 2008; Kimes et al. 2017), and a pair is odd where it is far from its
like (robust z), beyond the margin, and at the same end of them in block after block (exact, adjusted by Holm).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vtare.stats._arrays import FloatArray
from vtare.stats._scipy import stats as scipy_stats
from vtare.stats.outliers import robust_z
from vtare.stats.pvalues import PValue, adjust

#: Permutations of a split, and how many of them as good as the split end its test.
_PERMUTATIONS: Final = 199
_AS_GOOD: Final = 10
#: Hosts that a group needs to be split: fewer have too few pairs.
_LEAST_HOSTS: Final = 4
#: Pairs of one kind that are compared with each other.
_LEAST_PAIRS: Final = 5
_LEAST_Z: Final = 3.5


@dataclass(frozen=True, slots=True)
class Split:
    """A test of whether a group of hosts, as positions, is two. `p` is raw; it is held against `level`.

    `share` is the part of the variance of its pairs' ranks that the two parts explain.
    """

    hosts: tuple[int, ...]
    parts: tuple[tuple[int, ...], tuple[int, ...]]
    share: float
    p: float
    level: float

    @property
    def holds(self) -> bool:
        """Whether the noise does not explain it."""
        return self.p <= self.level


@dataclass(frozen=True, slots=True)
class OddPair:
    """A pair that differs from the `n` pairs of its kind: those between (or within) the same clusters.

    `ratio` is its median over the blocks over that of its kind, `z` its robust z-score among their logarithms.
    """

    first: int
    second: int
    ratio: float
    z: float
    p: PValue
    n: int


@dataclass(frozen=True, slots=True)
class MeshStructure:
    """What was found in a mesh of N hosts.

    `medians`, shape (N, N): the median over the blocks of each pair, from row to column; nan where there is none.
    `clusters` are positions of hosts that see the others alike; all hosts are in one where none is shown. `tested`
    counts the pairs that were tested; `untested` those of kinds with too few pairs. `blocks_needed` is stated where no
    pair could be odd with so few blocks, whatever it measured: how many it takes.
    """

    medians: FloatArray
    clusters: tuple[tuple[int, ...], ...]
    splits: tuple[Split, ...]
    odd: tuple[OddPair, ...]
    tested: int
    untested: int
    blocks_needed: int | None


def mesh_structure(
    values: FloatArray,
    *,
    one_way: bool,
    alpha: float = 0.05,
    margin_ratio: float = 1.05,
    family: str = "pairs",
    rng: np.random.Generator,
) -> MeshStructure:
    """Find clusters and odd pairs in a mesh.

    Args:
        values: shape (blocks, N, N), above 0, nan where nothing was measured: row to column. Without `one_way` a pair
            stands on either side of the diagonal, or on both with the same value.
        one_way: the two ways of a pair are two values.
        alpha: of all splits together, and of all odd pairs together.
        margin_ratio: clusters and pairs that differ by less than this ratio count as alike.
        family: the name of the family of p-values.
        rng: draws the permutations.

    >>> rng = np.random.default_rng(1)
    >>> near = np.exp(rng.normal(0, 0.05, (5, 8, 8)))
    >>> near[:, :4, 4:] *= 10
    >>> near[:, 0, 1] *= 3
    >>> near[:, np.tri(8, dtype=bool)] = np.nan
    >>> found = mesh_structure(near, one_way=False, rng=rng)
    >>> found.clusters, [(odd.first, odd.second) for odd in found.odd]
    (((0, 1, 2, 3), (4, 5, 6, 7)), [(0, 1)])

    Raises:
        ValueError: the array has another shape.
    """
    if values.ndim != 3 or values.shape[-1] != values.shape[-2]:
        raise ValueError(f"the array has the shape {values.shape}: pass (blocks, N, N)")
    logs = np.full(values.shape, np.nan)
    np.log(values, out=logs, where=values > 0)
    hosts = np.arange(values.shape[-1])
    logs[:, hosts, hosts] = np.nan
    if not one_way:
        logs = np.where(np.isnan(logs), np.swapaxes(logs, 1, 2), logs)
    middle = _median(logs)
    splits: list[Split] = []
    leaves: list[NDArray[np.int64]] = []
    waiting = [hosts]
    while waiting:
        group = waiting.pop()
        split = _split(middle, group, len(middle), alpha, one_way=one_way, rng=rng)
        if split is not None:
            splits.append(split)
        if split is None or not split.holds:
            leaves.append(group)
        else:
            waiting += [np.array(part) for part in split.parts]
    clusters = _merged(middle, leaves, math.log(margin_ratio))
    odd, tested, untested, needed = _odd(logs, middle, clusters, one_way, alpha, math.log(margin_ratio), family)
    return MeshStructure(np.exp(middle), clusters, tuple(splits), odd, tested, untested, needed)


def _median(logs: FloatArray) -> FloatArray:
    """The median over the first axis; nan where there is no value."""
    medians = np.full(logs.shape[1:], np.nan)
    there = ~np.isnan(logs).all(axis=0)
    medians[there] = np.nanmedian(logs[:, there], axis=0)
    return medians


def _distances(middle: FloatArray) -> FloatArray:
    """How differently two hosts see the others, shape (N, N): the mean of |log ratio| over the others, both ways.

    Without the largest two of them (fewer where there are few hosts): each of the two hosts may have an odd pair.
    """
    n = len(middle)
    away = np.abs(middle[:, None, :] - middle[None, :, :])
    back = np.abs(middle.T[:, None, :] - middle.T[None, :, :])
    either = np.where(np.isnan(away), back, np.where(np.isnan(back), away, (away + back) / 2.0))
    kept = n - 2 - min(2, (n - 2) // 3)
    # nan is sorted to the end: a host itself, the other one, and pairs that were not measured.
    ordered = np.partition(either, kept - 1, axis=2)[:, :, :kept]
    counts = np.maximum(1, (~np.isnan(ordered)).sum(axis=2))
    distances = np.nansum(ordered, axis=2) / counts
    np.fill_diagonal(distances, 0.0)
    either_way: FloatArray = (distances + distances.T) / 2.0
    return either_way


def _parts(middle: FloatArray) -> NDArray[np.bool_]:
    """Which hosts are in the first of the two parts at the top of the tree (average linkage)."""
    # With SciPy, which takes most of a second to load.
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    tree = linkage(squareform(_distances(middle), checks=False), "average")
    labels = fcluster(tree, 2, "maxclust")
    first: NDArray[np.bool_] = labels == labels[0]
    return first


def _explained(ranks: FloatArray, first: NDArray[np.bool_], *, one_way: bool) -> float:
    """The share of the variance of the pairs' ranks that lies between kinds of pairs: in each part, and between."""
    kind = 2 * first[:, None].astype(int) + first[None, :].astype(int)
    if not one_way:
        kind[kind == 2] = 1
    there = ~np.isnan(ranks)
    x, k = ranks[there], kind[there]
    total = float(((x - x.mean()) ** 2).sum())
    if total == 0.0:
        return 0.0
    count, sums = np.bincount(k, minlength=4), np.bincount(k, x, minlength=4)
    met = count > 0
    return float((sums[met] ** 2 / count[met]).sum() - x.sum() ** 2 / len(x)) / total


def _split(
    middle: FloatArray, hosts: NDArray[np.int64], n_all: int, alpha: float, *, one_way: bool, rng: np.random.Generator
) -> Split | None:
    """Test whether these hosts are two groups; None where they are too few."""
    n = len(hosts)
    if n < _LEAST_HOSTS:
        return None
    own = middle[np.ix_(hosts, hosts)]
    where = np.argwhere(~np.isnan(own) if one_way else np.triu(~np.isnan(own), 1))
    if len(where) < n:
        return None
    x = own[where[:, 0], where[:, 1]]

    def filled(of_pairs: FloatArray) -> FloatArray:
        made = np.full((n, n), np.nan)
        made[where[:, 0], where[:, 1]] = of_pairs
        if not one_way:
            made[where[:, 1], where[:, 0]] = of_pairs
        return made

    ranks = scipy_stats.rankdata(x)
    first = _parts(own)
    share = _explained(filled(ranks), first, one_way=one_way)
    level = alpha * (n - 1) / (n_all - 1)
    permutations = max(_PERMUTATIONS, math.ceil(2.0 / level))
    as_good = made = 0
    while made < permutations and as_good < _AS_GOOD:
        order = rng.permutation(len(x))
        made += 1
        as_good += _explained(filled(ranks[order]), _parts(filled(x[order])), one_way=one_way) >= share
    # Besag and Clifford 1991: a test that ends early is as exact.
    p = as_good / made if as_good == _AS_GOOD else (as_good + 1) / (made + 1)
    parts = tuple(tuple(hosts[mask].tolist()) for mask in (first, ~first))
    return Split(tuple(hosts.tolist()), (parts[0], parts[1]), share, p, level)


def _merged(middle: FloatArray, leaves: list[NDArray[np.int64]], margin: float) -> tuple[tuple[int, ...], ...]:
    """The clusters: leaves of the tree, those joined again that see all clusters alike within the margin."""
    groups = list(leaves)
    while len(groups) > 1:
        blocks = _blocks(middle, groups)
        apart = {(a, b): _apart(blocks, a, b) for a in range(len(groups)) for b in range(a)}
        (a, b), least = min(apart.items(), key=lambda item: item[1])
        if least > margin:
            break
        groups[b] = np.concatenate([groups[b], groups[a]])
        del groups[a]
    return tuple(sorted(tuple(sorted(leaf.tolist())) for leaf in groups))


def _blocks(middle: FloatArray, clusters: list[NDArray[np.int64]]) -> FloatArray:
    """The median of the pairs from each cluster to each, and within; nan where there is none."""
    blocks = np.full((len(clusters), len(clusters)), np.nan)
    for a, one in enumerate(clusters):
        for b, other in enumerate(clusters):
            pairs = middle[np.ix_(one, other)]
            if not np.isnan(pairs).all():
                blocks[a, b] = np.nanmedian(pairs)
    return blocks


def _apart(blocks: FloatArray, a: int, b: int) -> float:
    """By how much two clusters differ at most: in what they see of others, and between them against within."""
    others = [k for k in range(len(blocks)) if k not in (a, b)]
    differences = [
        *(blocks[a, others] - blocks[b, others]),
        *(blocks[others, a] - blocks[others, b]),
        *(blocks[x, y] - blocks[z, z] for x, y in ((a, b), (b, a)) for z in (a, b)),
        blocks[a, a] - blocks[b, b],
    ]
    sizes = np.abs([one for one in differences if not np.isnan(one)])
    return float(sizes.max()) if len(sizes) else math.inf


def _odd(
    logs: FloatArray,
    middle: FloatArray,
    clusters: tuple[tuple[int, ...], ...],
    one_way: bool,
    alpha: float,
    margin: float,
    family: str,
) -> tuple[tuple[OddPair, ...], int, int, int | None]:
    """The odd pairs, how many were tested and not, and the blocks that it takes where these could show none."""
    cluster_of = {host: k for k, hosts in enumerate(clusters) for host in hosts}
    kinds: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for a, b in np.argwhere(~np.isnan(middle) if one_way else np.triu(~np.isnan(middle), 1)).tolist():
        kind = (cluster_of[a], cluster_of[b])
        kinds.setdefault(kind if one_way else (min(kind), max(kind)), []).append((a, b))
    compared = [pairs for pairs in kinds.values() if len(pairs) >= _LEAST_PAIRS]
    tested = sum(map(len, compared))
    untested = sum(map(len, kinds.values())) - tested
    if not tested:
        return (), 0, untested, None
    raw: list[tuple[tuple[int, int], float, float, float, int]] = []
    needed = []
    # No farther than noise of a normal shape brings one of all pairs in alpha of all meshes.
    far = max(_LEAST_Z, float(scipy_stats.norm.isf(alpha / 2.0 / tested)))
    for pairs in compared:
        rows, columns = np.array(pairs).T
        own, centre = middle[rows, columns], float(np.median(middle[rows, columns]))
        scores = robust_z(own).z
        p = _ends_p(logs[:, rows, columns])
        needed.append(math.ceil(math.log(2.0 * tested / alpha) / math.log(len(pairs))))
        for k, pair in enumerate(pairs):
            raw.append((pair, float(p[k]), float(own[k]) - centre, 0.0 if scores is None else scores[k], len(pairs)))
    adjusted = adjust([p for _, p, *_ in raw], family=family, adjustment="holm", exact=[True] * len(raw))
    odd = [
        OddPair(*pair, math.exp(shift), float(z), p, n)
        for (pair, _, shift, z, n), p in zip(raw, adjusted, strict=True)
        if p.adjusted <= alpha and abs(z) > far and abs(shift) > margin
    ]
    odd.sort(key=lambda one: -abs(math.log(one.ratio)))
    return tuple(odd), tested, untested, min(needed) if min(needed) > len(logs) else None


def _ends_p(logs: FloatArray) -> FloatArray:
    """For each of M pairs the two-sided p of standing at the same end of all of them in block after block.

    `logs` has shape (blocks, M). Were the pairs alike, the rank of each would be uniform on 1 to M in every block,
    apart from the other blocks: the sum of its ranks is held against the exact distribution of such sums. Ties count
    against it.
    """
    blocks = [row for row in logs if (~np.isnan(row)).sum() > 1]
    counts = [int((~np.isnan(row)).sum()) for row in blocks]
    sizes = np.array(
        [[count if seen else 0 for seen in ~np.isnan(row)] for row, count in zip(blocks, counts, strict=True)]
    )
    sums = []
    for sign in (1.0, -1.0):
        ranks = [scipy_stats.rankdata(sign * row, method="max", nan_policy="omit") for row in blocks]
        sums.append(np.nansum(ranks, axis=0) if ranks else np.zeros(logs.shape[1]))
    ps = np.ones(logs.shape[1])
    chances: dict[tuple[int, ...], FloatArray] = {}
    for k in range(logs.shape[1]):
        of = tuple(sorted(int(size) for size in sizes[:, k] if size)) if len(sizes) else ()
        if of:
            if of not in chances:
                chances[of] = _sum_chances(of)
            ps[k] = min(1.0, 2.0 * min(chances[of][int(one[k])] for one in sums))
    return ps


def _sum_chances(sizes: tuple[int, ...]) -> FloatArray:
    """P(S <= s) for s = 0, 1, ... where S is the sum of uniform numbers from 1 to each of these sizes."""
    chance = np.ones(1)
    for size in sizes:
        # The sum over the last `size` entries, moved on by one; where fewer are there nothing is subtracted.
        total = np.concatenate([[0.0], np.cumsum(np.concatenate([chance, np.zeros(size)]))])
        low = np.maximum(0, np.arange(len(total)) - size)
        chance = np.concatenate([[0.0], (total - total[low])[1:] / size])[: len(chance) + size]
    whole: FloatArray = np.cumsum(chance)
    return whole


__all__ = ["MeshStructure", "OddPair", "Split", "mesh_structure"]
