"""Interactive counterparts of some figures, as Vega-Lite: zoom, hover, curves picked by the legend.

Each stands for a `Drawing` of the same name that is printed, and shown where no script runs. A chart carries its data
(nothing is fetched), draws in the page's own colours, and listens to three parameters that the page sets: `x_low` and
`x_high`, the ends of the horizontal axis, and `picked`, the labels of the curves that are to stand out (none: all).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.number_text import percent_points, rate_range_text, rate_text, rate_unit
from vtare.plots.axes import Scale, log_ticks, scale_for
from vtare.plots.ccdf import ccdf_values, share_ticks, steps
from vtare.plots.curves import axis_title, ends_of, scale_of, value_text
from vtare.plots.palette import GRID, INK, MUTED, Style, style_of
from vtare.quantity_text import axis_label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.plots.curves import Curve, Kind
    from vtare.plots.inputs import CcdfLine, Floats
    from vtare.plots.rates import EstimateMark

_HEIGHT_PX: Final = 270
_SHAPES: Final = {
    "o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down", "P": "cross",
}  # fmt: skip
_DASH_SCALE: Final = 1.6
"""matplotlib counts dashes in line widths, Vega in pixels."""
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
_PICKED: Final = "length(picked) == 0 || indexof(picked, datum.curve) >= 0"
_FAINT: Final = 0.1
#: The parameter that holds the point nearest to the pointer, and the layer that shows it.
_NEAR: Final = "near"
_HOVER: Final = "hover"
#: A piece of a Vega-Lite specification.
_Spec = dict[str, Any]
_POINT: Final[_Spec] = {"type": "point", "size": 48, "strokeWidth": 1.2}
_CONFIG: Final = {
    "background": "transparent",
    "font": _FONT,
    "padding": 4,
    "view": {"stroke": None, "continuousWidth": 300, "continuousHeight": 300},
    "axis": {
        "labelFontSize": 11, "titleFontSize": 11.5, "titleFontWeight": "normal", "labelColor": INK.css,
        "titleColor": INK.css, "domainColor": MUTED.css, "tickColor": MUTED.css, "gridColor": GRID.css,
        "labelOverlap": "greedy", "labelSeparation": 4,
    },
}  # fmt: skip
_DIGITS: Final = 5
_EDGE: Final = 0.97
"""Where an estimate beyond the axis is drawn, as a share of its end: all of the triangle is seen."""


@dataclass(frozen=True, slots=True)
class ChartKey:
    """One entry of a chart's legend; `mark`: whether the curve is a line, markers, or both."""

    label: str
    style: str
    mark: str = "line"

    @property
    def colour(self) -> str:
        """The colour as a CSS value."""
        return style_of(self.style).hue.css

    @property
    def dash(self) -> str:
        """The dashes of its line as SVG writes them; empty for a solid one."""
        return " ".join(f"{length:g}" for length in _dash(style_of(self.style)))

    @property
    def shape(self) -> str:
        """The name of its marker."""
        return _SHAPES[style_of(self.style).marker]


@dataclass(frozen=True, slots=True)
class Chart:
    """An interactive figure: its Vega-Lite specification, its legend, and the horizontal axis when nothing is zoomed.

    `shared` charts of one question move together. `note` is what the still figure's legend shows beside the names.
    """

    spec: Mapping[str, Any]
    keys: tuple[ChartKey, ...]
    low: float
    high: float
    log: bool
    shared: bool
    note: str = ""


def ccdf_chart(lines: Sequence[CcdfLine], *, quantity: str, scale: Scale | None = None, floor: float) -> Chart:
    """The curves of `ccdf`: hover shows share and value, the axis of values zooms.

    Args:
        lines: curves of `decimate.ccdf_line`.
        quantity: column name of the quantity, in ns, for the axis label.
        scale: shared horizontal scale of several panels.
        floor: lowest share shown.
    """
    shown = scale if scale is not None else scale_for(ccdf_values(lines), always_log=True)
    keys = tuple(ChartKey(line.label, line.style) for line in lines)
    rows, notes = [], []
    for line in lines:
        values, shares, told_of = steps(line, shown)
        notes += [told_of] if told_of != line.label else []
        rows += [
            {"curve": line.label, "x": _short(a), "p": _short(b)}
            for a, b in zip(values, shares, strict=True)
            if b >= floor / 2
        ]
    means = [{"curve": line.label, "x": _short(line.mean)} for line in lines if line.mean > 0]
    x = _x(f"x = {axis_label(quantity)}, log scale", log=True, label=_log_time("datum.value"))
    y = _field(
        "p",
        title="P(X > x), share of readings (1)",
        scale={"type": "log", "domain": [floor, 1.4], "nice": False},
        axis={
            "labelExpr": "datum.value >= 1e-3 ? format(datum.value, '~r') : format(datum.value, '.0e')",
            "values": share_ticks(floor)[0],
        },
    )
    of_curve = {"x": x, "color": _colour(keys)}
    curve = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.6}
    curves = _layer("rows", curve, **of_curve, y=y, strokeDash=_dashes(keys), opacity=_opacity(1.0))
    mean = {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 1}
    rules = _layer("means", mean, **of_curve, opacity=_opacity(0.75))
    told = [
        {"calculate": _time_text("datum.x"), "as": "reading"},
        {"calculate": "datum.p >= 1e-3 ? format(datum.p, '.3~r') : format(datum.p, '.2~e')", "as": "share"},
    ]
    hover = _hover({**of_curve, "y": y}, {"curve": "curve", "reading": "x", "share": "P(X > x)"}, told)
    data = {"rows": rows, "means": means}
    layers = [curves, rules, hover]
    return _chart(layers, data, keys, (shown.low, shown.high), log=True, shared=True, note="; ".join(notes))


def estimates_chart(edges_s: Floats, truth: Floats, marks: Sequence[EstimateMark], *, limit: float) -> Chart:
    """The course of `estimates_over_time`: hover shows an estimate with its window, interval and truth."""
    factor, unit = rate_unit(limit)
    margin = 0.02 * float(edges_s[-1] - edges_s[0])
    low, high = float(edges_s[0]) - margin, float(edges_s[-1]) + margin
    styles = list(dict.fromkeys(mark.style for mark in marks))
    keys = tuple(ChartKey(style, style, "marker") for style in styles)
    known = [None if math.isnan(value) else _short(value / factor) for value in truth.tolist()]
    course = [
        {"t": _time_s(edge), "rate": rate} for edge, rate in zip(edges_s.tolist(), [*known, known[-1]], strict=True)
    ]
    rows = [
        {
            "curve": mark.style, "t": _time_s((mark.begin_s + mark.end_s) / 2), "begin": _time_s(mark.begin_s),
            "end": _time_s(mark.end_s), "beyond": mark.value > limit,
            "rate": _short((_EDGE * limit if mark.value > limit else mark.value) / factor),
            "low": None if mark.low is None else _short(min(mark.low, limit) / factor),
            "high": None if mark.high is None else _short(min(mark.high, limit) / factor),
            "filled": not mark.hollow,
            "shown": rate_text(mark.value) + (" (off the scale)" if mark.value > limit else ""),
            "interval": "none" if mark.low is None or mark.high is None else rate_range_text(mark.low, mark.high),
            "true": "not known" if mark.truth is None else rate_text(mark.truth),
            "error": "not known" if not mark.truth else percent_points(100 * (mark.value / mark.truth - 1)),
            "window": f"{mark.begin_s:.3f} to {mark.end_s:.3f} s",
        }
        for mark in marks
    ]  # fmt: skip
    x = _x("time, s", log=False, field="t")
    y = _field(
        "rate",
        title=f"available bandwidth, {unit}",
        scale={"domain": [0, limit / factor], "nice": False},
        axis={"tickCount": 5},
    )
    path = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.4, "color": INK.css}
    base = {"x": x, "y": y, "color": _colour(keys)}
    window = {**base, "x": _field("begin"), "x2": {"field": "end"}, "opacity": _opacity(0.5)}
    shape = {"condition": {"test": "datum.beyond", "value": "triangle-up"}, **_shape(keys)}
    told = {"curve": "method", "shown": "estimate", "interval": "interval", "true": "truth", "error": "error",
            "window": "window"}  # fmt: skip
    layers = [
        _layer("course", path, x=x, y=y),
        *_bars(base, rows),
        _layer("rows", {"type": "rule", "strokeWidth": 2}, **window),
        _layer("rows", _POINT, **base, **_filling(keys), shape=shape),
        _hover(base, told),
    ]
    return _chart(layers, {"rows": rows, "course": course}, keys, (low, high), log=False, shared=False)


def curves_chart(
    lines: Sequence[Curve], *, x_label: str, y_label: str, x_kind: Kind = "plain", y_kind: Kind = "plain"
) -> Chart:
    """The curves of `curves`: hover shows a point with its interval, curves are picked by the legend."""
    points = [point for line in lines for point in line.points]
    xs = [point.x for point in points]
    heights = [value for p in points for value in (p.y, p.low, p.high) if value is not None]
    x_factor, y_factor = scale_of(x_kind, xs), scale_of(y_kind, heights)
    low, high = (end / x_factor for end in ends_of(x_kind, xs))
    bottom, top = (end / y_factor for end in ends_of(y_kind, heights))
    keys = tuple(ChartKey(line.label, line.style, "both") for line in lines)
    rows = [
        {
            "curve": line.label, "x": _short(point.x / x_factor), "rate": _short(point.y / y_factor),
            "low": None if point.low is None else _short(point.low / y_factor),
            "high": None if point.high is None else _short(point.high / y_factor), "filled": not point.hollow,
            "at": value_text(x_kind, point.x),
            "shown": ("at least " if point.hollow else "") + value_text(y_kind, point.y),
            "interval": "none" if point.low is None or point.high is None
            else f"{value_text(y_kind, point.low)} to {value_text(y_kind, point.high)}",
        }
        for line in lines
        for point in sorted(line.points, key=lambda point: point.x)
    ]  # fmt: skip
    log_x, log_y = x_kind == "time", y_kind == "time"
    x = _x(axis_title(x_label, x_kind, xs), log=log_x, label=_log_time("datum.value") if log_x else None, field="x")
    y = _field(
        "rate",
        title=axis_title(y_label, y_kind, heights),
        scale={"type": "log" if log_y else "linear", "domain": [bottom, top], "nice": False},
        axis={"labelExpr": _time_text("datum.value"), "values": log_ticks(bottom, top, 5)}
        if log_y
        else {"tickCount": 5},
    )
    base = {"x": x, "y": y, "color": _colour(keys)}
    stroke = {"type": "line", "strokeWidth": 1.4}
    told = {"curve": "curve", "at": x_label, "shown": y_label, "interval": "interval"}
    layers = [
        _layer("rows", stroke, **base, strokeDash=_dashes(keys), opacity=_opacity(1.0)),
        *_bars(base, rows),
        _layer("rows", _POINT, **base, **_filling(keys), shape=_shape(keys)),
        _hover(base, told),
    ]
    return _chart(layers, {"rows": rows}, keys, (low, high), log=log_x, shared=True)


def _bars(base: _Spec, rows: Sequence[Mapping[str, Any]]) -> list[_Spec]:
    """The intervals of the rows that have one; no layer where none has: an empty one is an error of the script."""
    if all(row["low"] is None or row["high"] is None for row in rows):
        return []
    ends = {"y": _field("low"), "y2": {"field": "high"}, "opacity": _opacity(0.6)}
    bars = _layer("rows", {"type": "rule", "strokeWidth": 1.4}, **{**base, **ends})
    return [{**bars, "transform": [{"filter": "datum.low != null && datum.high != null"}]}]


def _short(value: float) -> float:
    """As many digits as a figure can show."""
    return float(f"{value:.{_DIGITS}g}")


def _time_s(value: float) -> float:
    """A time of a course to the tenth of a millisecond: on a long one, five digits would move it."""
    return round(value, 4)


def _dash(style: Style) -> tuple[float, ...]:
    return () if isinstance(style.line, str) else tuple(_DASH_SCALE * length for length in style.line[1])


def _time_text(value: str) -> str:
    """A Vega expression that writes a time in ns as `time_text` does, to three digits."""
    return (
        f"({value} == 0 ? '0' : abs({value}) >= 999.5e6 ? format({value} / 1e9, '.3~r') + ' s'"
        f" : abs({value}) >= 999.5e3 ? format({value} / 1e6, '.3~r') + ' ms'"
        f" : abs({value}) >= 999.5 ? format({value} / 1e3, '.3~r') + ' \N{MICRO SIGN}s'"
        f" : format({value}, '.3~r') + ' ns')"
    )


def _log_time(value: str) -> str:
    """A label for a tick of a logarithmic axis of times: at 1, 2 and 5, at all of them where little is shown."""
    digit = f"round({value} / pow(10, floor(log({value}) / LN10 + 1e-9)))"
    return f"indexof([1, 2, 5], {digit}) < 0 && x_high > 3 * x_low ? '' : {_time_text(value)}"


def _x(title: str, *, log: bool, label: str | None = None, field: str = "x") -> _Spec:
    ends = {"domainMin": {"expr": "x_low"}, "domainMax": {"expr": "x_high"}, "nice": False}
    scale = {"type": "log", **ends} if log else {"type": "linear", **ends, "zero": False}
    axis = {"tickCount": 5} if label is None else {"tickCount": 6, "labelExpr": label}
    return _field(field, title=title, scale=scale, axis=axis)


def _field(name: str, **more: Any) -> _Spec:
    return {"field": name, "type": "quantitative", **more}


def _by_curve(keys: Sequence[ChartKey], marks: Sequence[Any]) -> _Spec:
    """What each curve is drawn with. The legend is the page's own: buttons, which a keyboard reaches."""
    scale = {"domain": [key.label for key in keys], "range": list(marks)}
    return {"field": "curve", "type": "nominal", "scale": scale, "legend": None}


def _colour(keys: Sequence[ChartKey]) -> _Spec:
    return _by_curve(keys, [key.colour for key in keys])


def _dashes(keys: Sequence[ChartKey]) -> _Spec:
    return _by_curve(keys, [list(_dash(style_of(key.style))) or [1, 0] for key in keys])


def _shape(keys: Sequence[ChartKey]) -> _Spec:
    return _by_curve(keys, [key.shape for key in keys])


def _opacity(full: float) -> _Spec:
    return {"condition": {"test": _PICKED, "value": full}, "value": _FAINT * full}


def _filling(keys: Sequence[ChartKey]) -> _Spec:
    """How points are filled: those of bounds are not."""
    filled = {"condition": {"test": "datum.filled", "value": 1.0}, "value": 0.0}
    return {"opacity": _opacity(1.0), "fillOpacity": filled, "fill": _colour(keys)}


def _layer(data: str, mark: _Spec, **encoding: _Spec) -> _Spec:
    return {"data": {"name": data}, "mark": {**mark, "clip": True}, "encoding": encoding}


def _hover(base: _Spec, told: Mapping[str, str], before: Sequence[_Spec] = ()) -> _Spec:
    """A marker on the point nearest to the pointer, with its values; points of faint curves are left out.

    `before` makes the values that are told.
    """
    # The pointer is over the cell around a point, whose datum is the point's mark, and the reading that mark's datum.
    fields = ", ".join(f"{json.dumps(title)}: (datum.datum || datum)[{field!r}]" for field, title in told.items())
    near = {"condition": {"param": _NEAR, "empty": False, "value": 1.0}, "value": 0.0}
    mark = {"type": "point", "filled": True, "size": 70}
    layer = _layer("rows", mark, **base, opacity=near, tooltip={"value": {"expr": f"{{{fields}}}"}})
    return {**layer, "name": _HOVER, "transform": [*before, {"filter": _PICKED}]}


def _chart(
    layers: Sequence[_Spec],
    data: Mapping[str, Sequence[Mapping[str, Any]]],
    keys: tuple[ChartKey, ...],
    ends: tuple[float, float],
    *,
    log: bool,
    shared: bool,
    note: str = "",
) -> Chart:
    low, high = ends
    select = {"type": "point", "nearest": True, "on": "pointerover", "clear": "pointerout"}
    # No `$schema`: an address has no place in a page that fetches nothing, and the embedding states what this is.
    spec = {
        "config": _CONFIG,
        "width": "container",
        "height": _HEIGHT_PX,
        "autosize": {"type": "fit", "contains": "padding"},
        "params": [
            {"name": _NEAR, "select": select, "views": [_HOVER]},
            {"name": "picked", "value": []},
            {"name": "x_low", "value": low},
            {"name": "x_high", "value": high},
        ],
        "layer": list(layers),
        "datasets": data,
    }
    return Chart(spec, keys, low, high, log, shared, note)
