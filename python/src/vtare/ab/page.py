"""The page of a comparison by `vtare ab`: the answer, the pairs with the noise beside them, which quantiles moved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vtare import plots, stats
from vtare.ab.verdict import NOISE, benchmarks, letter, suffix_of, worst_first, written
from vtare.report import text
from vtare.report.facts import facts_of_machine
from vtare.report.frame import lab_version
from vtare.report.page import HtmlPage, render
from vtare.report.parts import Column, Facts, Notes, Panel, Question, Section, Table
from vtare.report.text import Shown, missing, words
from vtare.sentences import ab as wording
from vtare.sentences import titles
from vtare.sentences.template import FigureText
from vtare.summary.shift import ORDER, shift_function
from vtare.summary.shift import figures as run_quantiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.ab.compare import Compared, Finding
    from vtare.ab.designs import Pair
    from vtare.ab.verdict import Outcome, Row, Written


_MOST_DRAWN: Final = 6
"""Benchmarks of a suite that are drawn; all are in the table."""


def compared_page(outcome: Outcome) -> str:
    """The report of a comparison as one HTML document that fetches nothing."""
    compared = outcome.compared
    shown = written(compared)
    parts = [
        (mark, finding, [*_pairs(compared, finding, mark), *_shift(outcome, finding, mark)])
        for mark, finding in _drawn(compared)
    ]
    first = parts[0][2]
    headline = first.pop(0) if first else None
    commands = Notes(tuple((FigureText(name), f": `{command}`") for name, command in shown.commands), details=True)
    sections = [
        Section(f"figures-{mark}", finding.figure.name if compared.is_suite else
                f"{letter(finding.command)} against {letter(0)}", tuple(questions))
        for mark, finding, questions in parts
        if questions
    ]  # fmt: skip
    machine = ", ".join(str(outcome.machine.get(key) or "unknown") for key in ("hostname", "cpu_model", "kernel"))
    return render(HtmlPage(
        title=f"{_title(compared)}: vtare ab",
        origin="vtare ab",
        about=machine,
        question=_title(compared),
        sentences=[(text.keep(line),) for line in _answer(outcome, shown)],
        headline=headline,
        main=_figures(shown),
        main_title=titles.DIFFERENCES,
        sections=(
            Section("commands", titles.COMMANDS, (commands,)),
            *sections,
            Section("pairs", titles.PAIRS, (replace(_pair_table(compared), folded=True),)),
            Section("method", titles.METHOD, (Notes(tuple((line,) for line in _method(outcome))),)),
            Section("machine", titles.MACHINE,
                    (Facts("machine-1", "fact", facts_of_machine(outcome.machine)),)),
        ),
        footer=[f"vtare {lab_version()}", f"seed {outcome.seed}"],
    ))  # fmt: skip


def _drawn(found: Compared) -> list[tuple[str, Finding]]:
    """What is drawn, each with a name for its figures: every command, or the worst benchmarks of a suite."""
    if not found.is_suite:
        return [(letter(finding.command).lower(), finding) for finding in found.primary]
    return [(str(at), finding) for at, finding in enumerate(worst_first(found)[:_MOST_DRAWN], 1)]


def _title(found: Compared) -> str:
    more = [letter(k) for k in range(1, len(found.commands))]
    figure = found.primary[0].figure
    worse = figure.word(higher=not figure.more_is_better)
    if found.is_suite:
        return wording.is_any_worse(len(benchmarks(found)), more[0], letter(0))
    return wording.is_worse(more, worse, letter(0), figure.name)


def _answer(outcome: Outcome, shown: Written) -> list[str]:
    limits = [
        wording.fail_if(f"--fail-if '{limit.text}'", limit.state(outcome.compared.primary)) for limit in outcome.limits
    ]
    return [*shown.answer, *limits, *shown.warnings, *shown.about, *([] if shown.beside is None else [shown.beside])]


def _figures(shown: Written) -> Table:
    columns = (
        Column("figure", "figure", numeric=False),
        Column("command", "command", numeric=False),
        Column("typical", "typical run", about="the median over all runs, each taken to A's scale by its change"),
        Column("change", shown.change_heading, about="Hodges-Lehmann estimate over the pairs"),
        Column("verdict", "verdict", numeric=False),
    )
    rows = tuple(
        (
            words(row.figure),
            words(row.command),
            words(row.typical) if row.typical else missing("not counted"),
            _change(row),
            replace(words(row.verdict), kind=_kind(row.finding) if row.finding else ""),
        )
        for row in shown.rows
    )
    return Table("figures", "Every figure of every command", columns, rows)


def _kind(finding: Finding) -> str:
    """The class of a verdict: its colour."""
    if finding.verdict is stats.Verdict.REFUSED:
        return "missing"
    return finding.verdict.word(finding.figure.better)


def _change(row: Row) -> Shown:
    finding = row.finding
    if finding is not None and finding.ratio is None:
        return missing(finding.reason or "")
    ratio = None if finding is None else finding.ratio
    return words("") if ratio is None else Shown(text.keep(row.change), repr(ratio), ratio)


def _pairs_of(found: Compared, finding: Finding) -> list[Pair]:
    """The pairs that have the figure: once a benchmark of a suite is known, later ones may leave it out."""
    return [pair for pair in found.pairs if pair.log_ratio(finding.figure, finding.command) is not None]


def _pairs(found: Compared, finding: Finding, mark: str) -> list[Question]:
    """The change in each pair with the noise beside it; none where runs are no pairs or have no ratio."""
    if found.chosen.design == "sequential" or finding.ratio is None:
        return []
    figure, command = finding.figure, finding.command
    pairs = _pairs_of(found, finding)
    ratios = [pair.log_ratio(figure, command) for pair in pairs]
    changes = plots.Changes(
        tuple(float(np.exp(ratio)) for ratio in ratios if ratio is not None),
        tuple(_order(found, pair, (0, command)) for pair in pairs),
        finding.ratio, finding.low, finding.high,
    )  # fmt: skip
    strips = [plots.Strip(label, tuple(getattr(pair, name) for pair in pairs)) for name, label in NOISE.items()]
    name = f"pairs-{mark}"
    drawing = plots.pair_changes(
        changes, strips, name=name, label=f"change in {figure.name}", margin_ratio=1 + found.asked.margin
    )
    caption = wording.pair_changes(wording.HAD_WHICH_CPU if found.chosen.cpus else wording.CAME_FIRST)
    return [Question(name, titles.PAIR_CHANGES, caption, (Panel(name, drawing),))]


def _order(found: Compared, pair: Pair, only: Sequence[int] | None = None) -> str:
    """The order of a pair's runs, or of those of some commands."""
    placed = list(zip(pair.order, found.chosen.cpus or [None] * len(pair.order), strict=True))
    shown = [(letter(k), cpu) for k, cpu in placed if only is None or k in only]
    if found.chosen.cpus:
        return ", ".join(f"{name} on CPU {cpu}" for name, cpu in sorted(shown))
    return " then ".join(name for name, _ in shown)


def _shift(outcome: Outcome, finding: Finding, mark: str) -> list[Question]:
    """The shift function: of the readings of each run where it has some, else of the runs."""
    compared, figure, command = outcome.compared, finding.figure, finding.command
    rng = np.random.default_rng([outcome.seed, command])
    level = 1 - compared.asked.alpha
    if compared.chosen.design == "sequential" or finding.ratio is None:
        return []
    pairs = _pairs_of(compared, finding)
    if figure.readings is not None:
        here, there = (
            {at: _quantiles(figure.readings(pair.runs[k])) for at, pair in enumerate(pairs)} for k in (command, 0)
        )
        of, rule = "readings of a run", wording.OF_EACH_RUN
        shifts = shift_function(here, there, level=level, rng=rng)
    else:
        first, second = (
            [value for pair in pairs if (value := figure.read(pair.runs[k])) is not None] for k in (0, command)
        )
        of, rule = "runs", wording.HARRELL_DAVIS
        shifts = stats.quantile_shift(first, second, level=level, rng=rng)
    points = [(one.probability, one.ratio, one.low, one.high) for one in shifts]
    name = f"shift-{mark}"
    title = titles.SHIFT
    if not points:
        short = wording.no_quantile(len(pairs), stats.LEAST_SHIFT_PAIRS)
        return [Question(name, title, short, ())]
    drawing = plots.quantile_changes(
        points, name=name, label=f"change in {figure.name}", margin_ratio=1 + compared.asked.margin
    )
    ends = f"{100 * points[0][0]:g} to {100 * points[-1][0]:g} %"
    caption = wording.quantiles(of, letter(command), letter(0), level, rule, len(pairs), ends)
    return [Question(name, title, caption, (Panel(name, drawing),))]


def _quantiles(readings: Sequence[float]) -> dict[str, Any]:
    counted = stats.tally(readings)
    whole = {name: stats.quantile(readings, ORDER[name]).value for name in ("median", "p99")}
    return {**run_quantiles(counted), **whole}


def _pair_table(found: Compared) -> Table:
    figure = _drawn(found)[0][1].figure
    quantity = f"value{suffix_of(figure)}"
    known = [name for name in NOISE if any(getattr(pair, name) is not None for pair in found.pairs)]
    columns = (
        Column("pair", "pair"),
        Column("order", "order", numeric=False),
        *(
            Column(f"{letter(k).lower()}{suffix_of(figure)}", f"{figure.name}, {letter(k)}")
            for k in range(len(found.commands))
        ),
        *(Column(name, name.replace("_", " "), about=NOISE[name]) for name in known),
    )
    rows = tuple(
        (
            text.count(at, ""),
            words(_order(found, pair) or "none: groups"),
            *(text.figure(quantity, figure.read(run), "not counted") for run in pair.runs),
            *(text.number(getattr(pair, name), "not known") for name in known),
        )
        for at, pair in enumerate(found.pairs, 1)
    )
    return Table("pairs", f"All pairs: {figure.name} and the noise beside it", columns, rows)


def _method(outcome: Outcome) -> list[str]:
    compared = outcome.compared
    margin = f"{100 * compared.asked.margin:.3g} %"
    looks = wording.SEQUENTIAL if compared.chosen.design == "sequential" else wording.in_pairs(compared.asked.alpha)
    return [looks, wording.verdicts(margin), wording.GAPS_AND_STEAL, wording.seed(outcome.seed)]
