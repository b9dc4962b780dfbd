"""The page of an instrument that has none of its own: one sentence for each load, and what all have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.report.layout import figure_name
from vtare.report.pages.model import Answered, Page
from vtare.report.sentences import cell_rows, load_phrase, main_figure, scene_of
from vtare.sentences import answers as wording
from vtare.sentences.template import Sentence

if TYPE_CHECKING:
    from vtare.report.layout import Layout
    from vtare.summary import Summary


def _sentences(summary: Summary, layout: Layout) -> Answered:
    """`On the idle machine, the median run time is 10.0 ms (argument 1).`; all but the load is at its baseline."""
    scene = scene_of(summary, layout)
    if scene is None:
        return [], []
    made: list[Sentence] = []
    for load in scene.loads:
        row = scene.row(scene.system, load)
        if row is not None:
            varying = len({one[layout.series] for one in cell_rows(summary, layout)}) > 1
            of = f" ({layout.key_text(layout.series, scene.system)})" if varying else ""
            phrase, figure = f"{load_phrase(summary, load)}{scene.elsewhere}", figure_name(layout.main.quantity)
            made.append(wording.median_is(phrase, figure, main_figure(layout, row), of))
    return made[:1], made[1:]


PAGE: Final = Page(sentences=_sentences, is_titled=True)
