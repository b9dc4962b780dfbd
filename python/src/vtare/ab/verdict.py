"""A comparison in words and as JSON, and whether a limit of `--fail-if` is crossed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from vtare.ab.compare import DEFAULT_MARGIN
from vtare.ab.suite import TYPICAL
from vtare.ab.trials import COUNTED_FIELDS
from vtare.errors import BadInput
from vtare.number_text import ratio_range_text, ratio_text
from vtare.quantity_text import quantity_in
from vtare.records.answer import Answered, answered
from vtare.sentences import ab as wording
from vtare.stats import LIMIT_WORDS, Merit, Speed, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vtare.ab.compare import Compared, Finding
    from vtare.ab.figures import Figure
    from vtare.ab.trials import Measured
    from vtare.records import comparisons

_FINE: Final = 0.01
"""The margin that the screen names the time for."""
SCHEMA: Final = "vtare.ab/1"
#: What is measured beside each pair (attributes of `Pair`), with its heading.
NOISE: Final = {
    "others_cpus": "CPUs that other programs took",
    "steal_cpus": "CPUs that the hypervisor took, as far as it states it",
    "quota_cpus": "CPUs that a CPU quota of the control group withheld",
    "gaps": "gaps: share of the time ready to run without a CPU",
    "cpu_pressure": "share of the time in which programs waited for a CPU",
    "io_pressure": "share of the time in which programs waited for input or output",
}
_LIMIT: Final = re.compile(rf"({'|'.join(LIMIT_WORDS)})(?:\s+by\s+(\d+(?:\.\d+)?)\s*%)?")


def letter(command: int) -> str:
    """The name of a command in sentences: A, B, C.

    >>> letter(0), letter(27)
    ('A', 'B1')
    """
    return chr(ord("A") + command % 26) + (str(command // 26) if command >= 26 else "")


def percent(ratio: float) -> str:
    """How far a ratio is from 1, in percent, with two digits.

    >>> percent(1.0321), percent(0.5), percent(3.0)
    ('3.2 %', '50 %', '200 %')
    """
    far = 100.0 * abs(ratio - 1.0)
    return f"{far:.0f} %" if far >= 9.95 else f"{far:.1f} %" if far >= 0.995 else f"{far:.2f} %"


_TENFOLD: Final = 10.0


def change_range(low: float, high: float, digits: int = 1) -> str:
    """Two ratios as changes with their signs; as ratios where one is tenfold or beyond.

    >>> change_range(0.98, 1.031)
    '-2.0 to +3.1 %'
    >>> change_range(0.98, math.inf), change_range(0.0, 1.5)
    ('-2.0 % or more', '-100.0 to +50.0 %')
    """
    if math.isinf(high):
        # As far as the step of the figures tells.
        return wording.or_more(ratio_text(low) if low >= _TENFOLD else f"{100 * (low - 1):+z.{digits}f} %")
    if high >= _TENFOLD:
        return f"{ratio_range_text(low, high)}\N{MULTIPLICATION SIGN}"
    return f"{100 * (low - 1):+z.{digits}f} to {100 * (high - 1):+z.{digits}f} %"


def change_and_range(finding: Finding, digits: int = 1) -> tuple[str, str]:
    """The change and its interval, both in percent or both as ratios; empty where they are not known."""
    if finding.ratio is None:
        return "", ""
    ends = None if finding.low is None or finding.high is None else (finding.low, finding.high)
    known = [end for end in ends or () if math.isfinite(end)]
    is_tenfold = max(finding.ratio, *known, 0.0) >= _TENFOLD
    change = ratio_text(finding.ratio) if is_tenfold else f"{100 * (finding.ratio - 1):+z.{digits}f} %"
    if ends and is_tenfold and math.isinf(ends[1]):
        return change, wording.or_more(ratio_text(ends[0]))
    return change, change_range(*ends, digits) if ends else ""


def sentence(found: Compared, finding: Finding) -> str:
    """The answer about one command, with its interval."""
    b, a = letter(finding.command), letter(0)
    of = "" if finding.figure.name == "wall time" else f" in {finding.figure.name}"
    if finding.ratio is None or finding.low is None or finding.high is None:
        return wording.no_answer(b, a, of, finding.reason)
    level = f"{100 * finding.level:.3g} %"
    interval = f"({change_range(finding.low, finding.high)}, {level})"
    margin = f"{100 * found.asked.margin:.3g} %"
    if finding.is_different:
        inside = finding.low >= 1 / (1 + found.asked.margin) and finding.high <= 1 + found.asked.margin
        change = (b, a, of, percent(finding.ratio), finding.word, interval)
        if inside:
            return wording.differs_little(*change, margin)
        if finding.figure.is_duration or not finding.change:
            return wording.differs(*change)
        return wording.differs_for(*change, finding.change)
    if finding.verdict is Verdict.EQUIVALENT:
        return wording.equivalent(b, a, of, margin, interval)
    if finding.is_coarse:
        return wording.too_coarse(b, a, of, interval, finding.reason)
    if not finding.is_open:
        return wording.at_most(b, a, of, _at_most(found, finding), interval)
    more = wording.more_pairs(finding.more_pairs, margin) if finding.more_pairs else wording.NOTHING_KNOWN
    if finding.reason is not None:
        return wording.too_few_pairs(b, a, of, interval, finding.reason, more)
    return wording.too_noisy(b, a, of, interval, more)


_HARM: Final = (Merit.WORSE, None, Merit.BETTER)
_MOST_NAMED: Final = 5


def worst_first(found: Compared) -> list[Finding]:
    """The findings of a suite: what is worse, what is open, what is better, what is equivalent, what has no ratio."""

    def harm(finding: Finding) -> tuple[int, float]:
        if finding.ratio is None:
            return len(_HARM) + 1, 0.0
        size = math.log(finding.ratio) * (-1.0 if finding.figure.more_is_better else 1.0)
        known = finding.is_different or finding.is_open
        return _HARM.index(finding.change) if known else len(_HARM), -size

    return sorted(found.primary, key=harm)


def benchmarks(found: Compared) -> list[Finding]:
    """The findings of a suite's benchmarks, without the typical one, the worst first."""
    return [it for it in worst_first(found) if it.figure.name != TYPICAL]


def word_in_suite(finding: Finding) -> str:
    """The verdict on a benchmark: worse or better, whichever direction that is."""
    return str(finding.change or finding.word)


def answer(found: Compared) -> tuple[str, ...]:
    """The answer about each command, or about a suite as a whole."""
    return _suite(found) if found.is_suite else tuple(sentence(found, finding) for finding in found.primary)


def _suite(found: Compared) -> tuple[str, ...]:
    findings = benchmarks(found)
    typical = [it for it in found.primary if it.figure.name == TYPICAL]
    reasons = {it.reason for it in found.primary if it.low is None}
    if all(it.low is None for it in found.primary) and len(reasons) == 1 and (reason := reasons.pop()) is not None:
        return (wording.suite_unknown(len(findings), reason),)
    if not found.asked.limits:
        kinds = [_kind(it) for it in findings]
        margin = f"{100 * found.asked.margin:.3g} %"
        counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
        together = [wording.together(str(it.change), change_text(it)) for it in typical if it.change]
        return (wording.suite(len(findings), counts, margin), *together)
    limits = [limit for limit in found.asked.limits if isinstance(limit, FailLimit)]

    def crossed(some: Sequence[Finding]) -> list[Finding]:
        return [it for it in some if any(limit.crossed([it]) for limit in limits)]

    beyond = " or ".join(limit.beyond for limit in limits)
    named = [f"{it.figure.name} ({change_and_range(it)[0]})" for it in crossed(findings)]
    open_ = [it.figure.name for it in findings if not crossed([it]) and found.open_limits(it)]
    together = [wording.together(beyond, change_text(it)) for it in crossed(typical)]
    together += [wording.together_open(beyond) for it in typical if not together and found.open_limits(it)]
    return (*wording.suite_limits(len(findings), beyond, named, open_, _MOST_NAMED, alone=not together), *together)


def _kind(finding: Finding) -> str:
    if finding.ratio is None:
        return str(Verdict.REFUSED)
    return str(finding.change or (Verdict.INCONCLUSIVE if finding.is_open else finding.verdict))


def _at_most(found: Compared, finding: Finding) -> list[str]:
    """How far a command differs at most, in the directions that limits are about."""
    assert finding.low is not None
    assert finding.high is not None
    sides = {edge > 0 for edge in found.asked.edges(finding.figure, finding.command)}
    ends = {True: finding.high, False: finding.low}
    return [f"{percent(ends[higher])} {finding.figure.word(higher=higher)}" for higher in sorted(sides, reverse=True)]


def _open_limits(found: Compared) -> str | None:
    """The limits of `--fail-if` that are not decided; None where all are, or where the answer names them."""
    if found.is_suite:
        return None
    open_ = {
        (letter(finding.command), f"{finding.figure.word(higher=limit > 0)} by {100 * abs(math.expm1(limit)):.3g} %")
        for finding in found.primary
        for limit in found.open_limits(finding)
        if limit
    }
    return " ".join(wording.limit_open(b, limit) for b, limit in sorted(open_)) or None


def finer_text(found: Compared) -> str | None:
    """How long an answer to 1 % would take; None where this was one, or the difference is beyond the margin."""
    margin = found.asked.margin
    seconds = found.seconds_for(_FINE)
    if margin <= _FINE or seconds is None or all(_is_beyond(finding, margin) for finding in found.primary):
        return None
    return wording.finer(f"{100 * _FINE:g}", seconds)


def _is_beyond(finding: Finding, margin: float) -> bool:
    assert finding.low is not None
    assert finding.high is not None
    return finding.low > 1 + margin or finding.high < 1 / (1 + margin)


def mean_text(finding: Finding) -> str | None:
    """The ratio of the means, which rare slow runs move; None where it is not known.

    The answer itself is of typical runs: the pseudo-median of the pairs (Hodges and Lehmann 1963).
    """
    if finding.mean_ratio is None or finding.mean_low is None or finding.mean_high is None:
        return None
    return f"{100 * (finding.mean_ratio - 1):+z.1f} % ({change_range(finding.mean_low, finding.mean_high)})"


def _mean_sentence(found: Compared, finding: Finding) -> str | None:
    text = mean_text(finding)
    if text is None:
        return None
    return (
        wording.mean_of_runs_of(letter(finding.command), text)
        if len(found.commands) > 2
        else wording.mean_of_runs(text)
    )


def void_text(found: Compared) -> str | None:
    """How many pairs were left out; None where there were none."""
    if not found.void:
        return None
    reasons = {wording.STOPPED_RUNS: found.halted, wording.BACKGROUND: found.void - found.halted}
    return " ".join(wording.left_out(count, reason) for reason, count in reasons.items() if count)


def known_beside(found: Compared) -> str | None:
    """Where wall time is too noisy but CPU time is not: what that shows, and how to have it judged."""
    noisy = [it.command for it in found.primary if it.figure.name == "wall time" and it.is_noisy]
    known = [
        sentence(found, finding)
        for finding in found.others
        if finding.figure.name == "CPU time" and finding.command in noisy and not finding.is_open
    ]
    return wording.known_in_cpu_time(known) if known else None


def _is_against_itself(found: Compared) -> bool:
    first, *more = (command.words for command in found.commands)
    return all(words == first for words in more)


def floor_of(found: Compared) -> float | None:
    """The smallest ratio above 1 that this machine shows, where a command ran against itself; else None."""
    known = [(it.low, it.high) for it in found.primary if it.low is not None and it.high is not None]
    if not _is_against_itself(found) or len(known) < len(found.primary):
        return None
    return max(math.sqrt(high / low) for low, high in known)


def floor_text(found: Compared) -> str | None:
    """The smallest difference that this machine shows, or others like it where the answer is open; else None."""
    if not _is_against_itself(found):
        is_open = any(it.is_noisy or found.open_limits(it) for it in found.primary)
        return wording.usual_floor(percent(found.usual.ratio), found.usual.count) if found.usual and is_open else None
    ratio = floor_of(found)
    if ratio is None:
        return wording.FLOOR_UNKNOWN
    floor = wording.floor(percent(ratio))
    return f"{floor} {wording.FALSE_ALARM}" if any(it.is_different for it in found.primary) else floor


def basis(found: Compared) -> str:
    """What the answer rests on: pairs, time, and why it stopped."""
    basis_of = wording.runs_in if found.chosen.design == "sequential" else wording.pairs_in
    limits = [limit for finding in found.primary for limit in found.open_limits(finding)]
    is_open = bool(limits) or any(finding.is_open for finding in found.primary)
    ended = wording.AT_PRECISION if found.stopped == "known" and is_open else wording.ENDED[found.stopped]
    return basis_of(len(found.pairs), found.elapsed_s, ended)


def design_text(found: Compared) -> str:
    """How runs were paired, and why."""
    return wording.paired(wording.PAIRED[found.chosen.design], found.chosen.cpus, found.chosen.why)


def beside_text(found: Compared) -> str | None:
    """The noise beside the pairs in sentences; None where the system does not report it."""
    taken = noise(found)
    median, most = taken["others_cpus_median"], taken["others_cpus_most"]
    if median is None or most is None:
        return None
    steal, quota, gaps = (taken[f"{name}_median"] for name in ("steal_cpus", "quota_cpus", "gaps"))
    sentences = [
        wording.others_took(median, most),
        wording.STEAL_UNKNOWN if steal is None else wording.steal(steal),
        *([wording.quota(quota)] if quota else []),
        *([] if gaps is None else [wording.gaps(gaps)]),
    ]
    return " ".join(sentences)


def typical_values_text(found: Compared, finding: Finding) -> str:
    """Where a figure was and is; one value where no difference is known, which two values could seem to show."""
    if not finding.is_different:
        return wording.about(median_text(found, finding.figure, 0, finding.command))
    return " -> ".join(typical_text(found, finding.figure, command) for command in (0, finding.command))


def typical_text(found: Compared, figure: Figure, command: int) -> str:
    """A typical run of a command, with its unit; empty where the figure was never counted.

    Typical runs of two commands are as far apart as the change that the pairs show: medians of each alone need not be,
    and would contradict it. So the runs of all commands, each taken to the first one's scale by its change, have one
    median.
    """
    ratios = {0: 1.0} | {
        it.command: it.ratio for it in (*found.primary, *found.others) if it.figure == figure and it.ratio
    }
    if command not in ratios:
        return median_text(found, figure, command)
    runs = ((pair.runs[at], ratio) for pair in found.pairs for at, ratio in ratios.items())
    return _median_text(
        figure, [ratios[command] * value / ratio for run, ratio in runs if (value := figure.read(run)) is not None]
    )


def median_text(found: Compared, figure: Figure, *commands: int) -> str:
    """The median of a figure of commands, with its unit; empty where it was never counted."""
    runs = (pair.runs[command] for pair in found.pairs for command in commands)
    return _median_text(figure, [value for run in runs if (value := figure.read(run)) is not None])


def _median_text(figure: Figure, values: Sequence[float]) -> str:
    if not values:
        return ""
    value = float(np.median(values))
    quantity = quantity_in(figure.unit)
    if quantity.symbol or not figure.unit:
        return quantity.text(value)
    # Rates in thousands, as sizes are.
    power = next((at for at in _POWERS if figure.unit.endswith("/s") and value >= at), 1.0)
    return f"{quantity.text(value / power)} {_POWERS.get(power, '')}{figure.unit}"


_POWERS: Final = {1e12: "T", 1e9: "G", 1e6: "M", 1e3: "k"}


def suffix_of(figure: Figure) -> str:
    """What names of figures with this unit end with; nothing for a unit that is written as it is."""
    return quantity_in(figure.unit).suffix


def change_text(finding: Finding) -> str:
    """The change with its interval, or why there is none.

    >>> from vtare.ab.figures import COUNTED
    >>> from vtare.ab.compare import Finding
    >>> from vtare.stats import Verdict
    >>> change_text(Finding(COUNTED[0], 1, 1.05, 1.02, 1.08, 0.95, Verdict.HIGHER, 0, 12))
    '+5.0 % (+2.0 to +8.0 %)'
    """
    if finding.ratio is None:
        return finding.reason or ""
    change, interval = change_and_range(finding)
    return f"{change} ({interval})" if interval else change


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one command as text; `finding` is None for the command that the others are compared with."""

    figure: str
    command: str
    typical: str
    change: str
    verdict: str
    finding: Finding | None


@dataclass(frozen=True, slots=True)
class Written:
    """A comparison as finished sentences, and the table's rows.

    The answer, what must be read with it, what it rests on, and the noise beside it.
    """

    answer: tuple[str, ...]
    warnings: tuple[str, ...]
    about: tuple[str, ...]
    beside: str | None
    change_heading: str
    rows: tuple[Row, ...]
    commands: tuple[tuple[str, str], ...]


def written(found: Compared) -> Written:
    """Return all that is shown of a comparison as text, on a terminal and on a page."""
    rows: list[Row] = []
    alone = worst_first(found) if found.is_suite else []
    for finding in alone:
        both = typical_values_text(found, finding)
        word = word_in_suite(finding)
        rows.append(Row(finding.figure.name, letter(finding.command), both, change_text(finding), word, finding))
    for finding in (*([] if alone else found.primary), *found.others):
        figure = finding.figure
        if not rows or rows[-1].figure != figure.name:
            rows.append(Row(figure.name, letter(0), typical_text(found, figure, 0), "", "", None))
        typical = typical_text(found, figure, finding.command)
        rows.append(Row(figure.name, letter(finding.command), typical, change_text(finding), finding.word, finding))
    means = [] if found.is_suite else [_mean_sentence(found, finding) for finding in found.primary]
    about = (*means, finer_text(found), basis(found), design_text(found))
    return Written(
        answer(found),
        warnings(found),
        tuple(line for line in about if line is not None),
        beside_text(found),
        f"change against {letter(0)} (interval)",
        tuple(rows),
        tuple((letter(k), command.text) for k, command in enumerate(found.commands)),
    )


@dataclass(frozen=True, slots=True)
class FailLimit:
    """`--fail-if`: the word of a verdict, and the share that the whole interval must be beyond."""

    word: str
    share: float
    text: str

    @property
    def beyond(self) -> str:
        """What a figure is that crosses it."""
        return f"{self.word} by more than {100 * self.share:.3g} %" if self.share else self.word

    def check(self, figure: Figure) -> None:
        """Refuse a word that the judged figure cannot have.

        Raises:
            BadInput: nothing states which direction of the figure is better.
        """
        if self.word not in (Verdict.HIGHER, Verdict.LOWER) and figure.more_is_better is None:
            raise BadInput(
                f"--fail-if '{self.text}': nothing states whether more or less is better in {figure.name}. Write "
                "higher or lower, or add --more-is-better or --less-is-better"
            )

    def log_ratio(self, figure: Figure) -> float:
        """The log ratio that it is crossed beyond."""
        if self._is_upward(figure):
            return math.log1p(self.share)
        return math.log1p(-self.share) if self.share < 1.0 else -math.inf

    def edge(self, figure: Figure, command: int) -> float | None:
        """The same, of any command."""
        return self.log_ratio(figure)

    def state(self, findings: Sequence[Finding]) -> str:
        """crossed, not crossed, or open."""
        if self.crossed(findings):
            return "crossed"
        edges = [(it, math.exp(self.log_ratio(it.figure))) for it in findings]
        is_open = any(it.low is None or it.high is None or it.low <= edge <= it.high for it, edge in edges)
        return "open" if is_open else "not crossed"

    def crossed(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that are shown to be beyond it: their whole interval is."""
        return [finding for finding in findings if self._beyond(finding)]

    def _beyond(self, finding: Finding) -> bool:
        self.check(finding.figure)
        if finding.low is None or finding.high is None:
            return False
        if self._is_upward(finding.figure):
            return finding.low > 1.0 + self.share
        return finding.high < 1.0 - self.share

    def _is_upward(self, figure: Figure) -> bool:
        """Whether the word is one of higher figures: slower is worse, whatever the figure is."""
        if self.word in (Speed.SLOWER, Merit.WORSE):
            return not figure.more_is_better
        return bool(figure.more_is_better) if self.word in (Speed.FASTER, Merit.BETTER) else self.word == Verdict.HIGHER


def margin_of(limits: Iterable[FailLimit]) -> float:
    """Return the margin where none is stated: the smallest share that is asked about, 5 % where none is.

    A finer answer than the question takes pairs that change nothing: four times as many for half the margin.

    >>> margin_of([read_limit("slower by 5 %"), read_limit("faster")]), margin_of([])
    (0.05, 0.05)
    """
    return min((limit.share for limit in limits if limit.share > 0), default=DEFAULT_MARGIN)


def read_limit(text: str) -> FailLimit:
    """Return the limit `slower by 5 %`, or `slower` for any that is shown.

    >>> read_limit("slower by 5 %").share
    0.05

    Raises:
        BadInput: it is none.
    """
    match = _LIMIT.fullmatch(text.strip())
    if match is None:
        raise BadInput(
            f"--fail-if: '{text}' is no limit. Example: 'slower by 5 %'. Other words: {', '.join(LIMIT_WORDS[1:])}"
        )
    return FailLimit(match.group(1), float(match.group(2) or 0) / 100.0, text.strip())


def noise(found: Compared) -> dict[str, float | None]:
    """What went on beside the pairs, median and most (see `Pair`); None where the system does not report it."""
    figures: dict[str, float | None] = {}
    for name in NOISE:
        known = [value for pair in found.pairs if (value := getattr(pair, name)) is not None]
        figures[f"{name}_median"] = float(np.median(known)) if known else None
        figures[f"{name}_most"] = max(known) if known else None
    return figures


@dataclass(frozen=True, slots=True)
class Outcome:
    """A comparison with the seed of its orders, the facts of the machine and the limits of `--fail-if`."""

    compared: Compared
    seed: int
    machine: Mapping[str, Any]
    limits: tuple[FailLimit, ...] = ()


def _answered(found: Compared) -> Answered:
    first = (worst_first(found) if found.is_suite else found.primary)[0]
    more = ["--max-time TIME or --pairs N: allow more pairs"] if any(it.is_noisy for it in found.primary) else []
    coarse = ["print more digits, or let a run do more"] if any(it.is_coarse for it in found.primary) else []
    return answered(
        answer(found),
        first.verdict.word(first.figure.better),
        limits=warnings(found),
        advice=[(text, None) for text in (*more, *coarse)],
    )


def warnings(found: Compared) -> tuple[str, ...]:
    """What must be read with the answer."""
    absent = wording.absent(found.absent, _MOST_NAMED) if found.absent else None
    return tuple(
        filter(
            None,
            (_open_limits(found), known_beside(found), floor_text(found), void_text(found), absent, _shared(found)),
        )
    )


def _shared(found: Compared) -> str | None:
    """In how many pairs most benchmarks of a suite moved together: what else went on meets all of them."""
    typical = next((it for it in found.primary if it.figure.name == TYPICAL), None)
    if typical is None:
        return None
    changes = [pair.log_ratio(typical.figure, typical.command) for pair in found.pairs]
    known = np.array([change for change in changes if change is not None], dtype=np.float64)
    moves = np.abs(known - np.median(known))
    many = int((moves > math.log1p(found.asked.margin)).sum())
    return wording.moved_together(many, len(found.pairs), percent(math.exp(float(moves.max())))) if many else None


def document(outcome: Outcome) -> comparisons.Ab:
    """The comparison as one JSON document (docs/guide/change.md)."""
    compared = outcome.compared

    def of(finding: Finding) -> comparisons.FindingDocument:
        return {
            "command": letter(finding.command), "against": letter(0), "figure": finding.figure.name,
            "ratio": finding.ratio, "ratio_low": finding.low, "ratio_high": _finite(finding.high),
            "level": finding.level, "verdict": finding.verdict.word(finding.figure.better),
            "word": finding.word, "pairs": finding.pairs,
            "more_pairs": finding.more_pairs, "reason": finding.reason, "mean_ratio": finding.mean_ratio,
            "mean_ratio_low": finding.mean_low, "mean_ratio_high": _finite(finding.mean_high), "step": finding.step,
        }  # fmt: skip

    figures = list(dict.fromkeys(finding.figure for finding in (*compared.primary, *compared.others)))
    return {
        "schema": SCHEMA,
        "answer": _answered(compared),
        "machine": dict(outcome.machine),
        "commands": [{"name": letter(k), "text": command.text} for k, command in enumerate(compared.commands)],
        "design": compared.chosen.design,
        "design_reason": compared.chosen.why,
        "cpus": list(compared.chosen.cpus),
        "margin_percent": 100 * compared.asked.margin,
        "limits": [{"text": limit.text, "state": limit.state(compared.primary)} for limit in outcome.limits],
        "fine_margin_s": compared.seconds_for(_FINE),
        "alpha": compared.asked.alpha,
        "seed": outcome.seed,
        "stopped": compared.stopped,
        "elapsed_s": compared.elapsed_s,
        "void_pairs": compared.void,
        "figures": [
            {"name": figure.name, "unit": figure.unit or None, "more_is_better": figure.more_is_better}
            for figure in figures
        ],
        "findings": [of(finding) for finding in compared.primary],
        "other_findings": [of(finding) for finding in compared.others],
        "noise": noise(compared),
        "pairs": [
            {
                "order": [letter(k) for k in pair.order],
                "span_ns": pair.span_ns if pair.order else None,
                "others_cpus": pair.others_cpus,
                "steal_cpus": pair.steal_cpus,
                "quota_cpus": pair.quota_cpus,
                "gaps": pair.gaps,
                "cpu_pressure": pair.cpu_pressure,
                "io_pressure": pair.io_pressure,
                "runs": [counted(run) for run in pair.runs],
                "figures": {figure.name: [figure.read(run) for run in pair.runs] for figure in figures},
            }
            for pair in compared.pairs
        ],
    }


def _finite(value: float | None) -> float | None:
    """An end of an interval; None where the step leaves it open."""
    return value if value is not None and math.isfinite(value) else None


def counted(run: Measured) -> comparisons.CountedRun:
    """A run without the figures that it printed."""
    return cast("comparisons.CountedRun", {name: getattr(run, name) for name in COUNTED_FIELDS})
