"""What a report holds, whatever form it takes: the answer, figures by question, tables, from one summary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from vtare.report import layers, shifts
from vtare.report.claims import Answer, answer
from vtare.report.facts import quantum_of
from vtare.report.figures import cpu_figures, distribution_figures, drift_figure, median_figures, slug
from vtare.report.inference import effect_figure, inference_figures
from vtare.report.inference_tables import control_table, inference_tables
from vtare.report.layout import layout_of
from vtare.report.main_table import main_tables
from vtare.report.over_time import change_question
from vtare.report.pages import page_for
from vtare.report.parts import Table
from vtare.report.placement import placement_figures, placement_tables
from vtare.report.tables import absent_tables, cell_table, test_table, verdict_table
from vtare.summary.quality import sound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vtare.plots import Drawing
    from vtare.report.figures import Question
    from vtare.report.layout import Layout
    from vtare.report.parts import Sentence
    from vtare.summary import Summary


DIFFERS: Final = "What differs from what?"
PLACEMENT: Final = "Where does this machine stand among published platforms?"
STEADINESS: Final = "Did the machine stay the same?"
METHOD: Final = "How was it measured?"
CAVEATS: Final = "What is to be kept in mind?"
"""Headings of sections, whatever the form of the report."""


@dataclass(frozen=True, slots=True)
class Part:
    """One experiment's section: its figures, the table of its cells and those of what was inferred."""

    id: str
    title: str
    fixed: str
    about: str
    notes: tuple[Sentence, ...]
    questions: tuple[Question, ...]
    cells: Table
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """A whole report without its form.

    `headline` is the main figure, `main` the table of the first screen, `main_all` that of all main
    comparisons where it has more rows, `effects` the heat map of all cells,
    `layers` the table of what the layer costs and what loads do to the tails.
    """

    summary: Summary
    layouts: Mapping[str, Layout]
    answer: Answer
    headline: Question | None
    main: Table | None
    main_all: Table | None
    layers: Table | None
    effects: Question | None
    verdicts: Table | None
    tests: Table | None
    parts: tuple[Part, ...]
    placements: tuple[Question, ...]
    placement_tables: tuple[Table, ...]
    drift: Question | None
    changes: Question | None
    controls: Table | None
    absent: tuple[Table, ...]

    def questions(self) -> Iterator[Question]:
        """Every question with figures, in the order of the page."""
        singles = [self.headline, self.effects]
        yield from (question for question in singles if question is not None)
        for part in self.parts:
            yield from part.questions
        yield from self.placements
        yield from (question for question in (self.drift, self.changes) if question is not None)

    def drawings(self) -> Iterator[Drawing]:
        """Every figure, in the order of the page."""
        for question in self.questions():
            yield from (panel.drawing for panel in question.panels)

    def tables(self) -> Iterator[Table]:
        """Every table, in the order of the page."""
        yield from (
            table for table in (self.main, self.main_all, self.layers, self.verdicts, self.tests) if table is not None
        )
        for part in self.parts:
            yield part.cells
            yield from part.tables
        yield from self.placement_tables
        if self.controls is not None:
            yield self.controls
        yield from self.absent


def layouts_of(summary: Summary) -> dict[str, Layout]:
    """The layout of every experiment that has at least one cell."""
    found = {}
    for experiment in summary.plan.experiments:
        cells = summary.cells.filter(pl.col("experiment") == experiment.name)
        if cells.height:
            found[experiment.name] = layout_of(summary, experiment, cells)
    return found


def content_of(summary: Summary, *, figures: bool = True) -> Content:
    """Make everything that a report shows; without `figures` only answer and tables, in a tenth of the time."""
    layouts = layouts_of(summary)
    found = answer(summary, layouts)
    headline: Question | None = None
    parts = []
    for name, layout in layouts.items():
        cells = summary.cells.filter(pl.col("experiment") == name)
        questions: list[Question] = []
        if figures:
            first, questions = _questions(summary, layout, cells)
            if name == found.headline:
                headline = first
            elif first is not None:
                questions.insert(0, first)
        page = page_for(layout.experiment)
        if page.cells is not None:
            table = page.cells(summary, layout, cells)
        else:
            table = cell_table(layout, cells, quantum_of(summary.machines), _threshold(summary, name))
        own_tables = page.tables(summary, layout) if page.tables is not None else ()
        shown = tuple(sorted((q for q in questions if q.panels), key=lambda question: question.folded))
        inferred = () if layout.experiment.meshed else inference_tables(summary, layout)
        part = Part(slug("experiment", name), layout.experiment.title, layout.fixed_text(),
                    page.about(summary, layout) if page.about is not None else "",
                    found.notes.get(name, ()), shown, table,
                    (*own_tables, *inferred))  # fmt: skip
        parts.append(_with_shifts(summary, layout, part, figures=figures) if name == found.headline else part)
    main, main_all = main_tables(sound(summary), layouts, found.headline)
    return Content(
        summary=summary,
        layouts=layouts,
        answer=found,
        headline=headline,
        main=main,
        main_all=main_all,
        layers=layers.table(summary, layouts),
        effects=effect_figure(summary, layouts) if figures else None,
        verdicts=verdict_table(summary, layouts),
        tests=test_table(summary),
        parts=tuple(parts),
        placements=tuple(placement_figures(summary, layouts)) if figures else (),
        placement_tables=placement_tables(summary, layouts),
        drift=drift_figure(summary) if figures else None,
        changes=change_question(summary) if figures else None,
        controls=control_table(summary),
        absent=absent_tables(summary),
    )


def _with_shifts(summary: Summary, layout: Layout, part: Part, *, figures: bool) -> Part:
    """The section of the main experiment with the shift function of its comparisons."""
    found = shifts.shifts_of(summary, layout)
    table = shifts.shift_table(summary, layout, found)
    question = shifts.shift_figure(summary, layout, found) if figures else None
    return replace(
        part,
        questions=part.questions if question is None else (question, *part.questions),
        tables=part.tables if table is None else (table, *part.tables),
    )


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
    found = runs.get_column("threshold_ns").drop_nulls().unique().to_list()
    return float(found[0]) if len(found) == 1 else None
