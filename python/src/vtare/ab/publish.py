"""A comparison in the forms that CI systems read: Markdown, JUnit XML, annotations, two kinds of benchmark JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from vtare.ab.verdict import change_range, document, known_beside, letter, sentence, word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtare.ab.compare import Compared, Finding
    from vtare.ab.verdict import Limit

_UNITS: Final = {"_ns": "ns", "_byte": "byte"}


def markdown(found: Compared, seed: int, limits: Sequence[Limit]) -> str:
    """For a pull request or a step summary: the answer, a table, how it was found."""
    lines = [f"**{sentence(found, finding)}**" for finding in found.primary]
    if (beside := known_beside(found)) is not None:
        lines.append(f"\n{beside}")
    for limit in limits:
        lines.append(f"\n`--fail-if '{limit.text}'`: {'crossed' if limit.crossed(found.primary) else 'not crossed'}.")
    lines += ["", "| figure | command | change | interval | verdict |", "|---|---|---|---|---|"]
    lines += [_row(finding) for finding in (*found.primary, *found.others)]
    lines += ["", *(f"- {letter(k)}: `{command.text}`" for k, command in enumerate(found.commands))]
    lines.append(f"- {len(found.pairs)} pairs in {found.elapsed_s:.0f} s, {found.chosen.design}; seed {seed}")
    return "\n".join(lines) + "\n"


def _row(finding: Finding) -> str:
    change, interval = "", finding.reason or ""
    if finding.ratio is not None:
        change = f"{100 * (finding.ratio - 1):+.1f} %"
    if finding.low is not None and finding.high is not None:
        interval = change_range(finding.low, finding.high)
    return f"| {finding.figure.name} | {letter(finding.command)} | {change} | {interval} | {word(finding)} |"


def junit(found: Compared, seed: int, limits: Sequence[Limit]) -> str:
    """A test case for each limit and command; one that is not crossed but too noisy to know is skipped."""
    cases = [(limit, finding) for limit in limits for finding in found.primary]
    suite = ElementTree.Element("testsuite", name="vtare ab", tests=str(len(cases)))
    failures = skipped = 0
    for limit, finding in cases:
        name = f"{letter(finding.command)} is not {limit.text}"
        case = ElementTree.SubElement(suite, "testcase", name=name, classname="vtare.ab", time=f"{found.elapsed_s:.3f}")
        text = sentence(found, finding)
        if limit.crossed([finding]):
            failures += 1
            ElementTree.SubElement(case, "failure", message=text)
        elif finding.verdict == "too noisy":
            skipped += 1
            ElementTree.SubElement(case, "skipped", message=text)
        else:
            ElementTree.SubElement(case, "system-out").text = text
    suite.set("failures", str(failures))
    suite.set("skipped", str(skipped))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def github(found: Compared, seed: int, limits: Sequence[Limit]) -> str:
    """Workflow commands of GitHub: an error where a limit is crossed, a warning where it is too noisy, or a notice."""
    lines = []
    for finding in found.primary:
        crossed = any(limit.crossed([finding]) for limit in limits)
        kind = "error" if crossed else "warning" if finding.verdict == "too noisy" else "notice"
        text = sentence(found, finding).replace("%", "%25").replace("\n", "%0A")
        lines.append(f"::{kind} title=vtare ab::{text}")
    return "\n".join(lines) + "\n"


def _medians(found: Compared) -> list[tuple[str, str, float, float, float]]:
    """Name, unit, median and quartiles of each figure of each command."""
    import numpy as np

    rows = []
    for figure in dict.fromkeys(finding.figure for finding in (*found.primary, *found.others)):
        for k, command in enumerate(found.commands):
            values = [figure.read(pair.runs[k]) for pair in found.pairs]
            low, middle, high = (float(value) for value in np.quantile(values, (0.25, 0.5, 0.75)))
            rows.append((f"{command.text}: {figure.name}", _UNITS.get(figure.unit, ""), low, middle, high))
    return rows


def bencher(found: Compared, seed: int, limits: Sequence[Limit]) -> str:
    """Bencher Metric Format: a benchmark for each command, a measure for each figure, with quartiles as its bounds."""
    written: dict[str, dict[str, dict[str, float]]] = {}
    for name, _, low, middle, high in _medians(found):
        command, _, figure = name.rpartition(": ")
        measure = {"value": middle, "lower_value": low, "upper_value": high}
        written.setdefault(command, {})[figure.replace(" ", "-").lower()] = measure
    return json.dumps(written, indent=2, allow_nan=False) + "\n"


def benchmark_action(found: Compared, seed: int, limits: Sequence[Limit]) -> str:
    """What github-action-benchmark reads as `customSmallerIsBetter`."""
    rows = [
        {"name": name, "unit": unit, "value": middle, "range": f"{low:g} to {high:g}"}
        for name, unit, low, middle, high in _medians(found)
    ]
    return json.dumps(rows, indent=2, allow_nan=False) + "\n"


def whole(found: Compared, seed: int, limits: Sequence[Limit]) -> str:
    """The document of `--json`."""
    return json.dumps(document(found, seed), indent=2, allow_nan=False) + "\n"


#: What `--write FORM=FILE` writes.
FORMS: Final[dict[str, Callable[[Compared, int, Sequence[Limit]], str]]] = {
    "json": whole,
    "md": markdown,
    "junit": junit,
    "github": github,
    "bencher": bencher,
    "benchmark-action": benchmark_action,
}
