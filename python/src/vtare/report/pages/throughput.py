"""What a report shows of throughput: how much passes, how that depends on the spread of the load, how long it takes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Required, TypedDict

import polars as pl

from vtare import plots
from vtare.number_text import packet_rate_range_text, packet_rate_text, time_text
from vtare.report.figures import slug
from vtare.report.overlay_throughput import throughput_standing
from vtare.report.pages.model import Page
from vtare.report.parts import Column, Panel, Question
from vtare.report.sentences import answered_rows
from vtare.sentences import answers as wording
from vtare.sentences import captions, titles
from vtare.sentences import method as method_wording
from vtare.sentences.template import FigureText, Sentence
from vtare.summary.rows import known_of
from vtare.summary.throughput import loads_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.report.text import Shown
    from vtare.stats import Known
    from vtare.summary import Summary

    _CellColumn = tuple[Column, Callable[[dict[str, Any]], Shown]]


class _Axes(TypedDict, total=False):
    """What the axes of a figure of curves are."""

    x_label: Required[str]
    y_label: Required[str]
    x_kind: plots.Kind
    y_kind: plots.Kind


_PASSES: Final = "throughput"
_FRAME: Final = "frame_byte"


def sentences(summary: Summary, layout: Layout) -> tuple[list[Sentence], list[Sentence]]:
    """The answer's sentences and the further ones, each from cells as they stand in the table."""
    rows = answered_rows(summary, layout)
    if not rows:
        return [], []
    answer = [_extremes(layout, rows), _spread(layout, rows), _latency(layout, rows)]
    details = [_trust(rows)]
    return [one for one in answer if one], [one for one in details if one]


def _where(layout: Layout, row: Mapping[str, Any]) -> str:
    varying = [key for key in layout.keys if len(layout.order[key]) > 1]
    return ", ".join(_key(layout, key, row[key]) for key in varying)


def _key(layout: Layout, key: str, label: str | None) -> str:
    return f"{label} loaded" if key == "loaded" else layout.key_text(key, label)


def _passes(row: Mapping[str, Any]) -> Known:
    """What is known of a cell's throughput."""
    known = known_of(row, "median")
    if known is None:
        raise ValueError(f"a cell has no throughput ({row['experiment']}): pass one that has it or a bound")
    return known


def _figure(row: Mapping[str, Any]) -> FigureText:
    low, high, known = row["median_low"], row["median_high"], _passes(row)
    interval = "" if low is None or high is None else packet_rate_range_text(low, high)
    return FigureText(f"{known.prefix}{packet_rate_text(known.number)}", interval)


def _extremes(layout: Layout, rows: Sequence[Mapping[str, Any]]) -> Sentence:
    least, most = (pick(rows, key=lambda row: _passes(row).number) for pick in (min, max))
    place = _where(layout, most)
    if least is most:
        return wording.guests_pass(_figure(most), place)
    return wording.guests_pass_between(_figure(least), _where(layout, least), _figure(most), place)


def _spread(layout: Layout, rows: Sequence[Mapping[str, Any]]) -> Sentence:
    """The most even load beside the least even one, all else the same."""
    if len(layout.order.get("loaded", ())) < 2:
        return ()
    others = [key for key in layout.keys if key != "loaded"]
    by_place: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["jain"] is not None:
            by_place.setdefault(tuple(row[key] for key in others), []).append(row)
    place, own = max(by_place.items(), key=lambda item: len(item[1]), default=((), []))
    if len(own) < 2:
        return ()
    uneven, even = (pick(own, key=lambda row: row["jain"]) for pick in (min, max))
    varying = [(key, label) for key, label in zip(others, place, strict=True) if len(layout.order[key]) > 1]
    where = ", ".join(_key(layout, key, label) for key, label in varying)
    if where:
        return wording.evenness_at(where, uneven["jain"], _figure(uneven), even["jain"], _figure(even))
    return wording.evenness(uneven["jain"], _figure(uneven), even["jain"], _figure(even))


def _latency(layout: Layout, rows: Sequence[Mapping[str, Any]]) -> Sentence:
    timed = [row for row in rows if row["latency_ns"] is not None]
    if not timed:
        return ()
    least, most = (pick(timed, key=lambda row: row["latency_ns"]) for pick in (min, max))
    shortest, longest = (FigureText(time_text(row["latency_ns"])) for row in (least, most))
    if least is most:
        return wording.frame_takes(longest)
    return wording.frame_takes_between(shortest, _where(layout, least), longest, _where(layout, most))


def _trust(rows: Sequence[Mapping[str, Any]]) -> Sentence:
    trials, void, disturbed, censored = (
        sum(row[name] or 0 for row in rows) for name in ("trials", "void_trials", "disturbed_trials", "censored_runs")
    )
    return wording.several([
        wording.trials(trials, void),
        wording.disturbed_trials(disturbed) if disturbed else (),
        wording.bounded_runs(censored) if censored else (),
    ])  # fmt: skip


def questions(summary: Summary, layout: Layout) -> list[Question]:
    """The figures: throughput over J, latency over frame size and over J, latency over load; rates in both units."""
    rows = answered_rows(summary, layout)
    loads = loads_frame(summary.sample_set, layout.experiment.name, layout.keys)
    asked = [
        _over_jain(layout, rows, "median", _PASSES, "packet_rate", titles.OVER_JAIN),
        _over_jain(layout, rows, "throughput_bit_per_s", "throughput in bits", "bit_rate", titles.BITS_OVER_JAIN),
        _over_frame(layout, rows),
        _over_jain(layout, rows, "latency_total_ns", "latency over the guests", "time",
                   titles.LATENCY_OVER_JAIN),
        _over_load(layout, loads),
        _over_bits(layout, loads),
    ]  # fmt: skip
    return [question for question in asked if question is not None]


def _groups(layout: Layout, rows: Sequence[Mapping[str, Any]], by: Sequence[str]) -> dict[tuple[str, ...], list[Any]]:
    """Rows by these keys, in the plan's order."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[key]) for key in by), []).append(row)
    ranked = sorted(groups, key=lambda place: [layout.rank(key, label) for key, label in zip(by, place, strict=True)])
    return {place: groups[place] for place in ranked}


def _panels(
    layout: Layout,
    rows: Sequence[Mapping[str, Any]],
    lines_by: str,
    over: str,
    name: str,
    axes: _Axes,
    point: Callable[[Mapping[str, Any]], plots.CurvePoint],
) -> tuple[Panel, ...]:
    """A panel for each combination of what is neither the lines nor the axis, a line for each level of `lines_by`."""
    rest = [key for key in layout.keys if key not in (lines_by, over) and len(layout.order[key]) > 1]
    panels = []
    for place, own in _groups(layout, rows, rest).items():
        by = [lines_by] if lines_by in layout.keys else []
        lines = []
        for labels, some in _groups(layout, own, by).items():
            label = _key(layout, lines_by, labels[0]) if labels else "all"
            style = _style(layout, lines_by, labels[0]) if labels else label
            lines.append(plots.Curve(label, style, tuple(point(row) for row in some)))
        heading = ", ".join(_key(layout, key, label) for key, label in zip(rest, place, strict=True))
        heading = heading or layout.experiment.title
        drawing = plots.curves(lines, name=slug(name, layout.experiment.name, heading), **axes)
        panels.append(Panel(heading, drawing, partial(plots.curves_chart, lines, **axes)))
    return tuple(panels)


def _style(layout: Layout, key: str, label: str) -> str:
    """What names the look of a line: the platform or the number itself, else its place in the plan: no two alike."""
    return label if key == "platform" or layout.number(key, label) is not None else str(layout.rank(key, label))


def _over_jain(
    layout: Layout, rows: Sequence[Mapping[str, Any]], value: str, what: str, kind: plots.Kind, title: str
) -> Question | None:
    known = [row for row in rows if known_of(row, value) is not None and row["jain"] is not None]
    if len({row["loaded"] for row in known}) < 2:
        return None

    def point(row: Mapping[str, Any]) -> plots.CurvePoint:
        low, high = (row["median_low"], row["median_high"]) if kind != "time" else (None, None)
        if kind == "bit_rate" and low is not None and high is not None:
            bits = _frame_bits(layout, row)
            low, high = low * bits, high * bits
        known = known_of(row, value) or _passes(row)
        return plots.CurvePoint(row["jain"], known.number, low, high, hollow=known.side != "exact")

    axes: _Axes = {"x_label": "Jain's index of the load sent to each guest", "y_label": what, "y_kind": kind}
    panels = _panels(layout, known, _FRAME, "loaded", f"{what}-jain", axes, point)
    caption = f"{captions.OVER_JAIN} {captions.HOLLOW_THROUGHPUT}"
    return Question(slug("jain", what, layout.experiment.name), title, caption, panels)


def _over_frame(layout: Layout, rows: Sequence[Mapping[str, Any]]) -> Question | None:
    known = [row for row in rows if row["latency_ns"] is not None and layout.number(_FRAME, row[_FRAME]) is not None]
    if len({row[_FRAME] for row in known}) < 2:
        return None

    def point(row: Mapping[str, Any]) -> plots.CurvePoint:
        return plots.CurvePoint(layout.number(_FRAME, row[_FRAME]) or 0.0, row["latency_ns"])

    axes: _Axes = {"x_label": "frame size, B", "y_label": "latency", "y_kind": "time"}
    panels = _panels(layout, known, "loaded", _FRAME, "latency-frame", axes, point)
    return Question(slug("frame", layout.experiment.name), titles.OVER_FRAME, captions.OVER_FRAME, panels)


def _frame_bits(layout: Layout, row: Mapping[str, Any]) -> float:
    """The bits of a cell's frames, with check sequence."""
    return 8.0 * (layout.number(_FRAME, row[_FRAME]) or 0.0)


def _loads(layout: Layout, loads: pl.DataFrame) -> list[dict[str, Any]]:
    """Latency at each load of each cell, medians over runs; none where there is one load only."""
    # A share of the throughput is another load in each run; a load that all cells share has no share.
    asked = pl.when(pl.col("load_share").is_null()).then(pl.col("load_packet_per_s")).alias("asked")
    median, least, most = pl.col("latency_ns").median(), pl.col("latency_ns").min(), pl.col("latency_ns").max()
    rows = list(
        loads.filter(pl.col("latency_ns").is_not_null())
        .group_by(*layout.keys, "load_share", asked, maintain_order=True)
        .agg(pl.col("load_packet_per_s").median(), median, least.alias("least"), most.alias("most"))
        .iter_rows(named=True)
    )
    return rows if len({row["load_packet_per_s"] for row in rows}) > 1 else []


def _over_load(layout: Layout, loads: pl.DataFrame) -> Question | None:
    rows = _loads(layout, loads)
    if not rows:
        return None

    def point(row: Mapping[str, Any]) -> plots.CurvePoint:
        return plots.CurvePoint(row["load_packet_per_s"], row["latency_ns"], row["least"], row["most"])

    axes: _Axes = {"x_label": "load", "y_label": "latency", "x_kind": "packet_rate", "y_kind": "time"}
    panels = _panels(layout, rows, "loaded", "", "latency-load", axes, point)
    return Question(slug("load", layout.experiment.name), titles.OVER_LOAD, captions.OVER_LOAD, panels)


def _over_bits(layout: Layout, loads: pl.DataFrame) -> Question | None:
    """Latency over load in bit/s: a line for each spread of the load, then one for each frame size."""
    rows = [row for row in _loads(layout, loads) if layout.number(_FRAME, row[_FRAME]) is not None]
    if not rows:
        return None

    def point(row: Mapping[str, Any]) -> plots.CurvePoint:
        bit_per_s = row["load_packet_per_s"] * _frame_bits(layout, row)
        return plots.CurvePoint(bit_per_s, row["latency_ns"], row["least"], row["most"])

    axes: _Axes = {"x_label": "load", "y_label": "latency", "x_kind": "bit_rate", "y_kind": "time"}
    # One line for each panel is what the other figure shows already.
    by = [key for key in ("loaded", _FRAME) if len({row[key] for row in rows}) > 1] or ["loaded"]
    panels = tuple(panel for key in by for panel in _panels(layout, rows, key, "", f"latency-bits-{key}", axes, point))
    return Question(slug("bits", layout.experiment.name), titles.OVER_BITS, captions.OVER_BITS, panels)


def _method(layouts: Sequence[Layout]) -> tuple[str, ...]:
    return (method_wording.THROUGHPUT,) if layouts else ()


PAGE: Final = Page(
    sentences=sentences,
    is_titled=True,
    questions=questions,
    columns=(
        "jain",
        "jain_planned",
        "throughput_packet_per_s",
        "throughput_interval_packet_per_s",
        "throughput_bit_per_s",
        "zero_loss_packet_per_s",
        "latency_ns",
        "latency_p99_ns",
        "latency_total_ns",
        "tagged_ns",
        "burst_frames",
        "buffer_frames",
        "buffer_ns",
        "soak_loss_fraction",
        "recovery_ns",
        "searches",
        "trials",
        "void_trials",
        "disturbed_trials",
        "censored_runs",
        "n_runs",
    ),
    all_columns=True,
    method=_method,
    papers=("batalla2018",),
    beside=throughput_standing,
)
