"""The step that readings move in: seen in the readings themselves, and what it may hide in a mean of run medians."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked

if TYPE_CHECKING:
    from vtare.stats.tally import Tally

#: Readings per distinct value from which values count as repeated: below that, gaps are those of chance.
_REPEATS: Final = 10
#: Share of the readings from which a group of neighbouring values counts as one position of the clock.
_HEAVY: Final = 0.01
#: Of the readings, how many must lie in such groups.
_MOST: Final = 0.8
#: How far a position may lie from a multiple of the step, in steps.
_OFF: Final = 0.15

#: Different figures from which a common divisor of their differences is no chance.
_FEWEST: Final = 4


def seen_step(counted: Tally) -> float:
    """Return the step that readings repeat in, in their unit; 0 where none is seen.

    A counter that moves by 10 ns gives readings of 20 and 30 ns and nothing between, whatever step its driver states.
    A stated step that is too small calls two cells equal that differ by up to half the real one. Neighbouring values
    no further apart than one and a half times the usual gap are one position (a step of 24 or 25 ticks by turns); a
    step is reported where most readings stand on positions that are multiples of it.

    >>> from vtare.stats import tally
    >>> seen_step(tally([20.0] * 70 + [30.0] * 25 + [40.0] * 5))
    10.0
    >>> seen_step(tally(range(100)))
    0.0
    """
    values, counts = counted.values, counted.counts.astype(np.float64)
    total = float(counts.sum())
    # Sparse tails have gaps of any width: only values that hold a share of the readings show the clock's.
    kept = counts >= max(2.0, 1e-4 * total)
    values, counts = values[kept], counts[kept]
    if len(values) < 2 or counts.sum() < _MOST * total or counts.sum() < _REPEATS * len(values):
        return 0.0
    gaps = np.diff(values)
    weights = np.minimum(counts[:-1], counts[1:])
    unit = _weighted_median(gaps, weights)
    return max(unit, _lattice(values, counts, 1.5 * float(gaps.min())))


def _lattice(values: FloatArray, counts: FloatArray, join: float) -> float:
    """The step between groups of values no further apart than `join`, 0 where they stand on no common multiple."""
    group = np.concatenate([[0], np.cumsum(np.diff(values) > join)])
    mass = np.bincount(group, weights=counts)
    centre = np.bincount(group, weights=counts * values) / mass
    heavy = mass >= _HEAVY * counts.sum()
    mass, centre = mass[heavy], centre[heavy]
    if len(centre) < 2 or mass.sum() < _MOST * counts.sum():
        return 0.0
    step = _weighted_median(np.diff(centre), np.minimum(mass[:-1], mass[1:]))
    # Two modes of a latency are no lattice: the positions of a clock are multiples of its step.
    off = np.abs(centre / step - np.rint(centre / step))
    return step if float(np.dot(off <= _OFF, mass)) >= _MOST * float(mass.sum()) else 0.0


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2.0)])


def _distinct(values: FloatArray) -> FloatArray:
    """What np.unique returns, without the masked arrays that it loads: they take a tenth of a second."""
    return np.array(sorted(set(values.tolist())))


def tied_step(figures: Values) -> float:
    """Return the least gap between the figures of runs where they repeat each other; 0 where they do not.

    Run medians of a coarse clock take two or three values: their least gap is then its step.

    >>> tied_step([30.0, 30.0, 40.0, 30.0])
    10.0
    >>> tied_step([30.1, 30.4, 40.2, 30.7])
    0.0
    """
    values = checked(figures)
    distinct = _distinct(values)
    if not 2 <= len(distinct) <= len(values) / 2.0:
        return 0.0
    return float(np.diff(distinct).min())


def hidden_by_step(step: float, spread: float) -> float:
    """Return how far rounding to `step` may move the mean of run medians whose standard deviation is `spread`.

    Half a step where all runs round to the same position. Runs that differ by more than about half a step round to
    different ones, and their mean is moved by less than (step / pi) e / (1 - e), e = exp(-2 pi^2 (spread / step)^2):
    the Fourier series of the rounding error (Widrow and Kollar 2008). What remains is already in the spread.

    >>> hidden_by_step(10.0, 0.0)
    5.0
    >>> round(hidden_by_step(10.0, 5.0), 3)
    0.023
    """
    if step <= 0.0:
        return 0.0
    e = math.exp(-2.0 * math.pi**2 * min(spread / step, 6.0) ** 2)
    return step / 2.0 if e > 0.6 else min(step / 2.0, step / math.pi * e / (1.0 - e))


def common_step(figures: Values, least: float) -> float:
    """Return the greatest step, a multiple of `least`, that all differences between figures are multiples of.

    `least` is the step that the printed digits show, or the unit that the figures are counted in. Returns `least` where
    fewer than four figures differ, whose differences have a common divisor by chance, or where none is known (0).

    >>> common_step([120.0, 130.0, 170.0, 120.0, 150.0], 1.0)
    10.0
    >>> common_step([12.0, 48.0], 1.0)
    1.0
    """
    values = checked(figures)
    if least <= 0.0 or len(values) == 0 or float(np.abs(values).max()) / least >= 2.0**53:
        return max(least, 0.0)
    counts = _distinct(np.rint(values / least))
    return math.gcd(*np.diff(counts).astype(np.int64).tolist()) * least if len(counts) >= _FEWEST else least


def step_of_runs(a: Values, b: Values, *, least: float) -> float:
    """Return the step that the figures of the runs of two sides move in: at least `least`, more where they show it.

    >>> step_of_runs([30.0, 30.0, 40.0, 30.0], [30.0, 40.0, 40.0, 40.0], least=0.1)
    10.0
    """
    return max(common_step(np.concatenate([checked(a), checked(b)]), least), tied_step(a), tied_step(b))
