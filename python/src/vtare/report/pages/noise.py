"""What a report shows of the time that a machine takes from a spinning thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.report.pages.model import READINGS, RUNS, Answered, Page
from vtare.report.sentences import cell_rows, load_phrase, main_figure
from vtare.sentences import answers as wording
from vtare.sentences import captions
from vtare.sentences.template import Sentence

if TYPE_CHECKING:
    from vtare.report.layout import Layout
    from vtare.summary import Summary


def _sentences(summary: Summary, layout: Layout) -> Answered:
    """One share per load: that of the CPU that loses most."""
    cells = cell_rows(summary, layout)
    sentences: list[Sentence] = []
    for load in layout.order.get("load", ()) or (None,):
        rows = [row for row in cells if load is None or row["load"] == load]
        if not rows:
            continue
        row = max(rows, key=lambda row: layout.value(row) or 0.0)
        phrase, share, cpu = load_phrase(summary, load), main_figure(layout, row), str(row[layout.series])
        sentences.append(
            wording.more_time_lost(phrase, share, cpu)
            if sentences
            else wording.time_lost(phrase, share, cpu, len(rows))
        )
    return ([wording.several(sentences)] if sentences else []), []


def _about(summary: Summary, layout: Layout) -> str:
    return "" if layout.is_median else captions.SHARE_LOST


PAGE: Final = Page(
    sentences=_sentences,
    columns=(*READINGS, "lost_fraction", "lost_fraction_interval", "gaps_per_s", *RUNS),
    about=_about,
    more_and_less={"lost_fraction": ("more lost", "less lost")},
)
