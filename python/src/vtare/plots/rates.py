"""Figures of available bandwidth: estimates beside their truth, errors, and what an estimate costs. Rates in bit/s."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from vtare.number_text import byte_text, percent_points, rate_text, rate_unit
from vtare.plots.axes import log_ticks
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import GRID, INK, MUTED, style_of
from vtare.plots.svg import new_figure, to_drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from vtare.plots.inputs import Floats

_FRAME_IN: Final = 0.75
_ROW_IN: Final = 0.26
_HEADING_IN: Final = 0.24
#: Errors up to here are drawn evenly, those beyond on a logarithmic scale: a method may be wrong by a factor of four.
_EVEN_PERCENT: Final = 10.0
#: The most wanted first: where labels would touch, the later one is left out.
_ERROR_TICKS: Final = (0, 10, -10, 100, -100, 1000, 10_000, 30, -30, 300, 3000, 5, -5)
_EVEN_SHARE: Final = 1.2
"""Length of the even part to either side, in decades of the rest."""
_LEGEND_LETTERS: Final = 46
"""Letters of names that fit beside each other above a figure."""
_ASIDE: Final = 0.012
"""Distance between methods at one truth, as a share of the axis."""
_LABEL_SHARE: Final = {"x": 0.16, "y": 0.06}


@dataclass(frozen=True, slots=True)
class EstimateMark:
    """An estimate: its window, s; its value and interval; `hollow` where it is a bound or its window was disturbed."""

    begin_s: float
    end_s: float
    value: float
    low: float | None
    high: float | None
    truth: float | None
    style: str
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """The errors of one cell, in percent of the truth."""

    label: str
    style: str
    errors: tuple[float, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class CostPoint:
    """What an estimate of one cell costs, and how far it is off: medians."""

    label: str
    style: str
    byte: float
    error_percent: float


def rate_limit(marks: Sequence[EstimateMark], truth: float) -> float:
    """The end of a rate axis: all that is true is on it, and of the estimates what is not far beyond."""
    highest = max((mark.value for mark in marks), default=truth)
    return 1.08 * min(max(highest, truth), 1.6 * truth)


@drawn
def estimates_over_time(
    edges_s: Floats, truth: Floats, marks: Sequence[EstimateMark], *, name: str, limit: float
) -> Drawing:
    """The truth as a line, estimates as markers in the middle of their windows with their intervals as bars.

    An estimate above `limit` is a triangle at the upper edge. `truth` is the mean between two `edges_s`; NaN where not
    known.
    """
    factor, unit = rate_unit(limit)
    figure, axes = new_figure(2.25)
    axes.stairs(truth / factor, edges_s, baseline=None, color=INK.light, linewidth=1.1, zorder=3)
    for mark in marks:
        colour = style_of(mark.style).hue.light
        middle = (mark.begin_s + mark.end_s) / 2
        if mark.low is not None and mark.high is not None:
            ends = [min(end, limit) / factor for end in (mark.low, mark.high)]
            axes.plot([middle] * 2, ends, "-", color=colour, linewidth=1.0, alpha=0.7, zorder=4)
        _mark(axes, middle, mark.value / factor, limit / factor, mark)
        level = min(mark.value, limit) / factor
        axes.plot([mark.begin_s, mark.end_s], [level] * 2, "-", color=colour, linewidth=1.6, alpha=0.5, zorder=4)
    _even_axis(axes, "y", 0.0, limit / factor, f"available bandwidth, {unit}")
    margin = 0.02 * (edges_s[-1] - edges_s[0])
    _even_axis(axes, "x", float(edges_s[0] - margin), float(edges_s[-1] + margin), "time, s")
    known = truth[np.isfinite(truth)]
    span = f"{rate_text(float(known.min()))} to {rate_text(float(known.max()))}" if len(known) else "unknown"
    values = ", ".join(rate_text(mark.value) for mark in marks) or "none"
    course = [
        {"mark": "truth", "begin_s": begin, "end_s": end, "truth_bit_per_s": None if math.isnan(rate) else rate}
        for begin, end, rate in zip(edges_s[:-1].tolist(), edges_s[1:].tolist(), truth.tolist(), strict=True)
    ]
    data = course + _data(marks)
    return to_drawing(figure, name, f"Truth {span}; estimates in order of time: {values}.", data)


@drawn
def estimates_against_truth(marks: Sequence[EstimateMark], *, name: str, limit: float) -> Drawing:
    """Each estimate over the truth of its own window; on the line it is right.

    Raises:
        ValueError: no estimate with a truth.
    """
    shown = [mark for mark in marks if mark.truth is not None]
    if not shown:
        raise ValueError("there is no estimate with a truth: pass at least one")
    factor, unit = rate_unit(limit)
    most = 1.06 * max(mark.truth or 0.0 for mark in shown)
    figure, axes = new_figure(3.3)
    axes.plot([0, most / factor], [0, most / factor], "-", color=MUTED.light, linewidth=1.0, zorder=2)
    styles = list(dict.fromkeys(mark.style for mark in shown))
    for mark in shown:
        aside = _ASIDE * (styles.index(mark.style) - (len(styles) - 1) / 2)
        x = ((mark.truth or 0.0) + aside * most) / factor
        if mark.low is not None and mark.high is not None:
            ends = [min(end, limit) / factor for end in (mark.low, mark.high)]
            axes.plot([x] * 2, ends, "-", color=style_of(mark.style).hue.light, linewidth=1.0, alpha=0.6, zorder=4)
        _mark(axes, x, mark.value / factor, limit / factor, mark)
    _even_axis(axes, "x", 0.0, most / factor, f"truth, {unit}")
    _even_axis(axes, "y", 0.0, limit / factor, f"estimate, {unit}")
    _legend(figure, styles)
    counts = "; ".join(f"{style} {sum(mark.style == style for mark in shown)}" for style in styles)
    return to_drawing(figure, name, f"Estimates over the truth of their windows: {counts}.", _data(shown))


def _data(marks: Sequence[EstimateMark]) -> list[dict[str, Any]]:
    return [
        {"mark": "estimate", "label": mark.style, "begin_s": mark.begin_s, "end_s": mark.end_s,
         "truth_bit_per_s": mark.truth, "estimate_bit_per_s": mark.value, "low": mark.low, "high": mark.high,
         "bound_or_disturbed": mark.hollow}
        for mark in marks
    ]  # fmt: skip


def _mark(axes: Axes, x: float, y: float, limit: float, mark: EstimateMark) -> None:
    """A marker in the method's form; a triangle at the edge where the value lies beyond it."""
    style = style_of(mark.style)
    beyond = y > limit
    axes.plot(
        [x], [limit if beyond else y], "^" if beyond else style.marker, color=style.hue.light, markersize=4.6,
        markerfacecolor="none" if mark.hollow else style.hue.light, markeredgewidth=0.9, linestyle="none", zorder=5,
        clip_on=False,
    )  # fmt: skip


@drawn
def error_boxes(rows: Sequence[ErrorRow], *, name: str, limits: tuple[float, float] | None = None) -> Drawing:
    """A box for each cell: quartiles, median bold, whiskers to the least and the greatest; every error as a dot.

    Raises:
        ValueError: no rows, or a row without errors.
    """
    if not rows or any(not row.errors for row in rows):
        raise ValueError("a row has no errors: pass at least one in each")
    low, high = limits if limits is not None else error_limits(rows)
    headings = sum(1 for at, row in enumerate(rows) if row.group and (at == 0 or rows[at - 1].group != row.group))
    figure, axes = new_figure(_FRAME_IN + _ROW_IN * len(rows) + _HEADING_IN * headings)
    y, middles = 0.0, []
    for at, row in enumerate(rows):
        if row.group and (at == 0 or rows[at - 1].group != row.group):
            place = axes.get_yaxis_transform()
            axes.text(0.0, y + 0.1, row.group, transform=place, fontweight="bold", fontsize=8, va="center")
            y += 0.9
        _error_box(axes, row, y)
        middles.append(y)
        y += 1.0
    axes.axvline(0.0, color=INK.light, linewidth=0.9, zorder=2)
    axes.set_ylim(y - 0.4, -0.6)
    axes.set_yticks(middles, [row.label for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    _error_axis(axes, "x", low, high)
    values = "; ".join(f"{row.label} {percent_points(float(np.median(row.errors)))}" for row in rows)
    data = [{"group": row.group, "label": row.label, "error_percent": error} for row in rows for error in row.errors]
    return to_drawing(figure, name, f"Errors in percent of the truth, medians: {values}.", data)


def error_limits(rows: Sequence[ErrorRow]) -> tuple[float, float]:
    """Ends of an error axis that shows all of these."""
    errors = [error for row in rows for error in row.errors]
    return min(-_EVEN_PERCENT, *errors), max(_EVEN_PERCENT, *errors)


def _error_box(axes: Axes, row: ErrorRow, y: float) -> None:
    colour = style_of(row.style).hue.light
    low, first, middle, third, high = np.percentile(row.errors, [0, 25, 50, 75, 100])
    axes.plot([low, high], [y, y], "-", color=colour, linewidth=0.8, alpha=0.7, zorder=3)
    axes.barh(y, third - first, left=first, height=0.52, color=colour, alpha=0.35, edgecolor=colour, zorder=3)
    axes.plot(row.errors, [y] * len(row.errors), ".", color=colour, markersize=2.6, alpha=0.8, zorder=4)
    axes.plot([middle] * 2, [y - 0.3, y + 0.3], "-", color=INK.light, linewidth=1.6, zorder=5)


@drawn
def cost_against_error(points: Sequence[CostPoint], *, name: str) -> Drawing:
    """Bytes of an estimate against its absolute error: better is nearer the lower left corner.

    Raises:
        ValueError: no points.
    """
    if not points:
        raise ValueError("there are no points: pass at least one cell with bytes and an error")
    bytes_ = [point.byte for point in points]
    low, high = min(bytes_) / 1.6, max(bytes_) * 1.6
    if high / low < 10:
        low, high = low / 2, high * 2
    figure, axes = new_figure(2.9)
    for point in points:
        style = style_of(point.style)
        axes.plot([point.byte], [point.error_percent], style.marker, color=style.hue.light, markersize=5.5, zorder=4)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = log_ticks(low, high, 5)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([byte_text(tick) for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("bytes of an estimate, log scale")
    _error_axis(axes, "y", 0.0, max(_EVEN_PERCENT, *(point.error_percent for point in points)), "absolute error")
    axes.grid(visible=True, axis="both", color=GRID.light)
    styles = list(dict.fromkeys(point.style for point in points))
    _legend(figure, styles)
    values = "; ".join(f"{p.label} {byte_text(p.byte)}, {percent_points(p.error_percent)} off" for p in points)
    data = [{"label": p.label, "estimate_byte": p.byte, "absolute_error_percent": p.error_percent} for p in points]
    return to_drawing(figure, name, f"Bytes of an estimate and its absolute error, medians: {values}.", data)


def _legend(figure: Figure, styles: Sequence[str]) -> None:
    """A legend above the figure, in as many columns as its longest name allows."""
    longest = max(len(name) for name in styles)
    columns = next((n for n in (4, 3, 2) if longest <= _LEGEND_LETTERS // n), 1)
    figure.legend(
        handles=_handles(styles), loc="outside upper left", ncols=columns, handletextpad=0.2, columnspacing=1.0
    )


def _handles(styles: Sequence[str]) -> list[Line2D]:
    handles = []
    for name in styles:
        style = style_of(name)
        handles.append(
            Line2D([], [], linestyle="none", marker=style.marker, color=style.hue.light, markersize=4.6, label=name)
        )
    return handles


def _even_axis(axes: Axes, which: Literal["x", "y"], low: float, high: float, label: str) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    ticks = [float(tick) for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([f"{tick:.6g}" for tick in ticks]))
    axes.grid(visible=True, axis=which)
    (axes.set_xlabel if which == "x" else axes.set_ylabel)(label)


def _error_axis(axes: Axes, which: Literal["x", "y"], low: float, high: float, what: str = "error") -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("symlog", linthresh=_EVEN_PERCENT, linscale=_EVEN_SHARE)
    ends = (1.25 * low if low < 0 else low, 1.25 * high)
    (axes.set_xlim if which == "x" else axes.set_ylim)(*ends)
    ticks = _error_ticks(*ends, _LABEL_SHARE[which])
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([percent_points(tick, signed=low < 0) for tick in ticks]))
    axis.set_minor_locator(NullLocator())
    axes.grid(visible=True, axis=which)
    label = f"{what}, log scale beyond {_EVEN_PERCENT:g} %"
    (axes.set_xlabel if which == "x" else axes.set_ylabel)(label if which == "x" else label.replace(", ", ",\n"))


def _error_ticks(low: float, high: float, share: float) -> list[float]:
    """Ticks between two ends whose labels do not touch, each taking up this share of the axis."""
    room = share * (_place(high) - _place(low))
    chosen: list[float] = []
    for tick in _ERROR_TICKS:
        if low <= tick <= high and all(abs(_place(tick) - _place(other)) >= room for other in chosen):
            chosen.append(float(tick))
    return sorted(chosen)


def _place(percent: float) -> float:
    """Where an error stands on its axis, in decades."""
    size = abs(percent)
    place = _EVEN_SHARE * size / _EVEN_PERCENT
    if size > _EVEN_PERCENT:
        place = _EVEN_SHARE + math.log10(size / _EVEN_PERCENT)
    return math.copysign(place, percent)
