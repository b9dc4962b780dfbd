"""Stacked bars: a whole and the pieces it falls into, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.patches import Patch

from vtare.plots.axes import scale_for, time_axis
from vtare.plots.format import percent_text, time_text
from vtare.plots.palette import GRID, INK, SURFACE, style_of
from vtare.plots.svg import Drawing, new_figure, style_context, to_drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.plots.axes import Scale
    from vtare.plots.inputs import Stack

_ROW_IN: Final = 0.34
_FRAME_IN: Final = 0.95


def stack_values(rows: Sequence[Stack]) -> list[float]:
    """The ends of all bars and wholes: give those of all panels to `stack_scale` for a shared axis."""
    found = []
    for row in rows:
        known = [value for _, value in row.pieces]
        found += [sum(value for value in known if value > 0), sum(value for value in known if value < 0), row.whole]
    return found


def stack_scale(values: Sequence[float]) -> Scale:
    """A linear axis from 0: lengths of stacked bars can be compared on no other."""
    high, low = max(values), min(0.0, *values)
    margin = 0.04 * (high - low)
    kind = scale_for([max(high, 1.0)])
    return type(kind)("linear", low - (margin if low < 0 else 0.0), high + margin)


def stacks(
    rows: Sequence[Stack],
    *,
    name: str,
    names: dict[str, str],
    scale: Scale | None = None,
    label: str,
    main: str | None = None,
) -> Drawing:
    """Each row's pieces one behind the other, the whole as a dark tick with its value at the right.

    A piece below 0 is drawn to the left of 0. Medians of pieces need not add up to the median of the whole.

    Args:
        rows: top to bottom.
        name: id of the figure.
        names: what each piece is called in the legend; their order is that of the legend.
        scale: shared scale of several panels; made from the rows when left out.
        label: axis label.
        main: the piece whose share of the whole stands beside it, in percent, where a row states it.

    Raises:
        ValueError: no rows.
    """
    if not rows:
        raise ValueError("found no rows, expected at least one whole with its pieces")
    shown = scale if scale is not None else stack_scale(stack_values(rows))
    present = [piece for piece in names if any(piece == key for row in rows for key, _ in row.pieces)]
    with style_context():
        figure, axes = new_figure(_FRAME_IN + _ROW_IN * len(rows))
        for y, row in enumerate(rows):
            ends = {True: 0.0, False: 0.0}
            for key, value in row.pieces:
                colour = style_of(key).hue.light
                axes.barh(
                    y, value, left=ends[value > 0], height=0.6, color=colour, edgecolor=SURFACE.light, linewidth=0.8
                )
                ends[value > 0] += value
            axes.plot([row.whole] * 2, [y - 0.38, y + 0.38], "-", color=INK.light, linewidth=1.6, zorder=4)
            at_right = axes.get_yaxis_transform()
            axes.text(1.015, y, time_text(row.whole), transform=at_right, va="center", ha="left", fontsize=8)
            if main is not None and row.share is not None:
                axes.text(1.2, y, percent_text(row.share), transform=at_right, va="center", ha="left", fontsize=10,
                          fontweight="bold", color=style_of(main).hue.light)  # fmt: skip
        axes.axvline(0.0, color=GRID.light, linewidth=0.8, zorder=1)
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.set_ylim(len(rows) - 0.45, -0.55)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        time_axis(axes, "x", shown, label)
        if main is not None:
            axes.text(1.2, -0.62, names[main], transform=axes.get_yaxis_transform(), va="bottom", ha="left",
                      fontsize=8, color=style_of(main).hue.light)  # fmt: skip
        handles = [Patch(facecolor=style_of(piece).hue.light, label=names[piece]) for piece in present]
        figure.legend(handles=handles, loc="outside upper left", ncols=2, handlelength=1.0, columnspacing=1.4)
        data = [
            {"label": row.label, "piece": names.get(piece, piece), "time_ns": value,
             "share": row.share if piece == main else None}
            for row in rows
            for piece, value in (("whole", row.whole), *row.pieces)
        ]  # fmt: skip
        return to_drawing(figure, name, _describe(rows, names, label, main), data)


def _describe(rows: Sequence[Stack], names: dict[str, str], label: str, main: str | None) -> str:
    parts = []
    for row in rows:
        pieces = ", ".join(f"{names.get(key, key)} {time_text(value)}" for key, value in row.pieces)
        if main is not None and row.share is not None:
            pieces += f" ({percent_text(row.share)} of the whole is {names[main]})"
        parts.append(f"{row.label} {time_text(row.whole)}: {pieces}")
    return f"Medians of the pieces, {label}: {'; '.join(parts)}."
