"""Readings as distinct values and how often each occurred: millions of readings in the room of their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vtare.stats._arrays import FloatArray, Sorted, Values, checked, weighted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Tally:
    """Distinct values in rising order and how often each was read, shape (values,) each.

    All that depends on the order of values alone (quantiles, the CCDF, outliers) follows from it exactly. Times in ns
    take few values: 10^8 of them rarely more than some 10^5.
    """

    values: FloatArray
    counts: NDArray[np.int64]

    @property
    def n(self) -> int:
        """How many readings there are."""
        return int(self.counts.sum())

    def __len__(self) -> int:
        """How many distinct values there are."""
        return len(self.values)

    @property
    def ordered(self) -> Sorted:
        """The same, for quantiles."""
        return Sorted(self.values, np.cumsum(self.counts))


def tally(x: Values, *, weights: Values | None = None) -> Tally:
    """Count readings by value. `weights` is how often each occurred.

    >>> tally([2.0, 1.0, 2.0]).counts.tolist()
    [1, 2]

    Raises:
        ValueError: NaN or infinity, or weights that do not count.
    """
    if weights is None:
        ordered = np.sort(checked(x))
        if len(ordered) == 0:
            return Tally(ordered, np.empty(0, dtype=np.int64))
        last = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)
        return Tally(ordered[last], np.diff(last, prepend=-1))
    return _added(*weighted(x, weights))


def merge(tallies: Sequence[Tally]) -> Tally:
    """Add tallies up.

    >>> merge([tally([1.0, 2.0]), tally([2.0])]).counts.tolist()
    [1, 2]
    """
    if len(tallies) == 1:
        return tallies[0]
    if not tallies:
        return Tally(np.empty(0), np.empty(0, dtype=np.int64))
    return _added(np.concatenate([t.values for t in tallies]), np.concatenate([t.counts for t in tallies]))


def _added(values: FloatArray, counts: NDArray[np.int64]) -> Tally:
    if len(values) == 0:
        return Tally(values, counts)
    order = np.argsort(values, kind="stable")
    ordered, counted = values[order], counts[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Tally(ordered[first], np.add.reduceat(counted, first))


class Adder:
    """Adds up tallies one by one. What it holds is bounded by the distinct values, not by how many tallies came."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._sum = merge([])
        self._waiting: list[Tally] = []
        self._held = 0

    def add(self, more: Tally) -> None:
        """Take one in."""
        self._waiting.append(more)
        self._held += len(more)
        # Merged only now and then: each merge sorts all that is there.
        if self._held > max(200_000, len(self._sum)):
            self.total()

    def total(self) -> Tally:
        """All that was added."""
        if self._waiting:
            self._sum = merge([self._sum, *self._waiting])
            self._waiting, self._held = [], 0
        return self._sum
