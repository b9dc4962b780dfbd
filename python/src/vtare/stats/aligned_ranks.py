"""Interactions by the aligned rank transform (Wobbrock, Findlater, Gergle and Higgins 2011).

A rank test on joined factor levels is no test of an interaction, and ranks without alignment invent some
(Scheirer-Ray-Hare). So each effect gets ranks of its own: the cell means are taken off, the effect in question is put
back, what results is ranked, and an analysis of variance of all effects is read for this one alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats as scipy_stats

from vtare.stats._arrays import FloatArray, Values, checked
from vtare.stats.pvalues import PValue, adjust


@dataclass(frozen=True, slots=True)
class AlignedRankTest:
    """The F test of one effect. `effect` names its factors (two or more: an interaction).

    `f` and `p` are None where the test was `refused`, with the reason there. `freedom` and `freedom_error` are the
    degrees of freedom of the effect and of the residual.
    """

    effect: tuple[str, ...]
    f: float | None
    freedom: int
    freedom_error: int
    p: PValue | None
    n: int
    refused: str | None = None


def aligned_rank_tests(
    figures: Values,
    factors: Mapping[str, Sequence[Hashable]],
    *,
    family: str,
    block: Sequence[Hashable] | None = None,
    interactions_only: bool = True,
) -> tuple[AlignedRankTest, ...]:
    """Test every interaction of the factors (and the main effects, if asked) on one figure per run.

    `factors` gives each factor's level for every figure. `block`, one label per figure, takes block effects off the
    error; an effect that varies between blocks only is refused then. All cells must have been measured. The p-values
    are those of F, type III sums of squares; raw, one family.

    >>> figures, factors = [1.0, 2.0, 1.1, 6.2, 1.2, 2.1, 1.0, 6.0], {"a": [0, 0, 1, 1] * 2, "b": [0, 1] * 4}
    >>> (test,) = aligned_rank_tests(figures, factors, family="f")
    >>> test.effect, test.freedom, test.freedom_error
    (('a', 'b'), 1, 4)

    Raises:
        ValueError: labels of another length than the figures, or fewer than 2 factors with 2 levels.
    """
    y = checked(figures)
    codes = {name: _codes(labels, len(y), name) for name, labels in factors.items()}
    codes = {name: code for name, code in codes.items() if code.max(initial=0) > 0}
    if len(codes) < 2:
        raise ValueError(f"an interaction needs 2 factors with 2 levels each, found {len(codes)}")
    names = tuple(codes)
    effects = [e for size in range(1, len(names) + 1) for e in itertools.combinations(names, size)]
    wanted = [e for e in effects if len(e) > 1 or not interactions_only]
    sizes = {name: int(code.max()) + 1 for name, code in codes.items()}
    freedoms = {e: math.prod(sizes[name] - 1 for name in e) for e in effects}
    cells = np.ravel_multi_index([codes[name] for name in names], [sizes[name] for name in names])
    missing = math.prod(sizes.values()) - len(np.unique(cells))
    if missing:
        why = f"refused: {missing} of {math.prod(sizes.values())} combinations of levels were not measured"
        return tuple(AlignedRankTest(e, None, freedoms[e], 0, None, len(y), why) for e in wanted)
    columns = {e: _contrasts(e, codes, sizes) for e in effects}
    constant = np.ones((len(y), 1))
    blocks = constant if block is None else np.hstack([constant, _sum_coded(_codes(block, len(y), "block"))])
    results = []
    cell_means = _cell_means(y, codes, sizes)
    residual = y - cell_means[tuple(codes.values())]
    for e in wanted:
        aligned = residual + _effect(cell_means, e, names)[tuple(codes.values())]
        ranks = scipy_stats.rankdata(_rounded(aligned, y))
        results.append(_f_test(ranks, e, effects, columns, blocks, freedoms[e], family))
    return tuple(results)


def _codes(labels: Sequence[Hashable], n: int, name: str) -> np.ndarray:
    if len(labels) != n:
        raise ValueError(f"{n} figures but {len(labels)} labels of '{name}'")
    order = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    return np.array([order[label] for label in labels], dtype=np.int64)


def _sum_coded(code: np.ndarray) -> FloatArray:
    """Sum-to-zero contrasts, which type III sums of squares are defined on."""
    levels = int(code.max()) + 1
    table = np.vstack([np.eye(levels - 1), -np.ones(levels - 1)])
    coded: FloatArray = table[code]
    return coded


def _contrasts(effect: tuple[str, ...], codes: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> FloatArray:
    product = np.ones((len(next(iter(codes.values()))), 1))
    for name in effect:
        product = (product[:, :, None] * _sum_coded(codes[name])[:, None, :]).reshape(len(product), -1)
    return product


def _cell_means(y: FloatArray, codes: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> FloatArray:
    shape = tuple(sizes.values())
    flat = np.ravel_multi_index(list(codes.values()), shape)
    total = math.prod(shape)
    means: FloatArray = (np.bincount(flat, weights=y, minlength=total) / np.bincount(flat, minlength=total)).reshape(
        shape
    )
    return means


def _effect(cell_means: FloatArray, effect: tuple[str, ...], names: tuple[str, ...]) -> FloatArray:
    """The estimated effect in every cell: marginal means of cell means, by inclusion and exclusion."""
    found = np.zeros_like(cell_means)
    for size in range(len(effect) + 1):
        for kept in itertools.combinations(effect, size):
            away = tuple(i for i, name in enumerate(names) if name not in kept)
            found = found + (-1.0) ** (len(effect) - size) * cell_means.mean(axis=away, keepdims=True)
    return np.broadcast_to(found, cell_means.shape)


def _rounded(aligned: FloatArray, y: FloatArray) -> FloatArray:
    """Aligned figures without the last digits, where sums in another order would break ties."""
    scale = float(np.abs(y - y.mean()).max(initial=0.0))
    return aligned if scale == 0.0 else np.round(aligned / scale, 10)


def _f_test(
    ranks: FloatArray,
    effect: tuple[str, ...],
    effects: Sequence[tuple[str, ...]],
    columns: Mapping[tuple[str, ...], FloatArray],
    blocks: FloatArray,
    freedom: int,
    family: str,
) -> AlignedRankTest:
    n = len(ranks)
    without = np.hstack([blocks, *(columns[e] for e in effects if e != effect)])
    full = np.hstack([without, columns[effect]])
    error_full, rank_full = _residual(full, ranks)
    error_without, rank_without = _residual(without, ranks)
    rest = n - rank_full
    if rank_full - rank_without < freedom:
        why = "refused: this effect varies between blocks only and cannot be separated from theirs"
        return AlignedRankTest(effect, None, freedom, rest, None, n, why)
    if rest < 1:
        return AlignedRankTest(effect, None, freedom, rest, None, n, "refused: no repeat is left to estimate an error")
    if error_full <= 1e-12 * n**3:
        return AlignedRankTest(effect, None, freedom, rest, None, n, "refused: there is no spread inside the cells")
    f = max(0.0, error_without - error_full) / freedom / (error_full / rest)
    p = adjust([float(scipy_stats.f.sf(f, freedom, rest))], family=family, adjustment="none")[0]
    return AlignedRankTest(effect, f, freedom, rest, p, n)


def _residual(design: FloatArray, y: FloatArray) -> tuple[float, int]:
    solution, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    return float(np.sum((y - design @ solution) ** 2)), int(rank)
