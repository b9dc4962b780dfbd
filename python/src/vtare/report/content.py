"""What a report holds, whatever form it takes: the answer, figures by question, tables, from one summary."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from vtare.report import layers, shifts
from vtare.report.cell_table import cell_table
from vtare.report.claims import Answer, answer
from vtare.report.facts import facts_of, load_facts, quantum_of
from vtare.report.figures import cpu_figures, distribution_figures, drift_figure, median_figures, slug
from vtare.report.inference import effect_figure, inference_figures
from vtare.report.inference_tables import control_table, inference_tables
from vtare.report.layout import layout_of
from vtare.report.main_table import main_tables
from vtare.report.method import caveats_of, method_of, paragraph_for_a_paper
from vtare.report.over_time import change_question
from vtare.report.pages import page_for
from vtare.report.parts import Block, Code, Facts, Heading, Notes, Question, Section, Table, Text
from vtare.report.placement import placement_figures, placement_tables
from vtare.report.tables import absent_tables, test_table, verdict_table
from vtare.sentences import captions, titles
from vtare.sentences.caveats import OTHER_MACHINES
from vtare.sentences.words import plural
from vtare.stats import WORDS, Verdict
from vtare.summary.quality import sound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vtare.plots import Drawing
    from vtare.report.layout import Layout
    from vtare.sentences.template import Sentence
    from vtare.summary import Summary


#: Columns of tables that hold sentences.
_LONG: Final = ("where", "refused", "reason", "outlying_runs", "log_tail")


@dataclass(frozen=True, slots=True)
class Content:
    """A whole report without its form.

    `headline` is the main figure, `main` the table of the first screen, `main_all` that of all main comparisons where
    it has more rows.
    """

    summary: Summary
    layouts: Mapping[str, Layout]
    answer: Answer
    headline: Question | None
    main: Table | None
    main_all: Table | None
    sections: tuple[Section, ...]

    def questions(self) -> Iterator[Question]:
        """Every question with figures, in the order of the page."""
        if self.headline is not None:
            yield self.headline
        for section in self.sections:
            yield from (block for block in section.blocks if isinstance(block, Question))

    def drawings(self) -> Iterator[Drawing]:
        """Every figure, in the order of the page."""
        for question in self.questions():
            yield from (panel.drawing for panel in question.panels)

    def tables(self) -> Iterator[Table]:
        """Every table, in the order of the page."""
        yield from (table for table in (self.main, self.main_all) if table is not None)
        for section in self.sections:
            yield from section.tables()

    def section(self, id_: str) -> Section:
        """The section with this id.

        Raises:
            KeyError: there is none.
        """
        return {section.id: section for section in self.sections}[id_]


def layouts_of(summary: Summary) -> dict[str, Layout]:
    """The layout of every experiment that has at least one cell."""
    layouts = {}
    for experiment in summary.plan.experiments:
        cells = summary.cells.filter(pl.col("experiment") == experiment.name)
        if cells.height:
            layouts[experiment.name] = layout_of(summary, experiment, cells)
    return layouts


def content_of(summary: Summary, *, figures: bool = True) -> Content:
    """Make everything that a report shows; without `figures` only answer and tables, in a tenth of the time."""
    layouts = layouts_of(summary)
    answered = answer(summary, layouts)
    headline: Question | None = None
    experiments = []
    for name, layout in layouts.items():
        cells = summary.cells.filter(pl.col("experiment") == name)
        questions: list[Question] = []
        if figures:
            first, questions = _questions(summary, layout, cells)
            if name == answered.headline:
                headline = first
            elif first is not None:
                questions.insert(0, first)
        notes = answered.notes.get(name, ())
        is_main = name == answered.headline
        experiments.append(_experiment(summary, layout, cells, notes, questions, figures=figures, is_main=is_main))
    main, main_all = main_tables(sound(summary), layouts, answered.headline)
    sections = (
        _layers(summary, layouts),
        _differences(summary, layouts, figures=figures),
        *experiments,
        _placement(summary, layouts, figures=figures),
        _steadiness(summary, figures=figures),
        _method(summary, layouts),
        _machines(summary),
        _plan(summary),
    )
    return Content(
        summary, layouts, answered, headline, main, main_all, tuple(one for one in sections if one is not None)
    )


def _experiment(
    summary: Summary, layout: Layout, cells: pl.DataFrame, notes: tuple[Sentence, ...], questions: list[Question], *,
    figures: bool, is_main: bool,
) -> Section:  # fmt: skip
    """The section of an experiment: its figures, the table of its cells and those of what was inferred."""
    page = page_for(layout.experiment)
    if page.cells is not None:
        table = page.cells(summary, layout, cells)
    else:
        made = None if page.made is None else page.made(summary, layout)
        threshold = _threshold(summary, layout.experiment.name)
        table = cell_table(layout, cells, quantum_of(summary.machines), threshold, made)
    shown = sorted((q for q in questions if q.panels), key=lambda question: question.folded)
    tables = [*page.tables(summary, layout)] if page.tables is not None else []
    tables += () if layout.experiment.meshed else inference_tables(summary, layout)
    if is_main:
        # The section of the main experiment has the shift function of its comparisons.
        shifted = shifts.shifts_of(summary, layout)
        tables = [*(one for one in (shifts.shift_table(summary, layout, shifted),) if one is not None), *tables]
        drawn = shifts.shift_figure(summary, layout, shifted) if figures else None
        shown = [*([] if drawn is None else [drawn]), *shown]
    about = page.about(summary, layout) if page.about is not None else ""
    fixed = layout.fixed_text()
    blocks: list[Block] = [
        *([Text(captions.held_fixed(fixed), caption=True)] if fixed else []),
        *([Text(about)] if about else []),
        *([Notes(notes, details=True)] if notes else []),
        *shown,
        Heading(titles.CELLS),
        Text(captions.CELLS, caption=True),
        table,
        *(replace(one, folded=True, long=_LONG) for one in tables),
    ]
    return Section(slug("experiment", layout.experiment.name), layout.experiment.title, tuple(blocks))


def _layers(summary: Summary, layouts: Mapping[str, Layout]) -> Section | None:
    table = layers.table(summary, layouts)
    if table is None:
        return None
    words = Text(layers.words(summary), caption=True)
    return Section("layers", layers.title(summary), (words, replace(table, folded=True, long=("where",))))


def _differences(summary: Summary, layouts: Mapping[str, Layout], *, figures: bool) -> Section | None:
    table = verdict_table(summary, layouts)
    if table is None:
        return None
    effects = effect_figure(summary, layouts) if figures else None
    tests = test_table(summary)
    drawn: list[Block] = [] if effects is None else [effects, Heading(titles.COMPARISONS)]
    blocks = [
        Text(f"{captions.EFFECTS} {verdict_counts(summary)}"),
        *drawn,
        replace(table, choice=True),
        *([replace(tests, folded=True, about=captions.FACTOR_TESTS, long=_LONG)] if tests is not None else []),
    ]
    return Section("verdicts", titles.VERDICTS, tuple(blocks))


def _placement(summary: Summary, layouts: Mapping[str, Layout], *, figures: bool) -> Section | None:
    questions = placement_figures(summary, layouts) if figures else ()
    tables = placement_tables(summary, layouts)
    if not questions and not tables:
        return None
    blocks = (Text(OTHER_MACHINES), *questions, *(replace(one, long=("published", "standing")) for one in tables))
    return Section("placement", titles.PLACEMENT, blocks)


def _steadiness(summary: Summary, *, figures: bool) -> Section:
    drift = drift_figure(summary) if figures else None
    changes = change_question(summary) if figures else None
    controls = control_table(summary)
    absent = absent_tables(summary)
    pending = pending_text(summary)
    blocks: list[Block] = [
        *([drift] if drift is not None else [Text(captions.NO_CONTROL_CELL)] if controls is None else []),
        Text(flagged_text(summary)),
        *([changes] if changes is not None else []),
        *([replace(controls, folded=True)] if controls is not None else []),
    ]
    for one in absent:
        what = "failed" if one.id == "failed" else "were skipped"
        blocks += [Heading(titles.absent_runs(what, len(one.rows)), one.id), replace(one, long=_LONG)]
    ending = " ".join(piece for piece in ("" if absent else captions.NO_RUN_ABSENT, pending) if piece)
    return Section("steadiness", titles.STEADINESS, (*blocks, *([Text(ending)] if ending else [])))


def _method(summary: Summary, layouts: Mapping[str, Layout]) -> Section:
    method, caveats = ([(line,) for line in lines(summary, layouts)] for lines in (method_of, caveats_of))
    kept_in_mind = Heading(titles.CAVEATS)
    paper = (Heading("A paragraph for a paper"), Text(paragraph_for_a_paper(summary)))
    return Section("method", titles.METHOD, (Notes(tuple(method)), kept_in_mind, Notes(tuple(caveats)), *paper))


def _machines(summary: Summary) -> Section:
    blocks: list[Block] = []
    for at, one in enumerate(summary.machines, 1):
        blocks.append(Heading(f"{one.hostname} ({one.platform}, {plural(one.runs, 'run')})"))
        blocks.append(Facts(f"machine-{at}", "fact", facts_of(one)))
    loads = load_facts(summary.loads)
    if loads:
        blocks += [Heading(titles.LOADS), Facts("loads", "load", loads)]
    return Section("machine", titles.MACHINE, tuple(blocks))


def _plan(summary: Summary) -> Section:
    words = captions.seed_of_plan(summary.seed, drawn=summary.plan.seed is None)
    return Section("plan", titles.PLAN, (Text(words), Code(summary.plan_text)))


def verdict_counts(summary: Summary) -> str:
    """How many comparisons have each verdict, in a sentence."""
    counts = Counter(row.word for row in summary.comparisons)
    margin = summary.plan.analysis.margin_percent
    listed = [
        captions.equivalent(counts[word], margin) if word == Verdict.EQUIVALENT else f"{counts[word]} {word}"
        for word in WORDS
        if counts[word]
    ]
    return captions.verdicts(counts.total(), listed)


def flagged_text(summary: Summary) -> str:
    """Which blocks are flagged, in a sentence."""
    if summary.controls.height == 0:
        return captions.NO_CONTROL_RUN
    return captions.flagged(summary.flagged_blocks) if summary.flagged_blocks else captions.NO_BLOCK_FLAGGED


def pending_text(summary: Summary) -> str:
    """How many runs are still to be made, in a sentence; empty where none."""
    return captions.pending(summary.pending_runs) if summary.pending_runs else ""


def _questions(summary: Summary, layout: Layout, cells: pl.DataFrame) -> tuple[Question | None, list[Question]]:
    """The main figure of an experiment, None where nothing can be drawn, and all others."""
    page = page_for(layout.experiment)
    if page.questions is not None:
        made = page.questions(summary, layout)
        return (made[0] if made else None), [*made[1:], *inference_figures(summary, layout)]
    if cells.get_column(layout.main.value).null_count() == cells.height:
        return None, []
    cpu = cpu_figures(summary, layout)
    medians = median_figures(summary, layout)
    first = page.first(summary, layout) if page.first is not None else None
    others = [
        *([medians] if first is not None else []),
        *(page.further(summary, layout) if page.further is not None else ()),
        *distribution_figures(summary, layout),
        *inference_figures(summary, layout),
        *([cpu] if cpu is not None else []),
    ]
    return first or medians, others


def _threshold(summary: Summary, experiment: str) -> float | None:
    """The threshold of `exceed_per_s`, None where there is none or runs differ in it."""
    runs = summary.runs.filter((pl.col("experiment") == experiment) & pl.col("control").is_null())
    thresholds = runs.get_column("threshold_ns").drop_nulls().unique().to_list()
    return float(thresholds[0]) if len(thresholds) == 1 else None
