"""From a matplotlib figure to SVG text: deterministic, without addresses, in colours that follow the page.

matplotlib draws in the light form of each hue (palette.py). Afterwards every one of these is replaced by a CSS variable
with the light form as fallback, so that one drawing serves a light and a dark page; raster layers, which cannot follow
the page, are drawn in colours that read on both.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import polars as pl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from vtare.plots.drawn import Drawing, Picture
from vtare.plots.palette import HUES, css_colours

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

PANEL_WIDTH_IN: Final = 4.6
"""Width of one panel: reads at 360 px on a phone and fits two or three to a row on a desk."""

RASTER_DPI: Final = 170
_PAD_IN: Final = 0.03
_LEFT_IN, _RIGHT_IN, _TOP_IN, _BOTTOM_IN, _GAP_IN = 0.72, 0.08, 0.3, 0.46, 0.24
"""Margins around axes below each other, and the room between them: a line of text."""
_FRACTION: Final = re.compile(r"(\.\d\d)\d+")

#: What styles of matplotlib may become: SVG has attributes of the same names.
_ATTRIBUTES: Final = frozenset({
    "fill", "fill-opacity", "font-family", "font-size", "font-style", "font-weight", "letter-spacing", "opacity",
    "stroke", "stroke-dasharray", "stroke-dashoffset", "stroke-linecap", "stroke-linejoin", "stroke-miterlimit",
    "stroke-opacity", "stroke-width", "text-anchor",
})  # fmt: skip


def png(drawing: Drawing) -> bytes:
    """The figure as a picture for slides and mail: its light form on white, twice the size of the SVG."""
    import resvg_py

    # The converter knows no variables and no media rules: the fallback of each is its light form.
    plain = re.sub(r"var\(--[a-z-]+,\s*([^()]+)\)", r"\1", re.sub(r"<style>:root.*?</style>", "", drawing.svg))
    fonts = str(Path(mpl.get_data_path()) / "fonts" / "ttf")
    picture: bytes = resvg_py.svg_to_bytes(
        svg_string=plain, background="#ffffff", zoom=2, dpi=96, font_dirs=[fonts], skip_system_fonts=True
    )
    return picture


def new_figure(height_in: float, width_in: float = PANEL_WIDTH_IN) -> tuple[Figure, Axes]:
    """A figure with one pair of axes, kept apart from pyplot's global state."""
    figure = Figure(figsize=(width_in, height_in), dpi=100)
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def new_strips(heights_in: Sequence[float], width_in: float = PANEL_WIDTH_IN) -> tuple[Figure, list[Axes]]:
    """A figure with axes of these heights below each other, which share what is horizontal, and a legend's room on top.

    Their places are fixed: the constrained layout gives up where several of them are low.
    """
    height_in = _TOP_IN + sum(heights_in) + _GAP_IN * (len(heights_in) - 1) + _BOTTOM_IN
    figure = Figure(figsize=(width_in, height_in), dpi=100)
    FigureCanvasAgg(figure)
    made: list[Axes] = []
    end_in = height_in - _TOP_IN
    for height in heights_in:
        place = (_LEFT_IN / width_in, (end_in - height) / height_in, 1 - (_LEFT_IN + _RIGHT_IN) / width_in)
        made.append(figure.add_axes((*place, height / height_in), sharex=made[0] if made else None))
        end_in -= height + _GAP_IN
    for axes in made[:-1]:
        axes.tick_params(labelbottom=False)
    return figure, made


def _lay_out(figure: Figure) -> None:
    """Place the one pair of axes of `new_figure` so that its labels and the legends outside it just fit.

    What matplotlib's constrained layout does, without measuring every text twice: only where other ticks have come of
    the new size.
    """
    (axes,) = figure.axes
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    width, height = figure.bbox.size
    pad = _PAD_IN * figure.dpi
    low, high = pad, height - pad
    for legend in figure.legends:
        box = legend.get_window_extent(renderer)
        if box.y0 + box.y1 < height:
            low += box.height + 2 * pad
        else:
            high -= box.height + 2 * pad
    for _ in range(2):
        ticks = _ticks(axes)
        place = axes.get_window_extent()
        labels = axes.get_tightbbox(renderer, for_layout_only=True) or place
        left, bottom = pad + place.x0 - labels.x0, low + place.y0 - labels.y0
        right, top = width - pad - (labels.x1 - place.x1), high - (labels.y1 - place.y1)
        if right <= left or top <= bottom:
            # Labels larger than the figure: they are cut.
            return
        axes.set_position((left / width, bottom / height, (right - left) / width, (top - bottom) / height))
        if _ticks(axes) == ticks:
            return


def _ticks(axes: Axes) -> list[list[float]]:
    return [list(axis.get_majorticklocs()) for axis in (axes.xaxis, axes.yaxis)]


def _colours_to_variables(svg: str) -> str:
    for hue in HUES:
        svg = svg.replace(hue.light, hue.css)
    return svg


def _unique_ids(svg: str, name: str) -> str:
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg))
    known = {one for pair in used for one in pair}
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in known else "", svg)
    svg = re.sub(r'(href)="#([^"]+)"', rf'\1="#{name}-\2"', svg)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)


def _without_styles(svg: str) -> str:
    """Replace styles, which the policy of a page refuses, by attributes; the picture stays the same."""
    svg = re.sub(r"<defs>\s*<style[^>]*>\*{stroke-linejoin: round; stroke-linecap: butt}</style>\s*</defs>", "", svg)
    # Comments repeat labels, which may hold anything.
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    if "<style" in svg:
        raise ValueError("an SVG of matplotlib has an unknown style sheet")
    return re.sub(r"<[^<>]+>", lambda tag: re.sub(r' style="([^"]*)"', _attributes, tag[0]), svg)


def _attributes(style: re.Match[str]) -> str:
    attributes = []
    for one in filter(None, (part.strip() for part in style[1].split(";"))):
        name, _, value = one.partition(":")
        if name not in _ATTRIBUTES:
            raise ValueError(f"an SVG of matplotlib has the unknown style {one!r}: use one of {sorted(_ATTRIBUTES)}")
        attributes.append(f' {name}="{value.strip()}"')
    return "".join(attributes)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def to_drawing(figure: Figure, name: str, text: str, data: pl.DataFrame | Sequence[Mapping[str, Any]]) -> Drawing:
    """Save a figure as SVG and make it fit for a page.

    Args:
        figure: a figure of `new_figure`.
        name: short name, letters, digits and dashes: prefixes every id, so that many figures can share a page.
        text: what is drawn, in one sentence; becomes the figure's label for screen readers.
        data: what is drawn, row by row: becomes the figure's CSV file.
    """
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise ValueError(f"figure name is {name!r}: use lower-case letters, digits and dashes")
    # Laid out and written by hand: savefig draws everything a first time, only to lay it out.
    if figure.axes[0].get_subplotspec() is not None:
        _lay_out(figure)
    buffer = io.StringIO()
    figure.dpi = RASTER_DPI
    # Without these entries matplotlib writes a date and its own address into the file.
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    FigureCanvasSVG(figure).print_svg(buffer, metadata=metadata)  # type: ignore[no-untyped-call]
    raw = buffer.getvalue()
    body = raw[raw.index("<svg") :]
    body = re.sub(r"\s*<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    # A hundredth of a point is a tenth of a screen's pixel: more digits would double the size of a report.
    body = re.sub(r'(?<= )(?:d|x|y|transform)="[^"]*"', lambda match: _FRACTION.sub(r"\1", match[0]), body)
    body = _unique_ids(_colours_to_variables(_without_styles(body)), name)
    body = body.replace("xlink:href", "href")
    box = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', body)
    if box is None:
        raise ValueError("the SVG has no view box: pass one of matplotlib")
    width, height = float(box.group(1)), float(box.group(2))
    inner = body[body.index(">", body.index("<svg")) + 1 :]
    lines = 'stroke-linejoin="round" stroke-linecap="butt"'
    head = f'viewBox="0 0 {width:g} {height:g}" {lines} role="img" aria-label="{_escape(text)}"'
    light, dark = css_colours()
    look = f"<style>:root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    alone = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}pt" height="{height:g}pt" {head}>{look}{inner}'
    # Stand-ins of the same width or narrower, so that no label is cut where DejaVu is missing.
    alone = alone.replace("'DejaVu Sans'", "'DejaVu Sans',Verdana,Arial,sans-serif")
    inline = inner.replace("'DejaVu Sans'", "var(--vt-font,sans-serif)")
    table = data if isinstance(data, pl.DataFrame) else pl.DataFrame(data, infer_schema_length=None)
    return Drawing(name, Picture(alone, f"<svg {head}>{inline.rstrip()}", width * 96 / 72, text, table))
