"""Pairs that are compared while they come: looks with a stated error of all together, and an interval at each.

The unit is a pair: what two things took, one right after the other or at the same time, in an order drawn at random.
Where they are alike, every log ratio d_i is as likely as -d_i, whatever the machine does from pair to pair. So the
signed-rank test (Wilcoxon 1945) is exact, drifting and bursty machines included, and the Hodges-Lehmann interval that
belongs to it (the Walsh averages that the test does not reject) has the same level.

Looks spend the error alpha as a function of how much is known (Lan and DeMets 1983): information is 1 / (half-width of
the 95 % interval)^2, and all of alpha is spent where the half-width is the one asked for, or where nothing more may be
spent. The spending, alpha t^2, is between those of O'Brien-Fleming and Pocock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked

_POWER: Final = 2.0
_GRID: Final = 241
_EXACT: Final = 60
"""Pairs up to which the distribution of signed ranks is counted, and not taken as normal."""


@dataclass(frozen=True, slots=True)
class PairedShift:
    """The Hodges-Lehmann estimate of paired differences and its interval; no ends where the level is out of reach."""

    value: float
    low: float | None
    high: float | None
    n: int
    level: float

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2.0


def walsh_averages(d: Values) -> FloatArray:
    """Return the means of two differences, each with itself as well, in order: shape (n (n + 1) / 2,).

    >>> walsh_averages([1.0, 3.0]).tolist()
    [1.0, 2.0, 3.0]
    """
    averages: FloatArray = np.sort(_unordered_averages(checked(d)))
    return averages


def _unordered_averages(values: FloatArray) -> FloatArray:
    n = len(values)
    averages = np.empty(n * (n + 1) // 2)
    at = 0
    for first in range(n):
        averages[at : at + n - first] = values[first:]
        averages[at : at + n - first] += values[first]
        at += n - first
    averages /= 2.0
    return averages


def paired_shift(d: Values, *, alpha: float = 0.05) -> PairedShift:
    """Return the median of the Walsh averages of `d` and the interval that the signed-rank test gives, at 1 - alpha.

    >>> found = paired_shift([0.9, 1.1, 1.0, 1.2, 0.8, 1.05])
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (1.0, 0.8, 1.2)
    >>> paired_shift([1.0, 2.0, 3.0]).low is None
    True

    Raises:
        ValueError: no difference.
    """
    values = checked(d)
    n = len(values)
    if n == 0:
        raise ValueError("there is no pair: pass at least one")
    averages = _unordered_averages(values)
    last = len(averages) - 1
    left_out = _left_out(n, alpha)
    ends = [] if left_out is None else [left_out, last - left_out]
    # Thousands of pairs have millions of averages: putting all in order takes ten times as long.
    averages.partition([last // 2, (last + 1) // 2, *ends])
    value = float(averages[last // 2] + averages[(last + 1) // 2]) / 2.0
    low, high = (float(averages[end]) for end in ends) if ends else (None, None)
    return PairedShift(value, low, high, n, 1.0 - alpha)


def least_pairs(alpha: float) -> int:
    """Return the fewest pairs of which an interval at 1 - alpha has ends.

    >>> least_pairs(0.05)
    6
    """
    return math.ceil(1.0 - math.log2(alpha))


def _left_out(n: int, alpha: float) -> int | None:
    """How many Walsh averages lie outside the interval on either side; None where even the widest is too narrow."""
    if n <= _EXACT:
        below = _signed_rank_cdf(n)
        count = int(np.searchsorted(below, alpha / 2.0 * (1.0 + 1e-12), side="right"))
    else:
        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)
        count = math.floor(n * (n + 1) / 4.0 + NormalDist().inv_cdf(alpha / 2.0) * spread)
    return count - 1 if count > 0 else None


@lru_cache(maxsize=_EXACT)
def _signed_rank_cdf(n: int) -> FloatArray:
    """P(W <= w) for w = 0 to n (n + 1) / 2: each rank is in the sum with probability 1/2."""
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, n + 1):
        ways[rank:] = ways[rank:] + ways[:-rank]
    cdf: FloatArray = np.cumsum(ways / 2.0**n)
    return cdf


class Looks:
    """The error that looks at growing data may use, each at its share of the information.

    >>> looks = Looks(alpha=0.05)
    >>> first, last = looks.level(0.25), looks.level(1.0)
    >>> round(first, 5), 0.04 < last < 0.05
    (0.00312, True)
    """

    def __init__(self, *, alpha: float) -> None:
        """Begin without a look."""
        self._alpha = alpha
        self._spent = 0.0
        self._share = 0.0
        # The density of the sum B(t) of what has come, over those that have not crossed: B(1) is standard normal.
        self._grid: FloatArray | None = None
        self._density: FloatArray | None = None

    def level(self, share: float, *, last: bool = False) -> float:
        """Return the level of this look's test, two-sided. `share` of the information is there; `last`: it is the end.

        The share must grow from look to look; a look without more has none left to use and returns 0.
        """
        # Half-widths are estimates, and may grow; the end comes all the same.
        share = min(max(share, 1.02 * self._share) if last else share, 1.0)
        if share <= self._share:
            return 0.0
        may = self._alpha if last or share >= 1.0 else self._alpha * share**_POWER
        spend = may - self._spent
        step = math.sqrt(share - self._share)
        wide = 6.0 * math.sqrt(share)
        grid = np.linspace(-wide, wide, _GRID)
        if self._grid is None or self._density is None:
            density = np.exp(-((grid / step) ** 2) / 2.0) / (step * math.sqrt(2.0 * math.pi))
        else:
            weights = self._density * (self._grid[1] - self._grid[0])
            apart = (grid[:, None] - self._grid[None, :]) / step
            density = np.exp(-(apart**2) / 2.0) @ weights / (step * math.sqrt(2.0 * math.pi))
        # Both tails together hold what may be spent now.
        mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2.0)]) * (grid[1] - grid[0])
        # On logarithms: a tail is nearly straight there.
        bound = -float(np.interp(math.log(spend / 2.0), np.log(mass + 1e-30), grid)) if spend > 0 else wide
        self._density = np.where(np.abs(grid) < bound, density, 0.0)
        self._grid, self._spent, self._share = grid, may, share
        return math.erfc(bound / math.sqrt(2.0 * share))
