"""p-values with their family and how they were adjusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vtare.stats._scipy import stats as scipy_stats

Adjustment = Literal["none", "holm", "bh", "studentized range"]
"""How a family was adjusted; tests on the studentized range (Tukey, Nemenyi) are adjusted by what they are."""


@dataclass(frozen=True, slots=True)
class PValue:
    """One p-value. `raw` is as the test gave it, `adjusted` after `adjustment` over the `size` tests of `family`.

    `exact`: from a permutation distribution, not from an approximation. `str()` prints the adjusted value, never as 0.
    """

    raw: float
    adjusted: float
    family: str
    size: int
    adjustment: Adjustment
    exact: bool

    def __str__(self) -> str:
        """The adjusted value as text: `0.032`, `< 1e-4`."""
        return write_p(self.adjusted)


def alphas_left(family: Sequence[PValue], alpha: float) -> list[float]:
    """Return the alpha of the interval of each comparison of a family, which then agrees with its adjusted p-value.

    What differs has that of its own step of the adjustment; the k others share alpha, so that all their intervals hold
    together (Strassburger and Bretz 2008).

    >>> [round(one, 4) for one in alphas_left(adjust([0.001, 0.2, 0.6], family="load", adjustment="holm"), 0.05)]
    [0.0167, 0.025, 0.025]
    """
    others = sum(one.adjusted > alpha for one in family)
    return [
        alpha / others if one.adjusted > alpha else alpha * (one.raw / one.adjusted if one.raw > 0 else 1 / one.size)
        for one in family
    ]


def write_p(p: float) -> str:
    """Write a p-value: two significant digits, and `< 1e-4` below that.

    >>> write_p(0.0321), write_p(1e-9)
    ('0.032', '< 1e-4')
    """
    if p < 1e-4:
        return "< 1e-4"
    return f"{p:.2g}" if p < 0.995 else "1.0"


def adjust(
    raw: Sequence[float], *, family: str, adjustment: Adjustment, exact: Sequence[bool] | None = None
) -> tuple[PValue, ...]:
    """Adjust the p-values of one family: Holm for declared contrasts, Benjamini-Hochberg (`bh`) for exploration.

    >>> [p.adjusted for p in adjust([0.01, 0.04], family="load", adjustment="holm")]
    [0.02, 0.04]

    Raises:
        ValueError: a value outside 0 to 1, or an adjustment that only a test can make.
    """
    if any(not 0.0 <= p <= 1.0 for p in raw):
        raise ValueError(f"p-values are {list(raw)}: use 0 to 1")
    size = len(raw)
    exacts = [False] * size if exact is None else list(exact)
    if adjustment == "bh" and size:
        adjusted = [float(p) for p in scipy_stats.false_discovery_control(raw)]
    elif adjustment == "holm":
        adjusted = _holm(raw)
    elif adjustment == "studentized range":
        raise ValueError("p-values of the studentized range come adjusted from their test")
    else:
        adjusted = list(raw)
    return tuple(
        PValue(p, min(1.0, a), family, size, adjustment, e) for p, a, e in zip(raw, adjusted, exacts, strict=True)
    )


def _holm(raw: Sequence[float]) -> list[float]:
    """Holm 1979: the k-th smallest times (size - k), made monotone."""
    order = sorted(range(len(raw)), key=raw.__getitem__)
    adjusted = [0.0] * len(raw)
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(raw) - place) * raw[index]))
        adjusted[index] = largest
    return adjusted
