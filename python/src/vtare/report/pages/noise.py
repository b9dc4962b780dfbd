"""What a report shows of the time that a machine takes from a spinning thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.plots.format import significant
from vtare.report import text
from vtare.report.pages.model import Answered, CellColumn, Page
from vtare.report.sentences import FigureText, Sentence, cell_rows, load_phrase
from vtare.report.tables import Column

if TYPE_CHECKING:
    from vtare.report.layout import Layout
    from vtare.summary import Summary


def _sentences(summary: Summary, layout: Layout) -> Answered:
    return _share_sentences(summary, layout), []


def _share_sentences(summary: Summary, layout: Layout) -> list[Sentence]:
    """Noise: one share per load, the largest loss of any CPU."""
    cells = cell_rows(summary, layout)
    pieces: list[str | FigureText] = []
    for load in layout.order.get("load", ()) or (None,):
        rows = [row for row in cells if (load is None or row["load"] == load) and row["lost_fraction"] is not None]
        if not rows:
            continue
        row = max(rows, key=lambda row: row["lost_fraction"])
        phrase = load_phrase(summary, load)
        pieces += [f"{phrase}, " if not pieces else f"; {phrase[0].lower()}{phrase[1:]}, "]
        pieces += [f"CPU {row[layout.series]} loses ", FigureText(f"{significant(100 * row['lost_fraction'])} %")]
        pieces.append(" of its time")
    return [(*pieces, ".")] if pieces else []


def _columns(level: str) -> tuple[CellColumn, ...]:
    return (
        (Column("lost_fraction", "time lost", about="share of the time taken from the spinning thread"),
         lambda r: text.percent(r["lost_fraction"], "not estimable"), False),
        (Column("gaps_per_s", "gaps per s"), lambda r: text.number(r["gaps_per_s"], "not estimable"), False),
    )  # fmt: skip


PAGE: Final = Page(sentences=_sentences, columns=_columns)
