"""How much a figure of one command differs from another's: intervals that allow for the step of the figure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from vtare import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.ab.designs import Pair
    from vtare.ab.figures import Figure
    from vtare.ab.trials import Measured


@dataclass(frozen=True, slots=True)
class Sides:
    """A figure in the runs of a command (`own`) and of the first one, their steps, and whether they are pairs.

    `slack` is how far the step alone may have moved the log ratio of typical runs.
    """

    own: tuple[float, ...]
    first: tuple[float, ...]
    step: float
    step_first: float
    slack: stats.StepSlack
    paired: bool

    @property
    def log_ratios(self) -> list[float]:
        """The log ratio of each pair."""
        return [math.log(own / first) for own, first in zip(self.own, self.first, strict=True)]

    @property
    def open_by_step(self) -> float:
        """The half-width of an interval of the log ratio that more runs cannot make narrower."""
        return (self.slack.down + self.slack.up) / 2.0

    def typical(self, alpha: float) -> stats.PairedShift:
        """The log ratio of typical runs: of pairs by ranks, else of geometric means; with the step in its interval."""
        if not self.paired:
            comparison = stats.compare_runs(self.own, self.first, alpha=alpha, step=max(self.step, self.step_first))
            low = None if comparison.low is None else _log(comparison.low)
            high = None if comparison.high is None else _log(comparison.high)
            return stats.PairedShift(comparison.shift, low, high, len(self.own), 1 - alpha)
        return self.widened(stats.paired_shift(self.log_ratios, alpha=alpha))

    def widened(self, found: stats.PairedShift) -> stats.PairedShift:
        """An interval by ranks with what the step may have hidden."""
        if found.low is None or found.high is None:
            return found
        return replace(found, low=found.low - self.slack.down, high=found.high + self.slack.up)

    def mean(self, alpha: float) -> stats.MeanRatio:
        """The ratio of the means: what all runs together took, rare slow ones included."""
        return stats.ratio_of_means(
            self.own, self.first, alpha=alpha, paired=self.paired, step=self.step, step_b=self.step_first
        )

    @property
    def coarseness(self) -> float:
        """The larger one of the steps, as a log ratio to the middle of its runs."""
        return max(
            math.log1p(step / float(np.median(side)))
            for step, side in ((self.step, self.own), (self.step_first, self.first))
        )


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf


def sides_of(figure: Figure, command: int, pairs: Sequence[Pair], *, paired: bool) -> Sides | None:
    """The figure of a command and of the first one; None where a run has no value above 0."""
    runs = [[pair.runs[k] for pair in pairs] for k in (command, 0)]
    own, first = ([figure.read(run) for run in side] for side in runs)
    known = [[value for value in side if value is not None and value > 0] for side in (own, first)]
    if len(known[0]) < len(own) or len(known[1]) < len(first) or not pairs:
        return None
    own_step, first_step = _steps(figure, runs, known)
    slack = stats.step_slack(known[0], known[1], step=own_step, step_b=first_step, on_log=True, by_ranks=paired)
    return Sides(tuple(known[0]), tuple(known[1]), own_step, first_step, slack, paired)


def _steps(figure: Figure, runs: Sequence[Sequence[Measured]], values: Sequence[Sequence[float]]) -> list[float]:
    """The step of a figure on both sides: its last printed digit at least, or a larger one in which the runs move."""
    if figure.step is None:
        return [0.0, 0.0]
    printed = [min(map(figure.step, side)) for side in runs]
    shown = stats.step_of_runs(*values, least=min(printed))
    if figure.is_duration:
        # Times in nanoseconds that all end with zeros come from a coarser clock.
        shown = max(shown, min(_zeros(value) for side in values for value in side))
    return [max(least, shown) for least in printed]


def _zeros(value: float) -> float:
    """The largest power of ten that divides a number."""
    step = 1.0
    while value % (10.0 * step) == 0.0 and 10.0 * step <= value:
        step *= 10.0
    return step
