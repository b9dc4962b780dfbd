"""How many runs, how many readings in each, when to stop: decided beforehand, or by precision, never by p."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np

from vtare.stats._arrays import FloatArray
from vtare.stats._scipy import special
from vtare.stats._scipy import stats as scipy_stats
from vtare.stats.comparison import LEAST_BLOCKS, LEAST_RUNS, Comparison, refusal
from vtare.stats.t_rule import t_quantile

MOST_RUNS: Final = 1000


@dataclass(frozen=True, slots=True)
class SamplesPerRun:
    """Readings per run that give the most precision for the time; None where it is not known, with the reason."""

    samples: int | None
    reason: str | None = None


def samples_per_run(
    *, variance_between_runs: float, variance_of_reading: float, run_cost_s: float, reading_cost_s: float
) -> SamplesPerRun:
    """Return ceil(sqrt((c2 / c1) (s1^2 / s2^2))) from a pilot (Kalibera and Jones 2013).

    c2 and s2 belong to the run (what a fresh start costs, how much true run medians differ), c1 and s1 to the reading.
    The variances are those of logarithms, so that they have no unit; the one of a reading is what its noise adds to a
    median of n of them, times n. A start of 1 s, readings of 1 ms each, s1 = 0.3 and s2 = 0.03: ceil(sqrt(1000 * 100))
    is 317.

    >>> samples_per_run(
    ...     variance_between_runs=0.03**2, variance_of_reading=0.3**2, run_cost_s=1.0, reading_cost_s=1e-3
    ... ).samples
    317

    Raises:
        ValueError: a variance below 0, or a cost that is not above 0.
    """
    if variance_between_runs < 0 or variance_of_reading < 0:
        raise ValueError(f"variances are {variance_between_runs:g} and {variance_of_reading:g}: use 0 or more")
    if run_cost_s <= 0 or reading_cost_s <= 0:
        raise ValueError(f"costs are {run_cost_s:g} s and {reading_cost_s:g} s: use more than 0 for both")
    if variance_between_runs == 0.0:
        return SamplesPerRun(None, "runs differ by no more than the noise inside them: longer runs cost least")
    best = math.sqrt(run_cost_s / reading_cost_s * variance_of_reading / variance_between_runs)
    return SamplesPerRun(max(1, math.ceil(best - 1e-9)))


def power(
    runs: int,
    *,
    shift_sd: float,
    alpha: float = 0.05,
    comparisons: int = 1,
    paired: bool = True,
    ratio_sd: float = 1.0,
    freedom: float | None = None,
) -> float:
    """Return the chance that the decision rule finds a shift, with `runs` blocks or `runs` runs on either side.

    `shift_sd` is the shift of the logarithms over their standard deviation: `paired`, that of the differences inside
    blocks; else that of the runs of one side, where the other side's is `ratio_sd` times as large. The rule itself is
    computed, over a grid of the spreads that may be found. `comparisons` divides alpha, as the first step of Holm's
    adjustment does. `freedom`: the standard deviation was measured with this number of degrees of freedom, and
    the chance is averaged over what the true one may be; None: it is known. 0 where inference is refused.

    >>> round(power(5, shift_sd=2.0), 2), round(power(17, shift_sd=1.0, paired=False), 2)
    (0.91, 0.81)
    >>> round(power(5, shift_sd=2.0, freedom=4), 2)
    0.78

    Raises:
        ValueError: fewer than 1 comparison.
    """
    if comparisons < 1:
        raise ValueError(f"comparisons is {comparisons}: use 1 or more")
    if refusal(runs, runs, n_blocks=runs if paired else None) is not None:
        return 0.0
    return power_of_t(
        runs, shift_sd=shift_sd, alpha=alpha / comparisons, paired=paired, ratio_sd=ratio_sd, freedom=freedom
    )


def power_of_t(
    runs: int, *, shift_sd: float, alpha: float, paired: bool, ratio_sd: float = 1.0, freedom: float | None = None
) -> float:
    """Return the `power` of one t test of `runs` values a side, whether or not the decision rule would refuse it.

    >>> round(power_of_t(3, shift_sd=4.0, alpha=0.05, paired=False), 2)
    0.89
    """
    return _power(runs, abs(shift_sd), alpha, paired, ratio_sd, freedom)


@lru_cache(maxsize=4096)
def _power(runs: int, shift_sd: float, alpha: float, paired: bool, ratio_sd: float, known: float | None) -> float:
    fine = known is None
    if paired:
        variance = _variances(runs - 1.0, 4000 if fine else 250) / runs
        error, freedom = np.sqrt(variance), np.array(runs - 1.0)
        scale = 1.0 / math.sqrt(runs)
    else:
        grid = _variances(runs - 1.0, 80 if fine else 24) / runs
        here, there = grid[:, None], ratio_sd**2 * grid[None, :]
        error = np.sqrt(here + there).ravel()
        freedom = ((here + there) ** 2 / ((here**2 + there**2) / (runs - 1.0))).ravel()
        scale = math.sqrt((1.0 + ratio_sd**2) / runs)
    # A true variance of s^2 f / w is as credible as w is among chi-squared with f degrees of freedom.
    shifts = np.array([shift_sd]) if known is None else shift_sd * np.sqrt(_variances(known, 64))
    # Given the spread that is found, the mean is normal: what is beyond the interval's half-width is a difference.
    beyond = t_quantile(1.0 - alpha / 2.0, freedom) * error / scale
    away = shifts[:, None] / scale
    chances = special.ndtr(away - beyond) + special.ndtr(-away - beyond)
    return float(chances.mean())


@lru_cache(maxsize=256)
def _variances(freedom: float, points: int) -> FloatArray:
    """Sample variances of normal values of variance 1, at equal steps of their probability."""
    variances: FloatArray = 2.0 * special.gammaincinv(freedom / 2.0, (np.arange(points) + 0.5) / points) / freedom
    return variances


def runs_per_cell(
    *,
    shift_sd: float,
    alpha: float = 0.05,
    wanted_power: float = 0.8,
    comparisons: int = 1,
    paired: bool = True,
    freedom: float | None = None,
) -> int | None:
    """Return the least number of blocks (runs per cell) whose `power` is at least `wanted_power`; None above 1000.

    `freedom` as for `power`: a spread that few runs showed asks for more than one that is known.

    >>> [runs_per_cell(shift_sd=d, paired=False) for d in (3.0, 2.0, 1.5, 1.0)]
    [4, 6, 9, 17]

    Raises:
        ValueError: no shift, or a power outside 0 to 1.
    """
    if shift_sd == 0 or not 0 < wanted_power < 1:
        raise ValueError(f"shift is {shift_sd:g} and power {wanted_power:g}: use a shift and a power between 0 and 1")

    def enough(runs: int) -> bool:
        chance = power(runs, shift_sd=shift_sd, alpha=alpha, comparisons=comparisons, paired=paired, freedom=freedom)
        return chance >= wanted_power

    # By a normal mean whose spread is known, or nearly so.
    distance = special.ndtri(1.0 - alpha / 2.0 / comparisons) + special.ndtri(wanted_power)
    guess = (1.0 if paired else 2.0) * (distance / shift_sd) ** 2 * (1.0 if freedom is None else 1.0 + 4.0 / freedom)
    return least_number(enough, LEAST_RUNS + 1, guess=math.ceil(min(guess + 1.0, MOST_RUNS)))


def least_number(enough: Callable[[int], bool], least: int, *, guess: int = 0) -> int | None:
    """Return the least number from `least` to 1000 that is enough, where every larger one is too; None above 1000.

    It is looked for around `guess`.

    >>> least_number(lambda n: n * n > 50, 2)
    8
    """
    low, high, step = least - 1, max(least, guess), 1
    if enough(high):
        while high > least and enough(at := max(least, high - step)):
            high, step = at, 2 * step
        low = at if high > least else low
    else:
        low = high
        while not enough(high := low + step):
            low, step = high, 2 * step
            if low > MOST_RUNS:
                return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high if high <= MOST_RUNS else None


def runs_needed(
    comparison: Comparison, *, ratio: float, wanted_power: float = 0.8, alpha: float = 0.05, comparisons: int = 1
) -> int | None:
    """Return how many blocks (runs per cell) of a new campaign find a true `ratio` with `wanted_power`.

    On average over what the true spread may be, given the one that was found and how many runs showed it: taken as
    exact, the spread of 5 blocks promises 80 % and keeps 68. None where inference was refused, the clock's step alone
    hides such a ratio, or 1000 are too few.

    >>> from vtare.stats import compare_runs
    >>> found = compare_runs({1: 10.0, 2: 11.0, 3: 9.0, 4: 12.0}, {1: 10.5, 2: 10.2, 3: 9.9, 4: 11.1})
    >>> runs_needed(found, ratio=1.05)
    49

    Raises:
        ValueError: a ratio that is not above 1.
    """
    if ratio <= 1.0:
        raise ValueError(f"ratio is {ratio:g}: use more than 1")
    if comparison.error is None or comparison.ratio is None:
        return None
    paired = comparison.n_blocks is not None
    n = 1.0 / comparison.n_blocks if comparison.n_blocks else 1.0 / comparison.n_runs_a + 1.0 / comparison.n_runs_b
    spread = comparison.error / math.sqrt(n)
    shift = math.log(ratio) - max(comparison.slack.down, comparison.slack.up)
    if shift <= 0:
        return None
    if spread == 0:
        return LEAST_BLOCKS
    return runs_per_cell(
        shift_sd=shift / spread, alpha=alpha, wanted_power=wanted_power, comparisons=comparisons, paired=paired,
        freedom=comparison.freedom,
    )  # fmt: skip


def detectable_shift_sd(
    runs: int, *, alpha: float = 0.05, wanted_power: float = 0.8, comparisons: int = 1, paired: bool = True
) -> float | None:
    """Return the shift, in standard deviations, that `runs` blocks or runs find with `wanted_power`, or None.

    >>> round(detectable_shift_sd(5), 2)
    1.68
    """

    def found(shift_sd: float) -> float:
        return power(runs, shift_sd=shift_sd, alpha=alpha, comparisons=comparisons, paired=paired)

    if found(100.0) < wanted_power:
        return None
    low, high = 0.0, 100.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) >= wanted_power else (middle, high)
    return high


def simulated_rank_power(
    runs: int, *, shift_sd: float, trials: int, rng: np.random.Generator, alpha: float = 0.05
) -> float:
    """Return the power of the exact rank test of two cells on normal run medians, by simulation.

    >>> 0.7 < simulated_rank_power(6, shift_sd=2.0, trials=500, rng=np.random.default_rng(1)) < 0.95
    True
    """
    a, b = rng.normal(size=(trials, runs)) + shift_sd, rng.normal(size=(trials, runs))
    # Of two groups, Kruskal-Wallis is the Mann-Whitney test, whose exact distribution scipy has.
    p = scipy_stats.mannwhitneyu(a, b, axis=1, method="exact").pvalue
    return float(np.mean(p <= alpha))


@dataclass(frozen=True, slots=True)
class Stop:
    """Whether a comparison is precise enough to stop measuring.

    `half_width` is that of the interval of the logarithm of the ratio; None where there is no interval yet.
    """

    word: Literal["go on", "precise", "limit"]
    half_width: float | None
    target: float
    runs: int
    reason: str


def stop(low: float | None, high: float | None, *, runs: int, target: float, least: int = 10, most: int = 100) -> Stop:
    """Decide whether to stop, by the half-width of a ratio's 95 % interval and the runs made; never by a p-value.

    Stopping once p is small finds differences that are not there; stopping once the interval is narrow does not.
    `target` is wanted as a logarithm: log(1.05) is 5 %.

    >>> stop(0.98, 1.01, runs=12, target=math.log(1.05)).word
    'precise'

    Raises:
        ValueError: a target that is not above 0, or `least` above `most`.
    """
    if target <= 0 or least > most:
        raise ValueError(f"target is {target:g} for {least} to {most} runs: use one above 0 and least <= most")
    known = low is not None and high is not None and low > 0 and math.isfinite(high)
    half = (math.log(high) - math.log(low)) / 2.0 if known and low and high else None
    if runs >= most:
        return Stop("limit", half, target, runs, f"the fixed maximum of {most} runs is reached")
    if runs < least:
        return Stop("go on", half, target, runs, f"{least} runs are made in any case")
    if half is None:
        return Stop("go on", None, target, runs, "there is no interval yet")
    if half <= target:
        return Stop("precise", half, target, runs, f"half-width {half:.3g} is inside {target:.3g}")
    return Stop("go on", half, target, runs, f"half-width {half:.3g} is not yet inside {target:.3g}")
