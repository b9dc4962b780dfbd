"""Curves of a figure over another: throughput over Jain's index, latency over load. Points carry intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from vtare.number_text import (
    packet_rate_text,
    packet_rate_unit,
    rate_text,
    rate_unit,
    significant,
    tick_text,
    time_text,
)
from vtare.plots.axes import log_ticks
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import style_of
from vtare.plots.svg import new_figure, to_drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

Kind = Literal["time", "packet_rate", "bit_rate", "plain"]
_UNIT: Final[dict[Kind, str]] = {"time": ", ns", "packet_rate": ", packet/s", "bit_rate": ", bit/s", "plain": ""}
#: What writes values of a kind, and what scales its axis.
_WRITTEN: Final[dict[Kind, Callable[[float], str]]] = {
    "time": time_text, "packet_rate": packet_rate_text, "bit_rate": rate_text, "plain": significant,
}  # fmt: skip
_SCALED: Final[dict[Kind, Callable[[float], tuple[float, str]]]] = {
    "packet_rate": packet_rate_unit, "bit_rate": rate_unit,
}  # fmt: skip
_LEGEND_LETTERS: Final = 46
_ROOM: Final = 1.25


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of a curve with the interval of its height, None where there is none. `hollow`: a bound, not a value."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """A named curve; `style` names its colour."""

    label: str
    style: str
    points: tuple[CurvePoint, ...]


@drawn
def curves(
    lines: Sequence[Curve], *, name: str, x_label: str, y_label: str, x_kind: Kind = "plain", y_kind: Kind = "plain"
) -> Drawing:
    """Curves over one pair of axes; times on a logarithmic axis, all else from 0 on. A hollow marker is a lower bound.

    Raises:
        ValueError: no points.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        raise ValueError("there are no points: pass at least one")
    figure, axes = new_figure(3.0)
    x_factor, y_factor = scale_of(x_kind, [p.x for p in points]), scale_of(y_kind, _heights(points))
    for line in lines:
        style = style_of(line.style)
        colour = style.hue.light
        ordered = sorted(line.points, key=lambda point: point.x)
        xs, ys = [p.x / x_factor for p in ordered], [p.y / y_factor for p in ordered]
        axes.plot(xs, ys, linestyle=style.line, color=colour, linewidth=1.2, zorder=3)
        for point in ordered:
            x = point.x / x_factor
            if point.low is not None and point.high is not None:
                ends = [point.low / y_factor, point.high / y_factor]
                axes.plot([x, x], ends, "-", color=colour, linewidth=1.0, alpha=0.7, zorder=4)
            axes.plot(
                [x], [point.y / y_factor], style.marker, color=colour, markersize=4.8, linestyle="none", zorder=5,
                markerfacecolor="none" if point.hollow else colour, clip_on=False,
            )  # fmt: skip
    _axis(axes, "x", x_kind, [p.x for p in points], x_label)
    _axis(axes, "y", y_kind, _heights(points), y_label)
    handles = [
        Line2D([], [], linestyle="-", marker=style_of(line.style).marker,
               color=style_of(line.style).hue.light, markersize=4.6, label=line.label)
        for line in lines
    ]  # fmt: skip
    longest = max(len(line.label) for line in lines)
    columns = next((n for n in (4, 3, 2) if longest <= _LEGEND_LETTERS // n), 1)
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, handletextpad=0.4, columnspacing=1.0)
    values = "; ".join(
        f"{line.label}: " + ", ".join(f"{value_text(y_kind, p.y)} at {value_text(x_kind, p.x)}" for p in line.points)
        for line in lines
    )
    x_name, y_name = (f"{text}{_UNIT[kind]}" for text, kind in ((x_label, x_kind), (y_label, y_kind)))
    data = [
        {"label": line.label, x_name: p.x, y_name: p.y, "low": p.low, "high": p.high, "lower_bound": p.hollow}
        for line in lines
        for p in line.points
    ]
    return to_drawing(figure, name, f"{y_label} over {x_label}. {values}.", data)


def _heights(points: Sequence[CurvePoint]) -> list[float]:
    return [value for p in points for value in (p.y, p.low, p.high) if value is not None]


def scale_of(kind: Kind, values: Sequence[float]) -> float:
    """What values of this kind are divided by on an axis that holds these."""
    return _SCALED[kind](max(values))[0] if kind in _SCALED else 1.0


def value_text(kind: Kind, value: float) -> str:
    """A value of this kind with its unit."""
    return _WRITTEN[kind](value)


def axis_title(label: str, kind: Kind, values: Sequence[float]) -> str:
    """The title of an axis that holds these values, with their unit."""
    if kind in _SCALED:
        return f"{label}, {_SCALED[kind](max(values))[1]}"
    return f"{label}, log scale" if kind == "time" else label


def ends_of(kind: Kind, values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis that holds these values: of times at least a decade, of all else from 0 on."""
    if kind == "time":
        positive = [value for value in values if value > 0]
        low, high = (min(positive) / _ROOM, max(positive) * _ROOM) if positive else (1.0, 10.0)
        return (low, high) if high / low >= 10 else (low / 2, high * 2)
    high = 1.06 * max(values)
    return 0.0, high if high > 0 else scale_of(kind, values)


def _axis(axes: Axes, which: Literal["x", "y"], kind: Kind, values: Sequence[float], label: str) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    set_limits = axes.set_xlim if which == "x" else axes.set_ylim
    (axes.set_xlabel if which == "x" else axes.set_ylabel)(axis_title(label, kind, values))
    axes.grid(visible=True, axis=which)
    if kind == "time":
        low, high = ends_of(kind, values)
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        set_limits(low, high)
        ticks = log_ticks(low, high, 5)
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FixedFormatter([tick_text(tick) for tick in ticks]))
        axis.set_minor_locator(NullLocator())
        return
    low, high = (end / scale_of(kind, values) for end in ends_of(kind, values))
    set_limits(low, high)
    even = [float(tick) for tick in MaxNLocator(5).tick_values(0.0, high) if 0.0 <= tick <= high]
    axis.set_major_locator(FixedLocator(even))
    axis.set_major_formatter(FixedFormatter([f"{tick:.6g}" for tick in even]))
