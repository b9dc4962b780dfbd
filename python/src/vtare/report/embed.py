"""Interactive charts on the page: their data, their legends, and the one script that draws them all.

The script (bundle.py) stands in the page once, reads the charts' data from the page and fetches nothing. Expressions
are interpreted, not compiled: the page's policy forbids `eval`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vtare.plots import Chart, Drawing
    from vtare.report.parts import Question

MOST_BYTE: Final = 1_500_000
"""Data of all charts of a page; figures beyond stay still ones, so that the page stays under 5 MB."""
MOST_CSV_BYTE: Final = 300_000
"""CSV files of all still figures of a page."""
_MOST_ROWS: Final = 400

#: Markers of a legend, as SVG paths around its middle.
SHAPES: Final = {
    "circle": "M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0-6.8 0Z",
    "square": "M-3.1-3.1H3.1V3.1H-3.1Z",
    "diamond": "M0-4.2L4.2 0L0 4.2L-4.2 0Z",
    "triangle-up": "M0-3.9L3.9 3.1H-3.9Z",
    "triangle-down": "M0 3.9L3.9-3.1H-3.9Z",
    "cross": "M-1.3-3.8H1.3V-1.3H3.8V1.3H1.3V3.8H-1.3V1.3H-3.8V-1.3H-1.3Z",
}


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A line of the legend that stands above the charts of a question."""

    label: str
    colour: str
    dash: str
    shape: str
    mark: str


@dataclass(frozen=True, slots=True)
class EmbeddedChart:
    """One chart as the page has it: its specification as JSON that can stand inside a script element."""

    json: str
    low: float
    high: float
    log: bool
    shared: bool
    note: str


@dataclass(frozen=True, slots=True)
class Charts:
    """The charts of a page by the name of their figure, and the legend of each question that has some."""

    by_figure: dict[str, EmbeddedChart]
    legends: dict[str, tuple[LegendEntry, ...]]


def embed(questions: Iterable[Question]) -> Charts:
    """Make the charts of these questions, in their order, as long as there is room."""
    by_figure: dict[str, EmbeddedChart] = {}
    legends: dict[str, tuple[LegendEntry, ...]] = {}
    used = 0
    for question in questions:
        entries: dict[str, LegendEntry] = {}
        for panel in question.panels:
            if panel.chart is None:
                continue
            chart = panel.chart()
            text = _text(chart)
            if used + len(text) > MOST_BYTE:
                continue
            used += len(text)
            by_figure[panel.drawing.name] = EmbeddedChart(
                text, chart.low, chart.high, chart.log, chart.shared, chart.note
            )
            for key in chart.keys:
                entries.setdefault(key.label, LegendEntry(key.label, key.colour, key.dash, key.shape, key.mark))
        if entries:
            legends[question.id] = tuple(entries.values())
    return Charts(by_figure, legends)


def figure_data(drawings: Iterable[Drawing]) -> dict[str, str]:
    """What figures draw as CSV, by name, while there is room; `vtare report --format csv` writes the long ones."""
    data: dict[str, str] = {}
    left = MOST_CSV_BYTE
    for drawing in drawings:
        if drawing.data.height > _MOST_ROWS:
            continue
        text = drawing.data.write_csv()
        if len(text) <= left:
            data[drawing.name] = text
            left -= len(text)
    return data


def _text(chart: Chart) -> str:
    """JSON in which nothing can end the script element that holds it."""
    return json.dumps(chart.spec, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
