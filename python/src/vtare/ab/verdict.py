"""A comparison in words and as JSON, and whether a limit of `--fail-if` is crossed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from vtare.ab.trials import COUNTED_FIELDS
from vtare.errors import BadInput
from vtare.records.answer import Answered, answered
from vtare.stats import Merit, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vtare.ab.compare import Compared, Finding
    from vtare.ab.figures import Figure
    from vtare.ab.trials import Measured
    from vtare.records import comparisons

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
_ENDED: Final = {
    "known": "Stopped once the answer was certain.",
    "time": "Stopped by --max-time.",
    "pairs": "Stopped by --pairs.",
    "interrupted": "Interrupted.",
}
#: How a design pairs runs.
_PAIRED: Final = {"duet": "at once", "interleaved": "alternately", "sequential": "one command after the other"}
_LIMIT: Final = re.compile(r"(slower|faster|worse|better|higher|lower)(?:\s+by\s+(\d+(?:\.\d+)?)\s*%)?")


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


def change_range(low: float, high: float) -> str:
    """Two ratios as changes with their signs.

    >>> change_range(0.98, 1.031)
    '-2.0 to +3.1 %'
    """
    return f"{100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %"


def sentence(found: Compared, finding: Finding) -> str:
    """The answer about one command, with its interval."""
    b, a = letter(finding.command), letter(0)
    of = "" if finding.figure.name == "wall time" else f" in {finding.figure.name}"
    if finding.ratio is None or finding.low is None or finding.high is None:
        return f"{b} against {a}{of}: no answer: {finding.reason}."
    level = f"{100 * finding.level:.3g} %"
    interval = f"({change_range(finding.low, finding.high)}, {level})"
    margin = f"{100 * found.asked.margin:.3g} %"
    if finding.is_different:
        inside = finding.low >= 1 / (1 + found.asked.margin) and finding.high <= 1 + found.asked.margin
        small = f": less than {margin}, which matters" if inside else ""
        judged = "" if finding.figure.is_duration or small else _direction(finding)
        return f"{b} is {percent(finding.ratio)} {finding.word} than {a}{of} {interval}{judged}{small}."
    if finding.verdict is Verdict.EQUIVALENT:
        return f"{b} and {a} are equivalent{of} within {margin} {interval}."
    if finding.is_coarse:
        return (
            f"Too coarse to show whether {b} differs from {a}{of} {interval}: {finding.reason}. Print more digits, or "
            "let a run do more."
        )
    more = (
        f"about {finding.more_pairs} more pairs are needed for {margin}" if finding.more_pairs else "nothing is known"
    )
    if finding.reason is not None:
        return f"Not enough pairs to call {b} and {a} equivalent{of} {interval}: {finding.reason}; {more}."
    return f"Too noisy to show whether {b} differs from {a}{of} {interval}: {more}."


def _direction(finding: Finding) -> str:
    """Whether that is worse or better, where it is known."""
    return f", which is {finding.change}" if finding.change else ""


def mean_text(finding: Finding) -> str | None:
    """The ratio of the means, which rare slow runs move; None where it is not known.

    The answer itself is of typical runs: the pseudo-median of the pairs (Hodges and Lehmann 1963).
    """
    if finding.mean_ratio is None or finding.mean_low is None or finding.mean_high is None:
        return None
    return f"{100 * (finding.mean_ratio - 1):+.1f} % ({change_range(finding.mean_low, finding.mean_high)})"


def _mean_sentence(found: Compared, finding: Finding) -> str | None:
    text = mean_text(finding)
    if text is None:
        return None
    whose = f" of {letter(finding.command)}" if len(found.commands) > 2 else ""
    return f"That is a typical run{whose}; the mean of all runs, rare slow ones included, differs by {text}."


def void_text(found: Compared) -> str | None:
    """How many pairs were left out; None where there were none."""
    if not found.void:
        return None
    reasons = {
        "a command, or this machine, was stopped meanwhile": found.halted,
        "processes of a command still ran in the background when it ended": found.void - found.halted,
    }
    return " ".join(
        f"{'1 pair was' if count == 1 else f'{count} pairs were'} left out: {reason}."
        for reason, count in reasons.items()
        if count
    )


def known_beside(found: Compared) -> str | None:
    """Where wall time is too noisy but CPU time is not: what that shows, and how to have it judged."""
    noisy = [it.command for it in found.primary if it.figure.name == "wall time" and it.is_noisy]
    known = [
        sentence(found, finding)
        for finding in found.others
        if finding.figure.name == "CPU time" and finding.command in noisy and not finding.is_open
    ]
    if not known:
        return None
    judged = "(--judge cpu stops as soon as that is known.)"
    return f"Other programs change CPU time less than wall time: {' '.join(known)} {judged}"


def floor_text(found: Compared) -> str | None:
    """Where a command was run against itself (`--self-test`): the floor of this machine; else None."""
    first, *more = (command.words for command in found.commands)
    if any(words != first for words in more):
        return None
    finding = found.primary[0]
    if finding.low is None or finding.high is None:
        return "A against itself: too few pairs to tell what this machine can resolve."
    floor = percent(math.sqrt(finding.high / finding.low))
    shown = " The difference above is a false alarm: 1 comparison in 20 has one." if finding.is_different else ""
    return f"A against itself: this machine can resolve differences of {floor} or more.{shown}"


def basis(found: Compared) -> str:
    """What the answer rests on: pairs, time, and why it stopped."""
    n = len(found.pairs)
    what = "runs each" if found.chosen.design == "sequential" else "pair" if n == 1 else "pairs"
    return f"{n} {what} in {found.elapsed_s:.2g} s. {_ENDED[found.stopped]}"


def design_text(found: Compared) -> str:
    """How runs were paired, and why."""
    cpus = found.chosen.cpus
    on = f" on CPUs {', '.join(map(str, cpus))}" if cpus else ""
    return f"Runs were paired {_PAIRED[found.chosen.design]}{on}: {found.chosen.why}."


def beside_text(found: Compared) -> str | None:
    """The noise beside the pairs in a sentence; None where the system does not report it."""
    taken = noise(found)
    if taken["others_cpus_median"] is None:
        return None
    steal, gaps = taken["steal_cpus_median"], taken["gaps_median"]
    stated = "does not state what it took" if steal is None else f"states that it took {steal:.2f}"
    quota = taken["quota_cpus_median"]
    withheld = "" if not quota else f", a CPU quota of this control group withheld {quota:.2f}"
    waited = "" if gaps is None else f"; gaps of the programs, ready without a CPU: {100 * gaps:.2g} % of their time"
    return (
        f"Beside the pairs other programs took {taken['others_cpus_median']:.2f} CPUs (median; at most "
        f"{taken['others_cpus_most']:.2f}), the hypervisor {stated}{withheld}{waited}."
    )


def median_text(found: Compared, figure: Figure, command: int) -> str:
    """The median of a figure of one command, with its unit; empty where it was never counted."""
    # matplotlib comes with it: functions that are compared in a test do without.
    from vtare.plots.quantity import quantity_of

    values = [value for pair in found.pairs if (value := figure.read(pair.runs[command])) is not None]
    if not values:
        return ""
    middle = float(np.median(values))
    text = quantity_of(f"value{suffix_of(figure)}").text
    if suffix_of(figure) or not figure.unit:
        return text(middle)
    # Rates in thousands, as sizes are.
    power = next((at for at in _POWERS if figure.unit.endswith("/s") and middle >= at), 1.0)
    return f"{text(middle / power)} {_POWERS.get(power, '')}{figure.unit}"


_POWERS: Final = {1e12: "T", 1e9: "G", 1e6: "M", 1e3: "k"}
#: How names of figures with a unit end (`plots.quantity`).
_SUFFIXES: Final = {"ns": "_ns", "B": "_byte", "bit/s": "_bit_per_s", "packet/s": "_packet_per_s", "%": "_percent"}


def suffix_of(figure: Figure) -> str:
    """What names of figures with this unit end with; nothing for a unit that is written as it is."""
    return _SUFFIXES.get(figure.unit, "")


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
    change = f"{100 * (finding.ratio - 1):+.1f} %"
    if finding.low is None or finding.high is None:
        return change
    return f"{change} ({change_range(finding.low, finding.high)})"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one command as text; `finding` is None for the command that the others are compared with."""

    figure: str
    command: str
    median: str
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
    for finding in (*found.primary, *found.others):
        figure = finding.figure
        if not rows or rows[-1].figure != figure.name:
            rows.append(Row(figure.name, letter(0), median_text(found, figure, 0), "", "", None))
        median = median_text(found, figure, finding.command)
        rows.append(Row(figure.name, letter(finding.command), median, change_text(finding), finding.word, finding))
    means = [_mean_sentence(found, finding) for finding in found.primary]
    about = (*means, basis(found), design_text(found))
    return Written(
        tuple(sentence(found, finding) for finding in found.primary),
        _warnings(found),
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
        if self.word in ("slower", Merit.WORSE):
            return not figure.more_is_better
        return bool(figure.more_is_better) if self.word in ("faster", Merit.BETTER) else self.word == Verdict.HIGHER


def read_limit(text: str) -> FailLimit:
    """Return the limit `slower by 5 %`, or `slower` for any that is shown.

    >>> read_limit("slower by 5 %").share
    0.05

    Raises:
        BadInput: it is none.
    """
    found = _LIMIT.fullmatch(text.strip())
    if found is None:
        raise BadInput(
            f"--fail-if: '{text}' is no limit. Example: 'slower by 5 %'. Other words: faster, worse, better, higher, "
            "lower"
        )
    return FailLimit(found.group(1), float(found.group(2) or 0) / 100.0, text.strip())


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

    found: Compared
    seed: int
    machine: Mapping[str, Any]
    limits: tuple[FailLimit, ...] = ()


def _answered(found: Compared) -> Answered:
    first = found.primary[0]
    more = ["--max-time TIME or --pairs N: allow more pairs"] if any(it.is_noisy for it in found.primary) else []
    coarse = ["print more digits, or let a run do more"] if any(it.is_coarse for it in found.primary) else []
    return answered(
        (sentence(found, finding) for finding in found.primary),
        first.verdict.word(first.figure.better),
        limits=_warnings(found),
        advice=[*more, *coarse],
    )


def _warnings(found: Compared) -> tuple[str, ...]:
    """What must be read with the answer."""
    return tuple(filter(None, (known_beside(found), floor_text(found), void_text(found))))


def document(outcome: Outcome) -> comparisons.Ab:
    """The comparison as one JSON document (docs/guide/change.md)."""
    found = outcome.found

    def of(finding: Finding) -> comparisons.FindingDocument:
        return {
            "command": letter(finding.command), "against": letter(0), "figure": finding.figure.name,
            "ratio": finding.ratio, "ratio_low": finding.low, "ratio_high": _finite(finding.high),
            "level": finding.level, "verdict": finding.verdict.word(finding.figure.better),
            "word": finding.word, "pairs": finding.pairs,
            "more_pairs": finding.more_pairs, "reason": finding.reason, "mean_ratio": finding.mean_ratio,
            "mean_ratio_low": finding.mean_low, "mean_ratio_high": _finite(finding.mean_high), "step": finding.step,
        }  # fmt: skip

    figures = list(dict.fromkeys(finding.figure for finding in (*found.primary, *found.others)))
    return {
        "schema": SCHEMA,
        "answer": _answered(found),
        "machine": dict(outcome.machine),
        "commands": [{"name": letter(k), "text": command.text} for k, command in enumerate(found.commands)],
        "design": found.chosen.design,
        "design_reason": found.chosen.why,
        "cpus": list(found.chosen.cpus),
        "margin_percent": 100 * found.asked.margin,
        "alpha": found.asked.alpha,
        "seed": outcome.seed,
        "stopped": found.stopped,
        "elapsed_s": found.elapsed_s,
        "void_pairs": found.void,
        "figures": [
            {"name": figure.name, "unit": figure.unit or None, "more_is_better": figure.more_is_better}
            for figure in figures
        ],
        "findings": [of(finding) for finding in found.primary],
        "other_findings": [of(finding) for finding in found.others],
        "noise": noise(found),
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
            for pair in found.pairs
        ],
    }


def _finite(value: float | None) -> float | None:
    """An end of an interval; None where the step leaves it open."""
    return value if value is not None and math.isfinite(value) else None


def counted(run: Measured) -> comparisons.CountedRun:
    """A run without the figures that it printed."""
    return cast("comparisons.CountedRun", {name: getattr(run, name) for name in COUNTED_FIELDS})
