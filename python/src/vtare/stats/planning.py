"""How many runs, how many readings in each, when to stop: decided beforehand, or by precision, never by p."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy import special
from scipy import stats as scipy_stats

from vtare.stats.comparison import LEAST_RUNS, least_p_of_runs

MOST_RUNS: Final = 1000


@dataclass(frozen=True, slots=True)
class SamplesPerRun:
    """Readings per run that give the most precision for the time; None where it cannot be said, with the reason."""

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

    Raises:
        ValueError: a variance below 0, or a cost that is not above 0.
    """
    if variance_between_runs < 0 or variance_of_reading < 0:
        raise ValueError(f"found variances {variance_between_runs:g} and {variance_of_reading:g}, wanted 0 or more")
    if run_cost_s <= 0 or reading_cost_s <= 0:
        raise ValueError(f"found costs {run_cost_s:g} s and {reading_cost_s:g} s, wanted both above 0")
    if variance_between_runs == 0.0:
        return SamplesPerRun(None, "runs differ by no more than the noise inside them: longer runs cost least")
    best = math.sqrt(run_cost_s / reading_cost_s * variance_of_reading / variance_between_runs)
    return SamplesPerRun(max(1, math.ceil(best - 1e-9)))


def power(runs: int, *, shift_sd: float, alpha: float = 0.05, comparisons: int = 1) -> float:
    """Return the chance that the decision rule finds a shift, with `runs` runs on either side.

    `shift_sd` is the shift in standard deviations between runs (of the logarithms of run medians). The rule is Welch's
    t; with equal numbers and spreads that is the noncentral t distribution with 2 (runs - 1) degrees of freedom, a
    touch optimistic below 5 runs. `comparisons` divides alpha, as the first step of Holm's adjustment does. 0 where
    inference is refused.

    Raises:
        ValueError: fewer than 1 comparison.
    """
    if comparisons < 1:
        raise ValueError(f"found {comparisons} comparisons, wanted at least 1")
    if runs < LEAST_RUNS or least_p_of_runs(runs, runs) > alpha:
        return 0.0
    freedom = 2.0 * (runs - 1)
    beyond = float(scipy_stats.t.ppf(1.0 - alpha / comparisons / 2.0, freedom))
    away = abs(shift_sd) * math.sqrt(runs / 2.0)
    # The mean over the spread that may be found, because scipy's noncentral t gives up far out in its tails.
    spread = np.sqrt(scipy_stats.chi2.ppf((np.arange(2000) + 0.5) / 2000, freedom) / freedom)
    found = special.ndtr(away - beyond * spread) + special.ndtr(-away - beyond * spread)
    return float(found.mean())


def runs_per_cell(
    *, shift_sd: float, alpha: float = 0.05, wanted_power: float = 0.8, comparisons: int = 1
) -> int | None:
    """Return the least number of runs per cell whose `power` is at least `wanted_power`; None above 1000.

    Raises:
        ValueError: no shift, or a power outside 0 to 1.
    """
    if shift_sd == 0 or not 0 < wanted_power < 1:
        raise ValueError(f"found shift {shift_sd:g} and power {wanted_power:g}, wanted a shift and a power in 0 to 1")
    low, high = LEAST_RUNS, LEAST_RUNS
    while power(high, shift_sd=shift_sd, alpha=alpha, comparisons=comparisons) < wanted_power:
        low, high = high, high * 2
        if low > MOST_RUNS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(middle, shift_sd=shift_sd, alpha=alpha, comparisons=comparisons) >= wanted_power
        low, high = (low, middle) if enough else (middle, high)
    found = low if power(low, shift_sd=shift_sd, alpha=alpha, comparisons=comparisons) >= wanted_power else high
    return found if found <= MOST_RUNS else None


def detectable_shift_sd(
    runs: int, *, alpha: float = 0.05, wanted_power: float = 0.8, comparisons: int = 1
) -> float | None:
    """Return the shift, in standard deviations between runs, that `runs` runs find with `wanted_power`, or None."""
    if power(runs, shift_sd=100.0, alpha=alpha, comparisons=comparisons) < wanted_power:
        return None
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        if power(runs, shift_sd=middle, alpha=alpha, comparisons=comparisons) >= wanted_power:
            high = middle
        else:
            low = middle
    return high


def simulated_rank_power(
    runs: int, *, shift_sd: float, trials: int, rng: np.random.Generator, alpha: float = 0.05
) -> float:
    """Return the power of the exact rank test of two cells on normal run medians, by simulation."""
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

    Raises:
        ValueError: a target that is not above 0, or `least` above `most`.
    """
    if target <= 0 or least > most:
        raise ValueError(f"found target {target:g} and {least} to {most} runs, wanted one above 0 and least <= most")
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
