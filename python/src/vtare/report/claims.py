"""The answer in at most three short sentences, made from measured figures and their intervals and from nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from vtare.instruments import order_of
from vtare.number_text import percent_text, time_text
from vtare.report import text
from vtare.report.facts import quantum_of
from vtare.report.limits import last_sentence, limits_of
from vtare.report.pages import page_for
from vtare.report.sentences import SAME, answered_rows
from vtare.sentences import answers as wording
from vtare.sentences import limits as limit_wording
from vtare.sentences.template import FigureText, Sentence
from vtare.summary.quality import HIDES, flawed, sound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.report.layout import Layout
    from vtare.summary import Summary

_MOST_SENTENCES: Final = 3
"""Sentences of the answer; the rest stands in the sections of the experiments."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The first screen.

    `sentences` are the answer, `key` explains figures and brackets, `certainty` states how far they carry, `limits`
    are what cannot be concluded, `headline` names the experiment that is drawn. `notes` are the further sentences of
    each experiment, by its name; they stand in its section.
    """

    sentences: tuple[Sentence, ...]
    key: str
    certainty: str
    limits: tuple[str, ...]
    headline: str | None
    notes: Mapping[str, tuple[Sentence, ...]]


def answer(summary: Summary, layouts: Mapping[str, Layout]) -> Answer:
    """Answer the plan's question from the cells and comparisons of a summary."""
    headline = headline_experiment(summary, layouts)
    order = sorted(layouts.values(), key=lambda layout: (layout.experiment.name != headline, _rank(layout)))
    answers: list[tuple[str, Sentence]] = []
    notes: dict[str, list[Sentence]] = {layout.experiment.name: [] for layout in order}
    for layout in order:
        name = layout.experiment.name
        page = page_for(layout.experiment)
        if not answered_rows(summary, layout):
            notes[name].append((wording.NO_RUN_FINISHED,))
            continue
        first, later = _of_sound_cells(summary, layout)
        notes[name] += later
        if page.is_titled and name != headline:
            notes[name][:0] = first
            continue
        # Where others follow, the reader must know which one this is.
        if page.is_titled and first and sum(_rank(other) == _rank(layout) for other in order) > 1:
            first[0] = wording.titled(layout.experiment.title, first[0])
        answers += [(name, sentence) for sentence in first]
    for name, sentence in reversed(answers[_MOST_SENTENCES:]):
        notes[name].insert(0, sentence)
    shown = [sentence for _, sentence in answers[:_MOST_SENTENCES]]
    limits = limits_of(summary)
    return Answer(
        sentences=tuple(shown),
        key=_key(summary, shown),
        certainty=last_sentence(summary, limits),
        limits=tuple(limit.full for limit in limits),
        headline=headline,
        notes={name: tuple(some) for name, some in notes.items() if some},
    )


def _of_sound_cells(summary: Summary, layout: Layout) -> tuple[list[Sentence], list[Sentence]]:
    """The sentences of cells whose readings carry one; of the others the reason in front, and what to do."""
    name = layout.experiment.name
    kept = sound(summary, name)
    hidden = [one for one in flawed(summary, least=HIDES) if one.row["experiment"] == name]
    first, later = page_for(layout.experiment).sentences(kept, layout) if answered_rows(kept, layout) else ([], [])
    if not hidden:
        return first, later
    worst = max(hidden, key=lambda one: one.share)
    cells = summary.cells.filter((pl.col("experiment") == name) & (pl.col("n_runs") > 0)).height
    gone = cells - kept.cells.filter((pl.col("experiment") == name) & (pl.col("n_runs") > 0)).height
    amount = f"{worst.count:g} of {worst.total:g}" if worst.flaw.of else f"{percent_text(worst.share)} of the"
    why = limit_wording.untrusted_figures(gone, cells, amount, worst.flaw.words, worst.flaw.remedy)
    return [(why,), *first], later


def _rank(layout: Layout) -> int:
    return order_of(layout.experiment.instrument)


def headline_experiment(summary: Summary, layouts: Mapping[str, Layout]) -> str | None:
    """Of the first instrument, the experiment that answers most, of several the one with the largest effect."""
    ran = {name: layout for name, layout in layouts.items() if answered_rows(summary, layout)} or dict(layouts)
    if not ran:
        return None
    first = min(_rank(layout) for layout in ran.values())
    names = [name for name, layout in ran.items() if _rank(layout) == first]
    extents = {name: page_for(ran[name].experiment).extent(summary, ran[name]) for name in names}
    names = [name for name in names if extents[name] == max(extents.values())]
    best: tuple[bool, float, str] | None = None
    for row in summary.comparisons:
        if row.experiment not in names or not row.verdict.is_different or not row.ratio:
            continue
        rank = (row.factor == "load", abs(math.log(row.ratio)), row.experiment)
        if best is None or rank[:2] > best[:2]:
            best = rank
    return best[2] if best is not None else names[0]


def _key(summary: Summary, sentences: list[Sentence]) -> str:
    """What the figures are and what stands in brackets."""
    figures = [piece for sentence in sentences for piece in sentence if isinstance(piece, FigureText)]
    runs = sorted({n for n in summary.cells.get_column("n_runs").to_list() if n}) if summary.cells.height else []
    if not figures or not runs:
        return ""
    if not any(piece.interval for piece in figures):
        return wording.OF_ONE_RUN if runs == [1] else wording.without_intervals(runs[-1])
    key = wording.medians_over(runs[0], runs[-1], text.levels_text(summary.cells))
    if any(piece.interval == SAME for piece in figures):
        quantum = quantum_of(summary.machines)
        key += f" {wording.same_in_all_runs('' if quantum is None else time_text(quantum))}"
    return key
