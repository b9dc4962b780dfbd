"""From a summary to the text of one HTML file."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jinja2
import polars as pl
from markupsafe import Markup, escape

from vtare.plots import css_colours
from vtare.plots.format import time_text
from vtare.report import bandwidth, text, throughput
from vtare.report.claims import answer
from vtare.report.facts import facts_of, load_facts, quantum_of
from vtare.report.figures import cpu_figures, distribution_figures, drift_figure, median_figures, slug
from vtare.report.layout import READ_COST, layout_of
from vtare.report.method import caveats_of, method_of
from vtare.report.placement import placement_figures, placement_table
from vtare.report.round_trips import stack_figures
from vtare.report.tables import Table, absent_tables, cell_table, test_table, verdict_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.report.figures import Question
    from vtare.report.layout import Layout
    from vtare.report.sentences import Sentence
    from vtare.summary import Summary


@dataclass(frozen=True, slots=True)
class Part:
    """One experiment's section."""

    id: str
    title: str
    fixed: str
    about: str
    questions: tuple[Question, ...]
    cells: Table


def environment() -> jinja2.Environment:
    """The templates of the package; values are escaped unless a template says otherwise, unknown names are errors."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("vtare.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=False,
    )


def layouts_of(summary: Summary) -> dict[str, Layout]:
    """The layout of every experiment that has at least one cell."""
    found = {}
    for experiment in summary.plan.experiments:
        cells = summary.cells.filter(pl.col("experiment") == experiment.name)
        if cells.height:
            found[experiment.name] = layout_of(summary, experiment, cells)
    return found


def build(summary: Summary) -> str:
    """The whole report as HTML text: one document, nothing fetched from anywhere."""
    layouts = layouts_of(summary)
    said = answer(summary, layouts)
    main: Question | None = None
    parts = []
    for name, layout in layouts.items():
        cells = summary.cells.filter(pl.col("experiment") == name)
        questions: list[Question] = []
        if layout.experiment.instrument == "avb":
            questions = bandwidth.questions(summary, layout)
            main = questions.pop(0) if name == said.headline and questions else main
            questions.sort(key=lambda question: question.folded)
        elif layout.experiment.instrument == "throughput":
            questions = throughput.questions(summary, layout)
            main = questions.pop(0) if name == said.headline and questions else main
        elif cells.get_column(layout.main.value).null_count() < cells.height:
            medians = median_figures(summary, layout)
            if name == said.headline:
                main = medians
            else:
                questions.append(medians)
            questions += distribution_figures(summary, layout)
            stacked = stack_figures(summary, layout) if layout.experiment.instrument == "rtt" else None
            questions = [*([stacked] if stacked is not None else []), *questions]
            cpu = cpu_figures(summary, layout)
            questions += [cpu] if cpu is not None else []
            questions.sort(key=lambda question: question.folded)
        if layout.experiment.instrument == "avb":
            table = bandwidth.cell_table(summary, layout, cells)
        elif layout.experiment.instrument == "throughput":
            table = throughput.cell_table(layout, cells)
        else:
            table = cell_table(layout, cells, quantum_of(summary.machines), _threshold(summary, name))
        shown = tuple(question for question in questions if question.panels)
        parts.append(
            Part(
                slug("experiment", name),
                layout.experiment.title,
                layout.fixed_text(),
                _about(summary, layout),
                shown,
                table,
            )
        )
    context: dict[str, Any] = {
        "name": summary.plan.name,
        "where": _where(summary),
        "question_text": summary.plan.question,
        "sentences": [_marked(sentence) for sentence in said.sentences],
        "key": text.keep(said.key),
        "details": [_marked(sentence) for sentence in said.details],
        "limits": said.limits,
        "headline": main,
        "headline_title": layouts[said.headline].experiment.title if said.headline in layouts else "",
        "verdicts": verdict_table(summary, layouts),
        "verdict_counts": _verdict_counts(summary),
        "tests": test_table(summary),
        "parts": parts,
        "placements": placement_figures(summary, layouts),
        "placement_table": placement_table(summary, layouts),
        "drift": drift_figure(summary),
        "flagged": _flagged(summary),
        "absent": absent_tables(summary),
        "pending": _pending(summary),
        "method": method_of(summary, layouts),
        "caveats": caveats_of(summary),
        "machines": [
            {"name": f"{m.hostname} ({m.platform}, {text.plural(m.runs, 'run')})", "facts": facts_of(m)}
            for m in summary.machines
        ],
        "loads": load_facts(summary.loads),
        "plan_text": summary.plan_text,
        "seed": summary.seed,
        "seed_note": "" if summary.plan.seed is not None else "drawn when the campaign began: the plan names none",
        "versions": _versions(summary),
        "css": _css(),
        "js": _asset("report.js"),
    }
    context["contents"] = _contents(context, layouts)
    return environment().get_template("report.html.j2").render(context)


def _about(summary: Summary, layout: Layout) -> str:
    """What the figures of a section are, where there is more than one kind of them."""
    if layout.main != READ_COST:
        return ""
    quantum = quantum_of(summary.machines)
    steps = f"steps of {text.keep(time_text(quantum))}" if quantum is not None else "the clock's steps"
    return (
        "The read cost is the time of a tight loop of reads over their number; all that shows single readings (tails, "
        f"boxes, raw readings, quantiles) is the difference between one reading and the next, which moves in {steps} "
        "but keeps every disturbance."
    )


def _threshold(summary: Summary, experiment: str) -> float | None:
    """The threshold of `exceed_per_s`, None where there is none or runs differ in it."""
    runs = summary.runs.filter((pl.col("experiment") == experiment) & pl.col("control").is_null())
    found = runs.get_column("threshold_ns").drop_nulls().unique().to_list()
    return float(found[0]) if len(found) == 1 else None


def _marked(sentence: Sentence) -> Markup:
    """The sentence with its figures set bold and their intervals set back."""
    pieces = []
    for piece in sentence:
        if isinstance(piece, str):
            pieces.append(escape(text.keep(piece)))
            continue
        pieces.append(Markup("<strong>{}</strong>").format(text.keep(piece.value)))
        if piece.interval:
            pieces.append(Markup(' <span class="range">({})</span>').format(text.keep(piece.interval)))
    return Markup("").join(pieces)


def _where(summary: Summary) -> str:
    if not summary.machines:
        return "no machine measured yet"
    names = [f"{m.hostname}, {m.machine.get('cpu_model') or 'CPU unknown'}" for m in summary.machines]
    done = summary.design.filter(pl.col("status") == "done").height
    return f"{'; '.join(names)} · {done} of {text.plural(summary.design.height, 'run')}"


def _verdict_counts(summary: Summary) -> str:
    words = summary.comparisons.get_column("verdict").to_list() if summary.comparisons.height else []
    counts = {word: words.count(word) for word in ("differs", "undecided", "equivalent")}
    margin = summary.plan.analysis.margin_percent
    return (
        f"Of {text.plural(len(words), 'comparison')}, {counts['differs']} "
        f"{'differs' if counts['differs'] == 1 else 'differ'}, "
        f"{counts['equivalent']} {'is' if counts['equivalent'] == 1 else 'are'} equivalent within {margin:g} %, "
        f"{counts['undecided']} {'stays' if counts['undecided'] == 1 else 'stay'} undecided."
    )


def _flagged(summary: Summary) -> str:
    if summary.controls.height == 0:
        return "No block could be flagged: there is no control run."
    if not summary.flagged_blocks:
        return "No block is flagged: the control cell stayed within its limit in every block that was measured."
    blocks = text.listing([str(block) for block in summary.flagged_blocks])
    many = len(summary.flagged_blocks) > 1
    which, whose = ("blocks", "Their") if many else ("block", "Its")
    return f"Flagged: {which} {blocks}. {whose} runs are kept in every figure."


def _pending(summary: Summary) -> str:
    if not summary.pending_runs:
        return ""
    return f"{text.plural(summary.pending_runs, 'run')} of the plan not yet made: vtare resume goes on."


def _versions(summary: Summary) -> list[str]:
    try:
        lab = version("vtare")
    except PackageNotFoundError:
        lab = "not installed"
    programs = sorted(
        {f"{m.program.get('name', 'program')} {m.program.get('version', 'unknown')}" for m in summary.machines}
    )
    return [
        f"instruments: {', '.join(programs) or 'none ran'}",
        f"lab: vtare {lab}",
        f"Python {platform.python_version()}",
        f"polars {pl.__version__}",
        f"matplotlib {version('matplotlib')}",
        f"store: {summary.store}",
    ]


def _contents(context: Mapping[str, Any], layouts: Mapping[str, Layout]) -> list[tuple[str, str]]:
    found = [("verdicts", "What differs")] if context["verdicts"] is not None else []
    found += [(slug("experiment", name), layout.experiment.title) for name, layout in layouts.items()]
    if context["placements"] or context["placement_table"] is not None:
        found.append(("placement", "Published platforms"))
    return [
        *found,
        ("steadiness", "Blocks and controls"),
        ("method", "Method and caveats"),
        ("machine", "The machine"),
        ("plan", "The plan"),
    ]


def _asset(name: str) -> str:
    return (files("vtare.report") / "templates" / name).read_text(encoding="utf-8")


def _css() -> str:
    light, dark = css_colours()
    return _asset("style.css").replace("@LIGHT@", light).replace("@DARK@", dark)
