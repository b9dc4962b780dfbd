"""A figure over time with the levels between its changes: has it got worse?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from vtare.plots.axes import scale_for, time_axis
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import BLUE, INK, VERMILLION
from vtare.plots.svg import new_figure, to_drawing
from vtare.quantity_text import axis_label, quantity_of

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Dates on axes count in days from 1970 on, UTC.
_DAY_S: Final = 86_400.0


@drawn
def over_time(
    at_s: Sequence[float], values: Sequence[float], changes: Sequence[int], *, levels: Sequence[float], name: str,
    quantity: str,
) -> Drawing:  # fmt: skip
    """Points by time (UNIX, s), a line at each level, and a line down at each change (the place of its first point).

    `levels` are those before, between and behind the changes.

    Raises:
        ValueError: no point, or not one level more than changes.
    """
    if not values or len(levels) != len(changes) + 1:
        raise ValueError(f"{len(values)} points and {len(levels)} levels do not match {len(changes)} changes")
    days = [at / _DAY_S for at in at_s]
    number = quantity_of(quantity)
    ends = [0, *changes, len(values)]
    figure, axes = new_figure(2.4)
    axes.plot(days, list(values), "o", color=BLUE.light, markersize=2.5)
    for first, last, level in zip(ends, ends[1:], levels, strict=False):
        axes.plot([days[first], days[last - 1]], [level, level], color=INK.light, linewidth=1.6)
    for place in changes:
        axes.axvline(days[place], color=VERMILLION.light, linewidth=1.2, linestyle=(0, (4, 2)))
    margin = max(30.0 / _DAY_S, 0.03 * (days[-1] - days[0]))
    axes.set_xlim(days[0] - margin, days[-1] + margin)
    locator = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.set_xlabel("time (UTC)")
    time_axis(axes, "y", scale_for(values), axis_label(quantity).split(":")[0], number.tick)
    shown = ", ".join(number.text(level) for level in levels)
    rows = [
        {"at_unix_s": at, "value": value, "quantity": quantity, "unit": number.symbol, "change": place in changes}
        for place, (at, value) in enumerate(zip(at_s, values, strict=True))
    ]
    about = f"{axis_label(quantity)} over time: {len(values)} points, {len(changes)} changes, levels {shown}."
    return to_drawing(figure, name, about, rows)
