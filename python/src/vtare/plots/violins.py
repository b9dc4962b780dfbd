"""Violins: how the readings of a cell lie, drawn from counts of distinct values, never from raw readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.patches import Polygon

from vtare.number_text import time_text
from vtare.plots.axes import Scale, scale_for, time_axis
from vtare.plots.decimate import sorted_counts, weighted_quantile
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import GRID, INK, style_of
from vtare.plots.svg import new_figure, to_drawing
from vtare.quantity_text import axis_label, quantity_of
from vtare.sentences.words import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from vtare.plots.inputs import Floats

_ROW_IN: Final = 0.42
_FRAME_IN: Final = 0.62
_BINS: Final = 72


@dataclass(frozen=True, slots=True)
class Violin:
    """The readings of one cell as shares of equal steps of the axis, with their exact quartiles.

    `edges` has one more entry than `share`; on a logarithmic axis its steps are equal factors. `hidden` is the share of
    readings at or below 0, which a logarithm cannot show.
    """

    label: str
    style: str
    edges: Floats
    share: Floats
    q1: float
    median: float
    q3: float
    n: int
    hidden: float
    group: str | None = None


def violin(label: str, style: str, values: ArrayLike, weights: ArrayLike | None = None, *, group: str | None = None
           ) -> Violin:  # fmt: skip
    """Bin readings given as values and counts: equal factors where they span more than a factor of 1.6."""
    distinct, counts = sorted_counts(values, weights)
    n = int(counts.sum())
    q1, median, q3 = (weighted_quantile(distinct, counts, q) for q in (0.25, 0.5, 0.75))
    above = distinct > 0
    shown, held = (distinct[above], counts[above]) if above.any() else (distinct, counts)
    low, high = float(shown[0]), float(shown[-1])
    if low > 0 and high / low > 1.6:
        edges = np.geomspace(low, high * (1 + 1e-9), _BINS + 1)
    else:
        edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    share, _ = np.histogram(shown, bins=edges, weights=held)
    hidden = 1.0 - float(held.sum()) / n
    return Violin(label, style, edges, share / n, q1, median, q3, n, hidden, group)


def violin_values(rows: Sequence[Violin]) -> list[float]:
    """The ends of all violins, for a scale shared by several panels."""
    return [end for row in rows for end in (float(row.edges[0]), float(row.edges[-1])) if end > 0]


@drawn
def violins(rows: Sequence[Violin], *, name: str, quantity: str, scale: Scale | None = None) -> Drawing:
    """Each cell as a violin: width by the root of the share of readings, quartiles as a bar, median as a dark line.

    The root keeps rare readings visible: a tail of one in ten thousand is a hundredth of the widest place.

    Raises:
        ValueError: no rows.
    """
    if not rows:
        raise ValueError("there is no violin: pass at least one cell with readings")
    shown = scale if scale is not None else scale_for(violin_values(rows) or [0.0, 1.0])
    headings = sum(1 for at, row in enumerate(rows) if row.group and (at == 0 or rows[at - 1].group != row.group))
    figure, axes = new_figure(_FRAME_IN + _ROW_IN * len(rows) + 0.25 * headings)
    y, middles = 0.0, []
    for at, row in enumerate(rows):
        if row.group and (at == 0 or rows[at - 1].group != row.group):
            place = axes.get_yaxis_transform()
            axes.text(0.0, y - 0.1, row.group, transform=place, fontweight="bold", fontsize=8, va="center")
            y += 0.6
        colour = style_of(row.style).hue.light
        half = 0.42 * np.sqrt(row.share / max(float(row.share.max()), 1e-12))
        # One outline for the whole violin, there along one side and back along the other.
        steps, sides = np.repeat(row.edges, 2)[1:-1], np.repeat(half, 2)
        outline = np.concatenate([np.column_stack([steps, y - sides]), np.column_stack([steps[::-1], y + sides[::-1]])])
        axes.add_patch(Polygon(outline, closed=True, facecolor=colour, linewidth=0, alpha=0.55, zorder=2))
        axes.plot([row.q1, row.q3], [y, y], "-", color=INK.light, linewidth=1.0, zorder=3)
        axes.plot([row.median] * 2, [y - 0.3, y + 0.3], "-", color=INK.light, linewidth=1.6, zorder=4)
        axes.axhline(y + 0.5, color=GRID.light, linewidth=0.5, zorder=1)
        middles.append(y)
        y += 1.0
    axes.set_ylim(y - 0.45, -0.55)
    axes.set_yticks(middles, [row.label for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    what = axis_label(quantity)
    time_axis(axes, "x", shown, what)
    values = "; ".join(
        f"{row.label}: {count_text(row.n)} readings, quartiles {time_text(row.q1)} and {time_text(row.q3)}"
        for row in rows
    )
    head = {"quantity": quantity, "unit": quantity_of(quantity).symbol}
    data = [
        {**head, "group": row.group, "label": row.label, "from": low, "to": high, "share": share,
         "q1": row.q1, "median": row.median, "q3": row.q3, "readings": row.n}
        for row in rows
        for low, high, share in zip(row.edges[:-1].tolist(), row.edges[1:].tolist(), row.share.tolist(),
                                    strict=True)
    ]  # fmt: skip
    return to_drawing(figure, name, f"Spread of readings, {what}: {values}.", data)
