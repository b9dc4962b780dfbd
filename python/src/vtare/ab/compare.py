"""Pairs until the answer is known: looks at what has come, with one error for all of them together."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from vtare import stats
from vtare.ab.designs import Chosen, DesignWord, Orders, Pair, Runner, choose, log_ratios, run_pair
from vtare.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtare.ab.commands import Command
    from vtare.ab.figures import Figure
    from vtare.ab.trials import Measured

LEAST_PAIRS: Final = 8
_GROWTH: Final = 1.4
"""How many times as many pairs there are from look to look."""

VerdictWord = Literal["worse", "better", "equivalent", "too noisy", "refused"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be known, and what it may cost.

    `margin` is the share below which a difference does not matter: the interval is made half as wide to either side.
    `most_s` and `most_pairs` end it whatever is known by then.
    """

    margin: float = 0.02
    alpha: float = 0.05
    most_s: float = 300.0
    most_pairs: int | None = None
    design: DesignWord | None = None

    @property
    def half_width(self) -> float:
        """The half-width that is wanted, of a log ratio."""
        return math.log1p(self.margin) / 2.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure of one command against the first one's.

    `ratio`, `low` and `high` are of the command over the first; the interval holds at `level`, at all looks together.
    `more_pairs`: about this number more would make the interval as narrow as asked for; 0 where there is an answer,
    None where it is *refused*, with the `reason`.
    """

    figure: Figure
    command: int
    ratio: float | None
    low: float | None
    high: float | None
    level: float
    verdict: VerdictWord
    more_pairs: int | None
    pairs: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found: `primary` has a finding for each command but the first, `others` those of the other figures."""

    commands: tuple[Command, ...]
    asked: Asked
    chosen: Chosen
    pairs: tuple[Pair, ...]
    primary: tuple[Finding, ...]
    others: tuple[Finding, ...]
    elapsed_s: float
    stopped: Literal["known", "time", "pairs", "interrupted"]


def compare(
    trials: Runner,
    commands: Sequence[Command],
    figures: Sequence[Figure],
    asked: Asked,
    *,
    rng: np.random.Generator,
    show: Callable[[str], None] = lambda text: None,
) -> Compared:
    """Run pairs until each command is known to be worse, better or equivalent by the first figure.

    Ctrl-C ends it early: what has come by then is the answer.

    Raises:
        BadInput: a command fails, or the first figure is not above 0.
    """
    begin = time.monotonic()
    orders = Orders(len(commands), rng)
    chosen = choose(trials, commands, figures[0], orders, wanted=asked.design, show=show)
    if chosen.design == "sequential":
        return _one_after_the_other(trials, commands, figures, asked, chosen, begin, show)
    pairs: list[Pair] = []
    alpha = asked.alpha / (len(commands) - 1)
    watched = [_Watched(figures[0], k, alpha, asked) for k in range(1, len(commands))]
    look = LEAST_PAIRS
    stopped: Literal["known", "time", "pairs", "interrupted"] = "known"
    try:
        while True:
            pairs.append(run_pair(trials, commands, chosen, orders.next()))
            show(f"{len(pairs)} pairs" + watched[0].progress)
            took_s = (time.monotonic() - begin) / len(pairs)
            if len(pairs) == asked.most_pairs:
                stopped = "pairs"
            elif time.monotonic() - begin + took_s > asked.most_s:
                stopped = "time"
            last = stopped != "known"
            if len(pairs) < look and not last:
                continue
            for one in watched:
                one.look(pairs, last=last)
            if last or all(one.finding is not None for one in watched):
                break
            needed = max(one.pairs_needed for one in watched if one.finding is None)
            look = max(len(pairs) + 2, min(math.ceil(_GROWTH * len(pairs)), needed))
    except KeyboardInterrupt:
        if not pairs:
            raise
        stopped = "interrupted"
        for one in watched:
            one.look(pairs, last=True)
    others = [
        _once(figure, k, pairs, asked)
        for figure in figures[1:]
        for k in range(1, len(commands))
    ]  # fmt: skip
    primary = tuple(one.finding for one in watched if one.finding is not None)
    return Compared(
        tuple(commands), asked, chosen, tuple(pairs), primary, tuple(others), time.monotonic() - begin, stopped
    )


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
        raise BadInput("--design sequential: found no number of runs, expected --pairs N: it cannot stop by itself")
    columns = []
    for command in commands:
        show(f"{n} runs of {command.text}")
        columns.append([trials.run([command]) for _ in range(n)])
    pairs = [
        Pair(tuple(runs[0] for runs, _ in row), (), tuple(beside for _, beside in row))
        for row in zip(*columns, strict=True)
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
    show("warming up")
    trials.run([command])
    show(f"{len(runs_before)} runs of {command.text}")
    now = [trials.run([command]) for _ in runs_before]
    pairs = [Pair((old, runs[0]), (), ()) for old, (runs, _) in zip(runs_before, now, strict=True)]
    chosen = Chosen("sequential", "against a baseline: whatever else changed since then counts, too")
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
    found = [
        _unpaired(figure, k, pairs, asked, alpha if at == 0 else asked.alpha)
        for at, figure in enumerate(figures)
        for k in range(1, len(commands))
    ]
    primary, others = tuple(found[: len(commands) - 1]), tuple(found[len(commands) - 1 :])
    elapsed_s = time.monotonic() - begin
    return Compared(tuple(commands), asked, chosen, tuple(pairs), primary, others, elapsed_s, "pairs")


def _unpaired(figure: Figure, command: int, pairs: Sequence[Pair], asked: Asked, alpha: float) -> Finding:
    if (why := _without_ratio(figure, command, pairs)) is not None:
        return _refused(figure, command, pairs, alpha, why)
    own, first = ([value for pair in pairs if (value := figure.read(pair.runs[k]))] for k in (command, 0))
    found = stats.compare_runs(own, first, alpha=alpha)
    if found.low is None or found.high is None:
        return _refused(figure, command, pairs, alpha, found.reason or "no interval", found.ratio)
    shift = stats.PairedShift(found.shift, math.log(found.low), math.log(found.high), len(pairs), 1 - alpha)
    return _finding(figure, command, shift, asked, alpha)


class _Watched:
    """The looks at one command's first figure."""

    def __init__(self, figure: Figure, command: int, alpha: float, asked: Asked) -> None:
        self._figure = figure
        self._command = command
        self._alpha = alpha
        self._asked = asked
        self._looks = stats.Looks(alpha=alpha)
        self.finding: Finding | None = None
        self.pairs_needed = 0
        self.progress = ""

    def look(self, pairs: Sequence[Pair], *, last: bool) -> None:
        """Look once more; at the last look, or where it is known, there is a finding."""
        if self.finding is not None:
            return
        d = log_ratios(self._figure, self._command, pairs)
        wanted = self._asked.half_width
        now = stats.paired_shift(d, alpha=self._alpha)
        width = math.inf if now.half_width is None else now.half_width * (1.0 + 1.0 / len(d))
        share = 1.0 if width <= wanted else (wanted / width) ** 2
        self.pairs_needed = math.ceil(len(d) / share) if share > 0 else 2 * len(d)
        self.progress = "" if math.isinf(width) else f", known to {100 * math.expm1(width):.2g} %"
        level = self._looks.level(share, last=last)
        found = stats.paired_shift(d, alpha=level) if level > 0 else None
        shown = found is not None and found.low is not None and found.high is not None and (
            found.low > 0 or found.high < 0
        )  # fmt: skip
        if shown or last or share >= 1.0:
            self.finding = _finding(self._figure, self._command, found or now, self._asked, self._alpha)


def _once(figure: Figure, command: int, pairs: Sequence[Pair], asked: Asked) -> Finding:
    """A figure that nothing was stopped by: one look."""
    if (why := _without_ratio(figure, command, pairs)) is not None:
        return _refused(figure, command, pairs, asked.alpha, why)
    found = stats.paired_shift(log_ratios(figure, command, pairs), alpha=asked.alpha)
    return _finding(figure, command, found, asked, asked.alpha)


def _without_ratio(figure: Figure, command: int, pairs: Sequence[Pair]) -> str | None:
    """Why this figure of a command is not compared; None where it is."""
    if (why := figure.hidden([run for pair in pairs for run in (pair.runs[0], pair.runs[command])])) is not None:
        return why
    if any(pair.log_ratio(figure, command) is None for pair in pairs):
        return "a value is 0 or was not counted: it has no ratio"
    return None


def _refused(
    figure: Figure, command: int, pairs: Sequence[Pair], alpha: float, why: str, ratio: float | None = None
) -> Finding:
    return Finding(figure, command, ratio, None, None, 1 - alpha, "refused", None, len(pairs), why)


def _finding(figure: Figure, command: int, found: stats.PairedShift, asked: Asked, alpha: float) -> Finding:
    ratio, low, high, half = math.exp(found.value), found.low, found.high, found.half_width
    if low is None or high is None or half is None:
        why = f"{found.n} pairs have no interval of this level"
        return Finding(figure, command, ratio, None, None, 1 - alpha, "refused", None, found.n, why)
    margin = math.log1p(asked.margin)
    verdict: VerdictWord = "too noisy"
    if low > 0 or high < 0:
        verdict = "better" if (low > 0) == figure.more_is_better else "worse"
    elif -margin <= low and high <= margin:
        verdict = "equivalent"
    needed = math.ceil(found.n * (half / asked.half_width) ** 2)
    more = max(1, needed - found.n) if verdict == "too noisy" else 0
    return Finding(figure, command, ratio, math.exp(low), math.exp(high), 1 - alpha, verdict, more, found.n)
