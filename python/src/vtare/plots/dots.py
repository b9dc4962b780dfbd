"""Dot-and-interval figures: cell medians with their intervals, and this machine among published platforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from matplotlib.markers import CARETLEFT, CARETRIGHT

from vtare.number_text import percent_text
from vtare.plots.axes import Scale, scale_for, time_axis
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import GRID, INK, MUTED, SURFACE, style_of
from vtare.plots.svg import new_figure, to_drawing
from vtare.quantity_text import axis_label, quantity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from vtare.plots.inputs import Dot

_ROW_IN: Final = 0.27
_FRAME_IN: Final = 0.62
_REACH: Final = 4.0


def dot_values(rows: Sequence[Dot]) -> list[float]:
    """The values a dot figure of these rows has to show: give those of all panels to `scale_for` for a shared axis.

    An interval that runs far beyond everything measured (few runs that disagree) does not stretch the axis: its bar
    ends in an arrow at the edge.
    """
    points = [value for row in rows for value in (row.value, *row.run_values)]
    ends = [end for row in rows for end in (row.low, row.high) if end is not None]
    if not points or min(points) <= 0:
        return points + ends
    low, high = min(points) / _REACH, max(points) * _REACH
    return points + [min(max(end, low), high) for end in ends]


def _positions(rows: Sequence[Dot]) -> tuple[list[float], list[tuple[float, str]], float]:
    """Heights of the rows, heights and texts of the group headings, and the total height in rows."""
    at: list[float] = []
    headings: list[tuple[float, str]] = []
    y = 0.0
    group: str | None = None
    for row in rows:
        if row.group is not None and row.group != group:
            y += 0.25 if at else 0.0
            headings.append((y, row.group))
            y += 0.9
        group = row.group
        at.append(y)
        y += 1.0
    return at, headings, y


def _draw_row(axes: Axes, row: Dot, y: float, scale: Scale, value_text: Callable[[float], str]) -> None:
    style = style_of(row.style)
    colour = style.hue.light
    faint = row.style == "published"
    if row.run_values:
        axes.plot(row.run_values, [y] * len(row.run_values), "|", color=colour, alpha=0.55, markersize=6, zorder=2)
    if row.low is not None and row.high is not None:
        axes.plot(
            [row.low, row.high],
            [y, y],
            "-",
            color=colour,
            linewidth=2.6 if not faint else 1.8,
            zorder=3,
            solid_capstyle="butt",
            alpha=0.85,
        )
        ends = ((row.low < scale.low, scale.low, CARETLEFT), (row.high > scale.high, scale.high, CARETRIGHT))
        for beyond, edge, arrow in ends:
            if beyond:
                axes.plot([edge], [y], marker=arrow, color=colour, markersize=7, clip_on=False, zorder=4)
    known = row.low is not None or faint
    axes.plot(
        [row.value],
        [y],
        style.marker,
        color=colour if known else SURFACE.light,
        markeredgecolor=colour,
        markeredgewidth=1.2,
        markersize=6.5 if not faint else 5,
        zorder=4,
    )
    axes.text(
        1.015,
        y,
        value_text(row.value),
        transform=axes.get_yaxis_transform(),
        va="center",
        ha="left",
        fontsize=8,
        color=INK.light,
        fontweight="bold" if row.mine else "normal",
    )


@drawn
def dot_intervals(
    rows: Sequence[Dot],
    *,
    name: str,
    quantity: str = "miss_ns",
    scale: Scale | None = None,
    label: str | None = None,
    title: str | None = None,
    reference: float | None = None,
) -> Drawing:
    """Medians as markers, their intervals as bars, single runs as ticks, the value in text at the right.

    Args:
        rows: top to bottom; rows with the same `group` stand under one heading.
        name: id of the figure.
        quantity: column name of the quantity, for the axis label.
        scale: shared scale of several panels; made from the rows when left out.
        label: axis label in place of the quantity's own.
        title: heading inside the figure, for figures that stand alone.
        reference: what values are to be compared with, drawn as a line.

    Raises:
        ValueError: no rows.
    """
    if not rows:
        raise ValueError("there are no rows: pass at least one cell with a median")
    shown = scale if scale is not None else scale_for([*dot_values(rows), *([] if reference is None else [reference])])
    at, headings, height = _positions(rows)
    figure, axes = new_figure(_FRAME_IN + _ROW_IN * height + (0.2 if title else 0.0))
    for y in at:
        axes.axhline(y, color=GRID.light, linewidth=0.5, zorder=1)
    if reference is not None:
        axes.axvline(reference, color=MUTED.light, linewidth=1.2, zorder=1.5)
    for row, y in zip(rows, at, strict=True):
        _draw_row(axes, row, y, shown, quantity_of(quantity).text)
    for y, text in headings:
        axes.text(
            0.0,
            y + 0.1,
            text,
            transform=axes.get_yaxis_transform(),
            fontweight="bold",
            fontsize=8,
            va="center",
            color=MUTED.light,
        )
    axes.set_yticks(at, [row.label for row in rows])
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if row.mine else "normal")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(height - 0.4, -0.6)
    what = label if label is not None else axis_label(quantity)
    time_axis(axes, "x", shown, what, quantity_of(quantity).tick)
    if title:
        axes.set_title(title)
    data = _data(rows, quantity if label is None else label, quantity_of(quantity).symbol)
    return to_drawing(figure, name, describe_dots(rows, what, quantity=quantity), data)


def _data(rows: Sequence[Dot], quantity: str, unit: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for row in rows:
        head = {"quantity": quantity, "unit": unit, "group": row.group, "label": row.label}
        records.append({**head, "mark": "median", "value": row.value, "low": row.low, "high": row.high})
        records += [{**head, "mark": "run", "value": value} for value in row.run_values]
    return records


def describe_dots(rows: Sequence[Dot], what: str, *, quantity: str = "miss_ns") -> str:
    """The figure in words: each row's label, value and interval."""
    written = quantity_of(quantity)
    one, two = written.text, written.range_text
    parts = []
    for row in rows:
        where = f"{row.group}, " if row.group else ""
        span = f" ({two(row.low, row.high)})" if row.low is not None and row.high is not None else ""
        parts.append(f"{where}{row.label} {one(row.value)}{span}")
    return f"Medians and their intervals, {what}: {'; '.join(parts)}."


def placement(rows: Sequence[Dot], *, name: str, label: str, scale: Scale | None = None) -> Drawing:
    """This machine's figure among published ones, slowest at the bottom, published rows grey.

    The bar of a published row is its median plus and minus half its interquartile range, as printed; the bar of this
    machine is its interval over runs.
    """
    ordered = sorted(rows, key=lambda row: row.value)
    return dot_intervals(ordered, name=name, label=label, scale=scale)


@drawn
def share_bars(rows: Sequence[tuple[str, str, float]], *, name: str, label: str, limit: float | None = None) -> Drawing:
    """Shares as bars with their value in percent: label, style, share (1 is all). `limit` ends a shared axis."""
    if not rows:
        raise ValueError("there are no rows: pass at least one share")
    figure, axes = new_figure(_FRAME_IN + _ROW_IN * len(rows))
    for y, (_, style, share) in enumerate(rows):
        axes.barh(y, 100 * share, height=0.55, color=style_of(style).hue.light)
        axes.text(1.015, y, percent_text(share), transform=axes.get_yaxis_transform(), va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0.0, 105 * (limit if limit is not None else max(share for _, _, share in rows)) or 1.0)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x")
    axes.set_xlabel(f"{label} (%)")
    words = "; ".join(f"{text} {percent_text(share)}" for text, _, share in rows)
    data = [{"quantity": label, "label": text, "share": share} for text, _, share in rows]
    return to_drawing(figure, name, f"{label}: {words}.", data)
