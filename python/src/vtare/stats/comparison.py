"""The decision rule: how two cells are compared, with one interval, one p-value and one verdict that agree.

1. What is compared is the ratio of the geometric means of run figures (a run's median, its cost per read, its p99):
   one figure a run, their logarithms, and the difference of their means. Plain values where one is not above 0.
2. Where both cells stand in the same blocks, the differences inside each block are taken (paired t); else the two
   groups of runs are compared by Welch's t. Both at every number of runs.
3. Below 4 blocks, or 3 runs on either side and 8 in all, inference is refused: the figures describe the runs, and
   nothing is concluded.
4. p-values are adjusted inside their family. *higher* and *lower* need an adjusted p of at most alpha, *equivalent* an
   interval inside the margin, all else is *inconclusive*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from vtare.stats._arrays import Values, checked
from vtare.stats._scipy import stats as scipy_stats
from vtare.stats.dependence import Dependence, dependence
from vtare.stats.pvalues import write_p
from vtare.stats.step_slack import StepSlack, step_slack
from vtare.stats.t_rule import paired_t, t_p, welch_t
from vtare.stats.verdicts import Verdict

Method = Literal["paired t", "welch t", "refused"]
Design = Literal["paired", "unpaired"]

LEAST_BLOCKS: Final = 4
"""Blocks in common below which a paired comparison concludes nothing."""
LEAST_RUNS: Final = 3
"""Runs on either side below which an unpaired comparison concludes nothing, however many the other side has."""
LEAST_RUNS_IN_ALL: Final = 8
"""Runs of both sides together below which an unpaired comparison concludes nothing."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One cell (a) against another (b).

    `ratio` is the geometric mean of the run figures of a over that of b, None where a figure is not above 0;
    `difference` is a minus b in the figures' unit: of geometric means where there is a ratio, else of means. In a
    `paired` design both are those of the runs in the `n_blocks` common blocks. `low`, `high` and `p` belong to the
    ratio (to the difference where there is none) and allow for the clock's `step`; `high` may be infinite where the
    step is all that b shows. `p` is raw. All are None where inference was refused (`method`); `reason` then states why
    and how many runs are needed. `median_a` and `median_b` describe the cells: medians of all their run figures;
    `centre_b` is the mean of b that the difference is from, geometric where there is a ratio.

    `shift`, `error` and `freedom` are the mean difference on the compared scale (logarithms where there is a ratio),
    its standard error and degrees of freedom; `slack` is how far the step may have raised and lowered that difference.
    `dependence` is how the differences of blocks follow each other; where that is seen, error
    and degrees of freedom allow for it.
    """

    ratio: float | None
    low: float | None
    high: float | None
    difference: float
    difference_low: float | None
    difference_high: float | None
    p: float | None
    method: Method
    design: Design
    level: float
    n_runs_a: int
    n_runs_b: int
    n_blocks: int | None
    median_a: float
    median_b: float
    centre_b: float
    shift: float
    error: float | None
    freedom: float | None
    slack: StepSlack
    reason: str | None = None
    dependence: Dependence | None = None


def common_blocks(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> list[Any]:
    """Return the blocks by which two cells are paired, in order; empty where they are not.

    Cells are paired where the blocks that have both are at least half of the blocks that have either: a few runs that
    failed do not undo the pairing, cells of different blocks are not forced into it.

    >>> common_blocks({1: 9.0, 2: 9.5, 3: 9.1}, {1: 8.0, 2: 8.1})
    [1, 2]
    >>> common_blocks({1: 9.0, 2: 9.5, 3: 9.1}, {3: 8.0, 4: 8.1})
    []
    """
    common = [block for block in a if block in b]
    if all(isinstance(block, int) for block in common):
        common.sort()
    return common if 2 * len(common) >= len(a.keys() | b.keys()) else []


def refusal(n_a: int, n_b: int, *, n_blocks: int | None = None) -> str | None:
    """Return why these numbers of runs allow no inference, with the number that would; None where they do.

    `n_blocks` is the number of common blocks of a paired design.

    >>> refusal(5, 5) is None
    True
    >>> refusal(3, 3, n_blocks=3)
    'refused: 3 blocks have both cells; 4 are needed'
    """
    if n_blocks is not None:
        return None if n_blocks >= LEAST_BLOCKS else (
            f"refused: {n_blocks} block{'s have' if n_blocks > 1 else ' has'} both cells; {LEAST_BLOCKS} are needed"
        )  # fmt: skip
    if min(n_a, n_b) >= LEAST_RUNS and n_a + n_b >= LEAST_RUNS_IN_ALL:
        return None
    runs = f"{n_a} and {n_b} runs" if n_a != n_b else f"{n_a} run{'s' if n_a > 1 else ''} on either side"
    return f"refused: {runs}; {LEAST_RUNS_IN_ALL // 2} a cell are needed"


def compare_runs(
    a: Values | Mapping[Any, float],
    b: Values | Mapping[Any, float],
    *,
    alpha: float = 0.05,
    step: float = 0.0,
) -> Comparison:
    """Compare two cells by the decision rule of this module.

    Give one figure per run: by block (`{block: figure}`) where the runs were made in blocks, else plain values. `step`
    is the step that readings move in, stated by the clock; a larger one that the figures themselves show counts
    instead. The interval's level is 1 - alpha.

    >>> found = compare_runs({1: 11.0, 2: 12.1, 3: 10.1, 4: 13.3}, {1: 10.0, 2: 11.0, 3: 9.0, 4: 12.0})
    >>> found.method, round(found.ratio, 3), round(found.low, 3), round(found.high, 3)
    ('paired t', 1.108, 1.091, 1.124)
    >>> compare_runs([11.0, 12.0, 13.0], [10.0, 11.0, 12.0]).reason
    'refused: 3 runs on either side; 4 a cell are needed'

    Raises:
        ValueError: no run on one side.
    """
    blocks = common_blocks(a, b) if isinstance(a, Mapping) and isinstance(b, Mapping) else []
    all_x, all_y = (checked(list(v.values()) if isinstance(v, Mapping) else v) for v in (a, b))
    if len(all_x) == 0 or len(all_y) == 0:
        raise ValueError("one side has no run: pass at least one on either")
    x, y = all_x, all_y
    if blocks and isinstance(a, Mapping) and isinstance(b, Mapping):
        x, y = checked([a[block] for block in blocks]), checked([b[block] for block in blocks])
    on_log = bool(np.all(x > 0) and np.all(y > 0))
    slack = step_slack(x, y, step=step, on_log=on_log)
    u, v = (np.log(x), np.log(y)) if on_log else (x, y)
    shift = float(u.mean() - v.mean())
    centre_a, centre_b = (math.exp(u.mean()), math.exp(v.mean())) if on_log else (float(x.mean()), float(y.mean()))
    why = refusal(len(x), len(y), n_blocks=len(blocks) if blocks else None)

    def result(p: float | None, error: float | None, freedom: float | None) -> Comparison:
        none = "a run figure is not above 0: the p-value and the verdict are those of the difference"
        made = Comparison(
            ratio=_exp(shift) if on_log else None,
            low=None,
            high=None,
            difference=centre_a - centre_b if on_log else shift,
            difference_low=None,
            difference_high=None,
            p=p,
            method="refused" if p is None else "paired t" if blocks else "welch t",
            design="paired" if blocks else "unpaired",
            level=1.0 - alpha,
            n_runs_a=len(all_x),
            n_runs_b=len(all_y),
            n_blocks=len(blocks) if blocks else None,
            median_a=float(np.median(all_x)),
            median_b=float(np.median(all_y)),
            centre_b=centre_b,
            shift=shift,
            error=error,
            freedom=freedom,
            slack=slack,
            reason=why or (None if on_log else none),
            dependence=follow,
        )
        ends = ends_at(made, alpha)
        return made if ends is None else replace(
            made, low=ends.low, high=ends.high, difference_low=ends.difference_low, difference_high=ends.difference_high
        )  # fmt: skip

    # In the order of time, which is that of their numbers.
    follow = dependence(u - v) if blocks and all(isinstance(block, int) for block in blocks) else None
    if why is not None:
        return result(None, None, None)
    difference = paired_t(u - v) if blocks else welch_t(u, v)
    least = math.hypot(slack.least_a / math.sqrt(len(x)), slack.least_b / math.sqrt(len(y)))
    error, freedom = max(float(difference.error), least), float(difference.freedom)
    if follow is not None and follow.seen:
        error, freedom = error * follow.widening, min(freedom, follow.freedom)
    if error <= 1e-12 * max(1.0, float(np.abs(u).max()), float(np.abs(v).max())):
        error = 0.0
    return result(slack.p(shift, error, freedom, separated=least_p_of_runs(len(x), len(y))), error, freedom)


def _exp(log: float) -> float:
    """The ratio of a difference of logarithms; infinite beyond what a float holds."""
    return math.exp(log) if log < 700 else math.inf


def least_p_of_runs(n_a: int, n_b: int) -> float:
    """Return the two-sided p of a permutation test whose runs are perfectly separated: 2 / C(n_a + n_b, n_a).

    >>> round(least_p_of_runs(5, 5), 4)
    0.0079
    """
    ways = math.lgamma(n_a + n_b + 1) - math.lgamma(n_a + 1) - math.lgamma(n_b + 1)
    # Logarithms where the number itself would not fit a float.
    return min(1.0, 2.0 * math.exp(-ways) if ways > 30 else 2.0 / math.comb(n_a + n_b, n_a))


def equivalence_p(comparison: Comparison, *, margin_ratio: float) -> float | None:
    """Return the p-value of two one-sided tests (Schuirmann 1987) of a comparison against a margin.

    Of the same formula as its interval: at most alpha / 2 exactly where the 1 - alpha interval lies inside 1/margin to
    margin. None where inference was refused or there is no ratio.

    >>> same = compare_runs([100.0, 101.0, 99.0, 100.0], [100.0, 100.0, 101.0, 99.0])
    >>> equivalence_p(same, margin_ratio=1.05) < 0.001
    True

    Raises:
        ValueError: the margin is not above 1.
    """
    _check_margin(margin_ratio)
    if comparison.ratio is None or comparison.error is None or comparison.freedom is None:
        return None
    margin = math.log(margin_ratio)
    room = min(margin - comparison.shift - comparison.slack.up, margin + comparison.shift - comparison.slack.down)
    if comparison.error == 0.0:
        return 0.0 if room >= 0 else 1.0
    half = float(t_p(np.array(abs(room) / comparison.error), np.array(comparison.freedom))) / 2.0
    return half if room > 0 else 1.0 - half


@dataclass(frozen=True, slots=True)
class IntervalEnds:
    """Both ends of an interval at a level, of the ratio (None where there is none) and of the difference."""

    level: float
    low: float | None
    high: float | None
    difference_low: float
    difference_high: float


def ends_at(comparison: Comparison, alpha: float) -> IntervalEnds | None:
    """Return the interval of a comparison at the level 1 - alpha; None where inference was refused.

    It leaves out no difference exactly where p is at most alpha.

    >>> found = compare_runs([11.0, 12.0, 13.0, 12.0], [10.0, 11.0, 12.0, 11.0])
    >>> ends_at(found, 0.05).low == found.low, ends_at(found, 0.01).low < found.low
    (True, True)
    """
    if comparison.error is None or comparison.freedom is None or comparison.p is None:
        return None
    low, high = comparison.slack.interval(
        comparison.shift, comparison.error, comparison.freedom, comparison.p, alpha=alpha
    )
    if comparison.ratio is None:
        return IntervalEnds(1.0 - alpha, None, None, low, high)
    low, high = _exp(low), _exp(high)
    return IntervalEnds(1.0 - alpha, low, high, comparison.centre_b * (low - 1.0), comparison.centre_b * (high - 1.0))


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a comparison shows of two cells: the margin it was judged by, the reason in words, and its interval.

    `ends` is the interval that the verdict rests on: of an equivalent one its own, else that of its adjusted p-value.
    """

    verdict: Verdict
    margin_ratio: float
    reason: str
    ends: IntervalEnds | None = None


def judge(
    comparison: Comparison,
    *,
    p_adjusted: float | None,
    margin_ratio: float,
    alpha: float = 0.05,
    size: int = 1,
    alpha_left: float | None = None,
) -> Judgement:
    """Judge one comparison: *equivalent* inside the margin, *higher* or *lower* by its adjusted p-value.

    `p_adjusted` is the comparison's p-value after adjustment over the `size` comparisons of its family; None where
    inference was refused. What is equivalent has an interval of its own level, all else one that is adjusted likewise
    (`alpha_left`, from `alphas_left`): it leaves out no difference exactly where there is one. A difference smaller
    than the margin is equivalent, however sure it is. "No difference" without a margin cannot be a result.

    >>> found = compare_runs([20.0, 21.0, 20.5, 20.2], [10.0, 10.1, 10.3, 9.9])
    >>> str(judge(found, p_adjusted=found.p, margin_ratio=1.05).verdict)
    'higher'

    Raises:
        ValueError: the margin is not above 1.
    """
    _check_margin(margin_ratio)
    if p_adjusted is None or comparison.p is None:
        return Judgement(Verdict.INCONCLUSIVE, margin_ratio, comparison.reason or "there is no interval to judge by")
    alone = ends_at(comparison, alpha)
    if alpha_left is None:
        alpha_left = alpha * comparison.p / p_adjusted if 0.0 < p_adjusted <= alpha else alpha / size
    family = ends_at(comparison, alpha_left)
    if alone is None or family is None:
        raise AssertionError("a comparison with a p-value has an interval")
    if (
        alone.low is not None
        and alone.high is not None
        and 1.0 / margin_ratio <= alone.low
        and alone.high <= margin_ratio
    ):
        inside = f"{_shown(alone)} lies inside 1/{margin_ratio:g} to {margin_ratio:g}"
        return Judgement(Verdict.EQUIVALENT, margin_ratio, inside, alone)
    adjusted = f"p {write_p(p_adjusted)}" + (f" after adjustment over {size} comparisons" if size > 1 else "")
    none = "0" if family.low is None else "1"
    if p_adjusted <= alpha and (direction := _direction(comparison)) is not None:
        return Judgement(direction, margin_ratio, f"{_shown(family)} leaves out {none}; {adjusted}", family)
    beyond = "" if family.low is None else f" and reaches beyond 1/{margin_ratio:g} to {margin_ratio:g}"
    why = ": it may be chance" if comparison.p <= alpha else ""
    coarse = step_beyond_margin(comparison, margin_ratio=margin_ratio)
    return Judgement(
        Verdict.INCONCLUSIVE, margin_ratio,
        f"{_shown(family)} includes {none}{beyond}; {adjusted}{why}" + (f"; {coarse}" if coarse is not None else ""),
        family,
    )  # fmt: skip


def _shown(ends: IntervalEnds) -> str:
    if ends.low is None:
        return f"the interval of the difference, {ends.difference_low:.4g} to {ends.difference_high:.4g}"
    return f"the interval {ends.low:.3g} to {ends.high:.3g}"


def _direction(comparison: Comparison) -> Verdict | None:
    """Which side is higher, where estimate and interval lie on one side of no difference; else None.

    Interval and p-value are one formula; were they not, no direction would be claimed.
    """
    estimate, low, high, centre = (
        (comparison.ratio, comparison.low, comparison.high, 1.0)
        if comparison.ratio is not None
        else (comparison.difference, comparison.difference_low, comparison.difference_high, 0.0)
    )
    if low is not None and min(low, estimate) > centre:
        return Verdict.HIGHER
    return Verdict.LOWER if high is not None and max(high, estimate) < centre else None


def step_beyond_margin(comparison: Comparison, *, margin_ratio: float) -> str | None:
    """Return why no number of runs can show equivalence: the clock's step alone exceeds the margin; else None.

    >>> coarse = compare_runs([30.0] * 5, [30.0] * 5, step=10.0)
    >>> step_beyond_margin(coarse, margin_ratio=1.05)
    'the clock moves in steps of 10: that alone leaves the ratio open by 40 %, more than the margin of 5 %'
    """
    return None if comparison.ratio is None else coarse_step(comparison.slack, margin_ratio=margin_ratio)


def coarse_step(slack: StepSlack, *, margin_ratio: float) -> str | None:
    """Return why nothing smaller than the step can be equivalent, in words; None where the step is within the margin.

    `slack` is that of a difference of logarithms.

    >>> coarse_step(step_slack([1e5] * 4, [1e5] * 4, step=10.0, on_log=True), margin_ratio=1.05) is None
    True
    """
    if not slack.exceeds(math.log(margin_ratio)):
        return None
    open_ = max(slack.down, slack.up)
    percent = f"{100.0 * math.expm1(open_):.3g} %" if open_ < 5.0 else "any factor"
    return (
        f"the clock moves in steps of {slack.step:.3g}: that alone leaves the ratio open by {percent}, more than "
        f"the margin of {100.0 * (margin_ratio - 1.0):.3g} %"
    )


def _check_margin(margin_ratio: float) -> None:
    if margin_ratio <= 1.0:
        raise ValueError(f"margin ratio is {margin_ratio}: use more than 1 (1.05 is a margin of 5 %)")


@dataclass(frozen=True, slots=True)
class SelfTest:
    """How often a rule rejected in `trials` trials, with the exact 95 % interval of that share (Clopper-Pearson)."""

    rejected: int
    trials: int
    share: float
    low: float
    high: float


def share_of(count: int, trials: int) -> SelfTest:
    """Return a share of trials with its exact 95 % interval (Clopper-Pearson).

    >>> found = share_of(50, 1000)
    >>> round(found.low, 4), round(found.high, 4)
    (0.0373, 0.0654)
    """
    interval = scipy_stats.binomtest(count, trials).proportion_ci(0.95, method="exact")
    return SelfTest(count, trials, count / trials, float(interval.low), float(interval.high))


def self_test(rejects: Callable[[np.random.Generator], bool], *, trials: int, seed: int) -> SelfTest:
    """Try a decision rule on `trials` drawn data sets and count its rejections.

    `rejects` draws one data set from the generator it is given and returns whether the rule found a difference. Drawn
    from one source (A/A), the share must be about alpha; with a known shift it is the power.

    >>> self_test(lambda rng: rng.random() < 0.5, trials=100, seed=1).trials
    100
    """
    count = sum(bool(rejects(np.random.default_rng([seed, trial]))) for trial in range(trials))
    return share_of(count, trials)
