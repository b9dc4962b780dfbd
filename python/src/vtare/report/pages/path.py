"""What a report shows of what a path is worth: latency under load, what is free, the buffer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from vtare.report import text
from vtare.report.pages.model import READINGS, RUNS, Answered, Page
from vtare.report.sentences import answered_rows, main_figure
from vtare.sentences import answers as wording
from vtare.sentences import method as method_wording
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
    (least, where_least), (most, where_most) = (
        (main_figure(layout, row), _levels(layout, row)) for row in (ordered[0], ordered[-1])
    )
    if len(ordered) == 1:
        added = wording.added_latency(least, where_least)
    else:
        added = wording.added_latencies(least, where_least, most, where_most)
    return [added], [_detail(layout, row) for row in rows]


def _levels(layout: Layout, row: Mapping[str, Any]) -> str:
    keys = [key for key in layout.keys if key != "load_percent" and len(layout.order[key]) > 1]
    return ", ".join(layout.key_text(key, row[key]) for key in keys) or "every cell"


def _detail(layout: Layout, row: Mapping[str, Any]) -> Sentence:
    free = text.of_row(row, "free_bit_per_s", "unknown", partial(text.figure, "free_bit_per_s")).text
    buffer = text.of_row(row, "depth_ns", "it was not filled", text.time).text
    return wording.free_and_buffer(_levels(layout, row), FigureText(free), FigureText(buffer))


def _method(_layouts: Sequence[Layout]) -> tuple[str, ...]:
    return (method_wording.PATHS,)


PAGE: Final = Page(sentences=_sentences, method=_method, columns=(
    *READINGS, "idle_rtt_ns", "free_bit_per_s", "free_interval_bit_per_s", "depth_ns", "depth_byte", "path_byte", *RUNS,
))  # fmt: skip
