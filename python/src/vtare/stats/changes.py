"""Change points of a series that grows: where its level changed, found while the points come.

E-divisive means (Matteson and James 2014, JASA 109:334; as Hunter and Otava use it on benchmarks): a window is split
where the energy distance of its two sides, weighted by their lengths, is greatest,

    Q(k) = k l / (k + l) * (2 mean|X - Y| - mean|X - X'| - mean|Y - Y'|),    k points before, l after,

and this is a change where a permutation of the window seldom has so great a Q. It is placed where the points lie
nearest to the medians of both sides. Here the distances are between normal scores of the ranks. So the distribution
over permutations depends on the length alone, whatever the values are distributed like, and one value counts as one
rank, however large it is: a single spike is no change.

Each point is one look at the window that ends with it, at `LOOK_LEVEL`. Looks at windows that overlap agree, so that
alarms come more seldom than that: `bench/watch` measures how often. Points that depend on each other (a slow drift, a
day's rhythm) are changes to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vtare.stats._arrays import FloatArray, Values, checked
from vtare.stats._scipy import stats as scipy_stats

#: Points that a look takes into account: more find smaller changes, later.
WINDOW: Final = 100
#: Points on either side of a change. Fewer would let two spikes in a row be one.
LEAST_SIDE: Final = 4
#: Of fewer, even the most different orders are not seldom enough.
LEAST_POINTS: Final = 13
#: Share of looks at an unchanged series that show a change.
LOOK_LEVEL: Final = 0.001
#: Length of a window -> the Q that a share LOOK_LEVEL of its permutations exceeds (`bench/watch/run --table`, 50,000
#: permutations each); between them it is interpolated.
LIMITS: Final = {
    13: 6.138, 14: 6.534, 16: 7.001, 20: 7.738, 25: 7.962, 30: 8.492, 40: 8.977, 50: 9.320, 75: 9.768, 100: 10.026,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of level: `index` is the first point of the new level, `found_at` how many points there were then.

    `before`, `after`: medians on either side when it was found, of at most the window's points.
    """

    index: int
    found_at: int
    before: float
    after: float


def change_points(x: Values) -> tuple[ChangePoint, ...]:
    """Return the changes that looks at each point in turn find; further points move none and take none back.

    >>> before = [10.0, 10.3, 9.8, 10.1, 9.9, 10.2, 10.4, 9.7]
    >>> found = change_points([*before, 12.1, 12.3, 11.9, 12.2, 12.0, 12.4, 11.8, 12.5])
    >>> [(change.index, change.found_at) for change in found]
    [(8, 15)]
    >>> change_points([*before, 50.0, 10.05, 9.6, 10.5, 9.5, 10.6, 9.95, 10.25])
    ()
    """
    values = checked(x)
    points: list[ChangePoint] = []
    start = 0
    for end in range(LEAST_POINTS, len(values) + 1):
        first = max(start, end - WINDOW)
        if (change := newest_change(values[first:end])) is not None:
            start = first + change.index
            points.append(ChangePoint(start, end, change.before, change.after))
    return tuple(points)


def newest_change(x: Values) -> ChangePoint | None:
    """One look: the change among the points since the last one, at most `WINDOW` of which count; None where none is.

    >>> newest_change([1.0, 2.0, 3.0]) is None
    True
    """
    values = checked(x)
    window = values[-WINDOW:]
    if len(window) < LEAST_POINTS:
        return None
    splits, weighted = _distances(scipy_stats.norm.ppf((scipy_stats.rankdata(window) - 0.5) / len(window)))
    if weighted.max() <= np.interp(len(window), list(LIMITS), list(LIMITS.values())):
        return None
    # Ranks show that there is a change, but of two neighbours not which one is nearer to the new level.
    split = int(min(splits, key=lambda k: _spread(window[:k]) + _spread(window[k:])))
    before, after = float(np.median(window[:split])), float(np.median(window[split:]))
    return ChangePoint(len(values) - len(window) + split, len(values), before, after)


def greatest_of_permutations(n: int, permutations: int, rng: np.random.Generator) -> FloatArray:
    """The greatest Q of `permutations` random orders of `n` different values: what `LIMITS` is made of."""
    scores = scipy_stats.norm.ppf((np.arange(n) + 0.5) / n)
    return np.array([_distances(rng.permutation(scores))[1].max() for _ in range(permutations)])


def _spread(x: FloatArray) -> float:
    """How far the points lie from their median, in sum."""
    return float(np.abs(x - np.median(x)).sum())


def _distances(scores: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """The splits of a window, and Q at each."""
    n = len(scores)
    # Sums over the square of the first k points: the three means are differences of them.
    square = np.abs(scores[:, None] - scores[None, :]).cumsum(axis=0).cumsum(axis=1)
    k = np.arange(LEAST_SIDE, n - LEAST_SIDE + 1)
    before = square[k - 1, k - 1]
    across = square[k - 1, n - 1] - before
    after = square[n - 1, n - 1] - before - 2.0 * across
    rest = n - k
    return k, k * rest / n * (2.0 * across / (k * rest) - before / k**2 - after / rest**2)
