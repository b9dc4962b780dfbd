"""Checked arrays: what every figure starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Values = Sequence[float] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Estimate:
    """One figure of one sample.

    `value` is None where the figure cannot be estimated, and `reason` then states why. `n` counts the readings behind
    it (the sum of the weights where readings come as histogram rows).
    """

    value: float | None
    n: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Sorted:
    """A sample in order with its cumulated weights, shape (rows,) each: 10 M readings from a few hundred rows."""

    values: FloatArray
    cumulated: NDArray[np.int64]

    @property
    def n(self) -> int:
        """How many readings there are."""
        return int(self.cumulated[-1]) if len(self.cumulated) else 0

    def at(self, rank: NDArray[np.int64] | int) -> Any:
        """Return the readings at these ranks, from 0."""
        return self.values[np.searchsorted(self.cumulated, rank, side="right")]

    def quantile(self, probability: float) -> float:
        """Hyndman-Fan type 7 on the expanded sample, which must not be empty."""
        position = (self.n - 1) * probability
        low = int(np.floor(position))
        high = min(low + 1, self.n - 1)
        share = position - low
        at_low, at_high = float(self.at(low)), float(self.at(high))
        return at_low if share == 0.0 or at_low == at_high else at_low + share * (at_high - at_low)


def checked(x: Values) -> FloatArray:
    """Return a flat float array.

    Raises:
        ValueError: not one-dimensional, or holds NaN or infinity: missing readings are left out by the caller, who
            counts them, never passed as NaN.
    """
    array = np.asarray(x, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"the array has the shape {array.shape}: pass one dimension")
    if not np.all(np.isfinite(array)):
        raise ValueError("the array holds NaN or infinity; leave missing readings out and count them")
    return array


def weighted(x: Values, weights: Values | None) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return readings and whole, positive weights; rows of weight 0 are dropped.

    Raises:
        ValueError: weights of another length, negative or not whole.
    """
    values = checked(x)
    if weights is None:
        return values, np.ones(len(values), dtype=np.int64)
    given = np.asarray(weights)
    if given.shape != values.shape:
        raise ValueError(f"{len(values)} readings but weights of shape {given.shape}")
    whole = given.astype(np.int64)
    if np.any(whole != given) or np.any(whole < 0):
        raise ValueError("weights count readings: pass whole numbers, 0 or more")
    kept = whole > 0
    return values[kept], whole[kept]


def in_order(x: Values, weights: Values | None = None) -> Sorted:
    """Sort a sample once, for several figures.

    >>> in_order([3.0, 1.0, 2.0]).quantile(0.5)
    2.0
    """
    if weights is None:
        # Without weights to carry along a plain sort is several times faster than one of positions.
        alone = np.sort(checked(x))
        return Sorted(alone, np.arange(1, len(alone) + 1))
    values, counts = weighted(x, weights)
    order = np.argsort(values, kind="stable")
    return Sorted(values[order], np.cumsum(counts[order]))
