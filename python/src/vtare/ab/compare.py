"""Pairs until the answer is known: looks at what has come, with one error for all of them together."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol

from vtare import stats
from vtare.ab.designs import (
    UNTRIED,
    Chosen,
    DesignWord,
    Orders,
    Pair,
    Runner,
    Tried,
    choose,
    run_pair,
    warm_up,
)
from vtare.ab.effects import Sides, sides_of
from vtare.ab.suite import Budget
from vtare.ab.trials import OutOfTime
from vtare.errors import BadInput, MachineCannot
from vtare.sentences import ab as wording
from vtare.stats import Merit, Unclear, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from vtare.ab.commands import Command
    from vtare.ab.figures import Figure
    from vtare.ab.floors import Floor
    from vtare.ab.trials import MachineTime, Measured

DEFAULT_MARGIN: Final = 0.05
ALPHA: Final = 0.05
SUITE_ALPHA: Final = 0.01
"""The chance of any false difference in a suite: it is run at every commit."""
LEAST_PAIRS: Final = 8
EQUIVALENT_PAIRS: Final = 32
"""Pairs without which nothing is equivalent: a kind of run that is 1 in 10 is missing in 32 of them in 3.4 %."""
_LOOKS_AT_MEAN: Final = 2.0
"""How many times as many pairs there are from look to look at the mean."""
_MOST_VOID: Final = 8
"""Pairs in a row of which a program left processes behind, after which it is given up."""
_PILOT_SHARE: Final = 0.25
"""The share of the time after which no design is tried any more."""
_GROWTH: Final = 1.15
"""How many times as many pairs there are from look to look: a look takes about a millisecond."""
_RECENT: Final = 8
"""Pairs whose median is what the next one is expected to take."""


StoppedWord = Literal["known", "time", "pairs", "interrupted"]


class AskedLimit(Protocol):
    """What the typical run's interval is to leave out."""

    def edge(self, figure: Figure, command: int) -> float | None:
        """The log ratio that it lies at, for this figure of this command; None where it is not about it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be known, and what it may cost.

    `margin` is the share below which a difference does not matter: the interval is made half as wide to either side.
    It ends once the typical run's interval leaves out all `limits`, and `asks_margin` is False where no more than that
    is to be known. `most_s` and `most_pairs` end it whatever is known by then.
    """

    margin: float = DEFAULT_MARGIN
    alpha: float = ALPHA
    most_s: float = 60.0
    most_pairs: int | None = None
    design: DesignWord | None = None
    limits: tuple[AskedLimit, ...] = ()
    asks_margin: bool = True

    @property
    def half_width(self) -> float:
        """The half-width that is wanted, of a log ratio."""
        return math.log1p(self.margin) / 2.0

    def edges(self, figure: Figure, command: int) -> list[float]:
        """The log ratios of all limits, for this figure of this command."""
        return [edge for limit in self.limits if (edge := limit.edge(figure, command)) is not None]

    def is_answered(self, found: stats.PairedShift, figure: Figure, command: int) -> bool:
        """Whether an interval leaves out every limit, and, where a margin is asked for, shows a difference."""
        limits = [*self.edges(figure, command), *([0.0] if self.asks_margin else [])]
        return found.low is not None and found.high is not None and not any(
            found.low <= limit <= found.high for limit in limits
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure of one command against the first one's.

    `ratio`, `low` and `high` are of a typical run of the command over one of the first: the pseudo-median of the pairs;
    the interval holds at `level`, at all looks together, and allows for the `step` in which the figure moves.
    `mean_ratio` is the ratio of the means of all runs, which rare slow ones move. `more_pairs`: about this number more
    would make the intervals narrow enough; 0 where there is an answer (to the limits at least), None where more do not
    help. `reason` states why a figure is *refused*, too coarse, or not equivalent although typical runs are.
    """

    figure: Figure
    command: int
    ratio: float | None
    low: float | None
    high: float | None
    level: float
    verdict: Verdict
    more_pairs: int | None
    pairs: int
    reason: str | None = None
    mean_ratio: float | None = None
    mean_low: float | None = None
    mean_high: float | None = None
    step: float = 0.0

    @property
    def is_different(self) -> bool:
        """Whether a difference is shown."""
        return self.verdict.is_different

    @property
    def is_open(self) -> bool:
        """Whether there is no answer: neither to the margin nor to the limits."""
        return self.verdict.is_open and self.more_pairs != 0

    @property
    def is_coarse(self) -> bool:
        """Whether no number of pairs gives an answer, since the figure moves in large steps."""
        return self.verdict is Verdict.INCONCLUSIVE and self.more_pairs is None

    @property
    def is_noisy(self) -> bool:
        """Whether more pairs would give an answer."""
        return self.verdict is Verdict.INCONCLUSIVE and bool(self.more_pairs)

    @property
    def change(self) -> Merit | None:
        """*worse* or *better*; None without a difference, or of a figure without a direction."""
        return self.verdict.change(self.figure.better)

    @property
    def word(self) -> str:
        """The verdict in the word that people read."""
        if self.is_different:
            return self.figure.word(higher=self.is_higher)
        if self.verdict is Verdict.INCONCLUSIVE:
            noisy = Unclear.NOISY if self.is_noisy else Unclear.NO_CLEAR_DIFFERENCE
            return str(Unclear.COARSE if self.is_coarse else noisy)
        return str(self.verdict)

    @property
    def is_higher(self) -> bool:
        """Whether the command's figure is the higher one, as far as is known."""
        return self.ratio is not None and self.ratio > 1


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found: `primary` has a finding for each command but the first, `others` those of the other figures.

    Of a suite `primary` has those of all its benchmarks, and `absent` those that not all commands have.
    `void` pairs are left out: a program of theirs left processes behind, or (`halted` of them) was stopped meanwhile.
    """

    commands: tuple[Command, ...]
    asked: Asked
    chosen: Chosen
    pairs: tuple[Pair, ...]
    primary: tuple[Finding, ...]
    others: tuple[Finding, ...]
    elapsed_s: float
    stopped: StoppedWord
    void: int = 0
    halted: int = 0
    absent: tuple[str, ...] = ()
    usual: Floor | None = None
    """What machines of this kind resolved before."""

    @property
    def is_suite(self) -> bool:
        """Whether many figures are judged together."""
        return len(self.primary) >= len(self.commands)

    def open_limits(self, finding: Finding) -> list[float]:
        """The limits (log ratios) that a finding of the judged figure leaves open."""
        low, high = finding.low, finding.high
        return [
            edge for edge in self.asked.edges(finding.figure, finding.command)
            if low is None or high is None or low <= math.exp(edge) <= high
        ]  # fmt: skip

    def seconds_for(self, margin: float) -> float | None:
        """About how long pairs take until the judged figure is known to half of a margin; None where that is open."""
        if self.chosen.design == "sequential" or not self.pairs:
            return None
        needed = 0.0
        for finding in self.primary:
            if finding.low is None or finding.high is None or finding.low <= 0 or not math.isfinite(finding.high):
                return None
            half = math.log(finding.high / finding.low) / 2.0
            needed = max(needed, len(self.pairs) * (half / (math.log1p(margin) / 2.0)) ** 2)
        each_s = sum(pair.span_ns for pair in self.pairs) / 1e9 / len(self.pairs)
        return max(needed, EQUIVALENT_PAIRS) * each_s


def compare(
    trials: Runner,
    commands: Sequence[Command],
    figures: Sequence[Figure],
    asked: Asked,
    *,
    rng: np.random.Generator,
    show: Callable[[str], None] = lambda text: None,
    first: Sequence[Measured] | None = None,
    begin: float | None = None,
    judged: int = 1,
    budget: Budget | None = None,
) -> Compared:
    """Run pairs until each command is known to be worse, better or equivalent by the first figures.

    `judged` of them are judged together: the chance of any false difference among them is that of one alone.
    `first` are runs that warmed up, where there were some, and `begin` when the time began that it may take
    (`time.monotonic`). `budget` leaves out the benchmarks of a suite that are known. Ctrl-C ends it early: what has
    come by then is the answer.

    Raises:
        BadInput: a command fails, or a judged figure is not above 0.
    """
    begin = time.monotonic() if begin is None else begin
    budget = budget or Budget("")
    orders = Orders(len(commands), rng)
    pairs: list[Pair] = []
    stopped: StoppedWord | None = None
    void = halted = in_a_row = 0
    chosen, tried = UNTRIED, Tried()
    looks = _StoppingRule(figures[:judged], commands, asked, begin)
    first = list(first or ())
    try:
        if not first:
            first = warm_up(trials, commands, show)
        chosen = choose(
            trials, budget.commands(commands), figures[0], orders, tried,
            first=first, wanted=asked.design, until=begin + _PILOT_SHARE * asked.most_s, show=show,
        )  # fmt: skip
        if chosen.design == "sequential":
            return _one_after_the_other(trials, commands, figures, asked, chosen, begin, show)
        # The choice does not depend on their signs, so they count as the others do.
        pairs += tried.pairs[chosen.design][: asked.most_pairs]
        if pairs:
            stopped = looks.after(pairs)
        while stopped is None:
            if looks.is_late(pairs, first, time.monotonic()):
                stopped = "time"
                break
            try:
                pair = run_pair(trials, budget.commands(commands), chosen, orders.next())
                lacks = budget.is_narrow and not looks.are_open_in(pair)
            except BadInput:
                if not budget.is_narrow:
                    raise
                lacks = True
            if lacks:
                budget.end()
                continue
            if pair.is_void:
                void, in_a_row = void + 1, in_a_row + 1
                halted += pair.was_stopped
                _refuse_void(commands, pair.runs, in_a_row)
                continue
            in_a_row = 0
            pairs.append(pair)
            show(f"{len(pairs)} pairs{looks.progress}")
            stopped = looks.after(pairs)
            budget.choose(looks.open_names)
    except OutOfTime:
        stopped = "time"
    except KeyboardInterrupt:
        stopped = "interrupted"
    if not pairs:
        if len(first) < len(commands):
            raise KeyboardInterrupt
        # Nothing else is known: a pair of which both runs were the first ones.
        pairs = list(tried.pairs[chosen.design]) or [Pair(tuple(first), tuple(range(len(commands))), ())]
    looks.end(pairs)
    others = [_once(figure, k, pairs, asked) for figure in figures[judged:] for k in range(1, len(commands))]
    return Compared(
        tuple(commands), asked, chosen, tuple(pairs), looks.findings, tuple(others),
        time.monotonic() - begin, stopped, void, halted,
    )  # fmt: skip


def _refuse_void(commands: Sequence[Command], runs: Sequence[Measured], in_a_row: int) -> None:
    if in_a_row < _MOST_VOID:
        return
    command = next((command for command, run in zip(commands, runs, strict=True) if run.left_behind), None)
    if command is None:
        raise MachineCannot(wording.stopped_each_time(in_a_row))
    raise BadInput(wording.left_behind_each_time(command.text, in_a_row))


def _whole_run(trials: Runner, command: Command) -> tuple[Measured, MachineTime]:
    """A run that leaves no process behind; one that does is repeated."""
    for in_a_row in range(1, _MOST_VOID + 1):
        (run,), beside = trials.run([command])
        if not (run.left_behind or run.stopped_ns):
            break
        _refuse_void([command], [run], in_a_row)
    return run, beside


class _StoppingRule:
    """When to look at the judged figures, and when that is enough."""

    def __init__(self, figures: Sequence[Figure], commands: Sequence[Command], asked: Asked, begin: float) -> None:
        alpha = asked.alpha / (len(commands) - 1) / len(figures)
        in_suite = len(figures) > 1
        self._watched = [
            _Watched(figure, k, alpha, asked, in_suite=in_suite) for figure in figures for k in range(1, len(commands))
        ]
        self._asked = asked
        self._begin = begin
        self._next = LEAST_PAIRS

    @property
    def progress(self) -> str:
        """How much is known, for people who wait."""
        if len(self._watched) > 1 and (open_ := sum(one.finding is None for one in self._watched)):
            return f", {open_} of {len(self._watched)} answers are open"
        return self._watched[0].progress

    @property
    def open_names(self) -> set[str]:
        """The judged figures without an answer."""
        return {one.figure.name for one in self._watched if one.finding is None}

    def are_open_in(self, pair: Pair) -> bool:
        """Whether a pair has all figures without an answer."""
        open_ = (one for one in self._watched if one.finding is None)
        return all(pair.log_ratio(one.figure, one.command) is not None for one in open_)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is known by now."""
        return tuple(one.finding for one in self._watched if one.finding is not None)

    def after(self, pairs: Sequence[Pair]) -> StoppedWord | None:
        """Look where it is time to, and return why no more pairs are needed; None where more are."""
        stopped: StoppedWord | None = "pairs" if len(pairs) == self._asked.most_pairs else None
        if stopped is None and len(pairs) < self._next:
            return None
        for one in self._watched:
            one.look(pairs, last=stopped is not None)
        if all(one.finding is not None for one in self._watched):
            return stopped or "known"
        open_ = [one for one in self._watched if one.finding is None]
        growth = max(one.growth for one in open_)
        needed = max(one.pairs_needed for one in open_)
        self._next = max(len(pairs) + 2, min(math.ceil(growth * len(pairs)), needed))
        return None

    def is_late(self, pairs: Sequence[Pair], first: Sequence[Measured], now: float) -> bool:
        """Whether the next pair would end too late: one takes what the last ones did, or the `first` runs."""
        recent_ns = [pair.span_ns for pair in pairs[-_RECENT:]] or [sum(run.wall_ns for run in first)]
        expected_s = max(statistics.median(recent_ns), recent_ns[-1]) / 1e9
        return now + expected_s - self._begin > self._asked.most_s

    def end(self, pairs: Sequence[Pair]) -> None:
        """The last look."""
        for one in self._watched:
            one.look(pairs, last=True)


def _one_after_the_other(
    trials: Runner,
    commands: Sequence[Command],
    figures: Sequence[Figure],
    asked: Asked,
    chosen: Chosen,
    begin: float,
    show: Callable[[str], None],
) -> Compared:
    """All runs of one command, then all of the next: what drifts in between counts as a difference."""
    n = asked.most_pairs
    if n is None:
        raise BadInput("--design sequential cannot stop by itself. Give the number of runs: --pairs N")
    columns = []
    for command in commands:
        show(f"{n} runs of {command.text}")
        columns.append([_whole_run(trials, command) for _ in range(n)])
    pairs = [
        Pair(tuple(run for run, _ in row), (), tuple(beside for _, beside in row)) for row in zip(*columns, strict=True)
    ]
    return _apart(commands, figures, asked, chosen, pairs, begin)


def against(
    trials: Runner,
    before: Command,
    runs_before: Sequence[Measured],
    command: Command,
    figures: Sequence[Figure],
    asked: Asked,
    *,
    show: Callable[[str], None] = lambda text: None,
) -> Compared:
    """Run a command as often as it was run for a baseline, and compare: what else changed since then counts, too."""
    begin = time.monotonic()
    show(f"{len(runs_before)} runs of {command.text}")
    now = [_whole_run(trials, command)[0] for _ in runs_before]
    pairs = [Pair((old, run), (), ()) for old, run in zip(runs_before, now, strict=True)]
    chosen = Chosen("sequential", wording.AGAINST_BASELINE)
    return _apart((before, command), figures, asked, chosen, pairs, begin)


def _apart(
    commands: Sequence[Command],
    figures: Sequence[Figure],
    asked: Asked,
    chosen: Chosen,
    pairs: Sequence[Pair],
    begin: float,
) -> Compared:
    """The findings of runs that are no pairs: groups, by Welch's t."""
    alpha = asked.alpha / (len(commands) - 1)
    findings = [
        _unpaired(figure, k, pairs, asked, alpha if at == 0 else asked.alpha)
        for at, figure in enumerate(figures)
        for k in range(1, len(commands))
    ]
    primary, others = tuple(findings[: len(commands) - 1]), tuple(findings[len(commands) - 1 :])
    elapsed_s = time.monotonic() - begin
    return Compared(tuple(commands), asked, chosen, tuple(pairs), primary, others, elapsed_s, "pairs")


def _unpaired(figure: Figure, command: int, pairs: Sequence[Pair], asked: Asked, alpha: float) -> Finding:
    if (why := _without_ratio(figure, command, pairs)) is not None:
        return _refused(figure, command, pairs, alpha, why)
    sides = _sides(figure, command, pairs, paired=False)
    return _finding(figure, command, sides, sides.typical(alpha), asked, alpha)


class _Watched:
    """The looks at one command's first figure."""

    def __init__(self, figure: Figure, command: int, alpha: float, asked: Asked, *, in_suite: bool) -> None:
        self.figure = figure
        self._in_suite = in_suite
        self.command = command
        self._alpha = alpha
        self._asked = asked
        self._looks = stats.Looks(alpha=alpha)
        self._typical: stats.PairedShift | None = None
        self.finding: Finding | None = None
        self.pairs_needed = 0
        self.growth = _GROWTH
        self.progress = ""

    def look(self, pairs: Sequence[Pair], *, last: bool) -> None:
        """Look once more; at the last look, or where it is known, there is a finding."""
        if self.finding is not None:
            return
        if self._in_suite and (why := _without_ratio(self.figure, self.command, pairs)) is not None:
            # One benchmark without a ratio does not end the comparison of the others.
            self.finding = _refused(self.figure, self.command, pairs, self._alpha, why)
            return
        sides = _sides(self.figure, self.command, pairs, paired=True)
        settled = self._typical or self._look_at_typical(sides, last=last)
        if settled is None:
            return
        finding = _finding(self.figure, self.command, sides, settled, self._asked, self._alpha)
        # Typical runs are alike, and no further look may find that they are not; what rare ones do may still come.
        is_alike = finding.is_noisy and finding.mean_ratio is not None and _is_inside(settled, self._asked)
        waits = is_alike and self._asked.asks_margin
        if last or not waits:
            self.finding = finding
            return
        self._typical = settled
        self.growth = _LOOKS_AT_MEAN
        self.pairs_needed = len(pairs) + (finding.more_pairs or 1)

    def _look_at_typical(self, sides: Sides, *, last: bool) -> stats.PairedShift | None:
        """The interval of typical runs where it is the last one; None where more pairs are to come."""
        d = sides.log_ratios
        wanted = self._asked.half_width
        now = stats.paired_shift(d, alpha=self._alpha)
        width = math.inf if now.half_width is None else now.half_width * (1.0 + 1.0 / len(d))
        precision = 1.0 if width <= wanted else (wanted / width) ** 2
        share = min(precision, len(d) / EQUIVALENT_PAIRS)
        self.pairs_needed = max(math.ceil(len(d) / precision) if precision > 0 else 2 * len(d), EQUIVALENT_PAIRS)
        self.progress = "" if math.isinf(width) else f", known to {100 * math.expm1(width):.2g} %"
        level = self._looks.level(share, last=last)
        typical = stats.paired_shift(d, alpha=level) if level > 0 else None
        widened = sides.widened(typical or now)
        answered = typical is not None and self._asked.is_answered(widened, self.figure, self.command)
        return widened if answered or last or share >= 1.0 else None


def _above(found: stats.PairedShift) -> bool:
    return found.low is not None and found.low > 0


def _below(found: stats.PairedShift) -> bool:
    return found.high is not None and found.high < 0


def _is_inside(found: stats.PairedShift, asked: Asked) -> bool:
    margin = math.log1p(asked.margin)
    return found.low is not None and found.high is not None and -margin <= found.low and found.high <= margin


def _is_mean_inside(mean: stats.MeanRatio, asked: Asked) -> bool:
    wide = 1 + asked.margin
    return mean.low is not None and mean.high is not None and mean.high <= wide and mean.low >= 1 / wide


def _once(figure: Figure, command: int, pairs: Sequence[Pair], asked: Asked) -> Finding:
    """A figure that nothing was stopped by: one look. Limits are of the judged figure alone."""
    asked = replace(asked, limits=(), asks_margin=True)
    if (why := _without_ratio(figure, command, pairs)) is not None:
        return _refused(figure, command, pairs, asked.alpha, why)
    sides = _sides(figure, command, pairs, paired=True)
    return _finding(figure, command, sides, sides.typical(asked.alpha), asked, asked.alpha)


def _sides(figure: Figure, command: int, pairs: Sequence[Pair], *, paired: bool) -> Sides:
    """The figure of both commands.

    Raises:
        BadInput: a run has no value with a ratio.
    """
    sides = sides_of(figure, command, pairs, paired=paired)
    if sides is None:
        why = figure.hidden([run for pair in pairs for run in (pair.runs[0], pair.runs[command])])
        raise BadInput(f"{figure.name}: {why or wording.NOT_ABOVE_0}")
    return sides


def _without_ratio(figure: Figure, command: int, pairs: Sequence[Pair]) -> str | None:
    """Why this figure of a command is not compared; None where it is."""
    if (why := figure.hidden([run for pair in pairs for run in (pair.runs[0], pair.runs[command])])) is not None:
        return why
    if any(pair.log_ratio(figure, command) is None for pair in pairs):
        return wording.NO_RATIO
    return None


def _refused(
    figure: Figure,
    command: int,
    pairs: Sequence[Pair],
    alpha: float,
    why: str,
    ratio: float | None = None,
    n: int | None = None,
) -> Finding:
    return Finding(
        figure, command, ratio, None, None, 1 - alpha, Verdict.REFUSED, None, len(pairs) if n is None else n, why
    )


def _finding(
    figure: Figure, command: int, sides: Sides, found: stats.PairedShift, asked: Asked, alpha: float
) -> Finding:
    if found.low is None or found.high is None:
        why = wording.too_few(found.n, stats.least_pairs(alpha))
        return _refused(figure, command, [], alpha, why, math.exp(found.value), found.n)
    mean = sides.mean(alpha)
    verdict, more, reason = _judged(figure, command, sides, found, mean, asked)
    return Finding(
        figure, command, math.exp(found.value), math.exp(found.low), math.exp(found.high), 1 - alpha, verdict, more,
        found.n, reason, mean.value, mean.low, mean.high,
        max(sides.step, sides.step_first),
    )  # fmt: skip


def _judged(
    figure: Figure, command: int, sides: Sides, found: stats.PairedShift, mean: stats.MeanRatio, asked: Asked
) -> tuple[Verdict, int | None, str | None]:
    """The verdict, the number of pairs that are missing for one, and why there is none."""
    margin, n = math.log1p(asked.margin), len(sides.own)
    if _above(found) or _below(found):
        return (Verdict.HIGHER if _above(found) else Verdict.LOWER), 0, None
    equivalent = n >= EQUIVALENT_PAIRS and _is_inside(found, asked) and _is_mean_inside(mean, asked)
    if not equivalent and not asked.asks_margin and asked.is_answered(found, figure, command):
        return Verdict.INCONCLUSIVE, 0, None
    if max(sides.coarseness, sides.open_by_step) > margin:
        return Verdict.INCONCLUSIVE, None, wording.in_steps(percent_text(sides.coarseness))
    if not _is_inside(found, asked):
        return Verdict.INCONCLUSIVE, _more(n, found.half_width, found.value, sides.open_by_step, asked), None
    if n < EQUIVALENT_PAIRS:
        return Verdict.INCONCLUSIVE, EQUIVALENT_PAIRS - n, wording.MAY_MISS_A_KIND
    if not equivalent:
        more = _more(n, mean.half_width, math.log(mean.value), sides.open_by_step, asked)
        return Verdict.INCONCLUSIVE, more, wording.RARE_RUNS_DIFFER
    return Verdict.EQUIVALENT, 0, None


def percent_text(log: float) -> str:
    """The share of a log ratio in percent, with two digits."""
    return f"{100 * math.expm1(log):.2g} %"


def _more(n: int, half: float | None, shift: float, open_by_step: float, asked: Asked) -> int:
    """About how many more pairs make an interval so narrow that it lies inside the margin or leaves out 1."""
    if half is None or math.isinf(half):
        return n
    margin = math.log1p(asked.margin)
    room = max(abs(margin - abs(shift)), margin / 10.0)
    wanted = min(asked.half_width, room)
    return max(1, math.ceil(n * (max(0.0, half - open_by_step) / wanted) ** 2) - n)
