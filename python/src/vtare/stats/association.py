"""How a figure goes with the levels of a factor: Kendall's tau-b and Cliff's delta, level by level."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from vtare.stats._arrays import Values, checked
from vtare.stats.effect import cliffs_delta
from vtare.stats.pvalues import PValue, adjust
from vtare.stats.rank_tests import kendall_tau_b


@dataclass(frozen=True, slots=True)
class LevelAssociation:
    """One level against all others of its factor.

    `tau_b` is Kendall's tau-b of the figures with "is at this level" (0 or 1). It cannot leave -`tau_bound` to
    `tau_bound`, about sqrt(2 p (1 - p)) for the level's share p of the runs, so it is no measure of size by itself:
    `cliffs_delta` beside it runs from -1 to 1. `tau_b` is None where `refused`.
    """

    level: Hashable
    tau_b: float | None
    tau_bound: float
    cliffs_delta: float | None
    p: PValue | None
    n: int
    n_level: int
    refused: str | None = None


def tau_bound(n: int, n_level: int, *, tied_pairs: int = 0) -> float:
    """Return the largest tau-b of n figures with a level that `n_level` of them have.

    sqrt(2 p (1 - p)) at the share p = n_level / n, times sqrt(n / (n - 1)), which makes it exact; a little more where
    `tied_pairs` pairs of figures are equal, because tau-b leaves them out of its scale.

    >>> round(tau_bound(8, 4), 3)
    0.756

    Raises:
        ValueError: fewer than 2 figures, a level that none or all have, or nothing but ties.
    """
    pairs = n * (n - 1) // 2 - tied_pairs
    if n < 2 or not 0 < n_level < n or pairs <= 0:
        raise ValueError(f"{n_level} of {n} figures are at the level: pass some at it, some not, not all equal")
    return min(1.0, math.sqrt(n_level * (n - n_level) / pairs))


def associate_levels(
    figures: Values, levels: Sequence[Hashable], *, family: str, alpha: float = 0.05
) -> tuple[LevelAssociation, ...]:
    """Return tau-b and Cliff's delta of each level against the rest, p-values adjusted over the levels by BH.

    `figures` holds one figure per run, `levels` its level. For counts and rates, which have an order, take
    `kendall_tau_b` of the figures with the numbers themselves instead.

    >>> found = associate_levels([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], ["a"] * 4 + ["b"] * 4, family="f")
    >>> [(one.level, one.cliffs_delta) for one in found]
    [('a', -1.0), ('b', 1.0)]

    Raises:
        ValueError: as many levels as figures are wanted.
    """
    values = checked(figures)
    if len(levels) != len(values):
        raise ValueError(f"{len(values)} figures but {len(levels)} levels")
    ties = np.unique(values, return_counts=True)[1]
    tied_pairs = int(np.sum(ties * (ties - 1)) // 2)
    if len(ties) < 2:
        return ()
    tests = []
    for level in dict.fromkeys(levels):
        at = np.array([other == level for other in levels])
        if at.all():
            continue
        test = kendall_tau_b(values, at.astype(np.float64), family=family, alpha=alpha)
        delta = cliffs_delta(values[at], values[~at]).value
        tests.append((level, at, test, delta))
    raw = [test.p.raw for _, _, test, _ in tests if test.p is not None]
    adjusted = iter(adjust(raw, family=family, adjustment="bh"))
    return tuple(
        LevelAssociation(
            level,
            test.statistic,
            tau_bound(len(values), int(at.sum()), tied_pairs=tied_pairs),
            delta,
            next(adjusted) if test.p is not None else None,
            len(values),
            int(at.sum()),
            test.refused,
        )
        for level, at, test, delta in tests
    )
