"""The control cell over the blocks: did the machine stay the same while it was measured?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from vtare.number_text import time_text
from vtare.plots.axes import scale_for, time_axis
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import BLUE, INK, MUTED, VERMILLION
from vtare.plots.svg import new_figure, to_drawing
from vtare.quantity_text import axis_label, quantity_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.plots.inputs import DriftPoint

_SHIFT: Final = {"open": -0.22, "centre": 0.0, "close": 0.22}
_MARKER: Final = {"open": "^", "centre": "o", "close": "v"}


@drawn
def control_drift(
    points: Sequence[DriftPoint],
    *,
    centre: float,
    limit: float,
    name: str,
    quantity: str = "cost_ns",
    title: str | None = None,
) -> Drawing:
    """Control medians by block with the band centre plus and minus `limit`; points outside it are marked.

    Raises:
        ValueError: no control runs.
    """
    if not points:
        raise ValueError("there is no control runs: pass at least one")
    scale = scale_for(
        [point.value for point in points] + [centre + limit, *([centre - limit] if centre > limit else [])]
    )
    figure, axes = new_figure(2.5 + (0.2 if title else 0.0))
    axes.axhspan(max(centre - limit, scale.low), centre + limit, color=BLUE.light, alpha=0.13, linewidth=0)
    axes.axhline(centre, color=INK.light, linewidth=1.6)
    for point in points:
        colour = VERMILLION.light if point.drifted else BLUE.light
        axes.plot(
            [point.block + _SHIFT.get(point.control, 0.0)],
            [point.value],
            _MARKER.get(point.control, "o"),
            color=colour,
            markersize=6 if point.drifted else 4.5,
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    blocks = [point.block for point in points]
    axes.set_xlim(min(blocks) - 0.5, max(blocks) + 0.5)
    axes.set_xlabel("block (number)")
    what = axis_label(quantity)
    time_axis(axes, "y", scale, f"control: {what.split(':')[0]}")
    if title:
        axes.set_title(title)
    present = [control for control in _MARKER if any(point.control == control for point in points)]
    handles = [Line2D([], [], linestyle="none", marker=_MARKER[c], color=MUTED.light, label=c) for c in present]
    if any(point.drifted for point in points):
        handles.append(Line2D([], [], linestyle="none", marker="s", color=VERMILLION.light, label="drifted"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, handletextpad=0.2)
    drifted = sum(point.drifted for point in points)
    return to_drawing(
        figure,
        name,
        f"Control medians by block, {what}: centre {time_text(centre)}, limit plus and "
        f"minus {time_text(limit)}; {drifted} of {len(points)} outside.",
        [
            {"quantity": quantity, "unit": quantity_of(quantity).symbol, **asdict(point), "centre": centre,
             "limit": limit}
            for point in points
        ],
    )  # fmt: skip
