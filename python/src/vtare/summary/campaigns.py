"""Inference where the unit is the campaign: a campaign's own offset is part of every figure it measured.

Runs of one campaign share its boot, its hour and its neighbours. Between campaigns these change, so the spread of runs
inside a campaign does not show how far two campaigns of the same program lie apart. What is compared here is one
figure a campaign, and the spread between campaigns comes from repeating them.

Variances are not pooled over cells: all cells of a campaign share its offset, so that 20 cells do not give 20 estimates
of it (with a common offset of two run SDs such pooling rejects 10 % of A/A comparisons instead of 5 %).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from vtare import stats

Method = Literal["welch", "paired", "refused"]

LEAST_CAMPAIGNS: Final = 2
"""Campaigns on either side below which there is no verdict."""
LEAST_PAIRS: Final = 4
"""Pairs from which interleaved campaigns are compared in pairs: with fewer, pairing loses more degrees of freedom
than drift costs."""
MOST_CAMPAIGNS: Final = 1000


@dataclass(frozen=True, slots=True)
class Shift:
    """How far one side lies from the other, in the units of its values (logarithms, where they are logarithms).

    `low`, `high` and `p` are one formula: p is at most 1 - level exactly where the interval leaves out 0. They are None
    where there are too few values on a side. `spread` is the standard deviation of one value (of one difference, where
    paired), `freedom` the degrees of freedom it is known with. `error` is the standard error, `slack` what the clock's
    step hides.
    """

    estimate: float
    low: float | None
    high: float | None
    p: float | None
    method: Method
    spread: float | None
    freedom: float | None
    error: float = 0.0
    slack: stats.StepSlack = stats.NO_SLACK

    def ends(self, alpha: float) -> tuple[float, float] | None:
        """Return the interval of the level 1 - alpha: it leaves out 0 where p is at most alpha. None without a test."""
        if self.p is None or self.freedom is None:
            return None
        return self.slack.interval(self.estimate, self.error, self.freedom, self.p, alpha=alpha)


def shift_between(
    here: Sequence[float],
    there: Sequence[float],
    *,
    alpha: float = 0.05,
    paired: bool = False,
    slack: stats.StepSlack = stats.NO_SLACK,
) -> Shift:
    """Return by how much the mean of `here` lies above that of `there`: Welch's t, or Student's t of the pairs.

    `slack` is what the clock's step hides of the difference. `shift_between([1.1, 1.2], [1.0, 0.9]).estimate` is 0.2.

    Raises:
        ValueError: no value on one side, or pairs of unequal numbers.
    """
    if not here or not there:
        raise ValueError(f"{len(here)} and {len(there)} values: pass at least one on each side")
    if paired and len(here) != len(there):
        raise ValueError(f"{len(here)} and {len(there)} values do not pair: pass as many on both sides")
    x, y = np.asarray(here, dtype=float), np.asarray(there, dtype=float)
    estimate = float(x.mean() - y.mean())
    if min(len(x), len(y)) < LEAST_CAMPAIGNS:
        return Shift(estimate, None, None, None, "refused", None, None)
    difference = stats.paired_t(x - y) if paired else stats.welch_t(x, y)
    least_pair = math.hypot(slack.least_a, slack.least_b)
    parts = [(x - y, least_pair)] if paired else [(x, slack.least_a), (y, slack.least_b)]
    # Figures that agree to the clock's step still differ by what the step rounds off.
    error = max(float(difference.error), math.hypot(*(least / math.sqrt(len(values)) for values, least in parts)))
    freedom = float(difference.freedom)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values, _ in parts)
    spread = max(math.sqrt(squares / sum(len(values) - 1 for values, _ in parts)), parts[0][1])
    p = slack.p(estimate, error, freedom, separated=stats.least_p_of_runs(len(x), len(y)))
    made = Shift(estimate, None, None, p, "paired" if paired else "welch", spread, freedom, error, slack)
    low, high = made.ends(alpha) or (None, None)
    return replace(made, low=low, high=high)


def campaigns_needed(
    spread: float,
    shift: float,
    *,
    alpha: float = 0.05,
    chance: float = 0.8,
    comparisons: int = 1,
    paired: bool = False,
    freedom: float | None = None,
) -> int | None:
    """Return how many campaigns a side find a `shift` with probability `chance` where one campaign spreads by `spread`.

    `comparisons` divides alpha, as the first step of Holm's adjustment does. `freedom`: the spread was measured with
    that number of degrees of freedom, and the chance is averaged over what the true one may be. `paired`: the spread
    is that of the differences of pairs. None above 1000. `campaigns_needed(1.0, 1.0)` is 17.
    """
    if spread <= 0 or shift <= 0:
        return LEAST_CAMPAIGNS if shift > 0 else None

    def enough(n: int) -> bool:
        reached = stats.power_of_t(
            n, shift_sd=shift / spread, alpha=alpha / comparisons, paired=paired, freedom=freedom
        )
        return reached >= chance

    return stats.least_number(enough, LEAST_PAIRS if paired else LEAST_CAMPAIGNS)


def interleaved(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether campaigns that started at these times alternate: the first two are one of each side, so the next two.

    `before` and `after` hold starting times in any order; only sides of equal number can alternate.
    """
    if len(before) != len(after):
        return False
    pairs = list(zip(sorted(before), sorted(after), strict=True))
    return all(max(one) < min(other) for one, other in pairwise(pairs))
