"""Raw readings of one run in the order they were taken, with the median as a bold line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from vtare.number_text import time_text
from vtare.plots.axes import Scale, scale_for, time_axis
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import INK, style_of
from vtare.plots.svg import RASTER_DPI, new_figure, to_drawing
from vtare.quantity_text import axis_label, quantity_of
from vtare.sentences.words import count_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vtare.plots.inputs import Floats, RawSeries

_BAND_STEP: Final = 1.04
_MOST_MARKS: Final = 100_000
"""Readings from which those are left out that would lie on others in the picture."""
_CHUNK: Final = 500_000
_GRID_DPI: Final = 2 * RASTER_DPI
_FULL_MARK: Final = 2_000


def raw_values(series: RawSeries) -> list[float]:
    """The ends of all readings of a series, for a scale shared by several panels."""
    values = [series.median]
    for part in (series.value, series.band_value):
        if part is not None and part.size:
            values += [float(part.min()), float(part.max())]
    return values


@drawn
def raw_samples(
    series: RawSeries, *, name: str, quantity: str = "miss_ns", scale: Scale | None = None, title: str | None = None
) -> Drawing:
    """Readings as points over their position in the series, the median as a bold line.

    Readings that were kept as a histogram have no position. They are drawn as a band over the whole width, the stronger
    the more readings took that value, which the legend states. The layer of points and band is a picture inside the
    SVG, so that a million readings cost no more than a thousand; of those that would lie on each other in it, half a
    pixel apart, one is drawn.

    Raises:
        ValueError: a series without readings.
    """
    if series.n < 1:
        raise ValueError("the series has no readings: pass at least one")
    shown = scale if scale is not None else scale_for(raw_values(series))
    colour = style_of(series.style).hue.light
    handles: list[Line2D | Patch] = []
    figure, axes = new_figure(3.0 + (0.2 if title else 0.0))
    last = float(series.index.max()) if series.index.size else 0.0
    right = max(last, float(series.n - 1), 1.0)
    if series.band_value is not None and series.band_count is not None and series.band_value.size:
        banded = _draw_band(axes, series.band_value, series.band_count, colour, shown)
        handles.append(
            Patch(
                facecolor=colour,
                alpha=0.5,
                label=f"{count_text(banded)} readings, position not kept (stronger: more)",
            )
        )
    x = y = np.empty(0)
    if series.index.size:
        size = 5.0 if series.index.size < _FULL_MARK else 1.6
        axes.set_xlim(0, right)
        time_axis(axes, "y", shown, None)
        x, y = _seen(axes, series.index, series.value)
        axes.scatter(x, y, s=size, color=colour, alpha=0.75, linewidths=0, rasterized=True)
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker="o",
                markersize=3.5,
                color=colour,
                label=f"{count_text(series.index.size)} single readings",
            )
        )
    line = axes.axhline(
        series.median, color=INK.light, linewidth=2.0, zorder=5, label=f"median {time_text(series.median)}"
    )
    handles.insert(0, line)
    axes.set_xlim(0, right)
    axes.set_xlabel("position in the series (reading number)")
    axes.xaxis.set_major_formatter(lambda value, _: _short_count(value))
    what = axis_label(quantity)
    time_axis(axes, "y", shown, what.split(":")[0])
    if title:
        axes.set_title(title)
    figure.legend(handles=handles, loc="outside lower center", ncols=1, handlelength=1.8)
    return to_drawing(
        figure,
        name,
        f"Raw readings of {series.label}, {what}: {series.n} readings, median {time_text(series.median)}.",
        _data(series, quantity, x, y),
    )


def _data(series: RawSeries, quantity: str, index: Floats, value: Floats) -> pl.DataFrame:
    """The readings that are drawn, and the histogram of those without a position."""
    parts = [pl.DataFrame({"index": index, "value": value, "readings": np.ones(len(index))})]
    if series.band_value is not None and series.band_count is not None:
        band = {"index": None, "value": series.band_value, "readings": series.band_count}
        parts.append(pl.DataFrame(band, schema_overrides={"index": pl.Float64}))
    head = {"quantity": quantity, "unit": quantity_of(quantity).symbol, "label": series.label}
    return pl.concat(parts).select(*(pl.lit(text).alias(name) for name, text in head.items()), pl.all())


def _seen(axes: Axes, index: Floats, value: Floats) -> tuple[Floats, Floats]:
    """The readings that show: of a long series the first in each cell of a grid finer than the picture.

    Axes have their limits and scales already. A chunk of readings at a time is laid on the grid.
    """
    if index.size <= _MOST_MARKS:
        return index, value
    zoom = _GRID_DPI / axes.figure.dpi
    origin = axes.transAxes.transform((0.0, 0.0)) * zoom
    columns, rows = (int(length) + 2 for length in axes.transAxes.transform((1.0, 1.0)) * zoom - origin)
    taken = np.zeros(columns * rows, dtype=bool)
    kept = []
    for begin in range(0, index.size, _CHUNK):
        some = slice(begin, begin + _CHUNK)
        places = axes.transData.transform(np.column_stack([index[some], value[some]])) * zoom - origin
        column, row = np.clip(np.nan_to_num(places), 0, [columns - 1, rows - 1]).astype(np.int64).T
        cells, first = np.unique(column * rows + row, return_index=True)
        new = ~taken[cells]
        taken[cells[new]] = True
        kept.append(begin + np.sort(first[new]))
    chosen = np.concatenate(kept)
    return index[chosen], value[chosen]


def _short_count(value: float) -> str:
    for factor, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            return f"{value / factor:g}{suffix}"
    return f"{value:g}"


def _draw_band(axes: Axes, value: Floats, count: Floats, colour: str, scale: Scale) -> int:
    """Draw the histogram as horizontal bands, stronger with the root of the share; the count of readings drawn."""
    if scale.kind == "linear":
        edges: Floats = np.linspace(scale.low, scale.high, 120)
    else:
        start = max(float(value[value > 0].min()) if (value > 0).any() else scale.linear_below, 1e-3)
        steps = max(int(np.ceil(np.log(max(float(value.max()) / start, 1.0)) / np.log(_BAND_STEP))), 1)
        edges = np.asarray(start * _BAND_STEP ** (np.arange(steps + 2) - 0.5), dtype=np.float64)
    if float(value.min()) < edges[0]:
        # Zero and negative readings have no place among logarithmic bins, but they were read: one band for each value.
        thin = 0.02 * scale.linear_below
        early = np.unique(value[value < edges[0]])
        edges = np.unique(np.concatenate([early - thin, early + thin, edges]))
    shares, _ = np.histogram(value, bins=edges, weights=count)
    depth = np.sqrt(shares / max(float(shares.max()), 1.0))
    alphas = np.where(depth > 0, np.maximum(0.1, 0.85 * depth), 0.0)
    used = np.flatnonzero(alphas)
    # In axes coordinates across and data coordinates up: the band has a cost but no position.
    bars = PolyCollection(
        [[(0, edges[i]), (1, edges[i]), (1, edges[i + 1]), (0, edges[i + 1])] for i in used],
        facecolors=[to_rgba(colour, float(alphas[i])) for i in used],
        linewidths=0,
        antialiaseds=False,
        transform=axes.get_yaxis_transform(),
        rasterized=True,
    )
    axes.add_collection(bars, autolim=False)
    return int(count.sum())
