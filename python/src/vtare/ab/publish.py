"""A comparison in the forms that CI systems read: Markdown, JUnit XML, annotations, two kinds of benchmark JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from vtare import stats
from vtare.ab.verdict import (
    answer,
    basis,
    change_text,
    design_text,
    document,
    letter,
    mean_text,
    sentence,
    warnings,
    word_in_suite,
    worst_first,
)
from vtare.sentences import ab as wording
from vtare.stored.paths import plain_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.ab.compare import Compared, Finding
    from vtare.ab.figures import Figure
    from vtare.ab.verdict import Outcome

_QUARTILES: Final = (0.25, 0.5, 0.75)


def markdown(outcome: Outcome) -> str:
    """For a pull request or a step summary: the answer, a table, how it was found."""
    compared = outcome.compared
    lines = [f"**{_cell(line)}**" for line in answer(compared)]
    lines += [f"\n{_cell(more)}" for more in warnings(compared)]
    for limit in outcome.limits:
        lines.append("\n" + wording.fail_if(f"`--fail-if '{limit.text}'`", limit.state(compared.primary)))
    others = [_row(finding, finding.word) for finding in compared.others]
    if compared.is_suite:
        rows = [_row(finding, word_in_suite(finding)) for finding in worst_first(compared)]
        lines += [*_HEAD, *rows[:_MOST_ROWS], "", "<details><summary>All figures</summary>"]
        lines += [*_HEAD, *rows, *others, "", "</details>"]
    else:
        lines += [*_HEAD, *(_row(finding, finding.word) for finding in compared.primary), *others]
    lines += ["", *(f"- {letter(k)}: {_code(command.text)}" for k, command in enumerate(compared.commands))]
    lines.append(f"- {basis(compared)} {design_text(compared)} {wording.seed(outcome.seed)}")
    return "\n".join(lines) + "\n"


_HEAD: Final = (
    "",
    "| figure | command | typical run (interval) | mean of all runs (interval) | verdict |",
    "|---|---|---|---|---|",
)
_MOST_ROWS: Final = 8
"""Benchmarks of a suite that a reviewer sees at first."""


def _row(finding: Finding, word: str) -> str:
    cells = (
        finding.figure.name, letter(finding.command), change_text(finding), mean_text(finding) or "", word
    )  # fmt: skip
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """A text of others in Markdown: nothing in it ends a cell, begins a line, or is a tag or an emphasis."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", plain_line(text))


def _code(text: str) -> str:
    """A command in Markdown, between more backticks than it has in a row itself."""
    line = plain_line(text)
    ticks = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{ticks} {line} {ticks}" if "`" in line else f"`{line}`"


def junit(outcome: Outcome) -> str:
    """A test case for each limit and command; one that is not crossed but too noisy to know is skipped."""
    compared = outcome.compared
    cases = [(limit, finding) for limit in outcome.limits for finding in compared.primary]
    suite = ElementTree.Element("testsuite", name="vtare ab", tests=str(len(cases)))
    failures = skipped = 0
    for limit, finding in cases:
        of = f" in {finding.figure.name}" if compared.is_suite else ""
        name = f"{letter(finding.command)} is not {limit.text}{of}"
        case = ElementTree.SubElement(
            suite, "testcase", name=name, classname="vtare.ab", time=f"{compared.elapsed_s:.3f}"
        )
        text = plain_line(sentence(compared, finding))
        state = limit.state([finding])
        if state == "crossed":
            failures += 1
            ElementTree.SubElement(case, "failure", message=text)
        elif state == "open" or finding.is_open:
            skipped += 1
            ElementTree.SubElement(case, "skipped", message=text)
        else:
            ElementTree.SubElement(case, "system-out").text = text
    suite.set("failures", str(failures))
    suite.set("errors", "0")
    suite.set("skipped", str(skipped))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def github(outcome: Outcome) -> str:
    """Workflow commands of GitHub: an error where a limit is crossed, a warning where it is too noisy, or a notice."""
    lines = []
    compared = outcome.compared
    for finding in compared.primary:
        crossed = any(limit.crossed([finding]) for limit in outcome.limits)
        kind = "error" if crossed else "warning" if finding.is_open else "notice"
        # Of a suite only what is wrong: a reviewer reads no notice for each of 60 benchmarks.
        if not compared.is_suite or crossed:
            lines.append(_annotation(kind, sentence(compared, finding)))
    if compared.is_suite:
        lines += [_annotation("notice", line) for line in answer(compared)]
    return "\n".join(lines) + "\n"


def _annotation(kind: str, text: str) -> str:
    return f"::{kind} title=vtare ab::{plain_line(text).replace('%', '%25')}"


@dataclass(frozen=True, slots=True)
class _Median:
    """The median of a figure of one command, between its quartiles."""

    command: str
    figure: Figure
    low: float
    middle: float
    high: float


def _medians(found: Compared) -> list[_Median]:
    rows = []
    for figure in dict.fromkeys(finding.figure for finding in (*found.primary, *found.others)):
        for k, command in enumerate(found.commands):
            values = [value for pair in found.pairs if (value := figure.read(pair.runs[k])) is not None]
            if values:
                rows.append(_Median(command.text, figure, *(stats.in_order(values).quantile(q) for q in _QUARTILES)))
    return rows


def bencher(outcome: Outcome) -> str:
    """Bencher Metric Format: a benchmark for each command, a measure for each figure, with quartiles as its bounds."""
    written: dict[str, dict[str, dict[str, float]]] = {}
    for row in _medians(outcome.compared):
        measure = {"value": row.middle, "lower_value": row.low, "upper_value": row.high}
        written.setdefault(row.command, {})[row.figure.name.replace(" ", "-").lower()] = measure
    return json.dumps(written, indent=2, allow_nan=False) + "\n"


def benchmark_action(outcome: Outcome, *, bigger: bool = False) -> str:
    """What github-action-benchmark reads as `customSmallerIsBetter`, or `bigger` as `customBiggerIsBetter`."""
    rows = [
        {
            "name": f"{row.command}: {row.figure.name}",
            "unit": row.figure.unit,
            "value": row.middle,
            "range": f"{row.low:g} to {row.high:g}",
        }
        for row in _medians(outcome.compared)
        if bool(row.figure.more_is_better) == bigger
    ]
    return json.dumps(rows, indent=2, allow_nan=False) + "\n"


def whole(outcome: Outcome) -> str:
    """The document of `--json`."""
    return json.dumps(document(outcome), indent=2, allow_nan=False) + "\n"


#: What `--write FORM=FILE` writes.
FORMS: Final[dict[str, Callable[[Outcome], str]]] = {
    "json": whole,
    "md": markdown,
    "junit": junit,
    "github": github,
    "bencher": bencher,
    "benchmark-action": benchmark_action,
    "benchmark-action-bigger": partial(benchmark_action, bigger=True),
}
