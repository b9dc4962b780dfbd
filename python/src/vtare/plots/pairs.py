"""Pairs of runs: the change in each, in the order of time, with the noise beside it; and the shift by quantile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vtare.number_text import percent_points, significant
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import BLUE, GRID, INK, MUTED, ORANGE, TEAL, VERMILLION
from vtare.plots.svg import new_figure, new_strips, to_drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_CHANGES_IN: Final = 2.0
_STRIP_IN: Final = 0.32
_SHOWN: Final = 0.9
"""Share of the pairs that the axis of changes shows; the others are hollow triangles at its edge."""
_REACH: Final = 8.0
"""How many times the interval or the margin the axis shows at most: else neither would be seen among wide pairs."""
_MARKERS: Final = (("o", BLUE), ("s", VERMILLION), ("^", TEAL), ("D", ORANGE))


@dataclass(frozen=True, slots=True)
class Strip:
    """One kind of noise, a value for each pair; None where it is not known."""

    label: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """The change of a figure in each pair, as ratios; `kinds[k]` is the order in which the runs of pair k stood.

    `ratio` is that of all, `low` and `high` the ends of its interval, None where there is none.
    """

    ratios: tuple[float, ...]
    kinds: tuple[str, ...]
    ratio: float
    low: float | None
    high: float | None


@drawn
def pair_changes(
    changes: Changes, strips: Sequence[Strip], *, name: str, label: str, margin_ratio: float = 1.0
) -> Drawing:
    """A mark for each pair and, below it, the noise beside that pair; the grey band is the margin of equivalence.

    Raises:
        ValueError: no pair.
    """
    if not changes.ratios:
        raise ValueError("there is no pair: pass at least one")
    known = [strip for strip in strips if any(value is not None for value in strip.values)]
    # Noise that never was there is a sentence, and no empty axes.
    drawn = [strip for strip in known if any(strip.values)]
    numbers = np.arange(1, len(changes.ratios) + 1)
    percents = 100 * (np.array(changes.ratios) - 1)
    figure, (top, *below) = new_strips((_CHANGES_IN, *(_STRIP_IN for _ in drawn)))
    low, high = _limits(percents, changes, margin_ratio)
    _frame(top, margin_ratio)
    if changes.low is not None and changes.high is not None:
        top.axhspan(100 * (changes.low - 1), 100 * (changes.high - 1), color=BLUE.light, alpha=0.18, linewidth=0)
    top.axhline(100 * (changes.ratio - 1), color=BLUE.light, linewidth=1.2)
    kinds = list(dict.fromkeys(changes.kinds))
    handles = []
    for at, kind in enumerate(sorted(kinds)):
        marker, hue = _MARKERS[at % len(_MARKERS)]
        chosen = np.array([one == kind for one in changes.kinds])
        inside = chosen & (percents >= low) & (percents <= high)
        top.plot(numbers[inside], percents[inside], marker, color=hue.light, markersize=3.4, alpha=0.8,
                 linestyle="none", clip_on=False, zorder=4)  # fmt: skip
        for beyond, edge, arrow in ((percents > high, high, "^"), (percents < low, low, "v")):
            top.plot(numbers[chosen & beyond], np.full(int((chosen & beyond).sum()), edge), arrow, color=hue.light,
                     markersize=5.5, markerfacecolor="none", linestyle="none", clip_on=False, zorder=5)  # fmt: skip
        handles.append(Line2D([], [], linestyle="none", marker=marker, color=hue.light, markersize=4, label=kind))
    top.set_ylim(low, high)
    top.set_ylabel(label)
    if kinds != [""]:
        figure.legend(handles=handles, loc="upper left", ncols=4, handletextpad=0.2, columnspacing=1.0)
    for axes, strip in zip(below, drawn, strict=True):
        values = [np.nan if value is None else value for value in strip.values]
        axes.vlines(numbers, 0, values, color=MUTED.light, linewidth=1.2)
        axes.set_ylim(0, max(1.15 * float(np.nanmax(values)), 0.1))
        axes.yaxis.set_major_locator(MaxNLocator(2))
        axes.set_title(strip.label, fontsize=7.5, fontweight="normal", pad=2)
    last = below[-1] if below else top
    last.set_xlim(0.3, len(numbers) + 0.7)
    last.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    last.set_xlabel("pair, in the order of time")
    outside = int(((percents > high) | (percents < low)).sum())
    words = (
        f"{label} in {len(numbers)} pairs: {_percent(changes.ratio)}"
        + (f" ({_percent(changes.low)} to {_percent(changes.high)})" if changes.low and changes.high else "")
        + f", single pairs {percent_points(float(percents.min()))} to {percent_points(float(percents.max()))}"
        + (f", {outside} beyond the axis" if outside else "")
        + "".join(f"; {strip.label}: {_span(strip)}" for strip in known)
    )
    data = [
        {"pair": int(number), "order": kind, "ratio": ratio, **{strip.label: strip.values[at] for strip in known}}
        for at, (number, kind, ratio) in enumerate(zip(numbers, changes.kinds, changes.ratios, strict=True))
    ]
    return to_drawing(figure, name, words + ".", data)


@drawn
def quantile_changes(
    points: Sequence[tuple[float, float, float, float]], *, name: str, label: str, margin_ratio: float = 1.0
) -> Drawing:
    """The shift function: `points` are quantile, ratio, and the ends of the band there; the grey band is the margin.

    Raises:
        ValueError: no point.
    """
    if not points:
        raise ValueError("there is no quantile: pass at least one")
    figure, axes = new_figure(_CHANGES_IN)
    at = [100 * point[0] for point in points]
    ratio, low, high = ([100 * (point[k] - 1) for point in points] for k in (1, 2, 3))
    _frame(axes, margin_ratio)
    axes.fill_between(at, low, high, color=BLUE.light, alpha=0.22, linewidth=0)
    axes.plot(at, ratio, "-", color=BLUE.light, linewidth=1.3, zorder=4)
    for x, y, sure in zip(at, ratio, (not p[2] <= 1 <= p[3] for p in points), strict=True):
        axes.plot([x], [y], "o", color=BLUE.light, markersize=4.6, zorder=5,
                  markerfacecolor=BLUE.light if sure else "none")  # fmt: skip
    axes.set_xlim(0, 100)
    axes.set_xlabel("quantile (%)")
    axes.set_ylabel(label)
    words = ", ".join(f"{_percent(p[1])} ({_percent(p[2])} to {_percent(p[3])}) at {100 * p[0]:g} %" for p in points)
    data = [{"quantile": p[0], "ratio": p[1], "low": p[2], "high": p[3]} for p in points]
    return to_drawing(figure, name, f"{label} by quantile: {words}.", data)


def _frame(axes: Axes, margin_ratio: float) -> None:
    if margin_ratio > 1:
        axes.axhspan(100 * (1 / margin_ratio - 1), 100 * (margin_ratio - 1), color=GRID.light, alpha=0.6, linewidth=0)
    axes.axhline(0, color=INK.light, linewidth=1.0, zorder=2)
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.4g} %" if value else "0 %"))
    axes.grid(visible=True, axis="y")


def _limits(percents: np.ndarray, changes: Changes, margin_ratio: float) -> tuple[float, float]:
    """Ends of an axis that shows the interval, the margin and most pairs."""
    outer = (1 - _SHOWN) / 2
    ends = [
        100 * (end - 1) for end in (changes.low, changes.high, changes.ratio, margin_ratio, 1 / margin_ratio) if end
    ]
    reach = (_REACH - 1) / 2 * (max(ends) - min(ends))
    low, high = (float(np.quantile(percents, at)) for at in (outer, 1 - outer))
    low, high = min(max(low, min(ends) - reach), *ends), max(min(high, max(ends) + reach), *ends)
    return low - 0.08 * (high - low), high + 0.08 * (high - low)


def _percent(ratio: float) -> str:
    return percent_points(100 * (ratio - 1))


def _span(strip: Strip) -> str:
    values = [value for value in strip.values if value is not None]
    return f"median {significant(float(np.median(values)))}, at most {significant(max(values))}"
