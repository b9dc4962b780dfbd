"""What a report shows of what a path is worth: latency under load, what is free, the buffer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from vtare.report import text
from vtare.report.pages.model import READINGS, RUNS, Answered, Page
from vtare.report.sentences import answered_rows, main_figure
from vtare.sentences.template import FigureText, Sentence
from vtare.summary.rows import known_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from vtare.report.layout import Layout
    from vtare.summary import Summary

_FULL: Final = "110"
"""The load, % of what is free, that fills the queue."""


def _sentences(summary: Summary, layout: Layout) -> Answered:
    """The cells in which using more than is free adds least and most; what each level adds stands in the section."""
    rows = [row for row in answered_rows(summary, layout) if row["load_percent"] == _FULL]
    if not rows:
        return [], []
    ordered = sorted(rows, key=lambda row: known.number if (known := known_of(row, "median")) else 0.0)
    answer: list[str | FigureText] = ["Using more than is free adds ", main_figure(layout, ordered[0])]
    answer.append(f" ({_levels(layout, ordered[0])})")
    if len(ordered) > 1:
        answer += [" to ", main_figure(layout, ordered[-1]), f" ({_levels(layout, ordered[-1])})"]
    return [(*answer, " to a round trip.")], [_detail(layout, row) for row in rows]


def _levels(layout: Layout, row: Mapping[str, Any]) -> str:
    keys = [key for key in layout.keys if key != "load_percent" and len(layout.order[key]) > 1]
    return ", ".join(layout.key_text(key, row[key]) for key in keys) or "every cell"


def _detail(layout: Layout, row: Mapping[str, Any]) -> Sentence:
    free = text.of_row(row, "free_bit_per_s", "unknown", partial(text.figure, "free_bit_per_s")).text
    buffer = text.of_row(row, "depth_ns", "it was not filled", text.time).text
    return (f"{_levels(layout, row)}: free ", FigureText(free), ", buffer ", FigureText(buffer), ".")


def _method(_layouts: Sequence[Layout]) -> tuple[str, ...]:
    return (
        "Paths: latency under load is computed from the cross traffic that short trains saw, at 50, 90 and 110 % of "
        "what it leaves free; the buffer is what a burst fills, the worst case and not what TCP makes of it "
        "(docs/methods/path.md).",
    )


PAGE: Final = Page(sentences=_sentences, method=_method, columns=(
    *READINGS, "idle_rtt_ns", "free_bit_per_s", "free_interval_bit_per_s", "depth_ns", "depth_byte", "path_byte", *RUNS,
))  # fmt: skip
