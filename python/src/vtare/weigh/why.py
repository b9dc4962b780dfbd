"""Why a platform costs what it does: what a command asks of the kernel, times what each of it costs more there.

The small programs of `vtare costs` do more than their own kind: starting a program also opens files. So the cost of one
event of each kind solves linear equations: the time of each small program is the sum over the kinds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from vtare import stats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

#: How often each kind happened, or what one of each costs, by the names that `vtare costs` gives.
Kinds = dict[str, float]

LEAST_ROUNDS: Final = stats.least_pairs(0.05)
"""Rounds of the small programs without which no interval of a cost has ends."""
_LEAST_SHARE: Final = 0.1
"""The share of the difference from which a cause is worth a line."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Nanoseconds with their 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def typical(cls, values: Sequence[float]) -> Amount:
        """The typical one of paired differences.

        Raises:
            ValueError: there are fewer than `LEAST_ROUNDS`.
        """
        shift = stats.paired_shift(values)
        if shift.low is None or shift.high is None:
            raise ValueError(f"{len(values)} differences have no interval: pass {LEAST_ROUNDS}")
        return cls(shift.value, shift.low, shift.high)

    def less(self, other: Amount) -> Amount:
        """The difference of two that were measured apart (the interval by Zou and Donner's MOVER)."""
        value = self.value - other.value
        below = math.hypot(self.value - self.low, other.high - other.value)
        above = math.hypot(self.high - self.value, other.value - other.low)
        return Amount(value, value - below, value + above)

    def times(self, factor: float) -> Amount:
        """This amount `factor` times, which is 0 or more."""
        return Amount(factor * self.value, factor * self.low, factor * self.high)

    @classmethod
    def total(cls, amounts: Iterable[Amount]) -> Amount:
        """The sum of amounts that were measured apart (MOVER, as `less`)."""
        each = list(amounts)
        value = math.fsum(one.value for one in each)
        below = math.hypot(*(one.value - one.low for one in each))
        above = math.hypot(*(one.high - one.value for one in each))
        return cls(value, value - below, value + above)


@dataclass(frozen=True, slots=True)
class Cause:
    """One kind of event: how often it happens, what each costs more, and all together."""

    kind: str
    count: float
    each: Amount
    together: Amount


@dataclass(frozen=True, slots=True)
class Explanation:
    """The difference of wall time on one platform: its causes, the largest first, and what no cause explains.

    `unpriced` are kinds that the command needs and that have no cost there, with the reason.
    """

    platform: str
    measured: Amount
    explained: Amount
    rest: Amount
    causes: tuple[Cause, ...]
    unpriced: dict[str, str]

    @property
    def large(self) -> list[Cause]:
        """The causes that are worth a line: the largest, and others of some weight."""
        return [
            one
            for at, one in enumerate(self.causes)
            if at == 0 or one.together.value >= _LEAST_SHARE * self.measured.value
        ]


@dataclass(frozen=True, slots=True)
class Why:
    """What was counted on the host (None: nothing could be), an explanation for each slower platform, or why not.

    `missing` has the reasons by platform; the host's is about all of them.
    """

    counts: Kinds | None
    explanations: tuple[Explanation, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)


def explain(
    platform: str,
    counts: Mapping[str, float],
    per_turn: Mapping[str, Kinds],
    rounds: Sequence[tuple[Kinds, Kinds]],
    differences: Sequence[float],
    missing: Mapping[str, str],
) -> Explanation:
    """Explain the `differences` of wall time by the `counts` of the command.

    `per_turn` is what one turn of each small program does, `rounds` what it took on the host and on the platform.
    `missing` states why a small program did not run.
    """
    kinds, each = _solved(per_turn, rounds)
    happened = np.array([counts.get(kind, 0.0) for kind in kinds])
    causes = [
        Cause(kind, float(count), cost, cost.times(float(count)))
        for at, (kind, count) in enumerate(zip(kinds, happened, strict=True))
        if count > 0 and (cost := Amount.typical(each[:, at].tolist()))
    ]
    measured, explained = Amount.typical(differences), Amount.typical((each @ happened).tolist())
    return Explanation(
        platform,
        measured,
        explained,
        measured.less(explained),
        tuple(sorted(causes, key=lambda one: -abs(one.together.value))),
        {kind: missing.get(kind, "") for kind, count in counts.items() if count > 0 and kind not in kinds},
    )


def unit_costs(per_turn: Mapping[str, Kinds], rounds: Sequence[tuple[Kinds, Kinds]]) -> dict[str, Amount]:
    """What one event of each kind costs more on a platform than on the host. See `explain`."""
    kinds, each = _solved(per_turn, rounds)
    return {kind: Amount.typical(each[:, at].tolist()) for at, kind in enumerate(kinds)}


def _solved(
    per_turn: Mapping[str, Kinds], rounds: Sequence[tuple[Kinds, Kinds]]
) -> tuple[list[str], NDArray[np.float64]]:
    """The kinds that were timed in all rounds, and what one of each costs more, by round and kind."""
    kinds = [kind for kind in per_turn if all(kind in host and kind in own for host, own in rounds)]
    does = np.array([[per_turn[kind].get(other, 0.0) for other in kinds] for kind in kinds])
    longer = np.array([[own[kind] - host[kind] for kind in kinds] for host, own in rounds])
    return kinds, np.linalg.solve(does, longer.T).T
