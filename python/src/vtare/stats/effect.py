"""How much two cells differ: Cliff's delta, and the hierarchical bootstrap of a cell's median over runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked, in_order, weighted


@dataclass(frozen=True, slots=True)
class CliffsDelta:
    """Cliff's delta: P(a > b) - P(a < b), from -1 to 1; 0 where neither tends to be larger, None if one is empty."""

    value: float | None
    n_a: int
    n_b: int


def cliffs_delta(a: Values, b: Values) -> CliffsDelta:
    """Return Cliff's delta of `a` against `b` (Cliff 1993), in n log n. All of `a` above all of `b` gives 1."""
    left, right = checked(a), np.sort(checked(b))
    if len(left) == 0 or len(right) == 0:
        return CliffsDelta(None, len(left), len(right))
    below = np.searchsorted(right, left, side="left").sum()
    above = (len(right) - np.searchsorted(right, left, side="right")).sum()
    return CliffsDelta(float(int(below) - int(above)) / (len(left) * len(right)), len(left), len(right))


@dataclass(frozen=True, slots=True)
class RunPool:
    """Runs of one cell, ready for resampling: each run's median and medians of its block-bootstrap resamples."""

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
                f"{len(runs)} runs with {len(given)} sets of weights; wanted at least one run, and as many sets"
            )
        pairs = [weighted(x, w) for x, w in zip(runs, given, strict=True)]
        if any(len(values) == 0 for values, _ in pairs):
            raise ValueError("a run without readings has no median; leave it out and count it")
        medians = np.array([in_order(values, counts).quantile(0.5) for values, counts in pairs])
        resampled = np.array(
            [
                _block_medians(values, rng, size) if w is None else _count_medians(values, counts, rng, size)
                for (values, counts), w in zip(pairs, given, strict=True)
            ]
        )
        return cls(medians, resampled)

    def draw(self, rng: np.random.Generator, resamples: int) -> FloatArray:
        """Return bootstrap medians of run medians: runs are drawn first, then a resample inside each drawn run.

        The medians of runs already vary by the noise inside runs, and a resample adds it once more. So the runs are
        first pulled together by what that noise adds: what is drawn then varies as the medians of runs do.
        """
        count, size = self.resampled.shape
        on_log = bool(np.all(self.medians > 0) and np.all(self.resampled > 0))
        medians, resampled = (np.log(v) if on_log else v for v in (self.medians, self.resampled))
        runs = rng.integers(0, count, (resamples, count))
        inside = rng.integers(0, size, (resamples, count))
        pulled, quieted = _without_double_noise(medians, resampled - medians[:, None])
        drawn = (pulled[:, None] + quieted)[runs, inside]
        figure: FloatArray = np.median(drawn, axis=1)
        return np.exp(figure) if on_log else figure

    def noise(self) -> tuple[float, float]:
        """Return two variances of the logs of medians: between runs (noise inside them taken off) and inside runs.

        Raises:
            ValueError: fewer than 2 runs, or a median that is not above 0.
        """
        if len(self.medians) < 2:
            raise ValueError(f"a spread between runs needs 2 of them, found {len(self.medians)}")
        if np.any(self.medians <= 0) or np.any(self.resampled <= 0):
            raise ValueError("found a median that is not above 0, which has no logarithm")
        inside = float(np.log(self.resampled).var(axis=1).mean())
        return max(0.0, float(np.log(self.medians).var(ddof=1)) - inside), inside


def _without_double_noise(medians: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Run medians and the noise inside runs, each made so much smaller that their sum varies as run medians do."""
    spread = float(medians.var(ddof=1)) if len(medians) > 1 else 0.0
    inside = float(noise.var(axis=1).mean())
    if inside == 0.0:
        return medians, noise
    keep = math.sqrt(max(0.0, 1.0 - inside / spread)) if spread > 0 else 0.0
    centre = np.median(medians)
    return centre + keep * (medians - centre), noise * math.sqrt(min(1.0, spread / inside))


def _block_medians(values: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Medians of circular block resamples: blocks keep the autocorrelation that single readings would lose."""
    n = len(values)
    # n^(1/2): longer than the usual n^(1/3), because wake-up times and delays have long memory.
    block = max(1, math.ceil(math.sqrt(n)))
    blocks = math.ceil(n / block)
    medians = np.empty(size)
    chunk = max(1, 2_000_000 // n)
    for begin in range(0, size, chunk):
        some = min(chunk, size - begin)
        starts = rng.integers(0, n, (some, blocks, 1))
        index = ((starts + np.arange(block)) % n).reshape(some, -1)[:, :n]
        medians[begin : begin + some] = np.median(values[index], axis=1)
    return medians


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
