"""From a report to one HTML document that fetches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from vtare.report import text
from vtare.report.bundle import bundle
from vtare.report.embed import SHAPES, embed, figure_data
from vtare.report.frame import environment, stylesheet, template_text
from vtare.report.parts import Question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.report.parts import Section, Table
    from vtare.sentences.template import Sentence


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """What an HTML document shows: the first screen (answer, figure, table, what is not certain), then sections.

    `origin` and `about` stand above the `question`, `footer` at the end. A `live` page also asks the server it came
    from, and no other, whether there is a newer one.
    """

    title: str
    origin: str
    about: str
    question: str
    sentences: Sequence[Sentence]
    sections: Sequence[Section]
    footer: Sequence[str]
    key: str = ""
    headline: Question | None = None
    headline_about: str = ""
    main: Table | None = None
    main_title: str = ""
    main_all: Table | None = None
    certainty: str = ""
    limits: Sequence[str] = ()
    live: bool = False

    def questions(self) -> list[Question]:
        """Every question with figures, in their order."""
        blocks = [block for section in self.sections for block in section.blocks if isinstance(block, Question)]
        return blocks if self.headline is None else [self.headline, *blocks]


def render(page: HtmlPage) -> str:
    """The HTML text of a page."""
    questions = page.questions()
    charts = embed(questions)
    drawings = [panel.drawing for question in questions for panel in question.panels]
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            marked=_marked,
            charts=charts,
            shapes=SHAPES,
            data=figure_data(one for one in drawings if one.name not in charts.by_figure),
            css=stylesheet(),
            js=template_text("report.js"),
            bundle=bundle() if charts.by_figure else "",
            explore=template_text("explore.js"),
            live=template_text("live.js") if page.live else "",
        )
    )


def _marked(sentence: Sentence) -> Markup:
    """The sentence with its figures set bold, their intervals set back, and commands as code."""
    pieces = []
    for piece in sentence:
        if isinstance(piece, str):
            words = piece.split("`")
            pieces += [Markup("<code>{}</code>").format(part) if at % 2 else escape(text.keep(part))
                       for at, part in enumerate(words)]  # fmt: skip
            continue
        pieces.append(Markup("<strong>{}</strong>").format(text.keep(piece.value)))
        if piece.interval:
            pieces.append(Markup(' <span class="range">({})</span>').format(text.keep(piece.interval)))
    return Markup("").join(pieces)
