"""Intervals with a step: what readings that move in steps leave unknown of the difference of two means."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked
from vtare.stats.clock_step import hidden_by_step, tied_step
from vtare.stats.t_rule import t_p, t_quantile


@dataclass(frozen=True, slots=True)
class StepSlack:
    """What a `step` hides of mean a minus mean b, on the compared scale (logarithms, or the figures' unit).

    `down` and `up` are how far rounding may have raised and lowered the difference. `least_a` and `least_b` are the
    least standard deviations of one figure of either side: figures that agree to the step still differ by what the step
    rounds off.
    """

    step: float
    down: float
    up: float
    least_a: float
    least_b: float

    def widened(self, low: float, high: float) -> tuple[float, float]:
        """Return an interval of the difference with what the step hides on either end.

        >>> step_slack([30.0] * 4, [30.0] * 4, step=10.0, on_log=False).widened(-1.0, 1.0)
        (-11.0, 11.0)
        """
        return low - self.down, high + self.up

    def evidence(self, shift: float) -> float:
        """Return how far a difference lies from 0 once the step has its due; 0 where the step alone explains it.

        >>> step_slack([30.0] * 4, [50.0] * 4, step=10.0, on_log=False).evidence(-20.0)
        10.0
        """
        return max(shift - self.down if shift > 0 else -shift - self.up, 0.0)

    def p(self, shift: float, error: float, freedom: float, *, separated: float) -> float:
        """Return the two-sided p-value of a mean difference with its standard error and degrees of freedom.

        Runs that agree to the last digit have no spread for a t: what is left is that they are `separated`.

        >>> round(NO_SLACK.p(3.0, 1.0, 5.0, separated=0.03), 3), NO_SLACK.p(3.0, 0.0, 5.0, separated=0.03)
        (0.03, 0.03)
        """
        beyond = self.evidence(shift)
        if beyond == 0.0:
            return 1.0
        return float(t_p(np.array(beyond / error), np.array(freedom))) if error > 0 else separated

    def interval(self, shift: float, error: float, freedom: float, p: float, *, alpha: float) -> tuple[float, float]:
        """Return the 1 - alpha interval of the same formula: it leaves out 0 exactly where `p` is at most alpha.

        >>> NO_SLACK.interval(3.0, 0.0, 5.0, 0.03, alpha=0.05), NO_SLACK.interval(3.0, 0.0, 5.0, 0.03, alpha=0.01)
        ((3.0, 3.0), (0.0, 3.0))
        """
        half = float(t_quantile(1.0 - alpha / 2.0, np.array(freedom))) * error
        low, high = self.widened(shift - half, shift + half)
        return (low, high) if error > 0 or p <= alpha else (min(low, 0.0), max(high, 0.0))

    def exceeds(self, margin: float) -> bool:
        """Whether the step alone leaves more open than a margin on the compared scale: no verdict can follow."""
        return self.down + self.up > 2.0 * margin


NO_SLACK = StepSlack(0.0, 0.0, 0.0, 0.0, 0.0)
"""Readings without a step."""


def step_slack(
    a: Values, b: Values, *, step: float, step_b: float | None = None, on_log: bool = True, by_ranks: bool = False
) -> StepSlack:
    """Return what a step hides of the difference of two sides, from one figure a run: of means, or `by_ranks`.

    All intervals of runs are widened by it: those of reports, of `compare` and of `ab`. `step` is the least that the
    step can be: what a clock states, what readings show, the last printed digit; `step_b` that of `b`, where it is
    another. A larger one that the figures themselves show counts instead. 0: the figures are no readings of a clock or
    counter. A middle value by ranks is one of the positions itself, until the spread is that of a whole step.

    >>> round(step_slack([1e5] * 4, [1e5] * 4, step=10.0, on_log=True).up, 6)
    0.0001
    """
    stated = (step, step if step_b is None else step_b)
    if max(stated) <= 0.0:
        return NO_SLACK
    sides = [checked(a), checked(b)]
    tied = max(tied_step(side) for side in sides)
    steps = [max(one, tied) for one in stated]
    hidden = [_hidden(side, one, by_ranks=by_ranks) for side, one in zip(sides, steps, strict=True)]
    rounding = [one / math.sqrt(12.0) for one in steps]
    if not on_log:
        return StepSlack(max(steps), sum(hidden), sum(hidden), *rounding)
    centres = [math.exp(float(np.log(side).mean())) for side in sides]
    down, up = _log_slack(*centres, *hidden)
    return StepSlack(max(steps), down, up, rounding[0] / centres[0], rounding[1] / centres[1])


def _hidden(side: FloatArray, step: float, *, by_ranks: bool) -> float:
    spread = float(side.std(ddof=1)) if len(side) > 1 else 0.0
    return step / 2.0 if by_ranks and spread < step else hidden_by_step(step, _spread_beneath(side, step))


def _spread_beneath(figures: FloatArray, step: float) -> float:
    """The spread that figures had before they were rounded; 0 where they stand on one position or two neighbours.

    Rounding adds step^2 / 12 to the variance. Figures on two neighbours may have had any smaller spread, next to the
    border of the two, and then their mean is off by up to half a step: taken as their spread, what the step itself
    makes of them called changes of 8 % equivalent in 37 % of comparisons.
    """
    if len(figures) < 2 or float(np.ptp(figures)) <= 1.5 * step:
        return 0.0
    return math.sqrt(max(float(figures.var(ddof=1)) - step * step / 12.0, 0.0))


def _log_slack(m_a: float, m_b: float, half_a: float, half_b: float) -> tuple[float, float]:
    """How far the step on either mean may have raised and lowered the log of their ratio."""
    with np.errstate(divide="ignore"):
        down = float(np.log1p(half_b / m_b) - np.log1p(-min(half_a / m_a, 1.0)))
        up = float(np.log1p(half_a / m_a) - np.log1p(-min(half_b / m_b, 1.0)))
    return down, up


__all__ = ["NO_SLACK", "StepSlack", "step_slack"]
