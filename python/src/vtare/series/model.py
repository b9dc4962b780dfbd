"""A figure over time and a change of its level."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.records.comparisons import LevelChange, OfSeries
    from vtare.stats.verdicts import Better

#: Facts are compared between these points before and after the first of a new level: its place is known to about one.
FACTS_BEFORE: Final = 2
FACTS_AFTER: Final = 1


@dataclass(frozen=True, slots=True, order=True)
class SeriesKey:
    """One figure of one cell: `labels` are its factors and parts, `figure` is `median`, `p99` or another figure's name.

    `quantity` names what is counted and its unit (`miss_ns`); `better` is the change that is an improvement.
    """

    experiment: str
    labels: tuple[tuple[str, str], ...]
    figure: str
    quantity: str
    better: Better | None = None

    @property
    def text(self) -> str:
        """In words: `sleep, method usleep: p99 of miss_ns`."""
        cell = ", ".join((self.experiment, *(f"{name} {level}" for name, level in self.labels)))
        return f"{cell}: {self.figure} of {self.quantity}" if self.figure != self.quantity else f"{cell}: {self.figure}"

    def document(self) -> OfSeries:
        """As in JSON."""
        return cast("OfSeries", asdict(self) | {"labels": dict(self.labels)})


@dataclass(slots=True)
class Series:
    """A figure over time, in order: parallel lists. `facts` are those of each point's round."""

    key: SeriesKey
    rounds: list[int] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    facts: list[Mapping[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a series: `at` is the place of the first point of the new level, `found` of the one that showed it.

    `facts` states which facts of the machine differ between two points before it and one after: name, before, after.
    """

    key: SeriesKey
    at: int
    found: int
    at_s: float
    found_s: float
    before: float
    after: float
    facts: tuple[tuple[str, Any, Any], ...] = ()

    @property
    def ratio(self) -> float | None:
        """The new level over the old; None where that is not above 0, or so small that there is no ratio."""
        ratio = self.after / self.before if self.before > 0 else math.inf
        return ratio if math.isfinite(ratio) else None

    @property
    def worse(self) -> bool | None:
        """Whether it is a change for the worse; None where neither direction is better."""
        if self.key.better is None:
            return None
        return (self.after > self.before) == (self.key.better == "less")

    def document(self) -> LevelChange:
        """As in JSON."""
        return {
            **self.key.document(),
            "at": self.at,
            "at_unix_s": self.at_s,
            "found": self.found,
            "found_unix_s": self.found_s,
            "before": self.before,
            "after": self.after,
            "ratio": self.ratio,
            "worse": self.worse,
            "changed_facts": [{"fact": n, "before": b, "after": a} for n, b, a in self.facts],
        }


def magnitude(before: float, after: float) -> float:
    """How much greater the greater level is than the lesser, as a share of that; infinite from 0.

    >>> magnitude(150.0, 100.0), magnitude(0.0, 1.0)
    (0.5, inf)
    """
    low, high = sorted((abs(before), abs(after)))
    return high / low - 1.0 if low > 0 else 0.0 if high == low else math.inf


def changed_facts(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[tuple[str, Any, Any], ...]:
    """Facts that differ: name, before, after. What one of them does not state, as of an older version, is not compared.

    >>> changed_facts({"kernel": "6.1", "CPU": "a"}, {"kernel": "6.2", "CPU": "a"})
    (('kernel', '6.1', '6.2'),)
    >>> changed_facts({"kernel": "6.1"}, {"kernel": "6.1", "timer slack (ns)": 50_000})
    ()
    """
    return tuple((name, old, after[name]) for name, old in before.items() if name in after and old != after[name])
