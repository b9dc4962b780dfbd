"""A mesh as a matrix: a square for each pair of hosts, hosts of a cluster beside each other, odd pairs framed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path

from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import BLUE, GRID, INK, MUTED, SURFACE, VERMILLION
from vtare.plots.svg import PANEL_WIDTH_IN, new_figure, to_drawing
from vtare.quantity_text import quantity_of
from vtare.sentences.answers import NO_VALUE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from matplotlib.axes import Axes

    from vtare.plots.inputs import Floats

#: Up to this number of hosts each square has its figure in it, and all pairs are listed for screen readers.
_MOST_WITH_TEXT: Final = 12
_SQUARE_IN, _SMALL_IN, _MOST_IN = 0.58, 0.3, 7.6
_NAME_LETTER_IN: Final = 0.07
_FRAME_IN: Final = 0.75
_TINTS: Final = 8
_LEAST_TINT, _MOST_TINT = 0.06, 0.75
#: The tint is full at this share of the pairs that are farthest from the median: one pair must not pale all others.
_FULL_AT: Final = 0.95


def cluster_name(number: int) -> str:
    """What a cluster is called: A, B, ... Z, AA.

    >>> cluster_name(0), cluster_name(27)
    ('A', 'AB')
    """
    high, low = divmod(number, 26)
    return (cluster_name(high - 1) if high else "") + chr(ord("A") + low)


@drawn
def pair_matrix(
    hosts: Sequence[str],
    values: Floats,
    clusters: Sequence[Sequence[int]],
    odd: Collection[tuple[int, int]],
    *,
    name: str,
    quantity: str,
    one_way: bool,
) -> Drawing:
    """A matrix of pairs, from the host of the row to that of the column, tinted by the ratio to the median of all.

    Args:
        hosts: their names, N.
        values: shape (N, N), above 0, nan where there is none; without `one_way` both halves hold the same.
        clusters: positions of hosts; they are drawn in this order, with a line between two clusters.
        odd: pairs, as positions, that get a frame.
        name: id of the figure.
        quantity: what the values are.
        one_way: the two ways of a pair are two values.

    Raises:
        ValueError: the values do not fit the hosts.
    """
    if values.shape != (len(hosts), len(hosts)):
        raise ValueError(f"values of shape {values.shape} for {len(hosts)} hosts: pass a square of them")
    order = [host for cluster in clusters for host in cluster]
    n, written = len(order), quantity_of(quantity)
    shown = values[np.ix_(order, order)]
    middle = float(np.nanmedian(shown))
    logs = np.log(shown / middle)
    full = float(np.nanquantile(np.abs(logs), _FULL_AT)) or float(np.nanmax(np.abs(logs))) or 1.0
    tints = np.clip(np.round(_TINTS * logs / full), -_TINTS, _TINTS)
    place = {host: k for k, host in enumerate(order)}
    framed = {(place[a], place[b]) for a, b in odd}
    framed |= set() if one_way else {(b, a) for a, b in framed}
    labels = [hosts[host] for host in order]
    left = _NAME_LETTER_IN * max(map(len, labels))
    side = n * (_SQUARE_IN if n <= _MOST_WITH_TEXT else _SMALL_IN)
    side = min(max(side, PANEL_WIDTH_IN - left - 0.3), _MOST_IN)
    figure, axes = new_figure(0.75 * side + _FRAME_IN + left if n <= _MOST_WITH_TEXT else side + _FRAME_IN + left,
                              side + left + 0.3)  # fmt: skip
    for tint in range(-_TINTS, _TINTS + 1):
        _fill(axes, np.argwhere(tints == tint), tint)
    absent = np.argwhere(np.isnan(shown) & ~np.eye(n, dtype=bool))
    axes.plot(absent[:, 1], absent[:, 0], "x", color=MUTED.light, markersize=min(5.0, 0.3 * 72 * side / n))
    for row, column in framed:
        frame = Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, facecolor="none", edgecolor=INK.light,
                          linewidth=1.6 if n <= 32 else 0.9, zorder=4)  # fmt: skip
        axes.add_patch(frame)
    if n <= _MOST_WITH_TEXT:
        for row, column in np.argwhere(~np.isnan(shown)).tolist():
            axes.text(column, row, written.text(float(shown[row, column])), ha="center", va="center", fontsize=6.5,
                      color=INK.light, zorder=5)  # fmt: skip
    _separate(axes, [len(cluster) for cluster in clusters])
    _frame(axes, labels, 72 * side / n)
    # An end that no pair reaches has no entry.
    low, high = (
        written.text(middle * float(np.exp(end * full))) if (tints == end * _TINTS).any() else None for end in (-1, 1)
    )
    handles = _handles(low, written.text(middle), high, framed=bool(framed), absent=bool(len(absent)))
    figure.legend(handles=handles, loc="outside upper left", ncols=3, handlelength=1.0, columnspacing=1.2,
                  handletextpad=0.4)  # fmt: skip
    member = {host: cluster_name(k) for k, cluster in enumerate(clusters) for host in cluster}
    data = [
        {
            "from": hosts[a], "to": hosts[b], "cluster_from": member[a], "cluster_to": member[b],
            written.column("median"): None if np.isnan(values[a, b]) else float(values[a, b]),
            "odd": (a, b) in {*odd},
        }
        for a in order
        for b in order
        if a != b and (one_way or a < b)
    ]  # fmt: skip
    return to_drawing(figure, name, _described(labels, clusters, hosts, data, written, middle), data)


def _fill(axes: Axes, cells: Any, tint: int) -> None:
    """All squares of one tint, as one path: a matrix of 64 hosts has 4,032 of them."""
    if len(cells) == 0 or tint == 0:
        return
    corners = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5)])
    points = (cells[:, None, ::-1] + corners[None]).reshape(-1, 2)
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(cells))
    alpha = _LEAST_TINT + (_MOST_TINT - _LEAST_TINT) * (abs(tint) - 1) / (_TINTS - 1)
    colour = VERMILLION if tint > 0 else BLUE
    axes.add_patch(PathPatch(Path(points, codes), facecolor=colour.light, alpha=alpha, linewidth=0, zorder=1))


def _separate(axes: Axes, sizes: Sequence[int]) -> None:
    """Lines between clusters, and the name of each at the right."""
    edges = np.cumsum([0, *sizes]) - 0.5
    for edge in edges[1:-1]:
        axes.axhline(edge, color=INK.light, linewidth=1.1, zorder=3)
        axes.axvline(edge, color=INK.light, linewidth=1.1, zorder=3)
    for k, size in enumerate(sizes if len(sizes) > 1 else ()):
        right = 1.02 * float(edges[-1]) + 0.1
        axes.text(right, edges[k] + size / 2, cluster_name(k), va="center", fontsize=8, fontweight="bold",
                  color=INK.light, clip_on=False)  # fmt: skip


def _frame(axes: Axes, labels: Sequence[str], square_pt: float) -> None:
    n = len(labels)
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n - 0.5, -0.5)
    size = float(min(8.0, max(4.0, 0.8 * square_pt)))
    axes.set_yticks(range(n), list(labels), fontsize=size)
    axes.set_xticks(range(n), list(labels), fontsize=size, rotation=90 if n > 4 else 0)
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set(visible=True, color=GRID.light)
    axes.set_xlabel("to")
    axes.set_ylabel("from")


def _handles(low: str | None, middle: str, high: str | None, *, framed: bool, absent: bool) -> list[Any]:
    full = [(BLUE, f"{low} or less"), (VERMILLION, f"{high} or more")]
    lower, higher = (
        [Patch(facecolor=colour.light, alpha=_MOST_TINT, label=label)] if end is not None else []
        for end, (colour, label) in zip((low, high), full, strict=True)
    )
    return [
        *lower,
        Patch(facecolor=SURFACE.light, edgecolor=GRID.light, label=f"{middle}, the median"),
        *higher,
        *([Patch(facecolor=SURFACE.light, edgecolor=INK.light, linewidth=1.6, label="odd pair")] if framed else []),
        *([Line2D([], [], color=MUTED.light, marker="x", linewidth=0, label=NO_VALUE)] if absent else []),
    ]


def _described(
    labels: Sequence[str],
    clusters: Sequence[Sequence[int]],
    hosts: Sequence[str],
    data: Sequence[dict[str, Any]],
    written: Any,
    middle: float,
) -> str:
    column = written.column("median")
    groups = "; ".join(f"{cluster_name(k)}: {', '.join(hosts[i] for i in one)}" for k, one in enumerate(clusters))
    odd = [f"{row['from']} to {row['to']} {written.text(row[column])}" for row in data if row["odd"]]
    parts = [
        f"Matrix of the pairs of {len(labels)} hosts, median {written.text(middle)}",
        f"clusters {groups}" if len(clusters) > 1 else "no clusters",
        f"odd pairs: {', '.join(odd)}" if odd else "no odd pair",
    ]
    if len(labels) <= _MOST_WITH_TEXT:
        each = (
            f"{row['from']} to {row['to']} {NO_VALUE if row[column] is None else written.text(row[column])}"
            for row in data
        )
        parts.append(f"all pairs: {', '.join(each)}")
    return f"{'. '.join(parts)}."
