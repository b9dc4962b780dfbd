"""What `vtare ab` states of commands: the answer, what must be read with it, what it rests on, and its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.sentences.words import listing, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The answer. `of` is ` in CPU time`, or empty for wall time.


def no_answer(b: str, a: str, of: str, reason: str | None) -> str:
    return f"{b} against {a}{of}: no answer: {reason}."


def differs(b: str, a: str, of: str, percent: str, word: str, interval: str) -> str:
    return f"{b} is {percent} {word} than {a}{of} {interval}."


def differs_for(b: str, a: str, of: str, percent: str, word: str, interval: str, merit: str) -> str:
    return f"{b} is {percent} {word} than {a}{of} {interval}, which is {merit}."


def differs_little(b: str, a: str, of: str, percent: str, word: str, interval: str, margin: str) -> str:
    return f"{b} is {percent} {word} than {a}{of} {interval}: less than the {margin} that matter."


def equivalent(b: str, a: str, of: str, margin: str, interval: str) -> str:
    return f"{b} and {a} are equivalent{of} within {margin} {interval}."


def at_most(b: str, a: str, of: str, ends: Sequence[str], interval: str) -> str:
    return f"{b} is at most {listing(ends)} than {a}{of} {interval}."


def too_few(pairs: int, least: int) -> str:
    return f"{plural(pairs, 'pair')} of at least {least} (raise --max-time or --pairs)"


def too_coarse(b: str, a: str, of: str, interval: str, reason: str | None) -> str:
    return (
        f"Too coarse to show whether {b} differs from {a}{of} {interval}: {reason}. Print more digits, or let a run do "
        "more."
    )


def too_few_pairs(b: str, a: str, of: str, interval: str, reason: str, more: str) -> str:
    return f"Not enough pairs to call {b} and {a} equivalent{of} {interval}: {reason}; {more}."


def too_noisy(b: str, a: str, of: str, interval: str, more: str) -> str:
    return f"Too noisy to show whether {b} differs from {a}{of} {interval}: {more}."


def more_pairs(count: int, margin: str) -> str:
    return f"about {plural(count, 'more pair')} {'is' if count == 1 else 'are'} needed for {margin}"


def _named(names: Sequence[str], most: int) -> str:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return listing([*names[:most], *more])


def suite(count: int, kinds: Mapping[str, int], margin: str) -> str:
    """How many benchmarks of a suite have each verdict."""
    words = {"equivalent": f"equivalent within {margin}", "inconclusive": "open", "refused": "without a ratio"}
    parts = [f"{n} {'is' if n == 1 else 'are'} {words.get(kind, kind)}" for kind, n in kinds.items()]
    return f"Of {plural(count, 'benchmark')}, {listing(parts)}."


def suite_limits(
    count: int, beyond: str, crossed: Sequence[str], open_: Sequence[str], most: int, *, alone: bool
) -> tuple[str, ...]:
    """Which benchmarks of a suite are beyond a limit, and of which that is not known; `alone`: nothing else is said."""
    of = f"of {plural(count, 'benchmark')}"
    verb = "is" if len(crossed) == 1 else "are"
    lines = [f"{len(crossed)} {of} {verb} {beyond}: {_named(crossed, most)}."] if crossed else []
    if open_:
        lines.append(f"Too close to call for {len(open_)} {of}: {_named(open_, most)}.")
    return tuple(lines) or ((f"None {of} is {beyond}.",) if alone else ())


def suite_unknown(count: int, reason: str) -> str:
    return f"No answer about {plural(count, 'benchmark')}: {reason}."


def together(what: str, change: str) -> str:
    return f"Most benchmarks together are {what}: {change}."


def together_open(what: str) -> str:
    return f"Too close to call whether most benchmarks together are {what}."


def moved_together(pairs: int, of: int, most: str) -> str:
    return f"In {pairs} of {plural(of, 'pair')} most benchmarks moved together, by up to {most}: not by the code."


def absent(names: Sequence[str], most: int) -> str:
    return f"Only A or only B has {_named(names, most)}: not compared."


NOTHING_KNOWN: Final = "nothing is known"

NO_TIME: Final = "--max-time: a command still ran when the time was over, so nothing is known. Raise --max-time"


def or_more(change: str) -> str:
    return f"{change} or more"


# Why there is no answer, or not this one.

NOT_ABOVE_0: Final = "a run has no value above 0, so there is no ratio"
NO_RATIO: Final = "a value is 0 or was not counted: it has no ratio"
RARE_RUNS_DIFFER: Final = "typical runs are alike, but rare ones differ"
MAY_MISS_A_KIND: Final = "fewer pairs may miss a kind of run that is 1 in 10"


def in_steps(share: str) -> str:
    return f"the figure moves in steps of {share}"


def still_running(command: str, processes: int) -> str:
    return (
        f"{command}: {processes} of its processes still run in the background when it ends, so its time is not known. "
        "Let it wait for them (`wait`); in sh, `&>` starts a program in the background: write `> FILE 2>&1`"
    )


def left_behind_each_time(command: str, times: int) -> str:
    return (
        f"{command}: processes of it still ran in the background when it ended, {times} times in a row. Let it wait "
        "for them (`wait`)"
    )


def stopped_each_time(times: int) -> str:
    return (
        f"{times} times in a row, a command or this machine was stopped while it ran (SIGSTOP, a frozen control group, "
        "a suspended machine); find out what stops it, then compare again"
    )


# Why this design.

ASKED_FOR: Final = "as asked for"
SUITE_ALTERNATES: Final = "what suits one benchmark at once may not suit the next"
NO_TIME_FOR_A_DUET: Final = "there is no time to try a duet"
DUET_NO_BETTER: Final = "duet pairs are no more precise here"
SEVERAL_THREADS: Final = "a command uses more than one CPU"
AGAINST_BASELINE: Final = "against a baseline: other changes since then count, too"


def no_duet(reason: str) -> str:
    return f"no duet: {reason}"


def costs_more(design: str, times: float | None) -> str:
    # Four pairs know no more than two digits, and no one says 8.2e+03.
    many = "many times" if times is None or times >= 99.5 else f"{times:.2g} times"
    return f"for the same precision {design} pairs would take {many} as long here"


def too_few_cores(cores: int, commands: int) -> str:
    return f"{plural(cores, 'core')} for {plural(commands, 'command')}"


# What must be read with it.


def limit_open(b: str, limit: str) -> str:
    return f"Too close to call whether {b} is {limit}."


def finer(percent: str, seconds: float) -> str:
    if seconds >= 6000:
        return f"An answer to {percent} % would take more than an hour (--margin {percent})."
    took = f"{max(seconds, 1.0):.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
    return f"An answer to {percent} % would take about {took} (--margin {percent})."


STOPPED_RUNS: Final = "a command, or this machine, was stopped meanwhile"
BACKGROUND: Final = "processes of a command still ran in the background when it ended"
FLOOR_UNKNOWN: Final = "A against itself: too few pairs to tell what this machine can resolve."
FALSE_ALARM: Final = "The difference above is a false alarm: 1 comparison in 20 has one."


def left_out(pairs: int, reason: str) -> str:
    return f"{'1 pair was' if pairs == 1 else f'{pairs} pairs were'} left out: {reason}."


def known_in_cpu_time(answers: Sequence[str]) -> str:
    return (
        f"Other programs change CPU time less than wall time: {' '.join(answers)} (--judge cpu stops as soon as that "
        "is known.)"
    )


def floor(percent: str) -> str:
    return f"A against itself: this machine can resolve differences of {percent} or more."


def usual_floor(percent: str, count: int) -> str:
    return f"Machines like this resolve {percent} ({'median of ' if count > 1 else ''}{plural(count, 'self-test')})."


def mean_of_runs(change: str) -> str:
    return f"That is a typical run; the mean of all runs, rare slow ones included, differs by {change}."


def mean_of_runs_of(command: str, change: str) -> str:
    return f"That is a typical run of {command}; the mean of all runs, rare slow ones included, differs by {change}."


# What it rests on.

ENDED: Final = {
    "known": "Stopped once the answer was certain.",
    "time": "Stopped by --max-time.",
    "pairs": "Stopped by --pairs.",
    "interrupted": "Interrupted.",
}
AT_PRECISION: Final = "Stopped at the precision that the question asks for."
#: How a design pairs runs.
PAIRED: Final = {"duet": "at once", "interleaved": "alternately", "sequential": "one command after the other"}
MORE: Final = "More: -v"


def pairs_in(count: int, elapsed_s: float, ended: str) -> str:
    return f"{count} {'pair' if count == 1 else 'pairs'} in {elapsed_s:.2g} s. {ended}"


def more_benchmarks(count: int) -> str:
    return f"{plural(count, 'more benchmark')} not shown. " if count else ""


def runs_in(count: int, elapsed_s: float, ended: str) -> str:
    return f"{count} runs each in {elapsed_s:.2g} s. {ended}"


def paired(how: str, cpus: Sequence[int], why: str) -> str:
    on = f" on CPUs {', '.join(map(str, cpus))}" if cpus else ""
    return f"Runs were paired {how}{on}: {why}."


def others_took(median: float, most: float) -> str:
    return f"Beside the pairs other programs took {median:.2f} CPUs (median; at most {most:.2f})."


STEAL_UNKNOWN: Final = "The hypervisor does not state what it took."


def steal(median: float) -> str:
    return f"The hypervisor states that it took {median:.2f} CPUs."


def quota(median: float) -> str:
    return f"A CPU quota of this control group withheld {median:.2f} CPUs."


def gaps(share: float) -> str:
    return f"Programs that were ready had no CPU for {100 * share:.2g} % of their time (gaps)."


def seed(number: int) -> str:
    return f"Seed {number}."


def fail_if(option: str, state: str) -> str:
    return f"{option} is {state}."


# The page.


def is_any_worse(count: int, b: str, a: str) -> str:
    return f"Is any of {plural(count, 'benchmark')} worse in {b} than in {a}?"


def is_worse(others: Sequence[str], word: str, a: str, figure: str) -> str:
    return f"{'Is' if len(others) == 1 else 'Are'} {listing(others)} {word} than {a} in {figure}?"


def pair_changes(mark: str) -> str:
    return (
        f"A mark: the change in one pair, by which run {mark}; a hollow triangle lies beyond the axis. Blue: the "
        "estimate and its interval; grey: the margin. Below: the noise beside the same pair."
    )


HAD_WHICH_CPU: Final = "had which CPU"
CAME_FIRST: Final = "came first"


def no_quantile(pairs: int, least: int) -> str:
    return f"{pairs} pairs show no quantile with an interval: {least} are needed."


def quantiles(of: str, b: str, a: str, level: float, rule: str, pairs: int, ends: str) -> str:
    return (
        f"Each quantile of the {of} of {b} against that of {a}. The band holds all of them at once with "
        f"{100 * level:g} %; filled: it leaves out 0. A line that rises to the right is a tail that grows. {rule}; "
        f"{pairs} pairs show {ends}."
    )


def about(value: str) -> str:
    return f"about {value}" if value else ""


OF_EACH_RUN: Final = "Ratios of each run's quantiles are compared in the pairs"
HARRELL_DAVIS: Final = (
    "Quantiles by Harrell and Davis, the band from resampled blocks of pairs (docs/methods/statistics.md)"
)
SEQUENTIAL: Final = (
    "Welch's t of the logarithms of all runs: no pairs, so what drifts between the commands counts as a difference."
)
GAPS_AND_STEAL: Final = (
    "Gaps are the time for which a program was ready to run but had no CPU, as the scheduler counts it for its first "
    "thread; steal is what the hypervisor states."
)


def in_pairs(alpha: float) -> str:
    return (
        "A pair is one run of each command, in an order drawn at random and followed by its reverse. The change is the "
        "Hodges-Lehmann estimate of the log ratios, its interval that of the signed-rank test; looks at growing data "
        f"spend one error of {100 * alpha:g} % together (Lan and DeMets 1983)."
    )


def verdicts(margin: str) -> str:
    return f"Equivalent: the interval lies within {margin} to either side; too noisy: neither that nor a difference."
