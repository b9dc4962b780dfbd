"""Stacked bars: a whole and the pieces it falls into, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.patches import Patch

from vtare.number_text import percent_text, time_text
from vtare.plots.axes import scale_for, time_axis
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import GRID, INK, SURFACE, style_of
from vtare.plots.svg import new_figure, to_drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from vtare.plots.axes import Scale
    from vtare.plots.inputs import Stack

_ROW_IN: Final = 0.34
_FRAME_IN: Final = 0.95


def stack_values(rows: Sequence[Stack]) -> list[float]:
    """The ends of all bars and wholes: give those of all panels to `stack_scale` for a shared axis."""
    ends = []
    for row in rows:
        known = [value for _, value in row.pieces]
        ends += [sum(value for value in known if value > 0), sum(value for value in known if value < 0), row.whole]
    return ends


def stack_scale(values: Sequence[float]) -> Scale:
    """A linear axis from 0: lengths of stacked bars can be compared on no other."""
    high, low = max(values), min(0.0, *values)
    margin = 0.04 * (high - low)
    kind = scale_for([max(high, 1.0)])
    return type(kind)("linear", low - (margin if low < 0 else 0.0), high + margin)


@drawn
def stacks(
    rows: Sequence[Stack], *, name: str, names: dict[str, str], scale: Scale | None = None, label: str
) -> Drawing:
    """Each row's pieces one behind the other, the whole as a dark tick with its value at the right.

    A piece below 0 is drawn to the left of 0. Medians of pieces need not add up to the median of the whole.

    Args:
        rows: top to bottom.
        name: id of the figure.
        names: what each piece is called in the legend; their order is that of the legend.
        scale: shared scale of several panels; made from the rows when left out.
        label: axis label.

    Raises:
        ValueError: no rows.
    """
    if not rows:
        raise ValueError("there are no rows: pass at least one whole with its pieces")
    shown = scale if scale is not None else stack_scale(stack_values(rows))
    figure, axes = new_figure(_FRAME_IN + _ROW_IN * len(rows))
    _bars(axes, [row.label for row in rows], [row.pieces for row in rows])
    for y, row in enumerate(rows):
        axes.plot([row.whole] * 2, [y - 0.38, y + 0.38], "-", color=INK.light, linewidth=1.6, zorder=4)
        axes.text(1.015, y, time_text(row.whole), transform=axes.get_yaxis_transform(), va="center", fontsize=8)
    time_axis(axes, "x", shown, label)
    _legend(figure, rows, names)
    data = [
        {"label": row.label, "piece": names.get(piece, piece), "time_ns": value}
        for row in rows
        for piece, value in (("whole", row.whole), *row.pieces)
    ]
    return to_drawing(figure, name, _describe(rows, names, label, None), data)


@drawn
def share_stacks(rows: Sequence[Stack], *, name: str, names: dict[str, str], label: str, main: str) -> Drawing:
    """Each row as a bar from 0 to 100 % of its whole: the piece `main` by its share, in percent beside the bar.

    The other pieces share what is left in the proportion of their values. So rows whose wholes differ by far can be
    read beside each other; the wholes stand at the right. Arguments as of `stacks`, rows without a share left out.

    Raises:
        ValueError: no row has a share.
    """
    known = [row for row in rows if row.share is not None]
    if not known:
        raise ValueError(f"no row has a share of {names[main]}: pass one that has")
    shares = [_shares(row, main) for row in known]
    figure, axes = new_figure(_FRAME_IN + _ROW_IN * len(known))
    _bars(axes, [row.label for row in known], [[(key, 100 * share) for key, share in one] for one in shares])
    at_right, colour = axes.get_yaxis_transform(), style_of(main).hue.light
    for y, row in enumerate(known):
        assert row.share is not None, "rows without one are left out"
        axes.text(1.015, y, percent_text(row.share), transform=at_right, va="center", fontsize=9,
                  fontweight="bold", color=colour)  # fmt: skip
        axes.text(1.235, y, f"of {time_text(row.whole)}", transform=at_right, va="center", fontsize=8)
    axes.text(1.015, -0.62, names[main], transform=at_right, va="bottom", fontsize=8, color=colour)
    low = min(0.0, *(100 * share for one in shares for _, share in one))
    axes.set_xlim(low, 100 - min(low, 0.0))
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.grid(visible=True, axis="x")
    axes.set_xlabel(f"{label} (%)")
    _legend(figure, known, names)
    data = [
        {"label": row.label, "piece": names.get(piece, piece), "time_ns": value, "share": share}
        for row, one in zip(known, shares, strict=True)
        for piece, value, share in (
            ("whole", row.whole, 1.0),
            *((key, value, dict(one)[key]) for key, value in row.pieces),
        )
    ]
    return to_drawing(figure, name, _describe(known, names, label, main), data)


def _shares(row: Stack, main: str) -> list[tuple[str, float]]:
    """The share of the whole that each piece takes: of `main` the row's, of the others what is left of it."""
    rest = sum(value for key, value in row.pieces if key != main)
    left = 1.0 - (row.share or 0.0)
    return [
        (key, row.share or 0.0 if key == main else left * value / rest if rest else 0.0) for key, value in row.pieces
    ]


def _bars(axes: Axes, labels: Sequence[str], rows: Sequence[Sequence[tuple[str, float]]]) -> None:
    """The pieces of each row, those below 0 to the left of it."""
    for y, pieces in enumerate(rows):
        ends = {True: 0.0, False: 0.0}
        for key, value in pieces:
            colour = style_of(key).hue.light
            axes.barh(y, value, left=ends[value > 0], height=0.6, color=colour, edgecolor=SURFACE.light, linewidth=0.8)
            ends[value > 0] += value
    axes.axvline(0.0, color=GRID.light, linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _legend(figure: Figure, rows: Sequence[Stack], names: dict[str, str]) -> None:
    present = [piece for piece in names if any(piece == key for row in rows for key, _ in row.pieces)]
    handles = [Patch(facecolor=style_of(piece).hue.light, label=names[piece]) for piece in present]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, handlelength=1.0, columnspacing=1.4)


def _describe(rows: Sequence[Stack], names: dict[str, str], label: str, main: str | None) -> str:
    parts = []
    for row in rows:
        pieces = ", ".join(f"{names.get(key, key)} {time_text(value)}" for key, value in row.pieces)
        if main is not None and row.share is not None:
            pieces += f" ({percent_text(row.share)} of the whole is {names[main]})"
        parts.append(f"{row.label} {time_text(row.whole)}: {pieces}")
    return f"Medians of the pieces, {label}: {'; '.join(parts)}."
