"""Ratios on a logarithmic axis: tails against their baselines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from vtare.number_text import ratio_text
from vtare.plots.axes import log_ticks
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import BLUE, GRID, INK, SURFACE, VERMILLION, Hue
from vtare.plots.svg import new_figure, to_drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROW_IN: Final = 0.27
_FRAME_IN: Final = 0.86
_HEADING_IN: Final = 0.25
_MARKS: Final[tuple[tuple[str, Hue], ...]] = (("o", BLUE), ("s", VERMILLION), ("^", INK))


@dataclass(frozen=True, slots=True)
class RatioMark:
    """One ratio of a row: `kind` names it in the legend (`p99`); `sure` ones are filled; `low` and `high` end a bar."""

    kind: str
    ratio: float
    sure: bool
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class RatioRow:
    """A row with one mark for each kind; rows of one `group` stand under one heading."""

    label: str
    marks: tuple[RatioMark, ...]
    group: str | None = None


@drawn
def ratio_dots(rows: Sequence[RatioRow], *, name: str, label: str, margin_ratio: float = 1.0) -> Drawing:
    """Ratios around 1, logarithmic: filled where the difference is sure; the band is the margin of equivalence.

    Raises:
        ValueError: no rows, a row without marks, or a ratio that is not above 0.
    """
    marks = [mark for row in rows for mark in row.marks]
    ends = [value for mark in marks for value in (mark.ratio, mark.low, mark.high) if value is not None]
    if not rows or not ends or min(ends) <= 0:
        raise ValueError("there is no row with a ratio above 0: pass at least one")
    kinds = list(dict.fromkeys(mark.kind for row in rows for mark in row.marks))
    headings = sum(1 for at, row in enumerate(rows) if row.group and (at == 0 or rows[at - 1].group != row.group))
    low, high = min(*ends, 1 / margin_ratio, 0.8) / 1.25, max(*ends, margin_ratio, 1.25) * 1.25
    figure, axes = new_figure(_FRAME_IN + _ROW_IN * len(rows) + _HEADING_IN * headings)
    if margin_ratio > 1.0:
        axes.axvspan(1 / margin_ratio, margin_ratio, color=GRID.light, alpha=0.6, linewidth=0, zorder=1)
    axes.axvline(1.0, color=INK.light, linewidth=1.0, zorder=2)
    y, middles = 0.0, []
    for at, row in enumerate(rows):
        if row.group and (at == 0 or rows[at - 1].group != row.group):
            place = axes.get_yaxis_transform()
            axes.text(0.0, y + 0.1, row.group, transform=place, fontweight="bold", fontsize=8, va="center",
                      bbox={"facecolor": SURFACE.light, "edgecolor": "none", "pad": 1.0}, zorder=3)  # fmt: skip
            y += 0.9
        axes.axhline(y, color=GRID.light, linewidth=0.5, zorder=1)
        for mark in row.marks:
            shape, hue = _MARKS[kinds.index(mark.kind) % len(_MARKS)]
            if mark.low is not None and mark.high is not None:
                axes.plot([mark.low, mark.high], [y, y], "-", color=hue.light, linewidth=1.4, alpha=0.7, zorder=3)
            axes.plot([mark.ratio], [y], shape, color=hue.light, markersize=5.5, markeredgewidth=1.2,
                      markerfacecolor=hue.light if mark.sure else SURFACE.light, zorder=4)  # fmt: skip
        middles.append(y)
        y += 1.0
    axes.set_ylim(y - 0.4, -0.6)
    axes.set_yticks(middles, [row.label for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = _ticks(low, high)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([_tick(tick) for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(visible=True, axis="x")
    axes.set_xlabel(f"{label}, log scale")
    handles = [
        Line2D([], [], linestyle="none", marker=_MARKS[at % 3][0], color=_MARKS[at % 3][1].light, label=kind)
        for at, kind in enumerate(kinds)
    ]
    handles.append(Line2D([], [], linestyle="none", marker="o", color=INK.light, markerfacecolor=SURFACE.light,
                          label="hollow: not sure"))  # fmt: skip
    figure.legend(handles=handles, loc="outside upper left", ncols=4, handletextpad=0.2, columnspacing=1.0)
    values = "; ".join(
        f"{row.label}: " + ", ".join(f"{m.kind} {ratio_text(m.ratio)}{'' if m.sure else ' (not sure)'}"
                                     for m in row.marks)
        for row in rows
    )  # fmt: skip
    data = [{"group": row.group, "label": row.label, **asdict(mark)} for row in rows for mark in row.marks]
    return to_drawing(figure, name, f"{label}: {values}.", data)


def _ticks(low: float, high: float) -> list[float]:
    """The same whole numbers on both sides of 1, as `3x` and `1/3`."""
    above = log_ticks(1.0, max(high, 1 / low), 4)
    return sorted({1.0, *(tick for tick in above if tick <= high), *(1 / tick for tick in above if 1 / tick >= low)})


def _tick(ratio: float) -> str:
    return f"{ratio:.4g}\N{MULTIPLICATION SIGN}" if ratio > 0.999 else f"1/{1 / ratio:.4g}"
