"""Matrices: the effect and verdict of every cell at a glance, and how figures go with the levels of factors."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from matplotlib.patches import Patch, Rectangle

from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import BLUE, GRID, INK, MUTED, SURFACE, VERMILLION
from vtare.plots.svg import PANEL_WIDTH_IN, new_figure, to_drawing
from vtare.stats.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

Edge = Literal["sure", "alike", "open"]

_ROW_IN: Final = 0.27
_FRAME_IN: Final = 0.86
_COLUMN_IN: Final = 0.82
_LABEL_LETTER_IN: Final = 0.072
_ASLANT_LETTER_IN: Final = _LABEL_LETTER_IN * 0.87
_LABEL_LETTERS: Final = 26
"""Letters of a row's name in one line: longer ones would leave the squares no room in a panel."""
_LINE_IN: Final = 0.14
_LEAST_TINT: Final = 0.04
_MOST_TINT: Final = 0.62
_MARK: Final[dict[Edge, str]] = {"sure": "", "alike": "=", "open": "?"}
_VERDICT: Final[dict[Edge, str]] = {"sure": "sure", "alike": Verdict.EQUIVALENT, "open": Verdict.INCONCLUSIVE}


@dataclass(frozen=True, slots=True)
class Square:
    """One square of a matrix: `tint` from -1 (blue) over 0 (none) to 1 (orange), the `text` in it and its verdict.

    `sure` squares have a dark frame and bold text; `alike` are marked `=`, `open` are marked `?`.
    """

    tint: float
    text: str
    edge: Edge


@dataclass(frozen=True, slots=True)
class Ends:
    """What the two ends of the tint mean, and what the frames and marks mean; they form the legend."""

    low: str
    high: str
    sure: str
    alike: str | None
    open: str


@drawn
def matrix(
    rows: Sequence[str],
    columns: Sequence[str],
    squares: Sequence[Sequence[Square | None]],
    *,
    name: str,
    label: str,
    ends: Ends,
) -> Drawing:
    """A matrix of squares, tinted by effect and marked by verdict; a square that is None stays empty.

    Colour alone carries no meaning here: each square has its figure and its mark.

    Args:
        rows: names of the rows, top to bottom.
        columns: names of the columns; where they are long they are set aslant.
        squares: one list for each row.
        name: id of the figure.
        label: what the columns are, below the axis.
        ends: the legend.

    Raises:
        ValueError: no rows or columns, or the lists do not fit them.
    """
    if not rows or not columns or len(squares) != len(rows) or any(len(some) != len(columns) for some in squares):
        raise ValueError(f"{len(squares)} lists for {len(rows)} rows, {len(columns)} columns: pass a matrix")
    names = [textwrap.wrap(row, _LABEL_LETTERS) or [""] for row in rows]
    row_in = _ROW_IN + _LINE_IN * (max(len(lines) for lines in names) - 1)
    # Left of the squares: the names of the rows, or how far the names of columns reach that end below their square.
    left = _LABEL_LETTER_IN * max(len(line) for lines in names for line in lines)
    column_in = max(_COLUMN_IN, (PANEL_WIDTH_IN - left - 0.2) / len(columns))
    aslant = any(_LABEL_LETTER_IN * (len(column) + 1) > column_in for column in columns)
    if aslant:
        left = max(left, *(_ASLANT_LETTER_IN * len(column) - _COLUMN_IN * at for at, column in enumerate(columns)))
    width = max(PANEL_WIDTH_IN, left + _COLUMN_IN * len(columns) + 0.2)
    extra = 0.055 * max(len(column) for column in columns) if aslant else 0.0
    figure, axes = new_figure(_FRAME_IN + extra + row_in * len(rows), width)
    for y, some in enumerate(squares):
        for x, square in enumerate(some):
            _draw(axes, x, y, square)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), ["\n".join(lines) for lines in names])
    axes.set_xticks(range(len(columns)), list(columns))
    if aslant:
        for tick in axes.get_xticklabels():
            tick.set(rotation=30, ha="right", rotation_mode="anchor")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel(label)
    figure.legend(handles=_handles(squares, ends), loc="outside upper left", ncols=3, handlelength=1.0,
                  columnspacing=1.2, handletextpad=0.4)  # fmt: skip
    data = [
        {"row": row, label: column, "text": square and square.text, "verdict": square and _VERDICT[square.edge]}
        for row, some in zip(rows, squares, strict=True)
        for column, square in zip(columns, some, strict=True)
    ]
    return to_drawing(figure, name, _describe(rows, columns, squares, label), data)


def _draw(axes: Axes, x: int, y: int, square: Square | None) -> None:
    if square is None:
        axes.text(x, y, "\N{EN DASH}", ha="center", va="center", fontsize=7.5, color=MUTED.light)
        return
    strength = min(abs(square.tint), 1.0)
    colour = (VERMILLION if square.tint > 0 else BLUE).light
    alpha = 0.0 if strength == 0 else _LEAST_TINT + (_MOST_TINT - _LEAST_TINT) * strength
    axes.add_patch(Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, facecolor=colour, alpha=alpha, linewidth=0, zorder=1))
    sure = square.edge == "sure"
    frame = Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, facecolor="none", edgecolor=(INK if sure else GRID).light,
                      linewidth=1.3 if sure else 0.6, zorder=3 if sure else 2)  # fmt: skip
    axes.add_patch(frame)
    text = f"{_MARK[square.edge]} {square.text}".strip()
    axes.text(x, y, text, ha="center", va="center", fontsize=7.5, color=INK.light,
              fontweight="bold" if sure else "normal", zorder=4)  # fmt: skip


def _handles(squares: Sequence[Sequence[Square | None]], ends: Ends) -> list[Patch]:
    present = {square.edge for some in squares for square in some if square is not None}
    tints = [square.tint for some in squares for square in some if square is not None]
    handles = []
    if min(tints, default=0.0) < 0:
        handles.append(Patch(facecolor=BLUE.light, alpha=_MOST_TINT, label=ends.low))
    if max(tints, default=0.0) > 0:
        handles.append(Patch(facecolor=VERMILLION.light, alpha=_MOST_TINT, label=ends.high))
    if "sure" in present:
        handles.append(Patch(facecolor=SURFACE.light, edgecolor=INK.light, linewidth=1.3, label=ends.sure))
    if "alike" in present and ends.alike is not None:
        handles.append(Patch(facecolor=SURFACE.light, edgecolor=GRID.light, label=f"=  {ends.alike}"))
    if "open" in present:
        handles.append(Patch(facecolor=SURFACE.light, edgecolor=GRID.light, label=f"?  {ends.open}"))
    return handles


def _describe(
    rows: Sequence[str], columns: Sequence[str], squares: Sequence[Sequence[Square | None]], label: str
) -> str:
    parts = [
        f"{row}, {column}: {square.text} ({_VERDICT[square.edge]})"
        for row, some in zip(rows, squares, strict=True)
        for column, square in zip(columns, some, strict=True)
        if square is not None
    ]
    return f"Matrix by {label}: {'; '.join(parts)}."
