"""Axes for times: the scale that fits the data, ticks a person would choose, the unit on every tick."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from vtare.number_text import tick_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from matplotlib.axes import Axes

_LINEAR_SPAN: Final = 1.6
_LABEL_SHARE: Final = 0.14
"""Share of an axis that one label takes up."""
_MAX_TICKS: Final = {"x": 5, "y": 6}


@dataclass(frozen=True, slots=True)
class Scale:
    """Limits and kind of a time axis. `linear_below` is the half-width of the linear part of a symlog axis, in ns."""

    kind: Literal["linear", "log", "symlog"]
    low: float
    high: float
    linear_below: float = 1.0


def scale_for(values: Iterable[float], *, pad: float = 0.06, always_log: bool = False) -> Scale:
    """The scale that shows all `values`.

    Linear where they span less than a factor of 1.6, logarithmic otherwise, and symmetric-logarithmic when some are 0
    or below (an early wake-up), because a logarithm would hide those. `always_log` forbids the linear form.

    Raises:
        ValueError: no values.
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        raise ValueError("there is no finite value to draw: pass at least one")
    low, high = min(known), max(known)
    # What is too small to be divided without loss counts as 0.
    if low < sys.float_info.min:
        below = min((value for value in known if value >= sys.float_info.min), default=1.0)
        below = 10.0 ** math.floor(math.log10(below))
        grow = 10**0.25
        return Scale("symlog", low * grow if low < 0 else 0.0, max(high, below) * grow, below)
    if high / low < _LINEAR_SPAN and not always_log:
        margin = pad * (high - low) if high > low else 0.1 * high
        return Scale("linear", low - margin, high + margin)
    span = max(math.log10(high / low), 0.3)
    return Scale("log", low / 10 ** (pad * span), high * 10 ** (pad * span))


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Tick values on a logarithmic axis: 1-2-5 over a short span, decades, then every third decade (ns, us, ms, s)."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    choices = (
        [m * 10.0**e for e in range(first, last + 1) for m in (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)],
        [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)],
        [m * 10.0**e for e in range(first, last + 1) for m in (1, 3)],
        [10.0**e for e in range(first, last + 1)],
        [10.0**e for e in range(first, last + 1) if e % 2 == 0],
        [10.0**e for e in range(first, last + 1) if e % 3 == 0],
    )
    inside: list[float] = []
    fitting: list[float] | None = None
    for choice in choices:
        inside = [tick for tick in choice if low * 0.999 <= tick <= high * 1.001]
        if len(inside) <= most:
            fitting = inside if fitting is None else fitting
            if len(inside) > 1 and not _crowded(inside, low, high):
                return inside
    return fitting if fitting is not None else inside


def _crowded(ticks: list[float], low: float, high: float) -> bool:
    """Whether two labels would touch: `9 ns` and `10 ns` lie close together on an axis that starts at 8 ns."""
    least = min(math.log10(b / a) for a, b in pairwise(ticks))
    return least < _LABEL_SHARE * math.log10(high / low)


def _symlog_ticks(scale: Scale, most: int) -> list[float]:
    ticks = [0.0]
    if scale.high > scale.linear_below:
        ticks += log_ticks(scale.linear_below, scale.high, most - 1)
    if -scale.low > scale.linear_below:
        ticks += [-tick for tick in log_ticks(scale.linear_below, -scale.low)[-2:]]
    return sorted(ticks)


def time_axis(
    axes: Axes, which: Literal["x", "y"], scale: Scale, label: str | None, tick: Callable[[float], str] = tick_text
) -> None:
    """Give an axis its scale, ticks with units, grid and label."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    set_scale = axes.set_xscale if which == "x" else axes.set_yscale
    set_limits = axes.set_xlim if which == "x" else axes.set_ylim
    most = _MAX_TICKS[which]
    if scale.kind == "symlog":
        set_scale("symlog", linthresh=scale.linear_below)
        ticks = _symlog_ticks(scale, most)
    elif scale.kind == "log":
        set_scale("log")
        ticks = log_ticks(scale.low, scale.high, most)
    else:
        ticks = [tick for tick in MaxNLocator(most - 1).tick_values(scale.low, scale.high)]
        ticks = [float(tick) for tick in ticks if scale.low <= tick <= scale.high]
    set_limits(scale.low, scale.high)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([tick(at) for at in ticks]))
    axis.set_minor_locator(NullLocator())
    axes.grid(visible=True, axis=which)
    if label is not None:
        kind = {"log": "log scale", "symlog": "log scale, linear near 0", "linear": ""}[scale.kind]
        if which == "x":
            axes.set_xlabel(f"{label}, {kind}" if kind else label)
        else:
            # An upright axis is short: its kind goes on a line of its own.
            axes.set_ylabel(f"{label}\n{kind}" if kind else label)
