"""Benchmarks of a suite beside each other: what meets all of a run is told apart from what meets one."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from vtare.ab.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.ab.trials import Measured

TYPICAL: Final = "the typical benchmark"
LEAST: Final = 5
"""Benchmarks without which the typical one is none."""


def beside_each_other(figures: Sequence[Figure], first: Measured) -> list[Figure]:
    """Return what to judge: the typical benchmark of a suite, then each benchmark divided by it.

    Fewer than `LEAST` benchmarks are returned unchanged.
    A busy neighbour slows all benchmarks of a run by about the same share: the median of these shares, each against the
    run `first`, is the figure of the typical benchmark, by which every other is divided. A change that makes most
    benchmarks slower is one of the typical benchmark. `settle` has to follow the last run.
    """
    at_first = [(figure, value) for figure in figures if (value := figure.read(first)) is not None and value > 0]
    if len(at_first) < LEAST:
        return list(figures)
    typical = _Typical(at_first)
    return [
        Figure(TYPICAL, "", typical, more_is_better=False),
        *(replace(figure, read=partial(_over, figure, typical)) for figure in figures),
    ]


def settle(figures: Sequence[Figure]) -> None:
    """Count the typical benchmark in its middle run instead of the first, so that the others are shown in their size.

    No ratio changes by it.
    """
    for figure in figures:
        if isinstance(figure.read, _Typical):
            figure.read.settle()


class _Typical:
    """How many times as long as in the first run the benchmarks of a run took: the median of them."""

    def __init__(self, at_first: Sequence[tuple[Figure, float]]) -> None:
        self._at_first = at_first
        # By identity: a run is asked for by each benchmark, at each look.
        self._known: dict[int, tuple[Measured, float | None]] = {}
        self._middle = 1.0

    def __call__(self, run: Measured) -> float | None:
        if id(run) not in self._known:
            self._known[id(run)] = run, self._median(run)
        value = self._known[id(run)][1]
        return None if value is None else value / self._middle

    def settle(self) -> None:
        """Divide by the middle one of all runs so far."""
        self._middle = float(np.median([value for _, value in self._known.values() if value is not None] or [1.0]))

    def _median(self, run: Measured) -> float | None:
        logs = [
            math.log(value / before) * (-1.0 if figure.more_is_better else 1.0)
            for figure, before in self._at_first
            if (value := figure.read(run)) is not None and value > 0
        ]
        return math.exp(float(np.median(logs))) if logs else None


def _over(figure: Figure, typical: _Typical, run: Measured) -> float | None:
    value, shared = figure.read(run), typical(run)
    if value is None or shared is None:
        return None
    return value * shared if figure.more_is_better else value / shared
