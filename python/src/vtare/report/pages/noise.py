"""What a report shows of the time that a machine takes from a spinning thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.report.pages.model import READINGS, RUNS, Answered, Page
from vtare.report.sentences import cell_rows, load_phrase, main_figure
from vtare.sentences.template import FigureText

if TYPE_CHECKING:
    from vtare.report.layout import Layout
    from vtare.summary import Summary


def _sentences(summary: Summary, layout: Layout) -> Answered:
    """One share per load: that of the CPU that loses most."""
    cells = cell_rows(summary, layout)
    pieces: list[str | FigureText] = []
    for load in layout.order.get("load", ()) or (None,):
        rows = [row for row in cells if load is None or row["load"] == load]
        if not rows:
            continue
        row = max(rows, key=lambda row: layout.value(row) or 0.0)
        phrase = load_phrase(summary, load)
        first = not pieces
        pieces += [f"{phrase}, a spinning thread loses " if first else f"; {phrase[0].lower()}{phrase[1:]} it loses "]
        most = f", the most of {len(rows)} CPUs" if first and len(rows) > 1 else ""
        pieces += [main_figure(layout, row), f"{' of its time' if first else ''} on CPU {row[layout.series]}{most}"]
    return ([(*pieces, ".")] if pieces else []), []


def _about(summary: Summary, layout: Layout) -> str:
    if layout.is_median:
        return ""
    return "Cells are compared by the share of the time that the thread lost; below it stand the lengths of the gaps."


PAGE: Final = Page(
    sentences=_sentences,
    columns=(*READINGS, "lost_fraction", "lost_fraction_interval", "gaps_per_s", *RUNS),
    about=_about,
    more_and_less={"lost_fraction": ("more lost", "less lost")},
)
