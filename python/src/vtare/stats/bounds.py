"""A figure with its side: exact, or a bound that a limit of the instrument set (*at least*, *at most*)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeVar

Key = TypeVar("Key", bound=Hashable)
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


def decided_side(a: Mapping[Key, Known], b: Mapping[Key, Known]) -> Side | None:
    """Return what the ratio of a to b can be shown to be where either holds bounds; None where they decide nothing.

    *at least*: every figure of a has a least value and every one of b a greatest, so that a may be shown to be higher:
    the means of what is known at least are no greater than the true ones. *at most*: the other way round.

    >>> decided_side({1: Known(2000.0, "at least")}, {1: Known(1500.0)})
    'at least'
    >>> decided_side({1: Known(2000.0, "at least")}, {1: Known(2000.0, "at least")}) is None
    True
    """
    sides = {value.side for value in a.values()} | {value.side for value in b.values()}
    if not a or not b or sides == {"exact"}:
        return None
    if all(math.isfinite(v.low) for v in a.values()) and all(math.isfinite(v.high) for v in b.values()):
        return "at least"
    if all(math.isfinite(v.high) for v in a.values()) and all(math.isfinite(v.low) for v in b.values()):
        return "at most"
    return None


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


__all__ = ["Key", "Known", "Side", "decided_side", "middle"]
