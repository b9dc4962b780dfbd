"""A figure with its side: exact, or a bound that a limit of the instrument set (*at least*, *at most*)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Side = Literal["exact", "at least", "at most"]


@dataclass(frozen=True, slots=True)
class Known:
    """A number and its side; where there is no information at all there is no `Known` but None.

    The true figure lies between `low` and `high`.

    >>> Known(2000.0, "at least").high
    inf
    """

    number: float
    side: Side = "exact"

    @property
    def prefix(self) -> str:
        """What stands before the number: `at least `, empty where it is exact."""
        return "" if self.side == "exact" else f"{self.side} "

    @property
    def low(self) -> float:
        """The least that the true figure may be."""
        return -math.inf if self.side == "at most" else self.number

    @property
    def high(self) -> float:
        """The most that the true figure may be."""
        return math.inf if self.side == "at least" else self.number


def middle(values: Sequence[Known]) -> Known | None:
    """Return the median: exact where no bound can move it, else a bound, None where nothing is known of it.

    >>> middle([Known(1.0), Known(2.0), Known(9.0, "at least")])
    Known(number=2.0, side='exact')
    >>> middle([Known(1.0), Known(2.0, "at least"), Known(2.0, "at least")])
    Known(number=2.0, side='at least')
    >>> middle([Known(1.0, "at most"), Known(2.0, "at least")]) is None
    True
    """
    if not values:
        return None
    low, high = median(value.low for value in values), median(value.high for value in values)
    if low == high:
        return Known(low)
    if math.isfinite(low):
        return Known(low, "at least")
    return Known(high, "at most") if math.isfinite(high) else None


__all__ = ["Known", "Side", "middle"]
