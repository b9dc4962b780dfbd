"""A permutation test over runs: for figures such as tails, whose distribution no formula knows."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked
from vtare.stats.comparison import _Welch, least_p_of_runs, refusal
from vtare.stats.pvalues import PValue, adjust

# Ways to deal the runs to two cells that are still counted one by one (10 against 10 runs are 184,756).
_EXACT_LIMIT: Final = 200_000
_DRAWS: Final = 19_999


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """The result of a permutation of runs. `p` is None where the test was `refused`, which then says why.

    `ratio` is the ratio of geometric means of the run figures (a over b), None where one is not above 0; `difference`
    that of their plain means. `low` and `high` are the ratio's interval at 1 - alpha by Welch's t on logarithms, None
    where the test was refused or runs agree to the last digit.
    """

    ratio: float | None
    difference: float | None
    p: PValue | None
    n_a: int
    n_b: int
    least_p: float
    refused: str | None = None
    low: float | None = None
    high: float | None = None


def permute_runs(
    a: Values, b: Values, *, family: str, rng: np.random.Generator, alpha: float = 0.05, draws: int = _DRAWS
) -> PermutationTest:
    """Test whether two cells' run figures (such as each run's p99) could have been dealt to them by chance.

    The statistic is the absolute difference of mean logarithms (of plain means where a figure is not above 0); two
    sided. Exact up to 200,000 ways to deal, else `draws` random ones, counted with the observed one (Phipson and Smyth
    2010), so that p is never 0.
    """
    x, y = checked(a), checked(b)
    n_a, n_b = len(x), len(y)
    if n_a == 0 or n_b == 0:
        return PermutationTest(None, None, None, n_a, n_b, 1.0, "no run has this figure on one side")
    least = least_p_of_runs(n_a, n_b)
    on_log = bool(np.all(x > 0) and np.all(y > 0))
    difference = float(x.mean() - y.mean())
    joined = np.concatenate([x, y])
    joined = np.log(joined) if on_log else joined
    shift = float(joined[:n_a].mean() - joined[n_a:].mean())
    ratio = math.exp(shift) if on_log else None
    why = refusal(n_a, n_b, alpha=alpha)
    if why is not None:
        return PermutationTest(ratio, difference, None, n_a, n_b, least, why)
    # Centred, so that the sums of the chosen runs stay exact enough to be compared.
    joined = joined - joined.mean()
    exact = math.comb(n_a + n_b, n_a) <= _EXACT_LIMIT
    shifts = _all_shifts(joined, n_a) if exact else _drawn_shifts(joined, n_a, rng, draws)
    reached = int(np.sum(np.abs(shifts) >= abs(shift) - 1e-9 * max(abs(shift), float(np.abs(joined).max()))))
    p = reached / len(shifts) if exact else (reached + 1) / (len(shifts) + 1)
    value = adjust([min(1.0, p)], family=family, adjustment="none", exact=[exact])[0]
    low, high = _ends(np.log(x), np.log(y), alpha) if on_log else (None, None)
    return PermutationTest(ratio, difference, value, n_a, n_b, least, None, low, high)


def _ends(x: FloatArray, y: FloatArray, alpha: float) -> tuple[float | None, float | None]:
    """The interval of the ratio of geometric means, from logarithms."""
    if not x.var() + y.var() > 0:
        return None, None
    low, high = _Welch.of(x, y).ends(alpha)
    return (math.exp(low), math.exp(high)) if max(abs(low), abs(high)) < 700 else (None, None)


def _all_shifts(centred: FloatArray, n_a: int) -> FloatArray:
    """Differences of means of every way to choose `n_a` of the runs."""
    n = len(centred)
    sums = centred[_choices(n, n_a)].sum(axis=1)
    shifts: FloatArray = sums / n_a - (centred.sum() - sums) / (n - n_a)
    return shifts


@lru_cache(maxsize=4)
def _choices(n: int, n_a: int) -> np.ndarray:
    """Every way to choose `n_a` of n; kept, because all cells of a campaign have the same number of runs."""
    return np.fromiter(
        itertools.chain.from_iterable(itertools.combinations(range(n), n_a)),
        dtype=np.int16,
        count=n_a * math.comb(n, n_a),
    ).reshape(-1, n_a)


def _drawn_shifts(centred: FloatArray, n_a: int, rng: np.random.Generator, draws: int) -> FloatArray:
    n = len(centred)
    shuffled = rng.permuted(np.tile(centred, (draws, 1)), axis=1)
    sums = shuffled[:, :n_a].sum(axis=1)
    shifts: FloatArray = sums / n_a - (centred.sum() - sums) / (n - n_a)
    return shifts
