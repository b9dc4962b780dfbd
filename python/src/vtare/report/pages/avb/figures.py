"""The figures of available bandwidth, each with the question that it answers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import polars as pl

from vtare import plots
from vtare.instruments.model import end_column
from vtare.plan.factors import PATH_FACTORS
from vtare.report import text
from vtare.report.figures import slug
from vtare.report.layout import described_level
from vtare.report.pages.avb.rows import estimates_of, rows_at_baseline
from vtare.report.parts import Panel, Question
from vtare.report.sentences import answered_rows
from vtare.sentences import captions, titles
from vtare.summary.bandwidth import truth_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.summary import Summary


_MOST_COURSES: Final = 12
"""Runs whose estimates are drawn over time: the rest is in the other figures."""
_MARGIN_NS: Final = 20_000_000
_ENDS: Final[tuple[Literal["low", "high"], ...]] = ("low", "high")
_OVER_TRUTH: Final = "over_truth_fraction"


def questions(summary: Summary, layout: Layout) -> list[Question]:
    """Every figure of one experiment; the first is the one that answers most."""
    estimates = estimates_of(summary, layout)
    known = estimates.filter(pl.col("error_percent").is_not_null())
    made: list[Callable[[], Question | None]] = [
        lambda: _over_truth(summary, layout),
        lambda: _against_truth(layout, estimates),
        lambda: _errors(layout, known),
        lambda: _over_time(summary, layout, estimates),
        lambda: _intrusiveness(summary, layout),
        lambda: _shares(summary, layout),
        lambda: _times(summary, layout),
    ]
    asked = [question for make in made if (question := make()) is not None]
    # Where the capacity changes, the course of it is what the plan asks for.
    steps = "capacity_steps" in layout.keys
    return sorted(asked, key=lambda question: not question.id.startswith("course")) if steps else asked


def _marks(frame: pl.DataFrame, origin_ns: int = 0) -> list[plots.EstimateMark]:
    return [
        plots.EstimateMark(
            begin_s=(row["from_ns"] - origin_ns) / 1e9,
            end_s=(row["to_ns"] - origin_ns) / 1e9,
            value=float(row["avb_bit_per_s"]),
            low=row["low_bit_per_s"],
            high=row["high_bit_per_s"],
            truth=row["truth_bit_per_s"],
            style=row["method"],
            hollow=bool(row["at_least"]) or row["disturbed"] is not None,
        )
        for row in frame.filter(pl.col("avb_bit_per_s").is_not_null()).iter_rows(named=True)
    ]


def _in_order(layout: Layout, marks: list[plots.EstimateMark]) -> list[plots.EstimateMark]:
    """Marks in the order of their methods in the plan, which is that of the legend."""
    return sorted(marks, key=lambda mark: layout.rank(layout.series, mark.style))


def _over_truth(summary: Summary, layout: Layout) -> Question | None:
    """Each method on each path at the baseline of all else: its estimates over their truths, with intervals."""
    known = [row for row in answered_rows(summary, layout) if row["error_percent"] is not None]
    rows = rows_at_baseline(layout, known)
    if not rows:
        return None
    paths = [key for key in layout.keys if key in PATH_FACTORS and len({row[key] for row in rows}) > 1]
    runs = summary.runs.filter((pl.col("experiment") == layout.experiment.name) & pl.col("control").is_null())
    dots = []
    for row in sorted(rows, key=lambda row: [layout.rank(key, row[key]) for key in (*paths, layout.series)]):
        own = runs.filter(*(pl.col(key).eq_missing(row[key]) for key in layout.keys))["error_percent"].drop_nulls()
        bounds = row["at_least"] or 0
        low, high = (row[end_column("error_percent", which)] for which in _ENDS)
        dots.append(plots.Dot(
            layout.series_text(row) + (f" ({bounds:g} of {row['estimates']:g} bounds)" if bounds else ""),
            str(row[layout.series]),
            1.0 + row["error_percent"] / 100.0,
            None if low is None else 1.0 + low / 100.0,
            None if high is None else 1.0 + high / 100.0,
            run_values=tuple(1.0 + error / 100.0 for error in own),
            group=", ".join(layout.key_text(key, row[key]) for key in paths) or None,
        ))  # fmt: skip
    fixed = [key for key in layout.keys if key not in PATH_FACTORS and key != layout.series]
    where = ", ".join(layout.key_text(key, rows[0][key]) for key in fixed if len(layout.order[key]) > 1)
    name = slug("over-truth", layout.experiment.name)
    drawing = plots.dot_intervals(dots, name=name, quantity=_OVER_TRUTH, label="estimate over truth", reference=1.0)
    at = [captions.at_levels(where)] if where else []
    caption = " ".join([*at, captions.over_truth(text.levels_text(summary.cells))])
    return Question(name, titles.OVER_TRUTH, caption, (Panel(layout.experiment.title, drawing),))


def _against_truth(layout: Layout, estimates: pl.DataFrame) -> Question | None:
    """Estimates and lower bounds over truths."""
    known = estimates.filter(pl.col("avb_bit_per_s").is_not_null() & pl.col("truth_bit_per_s").is_not_null())
    paths = [key for key in layout.keys if key in PATH_FACTORS]
    if known.height == 0:
        return None
    by = [key for key in layout.keys if key not in (*paths, layout.series) and len(layout.order[key]) > 1]
    panels = []
    limit = plots.rate_limit(_marks(known), float(known["truth_bit_per_s"].max()))  # type: ignore[arg-type]
    for labels, part in _split(layout, known, by):
        heading = ", ".join(layout.key_text(key, label) for key, label in zip(by, labels, strict=True))
        name = slug("against", layout.experiment.name, *labels)
        drawing = plots.estimates_against_truth(_in_order(layout, _marks(part)), name=name, limit=limit)
        panels.append(Panel(heading or layout.experiment.title, drawing))
    caption = f"{captions.AGAINST_TRUTH} {captions.HOLLOW_ESTIMATE}"
    return Question(slug("against", layout.experiment.name), titles.AGAINST_TRUTH, caption, tuple(panels))


def _split(layout: Layout, frame: pl.DataFrame, by: Sequence[str]) -> list[tuple[tuple[str, ...], pl.DataFrame]]:
    """Parts of a frame by these keys, in the plan's order."""
    if not by:
        return [((), frame)]
    parts = frame.partition_by(*by, as_dict=True, maintain_order=True)
    ordered = sorted(parts, key=lambda labels: [layout.rank(k, str(v)) for k, v in zip(by, labels, strict=True)])
    return [(tuple(str(label) for label in labels), parts[labels]) for labels in ordered]


def _cells(layout: Layout, frame: pl.DataFrame) -> list[tuple[dict[str, Any], pl.DataFrame]]:
    """The cells of a frame with their labels, in the plan's order."""
    return [(dict(zip(layout.keys, labels, strict=True)), part) for labels, part in _split(layout, frame, layout.keys)]


def _panel(layout: Layout, row: Mapping[str, Any]) -> str:
    return layout.experiment.title if layout.panel is None else layout.key_text(layout.panel, row[layout.panel])


def _errors(layout: Layout, known: pl.DataFrame) -> Question | None:
    if known.height == 0:
        return None
    by_panel: dict[str, list[plots.ErrorRow]] = {}
    for row, part in _cells(layout, known):
        errors = tuple(part["error_percent"].to_list())
        error_row = plots.ErrorRow(row[layout.series], row[layout.series], errors, layout.group_text(row))
        by_panel.setdefault(_panel(layout, row), []).append(error_row)
    limits = plots.error_limits([row for rows in by_panel.values() for row in rows])
    panels = tuple(
        Panel(heading, plots.error_boxes(rows, name=slug("errors", layout.experiment.name, heading), limits=limits))
        for heading, rows in by_panel.items()
    )
    return Question(slug("errors", layout.experiment.name), titles.ERRORS, captions.ERRORS, panels)


def _over_time(summary: Summary, layout: Layout, estimates: pl.DataFrame) -> Question | None:
    """The first run of each cell, on the baseline's path where there are too many."""
    files = {file.run.run_id: file for file in summary.sample_set.files}
    cells = _cells(layout, estimates)
    if len(cells) > _MOST_COURSES:
        for key in (key for key in layout.keys if key in PATH_FACTORS):
            level = described_level(layout, key, layout.order[key])
            cells = [cell for cell in cells if cell[0][key] == level]
    drawn = []
    for row, part in cells[:_MOST_COURSES]:
        run = part.filter(pl.col("run_id") == part.sort("block")["run_id"][0])
        # Not beyond the last estimate: then the cross traffic is ended.
        begin, end = int(run["from_ns"].min()) - _MARGIN_NS, int(run["to_ns"].max())  # type: ignore[arg-type]
        line = truth_line(files[run["run_id"][0]], begin, end)
        if line is not None:
            drawn.append((row, line, _marks(run, begin), begin))
    tops = [float(max(line.bit_per_s[line.bit_per_s == line.bit_per_s], default=0.0)) for _, line, _, _ in drawn]
    if not any(tops):
        return None
    panels = []
    for (row, line, marks, begin), top in zip(drawn, tops, strict=True):
        varying = [key for key in reversed(layout.keys) if len(layout.order[key]) > 1]
        words = [
            layout.level(key, row[key]) if key == layout.series else layout.key_text(key, row[key]) for key in varying
        ]
        name = slug("course", layout.experiment.name, *(row[key] for key in layout.keys))
        limit = plots.rate_limit(marks, top or max(tops))
        edges = (line.edges_ns - begin) / 1e9
        drawing = plots.estimates_over_time(edges, line.bit_per_s, marks, name=name, limit=limit)
        chart = partial(plots.estimates_chart, edges, line.bit_per_s, marks, limit=limit)
        panels.append(Panel(", ".join(words) or layout.experiment.title, drawing, chart))
    left = len(_cells(layout, estimates)) - len(panels)
    more = [captions.cells_in_other_figures(left)] if left > 0 else []
    caption = " ".join([captions.COURSE, captions.HOLLOW_ESTIMATE, *more])
    return Question(slug("course", layout.experiment.name), titles.COURSE, caption, tuple(panels))


def _rows(summary: Summary, layout: Layout, *needed: str) -> list[dict[str, Any]]:
    cells = summary.cells.filter(pl.col("experiment") == layout.experiment.name)
    rows = [row for row in cells.iter_rows(named=True) if all(row[name] is not None for name in needed)]
    return sorted(rows, key=layout.sort_key)


def _by_panel(layout: Layout, rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    panels: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        panels.setdefault(_panel(layout, row), []).append(row)
    return panels


def _label(layout: Layout, row: dict[str, Any]) -> str:
    group = layout.group_text(row)
    return f"{row[layout.series]}, {group}" if group else str(row[layout.series])


def _intrusiveness(summary: Summary, layout: Layout) -> Question | None:
    rows = _rows(summary, layout, "estimate_byte", "absolute_error_percent")
    panels = []
    for heading, some in _by_panel(layout, rows).items():
        points = [
            plots.CostPoint(
                _label(layout, row), row[layout.series], row["estimate_byte"], row["absolute_error_percent"]
            )
            for row in some
        ]
        name = slug("cost", layout.experiment.name, heading)
        panels.append(Panel(heading, plots.cost_against_error(points, name=name)))
    if not panels:
        return None
    title = titles.COST_OF_ESTIMATES
    return Question(slug("cost", layout.experiment.name), title, captions.COST_OF_ESTIMATES, tuple(panels))


def _shares(summary: Summary, layout: Layout) -> Question | None:
    rows = _rows(summary, layout, "occupied_share")
    if not rows:
        return None
    limit = max(row["occupied_share"] for row in rows)
    panels = tuple(
        Panel(
            heading,
            plots.share_bars(
                [(_label(layout, row), row[layout.series], row["occupied_share"]) for row in some],
                name=slug("share", layout.experiment.name, heading), label="probes in the capacity", limit=limit,
            ),
        )
        for heading, some in _by_panel(layout, rows).items()
    )  # fmt: skip
    title = titles.OCCUPIED
    # Of capacities that change, the occupied share is one of the questions (Kachan et al.).
    folded = "capacity_steps" not in layout.keys
    return Question(slug("share", layout.experiment.name), title, captions.OCCUPIED, panels, folded=folded)


def _times(summary: Summary, layout: Layout) -> Question | None:
    rows = _rows(summary, layout, "estimate_ns")
    if not rows:
        return None
    by_panel = {
        heading: [
            plots.Dot(
                row[layout.series], row[layout.series], row["estimate_ns"], row["estimate_ns"], row["estimate_ns"],
                group=layout.group_text(row),
            )
            for row in some
        ]
        for heading, some in _by_panel(layout, rows).items()
    }  # fmt: skip
    scale = plots.scale_for([value for dots in by_panel.values() for value in plots.dot_values(dots)])
    panels = tuple(
        Panel(
            heading,
            plots.dot_intervals(
                dots, name=slug("time", layout.experiment.name, heading), quantity="estimate_ns", scale=scale
            ),
        )
        for heading, dots in by_panel.items()
    )
    return Question(slug("time", layout.experiment.name), titles.ESTIMATE_TIMES, captions.ESTIMATE_TIMES, panels)
