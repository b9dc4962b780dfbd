"""Box figures: one box per run, drawn from the run's exact quantiles."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from matplotlib.patches import Rectangle

from vtare.number_text import time_text
from vtare.plots.axes import Scale, scale_for, time_axis
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import GRID, INK, style_of
from vtare.plots.svg import new_figure, to_drawing
from vtare.quantity_text import axis_label, quantity_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.plots.inputs import BoxRow

_RUN_IN: Final = 0.085
_MAX_ROW_IN: Final = 0.62


def box_values(rows: Sequence[BoxRow]) -> list[float]:
    """The ends of all whiskers, for a scale shared by several panels."""
    return [end for row in rows for run in row.runs for end in (run.min, run.max)]


@drawn
def boxes(
    rows: Sequence[BoxRow],
    *,
    name: str,
    quantity: str = "miss_ns",
    scale: Scale | None = None,
    title: str | None = None,
) -> Drawing:
    """Each run of each cell as one box: quartiles, median bold, whiskers to min and max, p99 as a dot.

    Raises:
        ValueError: no rows, or a row without runs.
    """
    if not rows or any(not row.runs for row in rows):
        raise ValueError("a row has no runs: pass at least one run in each")
    shown = scale if scale is not None else scale_for(box_values(rows))
    heights = [min(max(0.2, 0.08 + _RUN_IN * len(row.runs)), _MAX_ROW_IN) for row in rows]
    headings = sum(1 for at, row in enumerate(rows) if _starts_group(rows, at) and row.group)
    total = sum(heights) + 0.1 * len(rows) + 0.22 * headings
    figure, axes = new_figure(0.55 + total + (0.2 if title else 0.0))
    y = 0.0
    middles: list[float] = []
    for at, (row, height) in enumerate(zip(rows, heights, strict=True)):
        if _starts_group(rows, at) and row.group:
            axes.text(
                0.0,
                y + 0.11,
                row.group,
                transform=axes.get_yaxis_transform(),
                fontweight="bold",
                fontsize=8,
                va="center",
            )
            y += 0.22
        colour = style_of(row.style).hue.light
        step = height / len(row.runs)
        for number, run in enumerate(row.runs):
            middle = y + (number + 0.5) * step
            half = 0.36 * step
            axes.plot([run.min, run.max], [middle, middle], "-", color=colour, linewidth=0.7, alpha=0.6, zorder=2)
            axes.add_patch(
                Rectangle(
                    (run.q1, middle - half),
                    run.q3 - run.q1,
                    2 * half,
                    facecolor=colour,
                    alpha=0.35,
                    edgecolor=colour,
                    linewidth=0.6,
                    zorder=3,
                )
            )
            axes.plot([run.median] * 2, [middle - half, middle + half], "-", color=INK.light, linewidth=1.4, zorder=4)
            if run.p99 is not None:
                axes.plot([run.p99], [middle], ".", color=colour, markersize=3.2, zorder=4)
        middles.append(y + height / 2)
        y += height + 0.1
        axes.axhline(y - 0.05, color=GRID.light, linewidth=0.5, zorder=1)
    axes.set_ylim(y - 0.04, -0.04)
    axes.set_yticks(middles, [row.label for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    what = axis_label(quantity)
    time_axis(axes, "x", shown, what)
    if title:
        axes.set_title(title)
    head = {"quantity": quantity, "unit": quantity_of(quantity).symbol}
    data = [
        {**head, "group": row.group, "label": row.label, "run": number, **asdict(run)}
        for row in rows
        for number, run in enumerate(row.runs, 1)
    ]
    return to_drawing(figure, name, _describe(rows, what), data)


def _starts_group(rows: Sequence[BoxRow], at: int) -> bool:
    return at == 0 or rows[at - 1].group != rows[at].group


def _describe(rows: Sequence[BoxRow], what: str) -> str:
    parts = []
    for row in rows:
        medians = [run.median for run in row.runs]
        parts.append(
            f"{row.label}: {len(row.runs)} runs, medians {time_text(min(medians))} to {time_text(max(medians))}"
        )
    return f"One box per run, {what}: {'; '.join(parts)}."
