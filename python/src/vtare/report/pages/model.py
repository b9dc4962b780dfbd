"""What a report shows of one instrument beside what it shows of all: its sentences, figures and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import polars as pl

    from vtare.papers.standing import Standing
    from vtare.report.layout import Layout
    from vtare.report.parts import Column, Question, Table
    from vtare.report.text import Shown
    from vtare.sentences.template import Sentence
    from vtare.stats import PValue
    from vtare.summary import Summary


@dataclass(frozen=True, slots=True)
class CellColumn:
    """A column of the table of cells: what shows a cell, and whether a cell has a figure of it.

    `always` ones stand there without any figure too, those `without_runs` state something of a cell without runs.
    """

    head: Column
    show: Callable[[Mapping[str, Any]], Shown]
    is_known: Callable[[Mapping[str, Any]], bool] = lambda _row: True
    always: bool = False
    without_runs: bool = False


#: The columns of every table of cells: what readings are like, and how many there are.
READINGS: Final = ("median", "median_interval", "half_iqr", "p99", "p999", "min", "max", "exceed_per_s")
RUNS: Final = ("lag1", "n_eff", "between_run_cv", "n_runs", "n")

Answered = tuple[list["Sentence"], list["Sentence"]]
"""The sentences of the answer, and those in the section of the experiment."""


@dataclass(frozen=True, slots=True)
class Placement:
    """This machine among published ones: the figure's caption, and what finds the standing of a cell.

    `{level}` in the caption is replaced by the level of the intervals. Without `place` cells are set beside published
    coefficients of variation, argument by argument.
    """

    caption: str
    place: Callable[..., Standing | None] | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """What sets a campaign beside papers: tables, figures, and notes on what cannot be compared."""

    tables: tuple[Table, ...] = ()
    questions: tuple[Question, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One instrument's part of a report; every field but the sentences has a default that fits any instrument.

    `sentences` answer from cells that have a figure; with `is_titled` they need the experiment's title where others
    stand beside them. `extent` is how much of a plan's question an experiment answers: the greatest is drawn first.
    `questions` are its figures, the first the main one (None: those of all instruments); `first` is the main figure in
    place of the medians where it finds one, `further` stand before the usual ones. `cells` makes the table of cells
    (None: the usual one); `columns` names the figures and intervals of the table of cells, `made` makes those that are
    no figure of a run; with `all_columns` each stands there, and only keys that vary. `readings` names what medians are
    of. `tables` stand beside, `about` above. `method` and `caveats` are statements at the report's end. `system` and
    `ours` name what most programs use and what vtare offers in its place, by level of the series, the most common
    first. `more_and_less` are the words for a change of a figure. `papers` publish the same, `beside` and `placement`
    set cells beside theirs. `tested` gives the adjusted p-values of tests that no frame of the summary holds.
    """

    sentences: Callable[[Summary, Layout], Answered]
    is_titled: bool = False
    extent: Callable[[Summary, Layout], int] = lambda _summary, _layout: 0
    questions: Callable[[Summary, Layout], list[Question]] | None = None
    first: Callable[[Summary, Layout], Question | None] | None = None
    further: Callable[[Summary, Layout], Sequence[Question]] | None = None
    cells: Callable[[Summary, Layout, pl.DataFrame], Table] | None = None
    columns: tuple[str, ...] = (*READINGS, *RUNS)
    made: Callable[[Summary, Layout], Mapping[str, CellColumn]] | None = None
    all_columns: bool = False
    readings: str = ""
    tables: Callable[[Summary, Layout], Sequence[Table]] | None = None
    about: Callable[[Summary, Layout], str] | None = None
    method: Callable[[Sequence[Layout]], tuple[str, ...]] | None = None
    caveats: tuple[str, ...] = ()
    system: Mapping[str, str] = field(default_factory=dict)
    ours: Mapping[str, str] = field(default_factory=dict)
    more_and_less: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    papers: tuple[str, ...] = ()
    beside: Callable[[Summary, dict[str, Layout], tuple[str, ...]], Beside] | None = None
    placement: Placement | None = None
    tested: Callable[[Summary, Layout], Sequence[PValue]] | None = None
