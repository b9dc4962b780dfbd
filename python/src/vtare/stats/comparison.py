"""The decision rule: how two cells are compared, with one interval, one p-value and one verdict that agree.

1. The figure of a run is its median, and the logarithms of run medians are compared (plain medians where one is not
   above 0).
2. Below 3 runs on either side, or where even a perfect separation of all runs would have a permutation p above alpha
   (3 against 3), inference is refused: ratio, difference and Cliff's delta describe the runs, and nothing is concluded.
3. Up to 9 runs on either side, Welch's t gives the interval and the p-value; from 10 on, the hierarchical bootstrap
   gives both. The p-value is the interval turned round: it is below 1 - level exactly where the interval leaves out no
   difference.
4. p-values are adjusted inside their family. *differs* needs an adjusted p of at most alpha, *equivalent* an interval
   inside the margin, all else is *undecided*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy import stats as scipy_stats

from vtare.stats._arrays import FloatArray, Values, checked
from vtare.stats.effect import RunPool
from vtare.stats.pvalues import write_p

VerdictWord = Literal["differs", "equivalent", "undecided"]
Method = Literal["welch t", "hierarchical bootstrap", "refused"]

LEAST_RUNS: Final = 3
"""Runs on either side below which nothing is concluded, however many the other side has."""
BOOTSTRAP_RUNS: Final = 10
"""Runs on either side from which the hierarchical bootstrap is used."""
RESAMPLES: Final = 9999


@dataclass(frozen=True, slots=True)
class Comparison:
    """One cell (a) against another (b).

    `ratio` is the median of the run medians of a over that of b, None where one is not above 0; `difference` is a minus
    b in the readings' unit. `low`, `high` and `p` belong to the ratio (to the difference where there is no ratio) and
    allow for half a clock step on either median; `high` may be infinite where the step is all that b shows. `p` is raw.
    All are None where inference was refused (`method`); `reason` then says why and what would do.
    """

    ratio: float | None
    low: float | None
    high: float | None
    difference: float
    difference_low: float | None
    difference_high: float | None
    p: float | None
    method: Method
    level: float
    least_p: float
    n_runs_a: int
    n_runs_b: int
    reason: str | None = None


def least_p_of_runs(n_a: int, n_b: int) -> float:
    """Return the two-sided p of a permutation test whose runs are perfectly separated: 2 / C(n_a + n_b, n_a)."""
    ways = math.lgamma(n_a + n_b + 1) - math.lgamma(n_a + 1) - math.lgamma(n_b + 1)
    # Logarithms where the number itself would not fit a float.
    return min(1.0, 2.0 * math.exp(-ways) if ways > 30 else 2.0 / math.comb(n_a + n_b, n_a))


def refusal(n_a: int, n_b: int, *, alpha: float) -> str | None:
    """Return why `n_a` and `n_b` runs allow no inference at `alpha`, with the number that would; None where they do."""
    least = least_p_of_runs(n_a, n_b)
    if min(n_a, n_b) >= LEAST_RUNS and least <= alpha:
        return None
    enough = next(n for n in range(LEAST_RUNS, 10_000) if least_p_of_runs(n, n) <= alpha)
    runs = f"{n_a} and {n_b} runs" if n_a != n_b else f"{n_a} run{'s' if n_a > 1 else ''} on either side"
    if least > alpha:
        return (
            f"refused: with {runs} the least possible p is {least:.3g}, above {alpha:g}; {enough} runs a cell would do"
        )
    return f"refused: with {runs} the spread between runs is not known; {enough} runs a cell would do"


def compare_medians(
    a: RunPool | Values,
    b: RunPool | Values,
    *,
    rng: np.random.Generator,
    alpha: float = 0.05,
    quantum: float = 0.0,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Compare two cells by the decision rule of this module.

    Give a `RunPool` (each run with its readings) or one median per run; the bootstrap resamples inside runs only where
    it has their readings. `quantum` is the step that readings move in: a median is only known to half of it. The
    interval's level is 1 - alpha.

    Raises:
        ValueError: no run on one side.
    """
    left, right = _pool(a), _pool(b)
    x, y = left.medians, right.medians
    n_a, n_b = len(x), len(y)
    m_a, m_b = float(np.median(x)), float(np.median(y))
    on_log = bool(np.all(x > 0) and np.all(y > 0))
    ratio = m_a / m_b if m_a > 0 and m_b > 0 else None
    least = least_p_of_runs(n_a, n_b)
    why = refusal(n_a, n_b, alpha=alpha)
    if why is not None:
        return Comparison(
            ratio, None, None, m_a - m_b, None, None, None, "refused", 1 - alpha, least, n_a, n_b, why
        )  # fmt: skip
    half = quantum / 2.0
    # How far the steps of the clock alone could have pushed the two medians together or apart.
    down, up = _slack(m_a, m_b, half) if on_log else (2.0 * half, 2.0 * half)
    if min(n_a, n_b) >= BOOTSTRAP_RUNS:
        method: Method = "hierarchical bootstrap"
        drawn_a, drawn_b = left.draw(rng, resamples), right.draw(rng, resamples)
        plain = _Bootstrap(drawn_a - drawn_b)
        main: _Welch | _Bootstrap = _Bootstrap(np.log(drawn_a) - np.log(drawn_b)) if on_log else plain
        difference: _Welch | _Bootstrap = plain
    else:
        method = "welch t"
        step = quantum / math.sqrt(12.0)
        difference = _Welch.of(x, y).at_least(step, step)
        main = _Welch.of(np.log(x), np.log(y)).at_least(step / m_a, step / m_b) if on_log else difference
    low, high = main.ends(alpha)
    low, high = low - down, high + up
    p = main.p(down=down, up=up, separated=least)
    d_low, d_high = difference.ends(alpha)
    if not on_log:
        why_none = "a run median is not above 0: the p-value and the verdict are those of the difference"
        return Comparison(
            ratio, None, None, m_a - m_b, low, high, p, method, 1 - alpha, least, n_a, n_b, why_none
        )  # fmt: skip
    return Comparison(
        ratio, math.exp(low), math.exp(high) if high < 700 else math.inf, m_a - m_b, d_low, d_high, p, method,
        1 - alpha, least, n_a, n_b,
    )  # fmt: skip


def _pool(runs: RunPool | Values) -> RunPool:
    if isinstance(runs, RunPool):
        return runs
    medians = checked(runs)
    if len(medians) == 0:
        raise ValueError("found no run, wanted at least one on either side")
    return RunPool(medians, medians[:, None])


def _slack(m_a: float, m_b: float, half: float) -> tuple[float, float]:
    """How far half a step on either median could lower and raise the log of their ratio."""
    with np.errstate(divide="ignore"):
        down = float(np.log(m_a) - np.log(max(m_a - half, 0.0)) + np.log(m_b + half) - np.log(m_b))
        up = float(np.log(m_a + half) - np.log(m_a) + np.log(m_b) - np.log(max(m_b - half, 0.0)))
    return down, up


@dataclass(frozen=True, slots=True)
class _Welch:
    """Welch's t for the difference of two means (Welch 1947), spreads not taken as equal."""

    difference: float
    error: float
    freedom: float
    n_x: int
    n_y: int

    @classmethod
    def of(cls, x: FloatArray, y: FloatArray) -> _Welch:
        part_x, part_y = (float(v.var(ddof=1)) / len(v) for v in (x, y))
        total = part_x + part_y
        freedom = total**2 / (part_x**2 / (len(x) - 1) + part_y**2 / (len(y) - 1)) if total > 0 else math.inf
        return cls(float(x.mean() - y.mean()), math.sqrt(total), freedom, len(x), len(y))

    def at_least(self, spread_x: float, spread_y: float) -> _Welch:
        """The same with no smaller error than these spreads give: runs that agree to the clock's step still differ."""
        least = math.sqrt(spread_x**2 / self.n_x + spread_y**2 / self.n_y)
        if self.error >= least:
            return self
        return _Welch(self.difference, least, float(self.n_x + self.n_y - 2), self.n_x, self.n_y)

    def ends(self, alpha: float) -> tuple[float, float]:
        half = float(scipy_stats.t.ppf(1.0 - alpha / 2.0, self.freedom)) * self.error
        return self.difference - half, self.difference + half

    def p(self, *, down: float, up: float, separated: float) -> float:
        left = self.difference - down if self.difference > 0 else -self.difference - up
        if left <= 0:
            return 1.0
        # Runs that agree to the last digit have no spread for a t: what is left is that they are separated.
        return 2.0 * float(scipy_stats.t.sf(left / self.error, self.freedom)) if self.error > 0 else separated


@dataclass(frozen=True, slots=True)
class _Bootstrap:
    """Percentile interval of resampled differences, and the p-value that it gives when turned round."""

    drawn: FloatArray

    def ends(self, alpha: float) -> tuple[float, float]:
        ordered = np.sort(self.drawn)
        # The share of resamples outside is the p-value below, so that the two cannot disagree.
        k = max(0, math.floor(alpha / 2.0 * (len(ordered) + 1) + 1e-9) - 1)
        return float(ordered[k]), float(ordered[len(ordered) - 1 - k])

    def p(self, *, down: float, up: float, separated: float) -> float:
        below = int(np.sum(self.drawn - down <= 0.0))
        above = int(np.sum(self.drawn + up >= 0.0))
        return min(1.0, 2.0 * (1 + min(below, above)) / (len(self.drawn) + 1))


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Two one-sided tests (Schuirmann 1987): `p` is the larger of the two, None where refused."""

    p: float | None
    margin_ratio: float
    n_a: int
    n_b: int
    refused: str | None = None


def equivalence(a: Values, b: Values, *, margin_ratio: float, alpha: float = 0.05) -> Equivalence:
    """Test whether two cells' run medians lie within 1/margin to margin of each other, by Welch's t on the logarithms.

    A small p says they do. The verdict of a comparison is stricter: its 1 - alpha interval lies inside the margin
    exactly where this p is at most alpha / 2 (below 10 runs, and but for the clock's step).

    Raises:
        ValueError: the margin is not above 1, or a side has no run.
    """
    _check_margin(margin_ratio)
    x, y = checked(a), checked(b)
    if len(x) == 0 or len(y) == 0:
        raise ValueError("found no run, wanted at least one on either side")
    n_a, n_b = len(x), len(y)
    if np.any(x <= 0) or np.any(y <= 0):
        return Equivalence(None, margin_ratio, n_a, n_b, "refused: a run median is not above 0, so there is no ratio")
    why = refusal(n_a, n_b, alpha=alpha)
    if why is not None:
        return Equivalence(None, margin_ratio, n_a, n_b, why)
    welch = _Welch.of(np.log(x), np.log(y))
    room = math.log(margin_ratio) - abs(welch.difference)
    if welch.error == 0.0:
        return Equivalence(0.0 if room > 0 else 1.0, margin_ratio, n_a, n_b)
    return Equivalence(float(scipy_stats.t.sf(room / welch.error, welch.freedom)), margin_ratio, n_a, n_b)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison says about two cells, with the margin it was judged by and the reason in words."""

    word: VerdictWord
    margin_ratio: float
    reason: str


def verdict(
    comparison: Comparison, *, p_adjusted: float | None, margin_ratio: float, alpha: float = 0.05, size: int = 1
) -> Verdict:
    """Judge one comparison: *equivalent* inside the margin, *differs* by its adjusted p-value, else *undecided*.

    `p_adjusted` is the comparison's p-value after adjustment over the `size` comparisons of its family; None where
    inference was refused. A difference smaller than the margin is equivalent, however sure it is. "No difference"
    without a margin is not a thing this function can say.

    Raises:
        ValueError: the margin is not above 1.
    """
    _check_margin(margin_ratio)
    if p_adjusted is None or comparison.p is None:
        return Verdict("undecided", margin_ratio, comparison.reason or "there is no interval to judge by")
    low, high = comparison.low, comparison.high
    adjusted = f"p {write_p(p_adjusted)}" + (f" after adjustment over {size} comparisons" if size > 1 else "")
    if low is None or high is None:
        ends = f"{comparison.difference_low:.4g} to {comparison.difference_high:.4g}"
        shown = f"the interval of the difference, {ends}"
    else:
        shown = f"the interval {low:.3g} to {high:.3g}"
        if 1.0 / margin_ratio <= low and high <= margin_ratio:
            return Verdict("equivalent", margin_ratio, f"{shown} lies inside 1/{margin_ratio:g} to {margin_ratio:g}")
    none = "0" if low is None else "1"
    if p_adjusted <= alpha:
        return Verdict("differs", margin_ratio, f"{shown} leaves out {none}; {adjusted}")
    if comparison.p <= alpha:
        return Verdict("undecided", margin_ratio, f"{shown} leaves out {none}, but {adjusted}: it may be chance")
    beyond = "" if low is None else f" and reaches beyond 1/{margin_ratio:g} to {margin_ratio:g}"
    return Verdict("undecided", margin_ratio, f"{shown} holds {none}{beyond}; {adjusted}")


def _check_margin(margin_ratio: float) -> None:
    if margin_ratio <= 1.0:
        raise ValueError(f"found margin ratio {margin_ratio}, wanted above 1 (1.05 is a margin of 5 %)")


@dataclass(frozen=True, slots=True)
class SelfTest:
    """How often a rule rejected in `trials` trials, with the exact 95 % interval of that share (Clopper-Pearson)."""

    rejected: int
    trials: int
    share: float
    low: float
    high: float


def self_test(rejects: Callable[[np.random.Generator], bool], *, trials: int, seed: int) -> SelfTest:
    """Try a decision rule on `trials` drawn data sets and count its rejections.

    `rejects` draws one data set from the generator it is given and returns whether the rule found a difference. Drawn
    from one source (A/A), the share must be about alpha; with a known shift it is the power.
    """
    count = sum(bool(rejects(np.random.default_rng([seed, trial]))) for trial in range(trials))
    interval = scipy_stats.binomtest(count, trials).proportion_ci(0.95, method="exact")
    return SelfTest(count, trials, count / trials, float(interval.low), float(interval.high))
