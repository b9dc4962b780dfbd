"""Complementary distribution P(X > x) on logarithmic axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from vtare.number_text import time_text
from vtare.plots.axes import Scale, scale_for, time_axis
from vtare.plots.drawn import Drawing, drawn
from vtare.plots.palette import style_of
from vtare.plots.svg import new_figure, to_drawing
from vtare.quantity_text import axis_label, quantity_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.plots.inputs import CcdfLine

_SHARES: Final = ((1.0, "1"), (0.1, "0.1"), (0.01, "0.01"), (1e-3, "0.001"))


def ccdf_values(lines: Sequence[CcdfLine]) -> list[float]:
    """What the horizontal axis must hold, for a scale shared by several panels.

    That is each curve's mean, its largest value, and the value that all but a thousandth of the readings exceed: below
    it a curve is flat at 1, and a single early reading would take decades of the axis.
    """
    values: list[float] = []
    for line in lines:
        positive = line.x[line.x > 0]
        if positive.size:
            start = positive[np.searchsorted(-line.p[line.x > 0], -0.999)] if (line.p < 0.999).any() else positive[-1]
            values += [float(start), float(positive[-1])]
        if line.mean > 0:
            values.append(line.mean)
    return values


def share_ticks(floor: float) -> tuple[list[float], list[str]]:
    """Ticks of an axis of shares that ends at `floor`, and their texts."""
    lowest = int(np.floor(np.log10(floor)))
    exponents = list(range(0, lowest - 1, -1))
    if len(exponents) > 7:
        exponents = [e for e in exponents if e % 2 == 0]
    names = dict(_SHARES)
    return [10.0**e for e in exponents], [names.get(10.0**e, f"1e{e}") for e in exponents]


@drawn
def ccdf(
    lines: Sequence[CcdfLine],
    *,
    name: str,
    quantity: str = "miss_ns",
    scale: Scale | None = None,
    floor: float | None = None,
    title: str | None = None,
) -> Drawing:
    """P(X > x) as steps on log-log axes; the mean of each curve as a dashed vertical line.

    Readings at or below 0 cannot stand on a logarithmic axis: such a curve starts below 1 at the left edge, and the
    legend names their share.

    Args:
        lines: curves of `decimate.ccdf_line`.
        name: id of the figure.
        quantity: column name of the quantity, for the axis label.
        scale: shared horizontal scale of several panels.
        floor: lowest share shown; one reading of the longest series when left out.
        title: heading inside the figure, for figures that stand alone.

    Raises:
        ValueError: no curves, or none with a positive reading.
    """
    if not lines:
        raise ValueError("there are no curves: pass at least one")
    shown = scale if scale is not None else scale_for(ccdf_values(lines), always_log=True)
    lowest = floor if floor is not None else 0.7 / max(line.n for line in lines)
    columns = 1 if any((line.x <= 0).any() or len(line.label) > 24 for line in lines) else 2
    rows = -(-len(lines) // columns)
    figure, axes = new_figure(2.75 + 0.17 * rows + (0.2 if title else 0.0))
    for line in lines:
        style = style_of(line.style)
        x, p, text = steps(line, shown)
        axes.plot(x, p, drawstyle="steps-post", color=style.hue.light, linestyle=style.line, linewidth=1.5, label=text)
        if line.mean > 0:
            axes.axvline(line.mean, color=style.hue.light, linestyle=(0, (5, 3)), linewidth=0.8, alpha=0.75)
    axes.set_yscale("log")
    ticks, texts = share_ticks(lowest)
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(FixedFormatter(texts))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(lowest, 1.4)
    axes.grid(visible=True, axis="y")
    axes.set_ylabel("P(X > x), share of readings (1)")
    what = axis_label(quantity)
    time_axis(axes, "x", shown, f"x = {what}")
    if title:
        axes.set_title(title)
    figure.legend(loc="outside lower center", ncols=columns, handlelength=2.6, columnspacing=1.2)
    return to_drawing(figure, name, _describe(lines, what), _data(lines, quantity))


def steps(line: CcdfLine, scale: Scale) -> tuple[list[float], list[float], str]:
    """A curve's steps from the left edge of the axis on: values, shares above them, and its text in the legend.

    There are none where no reading is above 0, as of a clock whose step is longer than reading it takes.
    """
    positive = line.x > 0
    x, p = line.x[positive], line.p[positive]
    before = line.p[~positive]
    if not x.size:
        return [], [], f"{line.label} (all at or below 0)"
    start = float(before[-1]) if before.size else 1.0
    # Nothing lies above the last value, and P = 0 has no place on a log axis: the curve ends there at the share before.
    xs = [scale.low, *x.tolist()]
    ps = [start, *p.tolist()]
    ps[-1] = ps[-2]
    text = line.label if start == 1.0 else f"{line.label} ({100 * (1 - start):.3g} % at or below 0)"
    return xs, ps, text


def _data(lines: Sequence[CcdfLine], quantity: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for line in lines:
        head = {"quantity": quantity, "unit": quantity_of(quantity).symbol, "label": line.label}
        records.append({**head, "mark": "mean", "value": line.mean, "share_above": None})
        pairs = zip(line.x.tolist(), line.p.tolist(), strict=True)
        records += [{**head, "mark": "curve", "value": x, "share_above": p} for x, p in pairs]
    return records


def _describe(lines: Sequence[CcdfLine], what: str) -> str:
    parts = [f"{line.label} mean {time_text(line.mean)}, largest {time_text(float(line.x[-1]))}" for line in lines]
    return f"P(X > x) of {what} on log-log axes: {'; '.join(parts)}."
