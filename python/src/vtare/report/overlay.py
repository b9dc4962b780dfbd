"""A campaign among the papers: timers, sleeps, counters, round trips, available bandwidth, guests that forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtare.errors import BadInput
from vtare.instruments import RECORDS
from vtare.report.content import layouts_of
from vtare.report.frame import lab_version
from vtare.report.page import HtmlPage, render
from vtare.report.pages import page_of
from vtare.report.pages.model import Beside
from vtare.report.parts import Notes, Section, Table
from vtare.report.placement import placement_figures, placement_tables, platform_table
from vtare.report.tables import json_value
from vtare.report.write import write_whole
from vtare.sentences import titles
from vtare.sentences.caveats import OTHER_MACHINES
from vtare.summary.context import NO_DEVICE

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.plots import Drawing
    from vtare.records.papers import StandingDocument
    from vtare.report.layout import Layout
    from vtare.report.parts import Question
    from vtare.summary import Summary


@dataclass(frozen=True, slots=True)
class Overlay:
    """Tables and questions that set a campaign beside papers; `papers` are those that were asked for.

    `notes` list what cannot be compared.
    """

    store: str
    papers: tuple[str, ...]
    tables: tuple[Table, ...]
    questions: tuple[Question, ...]
    notes: tuple[str, ...] = ()

    @property
    def drawings(self) -> list[Drawing]:
        """The figures of all questions."""
        return [panel.drawing for question in self.questions for panel in question.panels]

    def document(self) -> StandingDocument:
        """The whole as one JSON-ready document of schema `vtare.standing/2`, in the units of its columns' names."""
        return {
            "schema": "vtare.standing/2",
            "store": self.store,
            "papers": list(self.papers),
            "tables": [
                {
                    "id": table.id,
                    "rows": [
                        {column.key: json_value(column, cell) for column, cell in zip(table.columns, row, strict=True)}
                        for row in table.rows
                    ],
                }
                for table in self.tables
            ],
            "notes": list(self.notes),
        }


def overlay(summary: Summary, paper: str | None) -> Overlay:
    """Set a campaign beside one paper, beside all where it is None.

    Raises:
        BadInput: nothing that the campaign measured stands in that paper.
    """
    published = {record.name: page_of(record.name).papers for record in RECORDS}
    papers = tuple(sorted({name for names in published.values() for name in names})) if paper is None else (paper,)
    wanted = {name for name, names in published.items() if set(names) & set(papers)}
    layouts = layouts_of(summary)
    chosen = {name: layout for name, layout in layouts.items() if layout.experiment.instrument in wanted}
    asked = (_beside(summary, chosen, name, papers) for name in published if name in wanted)
    beside = [one for one in asked if one is not None]
    placed_tables = (*placement_tables(summary, chosen), platform_table(summary, chosen))
    made = (*placed_tables, *(table for one in beside for table in one.tables))
    tables = tuple(table for table in made if table is not None)
    if not tables:
        measured = ", ".join(sorted({layout.experiment.instrument for layout in layouts.values()})) or "nothing"
        raise BadInput(
            f"{summary.store}: its figures of {measured} have no counterpart in {paper or 'a paper'}: use a store with "
            f"one of: {', '.join(sorted(wanted))}"
        )
    questions = (*placement_figures(summary, chosen), *(question for one in beside for question in one.questions))
    notes = (
        *(note for one in beside for note in one.notes),
        *(note.text for note in summary.notes if note.id == NO_DEVICE),
    )
    return Overlay(str(summary.store), papers, tables, questions, notes)


def _beside(summary: Summary, layouts: dict[str, Layout], instrument: str, papers: tuple[str, ...]) -> Beside | None:
    """What the page of an instrument sets beside papers; None where nothing of it was measured."""
    own = {name: layout for name, layout in layouts.items() if layout.experiment.instrument == instrument}
    make = page_of(instrument).beside
    return None if make is None or not own else make(summary, own, papers)


def overlay_page(found: Overlay) -> str:
    """The tables and figures as one HTML document that fetches nothing."""
    sections = [Section("figures", "Figures", found.questions)] if found.questions else []
    sections += [Section(f"of-{table.id}", table.caption, (table,)) for table in found.tables]
    if found.notes:
        sections.append(Section("limits", "What cannot be compared", (Notes(tuple((note,) for note in found.notes)),)))
    return render(
        HtmlPage(
            title=f"{found.store} among published results",
            origin="vtare papers",
            about=f"{found.store} beside {', '.join(found.papers)}",
            question=titles.AMONG_PAPERS,
            sentences=[(OTHER_MACHINES,)],
            sections=sections,
            footer=[f"vtare {lab_version()}"],
        )
    )


def write_overlay(found: Overlay, directory: Path) -> list[Path]:
    """Write the figures as SVG files.

    Raises:
        BadInput: the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{directory}: cannot make the directory: {error.strerror}; choose another with --out"
        ) from error
    paths = []
    for drawing in found.drawings:
        path = directory / f"{drawing.name}.svg"
        write_whole(path, drawing.svg + "\n")
        paths.append(path)
    return paths
