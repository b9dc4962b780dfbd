"""What a report shows of round trips: how long, how much of it the layer takes, what was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare import plots
from vtare.number_text import significant, time_range_text, time_text
from vtare.overhead.figures import PIECES
from vtare.plan.factors import CAPTURE_OFF
from vtare.report.facts import emulated
from vtare.report.figures import slug
from vtare.report.overlay_tables import share_standing
from vtare.report.pages.model import READINGS, RUNS, Page
from vtare.report.parts import Panel, Question
from vtare.report.sentences import cell_rows, load_phrase, main_figure
from vtare.sentences import answers as wording
from vtare.sentences import captions, titles
from vtare.sentences import method as method_wording
from vtare.sentences.template import FigureText, Sentence
from vtare.sentences.words import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.summary import Summary

PIECE_NAMES: Final = {
    "sender_overhead_ns": "layer at the sender",
    "wire_ns": "wire",
    "responder_overhead_ns": "layer at the responder",
    "responder_side_ns": "responder with its layer",
    "turnaround_ns": "responder",
}
LAYER_PIECE: Final = "sender_overhead_ns"
"""The pieces whose share of the round trip is what a plan on layers asks for."""
_USUAL: Final = {"rate_packet_per_s": 1e3, "size_byte": 64.0}


def sentences(summary: Summary, layout: Layout) -> tuple[list[Sentence], list[Sentence]]:
    """The answer's sentences and the further ones. Cells are described at usual levels of what is not compared."""
    rows = cell_rows(summary, layout)
    loads: list[str | None] = [*layout.order.get("load", ())] or [None]
    calm = _picked(layout, rows, loads[0], captured=False) or _picked(layout, rows, loads[0], captured=True)
    seen = [row for row in _picked(layout, rows, loads[0], captured=True) if row["overhead_ns"] is not None]
    answer = [
        _how_long(summary, layout, calm, loads[0]),
        _overhead(layout, seen, calm),
    ]
    busy = [_how_long(summary, layout, _picked(layout, rows, load, captured=False), load) for load in loads[1:]]
    busy = [one or _how_long(summary, layout, _picked(layout, rows, load, captured=True), load)
            for one, load in zip(busy, loads[1:], strict=True)]  # fmt: skip
    details = [*busy, _lost(layout, rows)]
    return [one for one in answer if one], [one for one in details if one]


def _captured(layout: Layout, row: Mapping[str, Any]) -> bool:
    return "capture" in layout.keys and row["capture"] != CAPTURE_OFF


def _picked(
    layout: Layout, rows: Sequence[dict[str, Any]], load: str | None, *, captured: bool
) -> list[dict[str, Any]]:
    """The cells that are set side by side: one level of every key but the series."""
    picked = [row for row in rows if load is None or row["load"] == load]
    if "capture" in layout.keys:
        picked = [row for row in picked if _captured(layout, row) == captured]
    for key in layout.keys:
        if key not in (layout.series, "load"):
            present = [label for label in layout.order[key] if any(row[key] == label for row in picked)]
            usual = layout.label(key, _USUAL[key]) if key in _USUAL else None
            chosen = usual if usual in present else (present[0] if present else None)
            picked = [row for row in picked if row[key] == chosen]
    return picked


def _where(layout: Layout, row: Mapping[str, Any]) -> str:
    """The levels that were picked out of several."""
    keys = [key for key in layout.keys if key not in (layout.series, "load", "capture") and len(layout.order[key]) > 1]
    levels = f" ({', '.join(layout.key_text(key, row[key]) for key in keys)})" if keys else ""
    return f"{levels}{layout.reached(row)}"


def _with(layout: Layout, row: Mapping[str, Any]) -> str:
    """The series in a sentence; nothing where there is but one."""
    if len(layout.order[layout.series]) == 1:
        return ""
    label = layout.level(layout.series, row[layout.series])
    if layout.series in ("platform", "responder_platform"):
        return f" {'from' if layout.series == 'platform' else 'to'} {'the host' if label == 'host' else label}"
    return f" with {layout.key_text(layout.series, row[layout.series])}"


def _how_long(summary: Summary, layout: Layout, rows: Sequence[dict[str, Any]], load: str | None) -> Sentence:
    if not rows:
        return ()
    times, where = _times(layout, rows), _where(layout, rows[0])
    if load is None:
        return wording.round_trip_of(where, times)
    return wording.round_trip(f"{load_phrase(summary, load)}{where}", times)


def _times(layout: Layout, rows: Sequence[Mapping[str, Any]]) -> list[Sentence]:
    return [(main_figure(layout, row), _with(layout, row)) for row in rows]


def _overhead(layout: Layout, rows: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> Sentence:
    """What the layer at the sender takes of round trips; `before` are the cells of the sentence before."""
    parts: list[Sentence] = []
    for row in rows:
        low, high = row["overhead_low_ns"], row["overhead_high_ns"]
        interval = "" if low is None or high is None else time_range_text(low, high)
        share, time = row["overhead_share_percent"], FigureText(time_text(row["overhead_ns"]), interval)
        parts.append(
            (time, _with(layout, row)) if share is None
            else wording.share_or_time(FigureText(f"{significant(share)} %"), time, _with(layout, row))
        )  # fmt: skip
    if not parts:
        return ()
    whole = () if rows == before else wording.with_captures(_times(layout, rows))
    return wording.several([whole, wording.sender_layer(parts)])


def _lost(layout: Layout, rows: Sequence[dict[str, Any]]) -> Sentence:
    sent, lost = (sum(row[name] or 0 for row in rows) for name in ("sent", "lost"))
    if not sent:
        return ()
    if not lost:
        return wording.none_lost(FigureText(count_text(sent)))
    worst = max((row for row in rows if row["lost_fraction"] is not None), key=lambda row: row["lost_fraction"])
    place = ", ".join(layout.key_text(key, worst[key]) for key in layout.keys if len(layout.order[key]) > 1)
    place += layout.reached(worst)
    lost_text = FigureText(count_text(lost))
    if not place or worst["lost_fraction"] <= 0:
        return wording.packets_lost(lost_text, count_text(sent))
    share = FigureText(f"{significant(100 * worst['lost_fraction'])} %")
    return wording.packets_lost_most_at(lost_text, count_text(sent), place, share)


def _captured_cells(summary: Summary, layout: Layout) -> list[dict[str, Any]]:
    """The cells whose round trips were captured on both hosts, in the plan's order."""
    cells = summary.cells.filter((pl.col("experiment") == layout.experiment.name) & pl.col("overhead_ns").is_not_null())
    return sorted(cells.iter_rows(named=True), key=layout.sort_key)


def _at_baseline(layout: Layout, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of captured cells those at the baseline of all but the platform; the first level where none has the baseline."""
    for factor in layout.experiment.factors:
        if factor.name not in ("platform", "capture"):
            levels = [row[factor.name] for row in rows]
            chosen = factor.baseline if factor.baseline in levels else levels[0] if levels else None
            rows = [row for row in rows if row[factor.name] in (None, chosen)]
    return rows


def _extent(summary: Summary, layout: Layout) -> int:
    """On how many platforms the pieces of a round trip are known."""
    return len({row["platform"] for row in _captured_cells(summary, layout) if row.get("platform") is not None})


def _first(summary: Summary, layout: Layout) -> Question | None:
    """The answer: one bar for each platform, cut into its pieces; None where nothing was captured."""
    rows = _at_baseline(layout, _captured_cells(summary, layout))
    if all(row["overhead_share_percent"] is None for row in rows):
        return None
    several = "platform" in layout.keys and len({row["platform"] for row in rows}) == len(rows)
    stacks = [_stack(row, _platform(summary, row["platform"]) if several else layout.series_text(row)) for row in rows]
    drawing = plots.share_stacks(
        stacks, name=slug("answer", layout.experiment.name), names=PIECE_NAMES, label="share of the round trip",
        main=LAYER_PIECE,
    )  # fmt: skip
    title = titles.LAYER_SHARES
    panel = Panel(layout.experiment.title, drawing)
    return Question(slug("answer", layout.experiment.name), title, captions.LAYER_SHARES, (panel,))


def _platform(summary: Summary, name: str) -> str:
    return f"{name} (emulated)" if name in emulated(summary) else name


def stack_figures(summary: Summary, layout: Layout) -> Question | None:
    """The pieces of the round trip by place, None where nothing was captured."""
    rows = _captured_cells(summary, layout)
    if not rows:
        return None
    panels: dict[str | None, list[plots.Stack]] = {}
    varying = [key for key in layout.keys if key != layout.panel and len({row[key] for row in rows}) > 1]
    for row in rows:
        label = ", ".join(layout.level(key, row[key]) for key in reversed(varying)) or layout.series_text(row)
        panels.setdefault(row[layout.panel] if layout.panel is not None else None, []).append(_stack(row, label))
    # Panels of round trips that differ by far each get their own axis: on one, the shorter bars could not be seen.
    ends = {panel: plots.stack_values(some) for panel, some in panels.items()}
    tops = [max(values) for values in ends.values()]
    shared = max(tops) < 4 * min(tops)
    scale = plots.stack_scale([value for values in ends.values() for value in values]) if shared else None
    drawn = tuple(
        Panel(
            layout.experiment.title if layout.panel is None else layout.key_text(layout.panel, panel),
            plots.stacks(
                some,
                name=slug("pieces", layout.experiment.name, panel),
                names=PIECE_NAMES,
                scale=scale,
                label="round-trip time by place",
            ),
        )
        for panel, some in panels.items()
    )
    caption = f"{captions.PIECES} {captions.ONE_AXIS if shared else captions.OWN_AXES}"
    return Question(slug("pieces", layout.experiment.name), titles.PIECES, caption, drawn)


def _stack(row: Mapping[str, Any], label: str) -> plots.Stack:
    share = row["overhead_share_percent"]
    return plots.Stack(label, float(row["median"]), _pieces_of(row), None if share is None else share / 100)


def _pieces_of(row: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    names = PIECES if row["turnaround_ns"] is not None else ("sender_overhead_ns", "wire_ns", "responder_side_ns")
    return tuple((name, float(row[name])) for name in names if row[name] is not None)


def _further(summary: Summary, layout: Layout) -> tuple[Question, ...]:
    stacked = stack_figures(summary, layout)
    return () if stacked is None else (stacked,)


def _method(layouts: Sequence[Layout]) -> tuple[str, ...]:
    if not any(layout.experiment.two_hosts for layout in layouts):
        return ()
    if any(layout.experiment.meshed for layout in layouts):
        where = method_wording.IN_A_MESH
    elif any(layout.experiment.hosts for layout in layouts):
        where = method_wording.ON_NAMED_HOSTS
    else:
        where = method_wording.IN_NAMESPACES
    return (method_wording.round_trips(where),)


PAGE: Final = Page(
    sentences=sentences,
    is_titled=True,
    extent=_extent,
    first=_first,
    further=_further,
    columns=(
        *READINGS,
        "lost_fraction",
        "rtt_scheduled_ns",
        "rtt_scheduled_p99_ns",
        "achieved_packet_per_s",
        "sent",
        "lost",
        "unsent",
        "duplicate",
        "reordered",
        "overhead_ns",
        "overhead_interval_ns",
        "overhead_share_percent",
        "overhead_relative_percent",
        "wire_ns",
        "wire_out_ns",
        "wire_back_ns",
        "clock_bound_ns",
        "responder_overhead_ns",
        "turnaround_ns",
        "not_captured",
        *RUNS,
    ),
    method=_method,
    papers=("oliveira",),
    beside=share_standing,
)
