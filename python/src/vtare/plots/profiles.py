"""Profiles: a figure over the levels of a factor, a line for each level of another; percentiles over load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from matplotlib.lines import Line2D

from vtare.number_text import packet_rate_unit, rate_unit
from vtare.plots.axes import Scale, scale_for, time_axis
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import style_of
from vtare.plots.svg import new_figure, to_drawing
from vtare.quantity_text import axis_label, quantity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

_LEGEND_LETTERS: Final = 46
_SPREAD: Final = 0.28
"""Width, in steps of the horizontal axis, over which the lines' markers stand side by side."""
_STEP: Final = 0.06
_TICK_LETTERS: Final = 44
"""Letters of all level names together that fit under one panel."""


@dataclass(frozen=True, slots=True)
class Point:
    """A figure at one level, with the ends of its interval (None where it has none)."""

    at: int
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """One line: `style` names its colour, `points` lie at positions of the levels (0 is the first)."""

    label: str
    style: str
    points: tuple[Point, ...]


def profile_values(lines: Sequence[Profile]) -> list[float]:
    """All values and ends of intervals, for a scale shared by several panels."""
    return [
        value
        for line in lines
        for point in line.points
        for value in (point.value, point.low, point.high)
        if value is not None
    ]


@drawn
def profiles(
    lines: Sequence[Profile],
    levels: Sequence[str],
    *,
    name: str,
    label: str,
    quantity: str,
    scale: Scale | None = None,
    what: str | None = None,
) -> Drawing:
    """One line for each profile over the levels; bars are intervals. On a log axis, parallel lines do not interact.

    Args:
        lines: at least one, each with a point.
        levels: names of the levels along the horizontal axis, in order.
        name: id of the figure.
        label: what the levels are, below the horizontal axis.
        quantity: column name of the quantity: its unit and the vertical label.
        scale: shared scale of several panels.
        what: vertical label in place of the quantity's own.

    Raises:
        ValueError: no lines, a line without points, or a point beyond the levels.
    """
    if not lines or any(not line.points for line in lines):
        raise ValueError("there is no line with a point: pass at least one")
    if any(not 0 <= point.at < len(levels) for line in lines for point in line.points):
        raise ValueError(f"a point is beyond the {len(levels)} levels: pass positions from 0")
    written = quantity_of(quantity)
    values = profile_values(lines)
    shown = scale if scale is not None else scale_for(values)
    figure, axes = new_figure(2.75)
    step = min(_SPREAD / max(len(lines) - 1, 1), _STEP)
    for at, line in enumerate(lines):
        _draw(axes, line, (at - (len(lines) - 1) / 2) * step)
    axes.set_xlim(-0.5, len(levels) - 0.5)
    axes.set_xticks(range(len(levels)), list(levels))
    if sum(len(level) for level in levels) > _TICK_LETTERS:
        for tick in axes.get_xticklabels():
            tick.set(rotation=30, ha="right", rotation_mode="anchor")
    axes.set_xlabel(label)
    title = what if what is not None else axis_label(quantity).split(":")[0]
    if written.is_rate:
        factor, unit = (packet_rate_unit if written.symbol == "packet/s" else rate_unit)(max(*values, 1.0))
        _rate_axis(axes, values, f"{title}, {unit}", factor)
    else:
        time_axis(axes, "y", shown, title, quantity_of(quantity).tick)
    longest = max(len(line.label) for line in lines)
    columns = next((n for n in (4, 3, 2) if longest <= _LEGEND_LETTERS // n), 1)
    figure.legend(handles=[_handle(line) for line in lines], loc="outside upper left", ncols=columns,
                  handlelength=2.2, columnspacing=1.0, handletextpad=0.4)  # fmt: skip
    data = [
        {"quantity": quantity, "unit": written.symbol, "label": line.label, label: levels[point.at],
         "value": point.value, "low": point.low, "high": point.high}
        for line in lines
        for point in line.points
    ]  # fmt: skip
    return to_drawing(figure, name, _describe(lines, levels, title, written.text), data)


def _draw(axes: Axes, line: Profile, shift: float) -> None:
    style = style_of(line.style)
    colour = style.hue.light
    points = sorted(line.points, key=lambda point: point.at)
    for point in points:
        if point.low is not None and point.high is not None:
            axes.plot([point.at + shift] * 2, [point.low, point.high], "-", color=colour, linewidth=2.0, alpha=0.55,
                      solid_capstyle="butt", zorder=3)  # fmt: skip
    axes.plot([point.at + shift for point in points], [point.value for point in points], color=colour,
              linestyle=style.line, marker=style.marker, markersize=4.6, linewidth=1.3, zorder=4)  # fmt: skip


def _handle(line: Profile) -> Line2D:
    style = style_of(line.style)
    handle = Line2D([], [], color=style.hue.light, marker=style.marker, markersize=4.6, linewidth=1.3, label=line.label)
    handle.set_linestyle(style.line)  # type: ignore[arg-type]
    return handle


def _rate_axis(axes: Axes, values: Sequence[float], label: str, factor: float) -> None:
    axes.set_ylim(min(0.0, *values), 1.08 * max(values))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value / factor:.6g}")
    axes.set_ylabel(label)
    axes.grid(visible=True, axis="y")


def _describe(lines: Sequence[Profile], levels: Sequence[str], what: str, write: Callable[[float], str]) -> str:
    parts = []
    for line in lines:
        points = sorted(line.points, key=lambda point: point.at)
        parts.append(f"{line.label}: " + ", ".join(f"{levels[p.at]} {write(p.value)}" for p in points))
    return f"{what} over levels. {'; '.join(parts)}."
