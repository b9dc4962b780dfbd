"""What a report says of available bandwidth: how near the truth, how sure, how dear, how quick."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare import plots
from vtare.plan import PATH_FACTORS
from vtare.plots.format import byte_text, percent_points, percent_text, rate_range_text, rate_text, time_text
from vtare.report import text
from vtare.report.figures import Panel, Question, slug
from vtare.report.layout import key_name, key_text
from vtare.report.sentences import Sentence, Told, cell_rows
from vtare.report.tables import Column, Table, why_empty
from vtare.summary.bandwidth import reasons, truth_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.report.text import Shown
    from vtare.summary import Summary

_MOST_COURSES: Final = 12
"""Runs whose estimates are drawn over time: the rest is in the other figures."""
_MARGIN_NS: Final = 20_000_000
_NO_TRUTH: Final = "path not the lab's, or no answer"
_HOLLOW: Final = "Hollow: a lower bound, or a window that was disturbed."


def sentences(summary: Summary, layout: Layout) -> tuple[list[Sentence], list[Sentence]]:
    """The answer's sentences and the further ones, each from cells as they stand in the table."""
    rows = [row for row in cell_rows(summary, layout) if row["error_percent"] is not None]
    if not rows:
        return [], []
    estimates = _estimates(summary, layout).filter(pl.col("avb_bit_per_s").is_not_null())
    answer = [_one_path(layout, rows), _all_paths(layout, estimates), _cost(layout, rows)]
    details = [_timers(layout, estimates), _coverage(layout, estimates), _silent(summary, layout)]
    return [one for one in answer if one], [(f"{layout.experiment.title}: ", *one) for one in details if one]


def _estimates(summary: Summary, layout: Layout) -> pl.DataFrame:
    return summary.estimates.filter(pl.col("experiment") == layout.experiment.name)


def _methods(layout: Layout) -> tuple[str, ...]:
    return layout.order[layout.series]


def _one_path(layout: Layout, rows: Sequence[dict[str, Any]]) -> Sentence:
    """Method beside method on the middle path, at the baseline of all else; a capacity that changes is no one path."""
    if "capacity_steps" in layout.keys:
        return ()
    for key in layout.keys:
        if key != layout.series:
            present = [label for label in layout.order[key] if any(row[key] == label for row in rows)]
            usual = [factor.baseline for factor in layout.experiment.factors if factor.name == key]
            chosen = next((label for label in usual if label in present), present[0] if present else None)
            if key in PATH_FACTORS and present:
                chosen = present[len(present) // 2]
            rows = [row for row in rows if row[key] == chosen]
    if not rows:
        return ()
    varying = [key for key in layout.keys if key != layout.series and len(layout.order[key]) > 1]
    where = ", ".join(key_text(key, rows[0][key]) for key in varying)
    truth = Told(rate_text(rows[0]["truth_bit_per_s"]))
    pieces: list[str | Told] = [f"With {where}, where " if where else "Where ", truth, " are available, "]
    for at, row in enumerate(rows):
        low, high = row["median_low"], row["median_high"]
        interval = "" if low is None or high is None else rate_range_text(low, high)
        joint = "" if at == 0 else " and " if at == len(rows) - 1 else ", "
        pieces += [f"{joint}{row[layout.series]} finds ", Told(rate_text(row["median"]), interval)]
    return (*pieces, ".")


def _all_paths(layout: Layout, estimates: pl.DataFrame) -> Sentence:
    """The median absolute error of each method over all its estimates, the least first."""
    found = []
    for method in _methods(layout):
        errors = estimates.filter(pl.col("method") == method)["error_percent"].drop_nulls().abs()
        if len(errors):
            found.append((float(errors.median()), method, len(errors)))  # type: ignore[arg-type]
    if not found:
        return ()
    found.sort()
    pieces: list[str | Told] = ["Over all paths half of the estimates are off by at most "]
    for at, (error, method, count) in enumerate(found):
        joint = "" if at == 0 else " and " if at == len(found) - 1 else ", "
        pieces += [
            joint,
            Told(percent_points(error, signed=False)),
            f" with {method} ({text.plural(count, 'estimate')})",
        ]
    return (*pieces, ".")


def _cost(layout: Layout, rows: Sequence[Mapping[str, Any]]) -> Sentence:
    """Time and bytes of an estimate: the span of each method's cells."""
    pieces: list[str | Told] = []
    for method in _methods(layout):
        own = [row for row in rows if row[layout.series] == method]
        if own:
            spent = [sorted(row[key] for row in own) for key in ("estimate_ns", "estimate_byte")]
            middle = [values[len(values) // 2] for values in spent]
            pieces += [", " if pieces else "An estimate takes ", Told(time_text(middle[0])), " and "]
            pieces += [Told(byte_text(middle[1])), f" with {method}"]
    return (*pieces, ".") if pieces else ()


def _timers(layout: Layout, estimates: pl.DataFrame) -> Sentence:
    """Whose timers: the median absolute error under each, method by method."""
    levels = layout.order.get("timers", ())
    if len(levels) < 2:
        return ()
    pieces: list[str | Told] = []
    for method in _methods(layout):
        found = []
        for level in levels:
            own = estimates.filter((pl.col("method") == method) & (pl.col("timers") == level))
            errors = own["error_percent"].drop_nulls().abs()
            if len(errors):
                found.append((Told(percent_points(float(errors.median()), signed=False)), f" with {level} timers"))  # type: ignore[arg-type]
        if len(found) == len(levels):
            pieces += ["; " if pieces else "", f"{method} is off by "]
            for at, part in enumerate(found):
                pieces += [" and " if at else "", *part]
    return (*pieces, ".") if pieces else ()


def _coverage(layout: Layout, estimates: pl.DataFrame) -> Sentence:
    pieces: list[str | Told] = []
    for method in _methods(layout):
        known = estimates.filter(pl.col("method") == method)["covered"].drop_nulls()
        if len(known):
            covering = int(known.sum())
            pieces += ["; " if pieces else "", f"the interval of {method} held the truth in "]
            pieces += [Told(f"{covering} of {len(known)}")]
    return (*pieces, " estimates.") if pieces else ()


def _silent(summary: Summary, layout: Layout) -> Sentence:
    frame = _estimates(summary, layout)
    silent = frame.filter(pl.col("avb_bit_per_s").is_null())
    if not silent.height:
        return ()
    worst = silent["method"].value_counts(sort=True).row(0)
    why = reasons(silent, "stopped")
    count = Told(f"{silent.height} of {frame.height}")
    return (count, f" estimates gave no answer ({why}), most of them {worst[0]} ({worst[1]}).")


def questions(summary: Summary, layout: Layout) -> list[Question]:
    """Every figure of one experiment; the first is the one that answers most."""
    estimates = _estimates(summary, layout)
    known = estimates.filter(pl.col("error_percent").is_not_null())
    made: list[Callable[[], Question | None]] = [
        lambda: _against_truth(layout, known),
        lambda: _errors(layout, known),
        lambda: _over_time(summary, layout, estimates),
        lambda: _intrusiveness(summary, layout),
        lambda: _shares(summary, layout),
        lambda: _times(summary, layout),
    ]
    found = [question for make in made if (question := make()) is not None]
    # Where the capacity changes, the course of it is what the plan asks for.
    steps = "capacity_steps" in layout.keys
    return sorted(found, key=lambda question: not question.id.startswith("course")) if steps else found


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


def _against_truth(layout: Layout, known: pl.DataFrame) -> Question | None:
    """Estimates over truths, where there is more than one path."""
    paths = [key for key in layout.keys if key in PATH_FACTORS]
    if known.height == 0 or all(len(layout.order[key]) == 1 for key in paths):
        return None
    by = [key for key in layout.keys if key not in (*paths, layout.series) and len(layout.order[key]) > 1]
    panels = []
    limit = plots.rate_limit(_marks(known), float(known["truth_bit_per_s"].max()))  # type: ignore[arg-type]
    for labels, part in _split(layout, known, by):
        heading = ", ".join(key_text(key, label) for key, label in zip(by, labels, strict=True))
        name = slug("against", layout.experiment.name, *labels)
        drawing = plots.estimates_against_truth(_in_order(layout, _marks(part)), name=name, limit=limit)
        panels.append(Panel(heading or layout.experiment.title, drawing))
    caption = (
        "Each marker is an estimate over the true mean of its own window (capacity less the cross traffic that came in "
        f"it); on the line it is right. A triangle at the upper edge lies beyond. {_HOLLOW}"
    )
    return Question(slug("against", layout.experiment.name), "How near the truth?", caption, tuple(panels))


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
    return layout.experiment.title if layout.panel is None else key_text(layout.panel, row[layout.panel])


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
    caption = (
        "Error of each estimate in percent of the truth of its window; all runs of a cell together. Box: quartiles, "
        "dark line: median, whiskers: least and greatest, dots: estimates. All panels share one axis."
    )
    return Question(slug("errors", layout.experiment.name), "How far off, by method?", caption, panels)


def _over_time(summary: Summary, layout: Layout, estimates: pl.DataFrame) -> Question | None:
    """The first run of each cell, on the middle path where there are too many."""
    files = {file.run.run_id: file for file in summary.sample_set.files}
    cells = _cells(layout, estimates)
    if len(cells) > _MOST_COURSES:
        for key in (key for key in layout.keys if key in PATH_FACTORS):
            levels = layout.order[key]
            cells = [cell for cell in cells if cell[0][key] == levels[len(levels) // 2]]
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
        words = [row[key] if key == layout.series else key_text(key, row[key]) for key in varying]
        name = slug("course", layout.experiment.name, *(row[key] for key in layout.keys))
        limit = plots.rate_limit(marks, top or max(tops))
        edges = (line.edges_ns - begin) / 1e9
        drawing = plots.estimates_over_time(edges, line.bit_per_s, marks, name=name, limit=limit)
        chart = partial(plots.estimates_chart, edges, line.bit_per_s, marks, limit=limit)
        panels.append(Panel(", ".join(text.level(word) for word in words) or layout.experiment.title, drawing, chart))
    left = len(_cells(layout, estimates)) - len(panels)
    more = f" {text.plural(left, 'cell')} more in the other figures." if left > 0 else ""
    caption = (
        "One run of each cell. Dark line: the truth. Markers: estimates, in the middle of the window that they are the "
        f"mean of, bars: their intervals. A triangle at the upper edge lies beyond. {_HOLLOW}{more}"
    )
    return Question(
        slug("course", layout.experiment.name), "How do estimates follow the truth?", caption, tuple(panels)
    )


def _rows(summary: Summary, layout: Layout, *needed: str) -> list[dict[str, Any]]:
    cells = summary.cells.filter(pl.col("experiment") == layout.experiment.name)
    rows = [row for row in cells.iter_rows(named=True) if all(row[name] is not None for name in needed)]
    return sorted(rows, key=layout.sort_key)


def _by_panel(layout: Layout, rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(_panel(layout, row), []).append(row)
    return found


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
    caption = (
        "A marker for each cell: median bytes that an estimate puts on the path, soundings included, and median "
        "absolute error. Better is lower and further left."
    )
    title = "What does the answer cost the path?"
    return Question(slug("cost", layout.experiment.name), title, caption, tuple(panels))


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
    caption = "Probe bytes of an estimate over its time, as a share of the true capacity; medians."
    title = "How much of the link is occupied meanwhile?"
    # Of capacities that change, the occupied share is one of the questions (Kachan et al.).
    folded = "capacity_steps" not in layout.keys
    return Question(slug("share", layout.experiment.name), title, caption, panels, folded=folded)


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
    caption = "From the first step of an estimate to its answer: median over runs of each run's median."
    return Question(slug("time", layout.experiment.name), "How long does an estimate take?", caption, panels)


def cell_table(summary: Summary, layout: Layout, cells: pl.DataFrame) -> Table:
    """All figures of one experiment's cells."""
    rows = sorted(cells.iter_rows(named=True), key=layout.sort_key)
    silent = _estimates(summary, layout).filter(pl.col("avb_bit_per_s").is_null())

    def why_silent(row: Mapping[str, Any]) -> Shown:
        own = silent
        for key in layout.keys:
            own = own.filter(pl.col(key).eq_missing(row[key]))
        return text.words(reasons(own, "stopped") if own.height else "none", own.height)

    def coverage(row: Mapping[str, Any]) -> Shown:
        known, covering = row["intervals"], row["intervals_covering"]
        if not known:
            return text.missing("no interval")
        shown = text.percent(covering / known, "")
        return type(shown)(f"{shown.text} ({covering} of {known})", shown.raw, shown.order)

    columns: tuple[tuple[Column, Callable[[dict[str, Any]], Shown]], ...] = (
        (Column("truth_bit_per_s", "truth", about="capacity less cross traffic in the windows, median over runs"),
         lambda r: text.rate(r["truth_bit_per_s"], _NO_TRUTH)),
        (Column("median_bit_per_s", "estimate", about="median of the run medians"),
         lambda r: text.rate(r["median"], "no answer")),
        (Column("median_interval_bit_per_s", f"{text.levels_text(cells)} interval", about="of the median, over runs"),
         lambda r: text.figures(layout.quantity, r["median_low"], r["median_high"], "needs 3 runs")),
        (Column("error_percent", "error", about="of an estimate against the truth of its window, median"),
         lambda r: text.points(r["error_percent"], _NO_TRUTH)),
        (Column("error_half_iqr_percent", "half IQR", about="half the interquartile range of the error in a run"),
         lambda r: text.points(r["error_half_iqr_percent"], _NO_TRUTH, signed=False)),
        (Column("absolute_error_percent", "absolute error", about="median of the error without its sign"),
         lambda r: text.points(r["absolute_error_percent"], _NO_TRUTH, signed=False)),
        (Column("coverage", "interval holds truth", about="of the estimates that have an interval and a truth"),
         coverage),
        (Column("estimate_byte", "bytes", about="that an estimate puts on the path, median"),
         lambda r: _bytes(r["estimate_byte"])),
        (Column("estimate_ns", "time", about="of an estimate, median"),
         lambda r: text.time(r["estimate_ns"], "no estimate")),
        (Column("occupied_share", "occupied", about="probe bytes over the time, as a share of the capacity"),
         lambda r: text.percent(r["occupied_share"], _NO_TRUTH)),
        (Column("estimates", "estimates"), lambda r: text.count(r["estimates"], "unknown")),
        (Column("unanswered", "no answer", numeric=False, about="estimates without an answer, by reason"), why_silent),
        (Column("at_least", "bounds", about="answers that are lower bounds only"),
         lambda r: text.count(r["at_least"], "unknown")),
        (Column("truth_unknown", "no truth", about="estimates whose window is not known"),
         lambda r: text.count(r["truth_unknown"], _NO_TRUTH)),
        (Column("disturbed_estimates", "disturbed", about="estimates in windows that something else disturbed"),
         lambda r: text.count(r["disturbed_estimates"], _NO_TRUTH)),
        (Column("others_cores", "others", about="cores that other programs took, median"),
         lambda r: text.number(r["others_cores"], _NO_TRUTH)),
        (Column("n_runs", "runs"), lambda r: text.count(r["n_runs"], "unknown")),
    )  # fmt: skip
    # What is the same in all cells stands above the figures.
    varying = [key for key in layout.keys if len(layout.order[key]) > 1 or key == layout.series]
    keys = [Column(key, key_name(key), numeric=False) for key in varying]
    shown = []
    for row in rows:
        labels = [text.words(row[key], layout.rank(key, row[key])) for key in varying]
        empty = text.missing(why_empty(row))
        shown.append((*labels, *(show(row) if row["n_runs"] else empty for _, show in columns)))
    title = f"{layout.experiment.title}: all cells"
    return Table(f"cells-{layout.experiment.name}", title, (*keys, *(column for column, _ in columns)), tuple(shown))


def _bytes(value: float | None) -> Shown:
    if value is None:
        return text.missing("no estimate")
    shown = text.number(value, "")
    return type(shown)(text.keep(byte_text(value)), shown.raw, value)


def method_lines() -> tuple[str, ...]:
    """How the truth was had."""
    return (
        "Available bandwidth: sender, router and receiver are namespaces of this machine, the bottleneck is on the "
        "router's egress. Truth of an estimate: what the link could carry less the cross traffic that came to it, "
        "counted in the kernel inside the estimate's own window (else between its first step and its answer), in bit/s "
        "of IP packets; where nobody counted, its rate less what the source sent. Error: estimate "
        f"less truth, over truth. Lower bounds count as answers; {percent_text(0.1)} of a core of other work, packets "
        "that the emulator let go late and packets missed by the sink mark an estimate as disturbed; it stays in all "
        "figures (docs/avb-lab.md).",
    )


__all__ = ["cell_table", "method_lines", "questions", "sentences"]
