"""How much two cells differ (Cliff's delta), and how much of the spread of runs is noise inside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked, in_order, weighted


@dataclass(frozen=True, slots=True)
class CliffsDelta:
    """Cliff's delta: P(a > b) - P(a < b), from -1 to 1; 0 where neither tends to be larger, None if one is empty."""

    value: float | None
    n_a: int
    n_b: int


def cliffs_delta(a: Values, b: Values) -> CliffsDelta:
    """Return Cliff's delta of `a` against `b` (Cliff 1993), in n log n. All of `a` above all of `b` gives 1.

    >>> cliffs_delta([3.0, 4.0], [1.0, 2.0]).value
    1.0
    """
    left, right = checked(a), np.sort(checked(b))
    if len(left) == 0 or len(right) == 0:
        return CliffsDelta(None, len(left), len(right))
    below = np.searchsorted(right, left, side="left").sum()
    above = (len(right) - np.searchsorted(right, left, side="right")).sum()
    return CliffsDelta(float(int(below) - int(above)) / (len(left) * len(right)), len(left), len(right))


@dataclass(frozen=True, slots=True)
class RunPool:
    """Runs of one cell: each run's median, shape (runs,), and those of its block resamples, shape (runs, resamples)."""

    medians: FloatArray
    resampled: FloatArray

    @classmethod
    def of(
        cls,
        runs: Sequence[Values],
        *,
        rng: np.random.Generator,
        weights: Sequence[Values | None] | None = None,
        size: int = 200,
    ) -> RunPool:
        """Prepare a cell. `runs` holds one array of readings, in their order of time, per run.

        Raises:
            ValueError: no run, or a run without readings.
        """
        given = [None] * len(runs) if weights is None else list(weights)
        if not runs or len(given) != len(runs):
            raise ValueError(
                f"{len(runs)} runs with {len(given)} sets of weights: pass at least one run, and as many sets"
            )
        resampled = [resample(x, w, rng=rng, size=size) for x, w in zip(runs, given, strict=True)]
        return cls(np.array([one.median for one in resampled]), np.array([one.medians for one in resampled]))

    def noise(self) -> tuple[float, float]:
        """Return two variances of the logs of medians: between runs (noise inside them taken off) and inside runs.

        Raises:
            ValueError: fewer than 2 runs, or a median that is not above 0.
        """
        if len(self.medians) < 2:
            raise ValueError(f"a spread between runs needs 2 of them, not {len(self.medians)}")
        if np.any(self.medians <= 0) or np.any(self.resampled <= 0):
            raise ValueError("a median is not above 0, which has no logarithm")
        inside = float(np.log(self.resampled).var(axis=1).mean())
        return max(0.0, float(np.log(self.medians).var(ddof=1)) - inside), inside


@dataclass(frozen=True, slots=True)
class Resampled:
    """One run: its median, and the medians of its resamples, shape (resamples,)."""

    median: float
    medians: FloatArray


def resample(x: Values, weights: Values | None = None, *, rng: np.random.Generator, size: int = 200) -> Resampled:
    """Resample one run: blocks of readings in their order of time, or, with `weights`, rows of a histogram.

    >>> resample([1.0, 2.0, 3.0, 4.0], rng=np.random.default_rng(1), size=50).median
    2.5

    Raises:
        ValueError: a run without readings.
    """
    values, counts = weighted(x, weights)
    if len(values) == 0:
        raise ValueError("a run without readings has no median; leave it out and count it")
    median = in_order(values, None if weights is None else counts).quantile(0.5)
    drawn = block_medians(values, rng, size) if weights is None else _count_medians(values, counts, rng, size)
    return Resampled(median, drawn)


def block_medians(values: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Return medians of circular block resamples: blocks keep the autocorrelation that single readings would lose.

    Blocks are of n^(1/2) readings: longer than the usual n^(1/3), because wake-up times and delays have long memory.
    """
    n = len(values)
    block = max(1, math.ceil(math.sqrt(n)))
    blocks = math.ceil(n / block)
    if n >= LONG_RUN:
        return medians_by_window(values, rng.integers(0, n, (size, blocks)), block)
    medians = np.empty(size)
    chunk = max(1, 2_000_000 // n)
    for begin in range(0, size, chunk):
        some = min(chunk, size - begin)
        medians[begin : begin + some] = medians_by_sorting(values, rng.integers(0, n, (some, blocks)), block)
    return medians


LONG_RUN: Final = 20_000
"""Readings from which a resample is counted rather than laid out."""


def medians_by_sorting(values: FloatArray, starts: np.ndarray, block: int) -> FloatArray:
    """Return the median of each resample, a row of `starts`: blocks of `block` readings, the last one cut to fit."""
    n = len(values)
    index = ((starts[:, :, None] + np.arange(block)) % n).reshape(len(starts), -1)[:, :n]
    medians: FloatArray = np.median(values[index], axis=1)
    return medians


def medians_by_window(values: FloatArray, starts: np.ndarray, block: int) -> FloatArray:
    """Return the same medians without laying a resample out: what stands below a window of ranks is counted.

    The median of a resample lies near that of the sample. So each resample's readings below a narrow window of the
    sample are counted (running sums at the ends of its blocks), and only readings in the window are looked at one by
    one. The window is widened until it holds the medians of all resamples.
    """
    n = len(values)
    ordered = np.sort(values)
    lengths = np.full(starts.shape[1], block)
    lengths[-1] = n - block * (len(lengths) - 1)
    ranks = np.array([(n - 1) // 2, n // 2])
    half = 4 * math.ceil(math.sqrt(n))
    while True:
        low, high = ordered[max(0, n // 2 - half)], ordered[min(n - 1, n // 2 + half)]
        below, within = _covered(values < low, starts, lengths), _covered(values <= high, starts, lengths)
        if half >= n or (np.all(below <= ranks[0]) and np.all(within > ranks[1])):
            break
        half *= 4
    places = np.flatnonzero((values >= low) & (values <= high))
    by_value = np.argsort(values[places], kind="stable")
    inside = values[places][by_value]
    medians = np.empty(len(starts))
    for i, (some, already) in enumerate(zip(starts, below, strict=True)):
        times = _times_drawn(places, some, lengths, n)[by_value]
        at = np.searchsorted(np.cumsum(times), ranks - already, side="right")
        medians[i] = inside[at].mean()
    return medians


def _covered(marked: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """How many marked readings each resample holds."""
    n = len(marked)
    sums = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(marked, out=sums[1:])
    ends = starts + lengths
    wrapped = ends > n
    covered: np.ndarray = (sums[np.where(wrapped, ends - n, ends)] - sums[starts] + wrapped * sums[n]).sum(axis=1)
    return covered


def _times_drawn(places: np.ndarray, starts: np.ndarray, lengths: np.ndarray, n: int) -> np.ndarray:
    """How often one resample holds the readings at these places."""
    ends = starts + lengths
    wrapped = ends > n
    # A block that runs over the end also begins at 0.
    begins = np.sort(np.concatenate([starts, np.zeros(int(wrapped.sum()), dtype=starts.dtype)]))
    stops = np.sort(np.concatenate([np.minimum(ends, n), ends[wrapped] - n]))
    times: np.ndarray = np.searchsorted(begins, places, side="right") - np.searchsorted(stops, places, side="right")
    return times


def _count_medians(values: FloatArray, counts: np.ndarray, rng: np.random.Generator, size: int) -> FloatArray:
    """Medians of resamples of a histogram, whose order of time is lost.

    The median of a resample of n readings sits at a rank that is Beta((n + 1) / 2, (n + 1) / 2) distributed, so one
    draw of the rank replaces n draws of readings.
    """
    sample = in_order(values, counts)
    n = sample.n
    rank = np.minimum((rng.beta((n + 1) / 2, (n + 1) / 2, size) * n).astype(np.int64), n - 1)
    drawn: FloatArray = sample.at(rank)
    return drawn
