"""From a summary to its figures: one section per question a reader has."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare import plots
from vtare.number_text import percent_text
from vtare.report import text
from vtare.report.layout import figure_name
from vtare.report.parts import Panel, Question
from vtare.sentences import captions, titles
from vtare.summary.cells import ControlRow
from vtare.summary.rows import rows_of
from vtare.summary.work import PartBox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.bulk import Distribution
    from vtare.report.layout import Layout
    from vtare.summary import Summary

MAX_RAW_PANELS: Final = 12
"""Raw readings are drawn for this many cells at most: the rest is in the other figures."""
MOST_PANELS: Final = 3
"""Panels that stand in one row of a wide page."""
_MOST_DOTS: Final = 24
"""Rows of a single drawing of medians that a screen has room for."""


def slug(*parts: str | None) -> str:
    """An id made of these parts: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(part for part in parts if part).lower()).strip("-") or "figure"


def _panels(layout: Layout) -> list[str | None]:
    return [None] if layout.panel is None else list(layout.order[layout.panel])


def _heading(layout: Layout, panel: str | None) -> str:
    return layout.experiment.title if layout.panel is None else layout.key_text(layout.panel, panel)


def _rows(layout: Layout, frame: pl.DataFrame, panel: str | None) -> list[dict[str, Any]]:
    if layout.panel is not None:
        frame = frame.filter(pl.col(layout.panel) == panel)
    return sorted(frame.iter_rows(named=True), key=layout.sort_key)


def median_figures(summary: Summary, layout: Layout) -> Question:
    """The main figure of each cell with its interval; in one drawing where panels would fill more than a row."""
    cells = summary.cells.filter(
        (pl.col("experiment") == layout.experiment.name) & pl.col(layout.main.value).is_not_null()
    )
    runs = summary.runs.filter((pl.col("experiment") == layout.experiment.name) & pl.col("control").is_null())
    by_cell: dict[tuple[Any, ...], list[float]] = {}
    for run in runs.iter_rows(named=True):
        by_cell.setdefault(tuple(run[key] for key in layout.keys), []).append(run[layout.main.value])
    dots: dict[str | None, list[plots.Dot]] = {}
    for panel in _panels(layout):
        rows = _rows(layout, cells, panel)
        dots[panel] = [
            plots.Dot(
                label=layout.series_text(row) + _capped_words(row),
                style=str(row[layout.series]),
                value=row[layout.main.value],
                low=row[layout.main.low],
                high=row[layout.main.high],
                run_values=tuple(
                    value for value in by_cell.get(tuple(row[key] for key in layout.keys), []) if value is not None
                ),
                group=layout.group_text(row),
            )
            for row in rows
        ]
    drawn = [panel for panel, rows in dots.items() if rows]
    if len(drawn) > MOST_PANELS and sum(map(len, dots.values())) <= _MOST_DOTS:
        headings = ((_heading(layout, panel), panel) for panel in drawn)
        dots = {None: [replace(row, group=", ".join(part for part in (heading, row.group) if part))
                       for heading, panel in headings for row in dots[panel]]}  # fmt: skip
    scale = plots.scale_for([value for rows in dots.values() for value in plots.dot_values(rows)])
    panels = tuple(
        Panel(
            layout.experiment.title if panel is None else _heading(layout, panel),
            plots.dot_intervals(
                rows, name=slug("medians", layout.experiment.name, panel), quantity=layout.main.quantity, scale=scale
            ),
        )
        for panel, rows in dots.items()
        if rows
    )  # fmt: skip
    what = "median" if layout.is_median else figure_name(layout.main.quantity, short=True)
    caption = " ".join([
        captions.medians(what, text.levels_text(cells)),
        *([captions.ONE_AXIS] if len(panels) > 1 else []),
        *([captions.CAPPED_SHARES] if cells["capped_runs"].sum() else []),
    ])  # fmt: skip
    return Question(slug("medians", layout.experiment.name), layout.experiment.record.asks, caption, panels)


def _capped_words(row: dict[str, Any]) -> str:
    """What follows the name of a cell whose runs a time limit ended early."""
    return f" ({percent_text(row['completed_fraction'])} completed)" if row["capped_runs"] else ""


def distribution_figures(summary: Summary, layout: Layout) -> list[Question]:
    """Tails, run-to-run steadiness and raw readings of one experiment."""
    boxes = summary.boxes.filter(pl.col("experiment") == layout.experiment.name)
    if boxes.height == 0:
        return []
    # Cell by cell: the distinct readings of one cell are in memory at a time, not the 10^8 of a campaign.
    drawn = sorted(
        (_shapes(layout, distribution) for distribution in summary.distributions(layout.experiment.name)),
        key=lambda shapes: layout.sort_key(shapes.labels),
    )
    return [
        _tail_figures(layout, drawn),
        _box_figures(layout, boxes),
        _violin_figures(layout, drawn),
        _raw_figures(summary, layout),
    ]


@dataclass(frozen=True, slots=True)
class _Shapes:
    """What is drawn of all readings of one cell."""

    labels: dict[str, Any]
    line: plots.CcdfLine
    violin: plots.Violin


def _shapes(layout: Layout, found: Distribution) -> _Shapes:
    label, style = layout.series_text(found.labels), str(found.labels.get(layout.series))
    values, counts = found.tally.values, found.tally.counts
    shape = plots.violin(label, style, values, counts, group=layout.group_text(found.labels))
    return _Shapes(found.labels, plots.ccdf_line(label, style, values, counts), shape)


def _tail_figures(layout: Layout, drawn: Sequence[_Shapes]) -> Question:
    lines: dict[tuple[str | None, str | None], list[plots.CcdfLine]] = {}
    for shapes in drawn:
        panel = shapes.labels.get(layout.panel) if layout.panel is not None else None
        lines.setdefault((panel, layout.group_text(shapes.labels)), []).append(shapes.line)
    values = [value for some in lines.values() for value in plots.ccdf_values(some)]
    # Without a reading above 0 there is nothing that a logarithmic axis could show.
    scale = plots.scale_for(values, always_log=True) if values else None
    floor = 0.7 / max(line.n for some in lines.values() for line in some)
    panels = tuple(
        Panel(", ".join(part for part in (_heading(layout, panel), group) if part),
              plots.ccdf(some, name=slug("tail", layout.experiment.name, panel, group), quantity=layout.quantity,
                         scale=scale, floor=floor),
              partial(plots.ccdf_chart, some, quantity=layout.quantity, scale=scale, floor=floor))
        for (panel, group), some in lines.items()
        if scale is not None
    )  # fmt: skip
    return Question(slug("tails", layout.experiment.name), titles.TAILS, captions.TAILS, panels)


def _cells(layout: Layout, frame: pl.DataFrame) -> list[tuple[tuple[Any, ...], pl.DataFrame]]:
    parts = frame.partition_by(*layout.keys, as_dict=True)
    return sorted(parts.items(), key=lambda item: layout.sort_key(dict(zip(layout.keys, item[0], strict=True))))


def _box_figures(layout: Layout, measured: pl.DataFrame) -> Question:
    rows: dict[str | None, list[plots.BoxRow]] = {}
    for key, part in _cells(layout, measured):
        row = dict(zip(layout.keys, key, strict=True))
        boxes = tuple(
            plots.RunBox(**{name: getattr(box, name) for name in ("min", "q1", "median", "q3", "max", "p99")})
            for box in sorted(rows_of(PartBox, part), key=lambda box: box.run_id)
        )
        panel = row[layout.panel] if layout.panel is not None else None
        box = plots.BoxRow(layout.series_text(row), str(row[layout.series]), boxes, layout.group_text(row))
        rows.setdefault(panel, []).append(box)
    scale = plots.scale_for([value for some in rows.values() for value in plots.box_values(some)])
    panels = tuple(
        Panel(
            _heading(layout, panel),
            plots.boxes(some, name=slug("boxes", layout.experiment.name, panel), quantity=layout.quantity, scale=scale),
        )
        for panel, some in rows.items()
    )  # fmt: skip
    name = slug("boxes", layout.experiment.name)
    return Question(name, titles.BOXES, captions.BOXES, panels)


def _violin_figures(layout: Layout, drawn: Sequence[_Shapes]) -> Question:
    rows: dict[str | None, list[plots.Violin]] = {}
    for shapes in drawn:
        panel = shapes.labels.get(layout.panel) if layout.panel is not None else None
        rows.setdefault(panel, []).append(shapes.violin)
    scale = plots.scale_for([value for some in rows.values() for value in plots.violin_values(some)] or [0.0, 1.0])
    panels = tuple(
        Panel(
            _heading(layout, panel),
            plots.violins(some, name=slug("violins", layout.experiment.name, panel), quantity=layout.quantity,
                          scale=scale),
        )
        for panel, some in rows.items()
    )  # fmt: skip
    hidden = max(shape.hidden for some in rows.values() for shape in some)
    early = [captions.not_drawn_below_0(percent_text(hidden))] if hidden > 0 else []
    caption = " ".join([captions.VIOLINS, *early])
    title = titles.VIOLINS
    return Question(slug("violins", layout.experiment.name), title, caption, panels, folded=True)


def _raw_figures(summary: Summary, layout: Layout) -> Question:
    """Raw readings of the run whose median is nearest to the cell's, for at most `MAX_RAW_PANELS` cells."""
    runs = summary.runs.filter(
        (pl.col("experiment") == layout.experiment.name) & pl.col("control").is_null() & pl.col("median").is_not_null()
    )
    chosen = []
    for key, part in _cells(layout, runs):
        middle = part["median"].median()
        nearest = part.with_columns(off=(pl.col("median") - middle).abs()).sort("off", "run_id").row(0, named=True)
        chosen.append((dict(zip(layout.keys, key, strict=True)), nearest))
    step = -(-len(chosen) // MAX_RAW_PANELS)
    panels = []
    for row, run in chosen[::step]:
        series = _raw_series(summary, layout, row, run)
        name = slug("raw", layout.experiment.name, *(row[key] for key in layout.keys))
        heading = ", ".join(
            layout.series_text(row) if key == layout.series else layout.level(key, row[key])
            for key in layout.keys
            if key == layout.series or len(layout.order[key]) > 1
        )
        panels.append(Panel(heading, plots.raw_samples(series, name=name, quantity=layout.quantity)))
    left_out = [] if step == 1 else [captions.some_cells(len(panels), len(chosen), step)]
    caption = " ".join([captions.RAW_READINGS, *left_out, captions.OWN_AXES])
    return Question(slug("raw", layout.experiment.name), titles.RAW_READINGS, caption, tuple(panels), folded=True)


def _raw_series(summary: Summary, layout: Layout, row: dict[str, Any], run: dict[str, Any]) -> plots.RawSeries:
    file = next(file for file in summary.sample_set.files if file.run.run_id == run["run_id"])
    readings = summary.sample_set.read_part(file, row)
    # Readings that were kept as a histogram have no position.
    single = readings.filter(pl.col("index").is_not_null())
    banded = readings.filter(pl.col("index").is_null()).sort("value", "weight")
    return plots.RawSeries(
        label=layout.series_text(row),
        style=str(row[layout.series]),
        index=single["index"].cast(pl.Float64).to_numpy(),
        value=single["value"].to_numpy(),
        median=run["median"],
        n=int(readings["weight"].sum()),
        band_value=banded["value"].to_numpy() if banded.height else None,
        band_count=banded["weight"].cast(pl.Float64).to_numpy() if banded.height else None,
    )


def cpu_figures(summary: Summary, layout: Layout) -> Question | None:
    """CPU time used per time slept, None where the instrument does not record it."""
    cells = summary.cells.filter(
        (pl.col("experiment") == layout.experiment.name) & pl.col("cpu_fraction").is_not_null()
    )
    if cells.height == 0:
        return None
    panels = []
    limit = float(cells["cpu_fraction"].max())  # type: ignore[arg-type]
    for panel in _panels(layout):
        shares = []
        for row in _rows(layout, cells, panel):
            group = layout.group_text(row)
            label = layout.series_text(row)
            shares.append((f"{label}, {group}" if group else label, str(row[layout.series]), row["cpu_fraction"]))
        if shares:
            name = slug("cpu", layout.experiment.name, panel)
            panels.append(
                Panel(
                    _heading(layout, panel),
                    plots.share_bars(shares, name=name, label="CPU time per time slept", limit=limit),
                )
            )
    return Question(slug("cpu", layout.experiment.name), titles.CPU_TIME, captions.CPU_TIME, tuple(panels))


def drift_figure(summary: Summary) -> Question | None:
    """The control cell over the blocks, None where the plan has none."""
    controls = rows_of(ControlRow, summary.controls)
    panels = []
    for what in sorted({row.part for row in controls}):
        part = sorted((row for row in controls if row.part == what), key=lambda row: row.block)
        points = [
            plots.DriftPoint(row.block, row.control, row.median, bool(row.drifted))
            for row in part
            if row.median is not None
        ]
        first = part[0]
        if not points or first.centre is None or first.limit is None:
            continue
        drawing = plots.control_drift(
            points, centre=first.centre, limit=first.limit, name=slug("drift", what), quantity=first.quantity
        )
        panels.append(Panel(f"control cell: {what}", drawing))
    if not panels:
        return None
    return Question("drift", titles.DRIFT, captions.DRIFT, tuple(panels))
