"""Coefficient of variation of the counter function by its argument, beside published machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from vtare.number_text import percent_text
from vtare.plots.axes import log_ticks
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import style_of
from vtare.plots.svg import new_figure, to_drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.plots.inputs import CvLine


@drawn
def cv_by_argument(
    lines: Sequence[CvLine], *, name: str, cv_quantum: float = 1e-4, title: str | None = None
) -> Drawing:
    """CV over argument on log-log axes; published machines thin and grey, this machine bold.

    A published coefficient printed as 0 lies below half of the last printed decimal: it is drawn at that height.

    Args:
        lines: one per machine and kind of CV.
        name: id of the figure.
        cv_quantum: last printed decimal of the published coefficients.
        title: heading inside the figure, for figures that stand alone.

    Raises:
        ValueError: no lines.
    """
    if not lines:
        raise ValueError("there are no lines: pass at least one machine")
    floor = cv_quantum / 2
    figure, axes = new_figure(3.2 + (0.2 if title else 0.0))
    for line in lines:
        style = style_of("published" if line.published else line.style)
        cv = [max(value, floor) if line.published else value for value in line.cv]
        axes.plot(
            line.argument,
            cv,
            color=style.hue.light,
            linewidth=0.8 if line.published else 2.2,
            alpha=0.6 if line.published else 1.0,
            marker=None if line.published else style.marker,
            markersize=4,
            zorder=2 if line.published else 4,
        )
    _label_ends(axes, lines, floor)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    arguments = sorted({argument for line in lines for argument in line.argument})
    axes.xaxis.set_major_locator(FixedLocator(arguments))
    axes.xaxis.set_major_formatter(FixedFormatter([str(argument) for argument in arguments]))
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = axes.get_ylim()
    ticks = log_ticks(low, high)
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(FixedFormatter([f"{100 * tick:g} %" for tick in ticks]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(visible=True, axis="y")
    axes.set_xlabel("argument a (run time about a times 10 ms)")
    axes.set_ylabel("coefficient of variation (%)")
    if title:
        axes.set_title(title)
    mine = [line for line in lines if not line.published]
    words = "; ".join(f"{line.label} {percent_text(line.cv[0])} at a = {line.argument[0]}" for line in mine if line.cv)
    return to_drawing(
        figure,
        name,
        f"Coefficient of variation by argument beside {len(lines) - len(mine)} published machines: {words}.",
        [
            {"label": line.label, "published": line.published, "argument": argument, "cv": cv}
            for line in lines
            for argument, cv in zip(line.argument, line.cv, strict=True)
        ],
    )


def _label_ends(axes: object, lines: Sequence[CvLine], floor: float) -> None:
    """Write each measured line's name at its right end, and one name for all published lines."""
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    for line in lines:
        if not line.published and line.argument:
            axes.annotate(
                line.label,
                (line.argument[-1], line.cv[-1]),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                fontweight="bold",
                color=style_of(line.style).hue.light,
                annotation_clip=False,
            )
    published = [line for line in lines if line.published and line.argument]
    if published:
        top = max(published, key=lambda line: line.cv[0])
        axes.annotate(
            f"{len(published)} published",
            (top.argument[0], max(top.cv[0], floor)),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=8,
            color=style_of("published").hue.light,
        )
