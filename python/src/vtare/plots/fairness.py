"""Throughput against Jain's index of the achieved loads, and the index itself against the loaded machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from vtare.plots.format import rate_text, rate_unit, significant
from vtare.plots.palette import GRID, INK, SURFACE, style_of
from vtare.plots.svg import Drawing, new_figure, style_context, to_drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEGEND_LETTERS: Final = 46


@dataclass(frozen=True, slots=True)
class FairnessPoint:
    """Throughput of one cell, bit/s, at Jain's index of its loads; `capped` where the link set the limit, not the host.

    `low` and `high` are the ends of the interval of the throughput, None where it has none.
    """

    jain: float
    bit_per_s: float
    low: float | None = None
    high: float | None = None
    capped: bool = False


@dataclass(frozen=True, slots=True)
class FairnessLine:
    """The points of one series (a frame size, a platform)."""

    label: str
    style: str
    points: tuple[FairnessPoint, ...]


def throughput_against_jain(lines: Sequence[FairnessLine], *, name: str, limit: float | None = None) -> Drawing:
    """Throughput over Jain's index of the achieved loads: 1 is fair, 1/N all load on one machine.

    Hollow markers were capped by the link: the true throughput may be higher. `limit` is the link's rate in bit/s.

    Raises:
        ValueError: no points, or an index outside 0 to 1.
    """
    points = [point for line in lines for point in line.points]
    if not points or any(not 0 < point.jain <= 1 + 1e-9 for point in points):
        raise ValueError("found no point with an index above 0 and up to 1, wanted at least one")
    top = max([point.high or point.bit_per_s for point in points] + ([limit] if limit is not None else []))
    factor, unit = rate_unit(top)
    with style_context():
        figure, axes = new_figure(2.9)
        if limit is not None:
            axes.axhline(limit / factor, color=INK.light, linewidth=1.0, linestyle="--", zorder=2)
            axes.text(0.5, limit / factor, "rate of the link", va="bottom", ha="center", fontsize=7.5, color=INK.light)
        for line in lines:
            style = style_of(line.style)
            colour = style.hue.light
            ordered = sorted(line.points, key=lambda point: point.jain)
            axes.plot([p.jain for p in ordered], [p.bit_per_s / factor for p in ordered], color=colour,
                      linestyle=style.line, linewidth=1.2, zorder=3)  # fmt: skip
            for point in ordered:
                if point.low is not None and point.high is not None:
                    axes.plot([point.jain] * 2, [point.low / factor, point.high / factor], "-", color=colour,
                              linewidth=2.0, alpha=0.5, zorder=3)  # fmt: skip
                axes.plot([point.jain], [point.bit_per_s / factor], style.marker, color=colour, markersize=5,
                          markerfacecolor=SURFACE.light if point.capped else colour, zorder=4)  # fmt: skip
        axes.set_xlim(0.0, 1.03)
        axes.set_ylim(0.0, 1.1 * top / factor)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel("Jain's index of the achieved loads (1: all alike)")
        axes.set_ylabel(f"throughput, {unit}")
        axes.grid(visible=True, axis="both", color=GRID.light)
        handles = [_handle(line) for line in lines]
        longest = max(len(line.label) for line in lines)
        columns = next((n for n in (4, 3, 2) if longest <= _LEGEND_LETTERS // n), 1)
        figure.legend(handles=handles, loc="outside upper left", ncols=columns, columnspacing=1.0)
        said = "; ".join(
            f"{line.label}: "
            + ", ".join(f"{rate_text(p.bit_per_s)} at {significant(p.jain)}{' (capped)' if p.capped else ''}"
                        for p in sorted(line.points, key=lambda p: p.jain))
            for line in lines
        )  # fmt: skip
        return to_drawing(figure, name, f"Throughput over Jain's index: {said}.")


def _handle(line: FairnessLine) -> Line2D:
    style = style_of(line.style)
    handle = Line2D([], [], color=style.hue.light, marker=style.marker, markersize=4.6, label=line.label)
    handle.set_linestyle(style.line)  # type: ignore[arg-type]
    return handle


def jain_by_loaded(computed: Sequence[tuple[int, float]], limit: Sequence[tuple[int, float]], *, name: str) -> Drawing:
    """Jain's index over the number of strongly loaded machines, beside its limit k/N.

    Raises:
        ValueError: no points.
    """
    if not computed:
        raise ValueError("found no points, wanted at least one number of loaded machines")
    with style_context():
        figure, axes = new_figure(2.6)
        for label, style, points in (
            ("with the rest's own load", "adaptive", computed),
            ("k / N", "quantile:p99", limit),
        ):
            look = style_of(style)
            axes.plot([k for k, _ in points], [j for _, j in points], color=look.hue.light, marker=look.marker,
                      linestyle=look.line, markersize=4, linewidth=1.3, label=label)  # fmt: skip
        axes.set_ylim(0.0, 1.05)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("strongly loaded machines k (number)")
        axes.set_ylabel("Jain's index (1: all alike)")
        axes.grid(visible=True, axis="both")
        figure.legend(loc="outside upper left", ncols=2)
        said = ", ".join(f"{significant(j, 4)} at k = {k}" for k, j in computed)
        return to_drawing(figure, name, f"Jain's index over loaded machines: {said}.")
