"""The table of available bandwidth, and how its truth was obtained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.plots.format import byte_text, percent_text
from vtare.report import text
from vtare.report.layout import key_name
from vtare.report.pages.avb.rows import estimates_of
from vtare.report.parts import Column, Table
from vtare.report.tables import why_empty
from vtare.summary.bandwidth import reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vtare.report.layout import Layout
    from vtare.report.text import Shown
    from vtare.summary import Summary


_NO_TRUTH: Final = "path not the lab's, or no answer"


def cell_table(summary: Summary, layout: Layout, cells: pl.DataFrame) -> Table:
    """All figures of one experiment's cells."""
    rows = sorted(cells.iter_rows(named=True), key=layout.sort_key)
    silent = estimates_of(summary, layout).filter(pl.col("avb_bit_per_s").is_null())

    def why_silent(row: Mapping[str, Any]) -> Shown:
        own = silent
        for key in layout.keys:
            own = own.filter(pl.col(key).eq_missing(row[key]))
        return text.words(reasons(own, "stopped") if own.height else "none", own.height)

    def coverage(row: Mapping[str, Any]) -> Shown:
        known, covering = row["intervals"], row["intervals_covering"]
        if not known:
            return text.missing("none excludes anything" if row["open_intervals"] else "no interval")
        shown = text.percent(covering / known, "")
        return type(shown)(f"{shown.text} ({covering} of {known})", shown.raw, shown.order)

    columns: tuple[tuple[Column, Callable[[dict[str, Any]], Shown]], ...] = (
        (Column("truth_bit_per_s", "truth", about="capacity less cross traffic in the windows, median over runs"),
         lambda r: text.rate(r["truth_bit_per_s"], _NO_TRUTH)),
        (Column("median_bit_per_s", "estimate", about="median of the run medians"),
         lambda r: text.of_row(r, "median", "no answer", text.rate)),
        (Column("median_interval_bit_per_s", f"{text.levels_text(cells)} interval", about="of the median, over runs"),
         lambda r: text.figures(layout.quantity, r["median_low"], r["median_high"], text.no_interval(r))),
        (Column("error_percent", "error", about="of an estimate against the truth of its window, median"),
         lambda r: text.points(r["error_percent"], _NO_TRUTH)),
        (Column("error_half_iqr_percent", "half IQR", about="half the interquartile range of the error in a run"),
         lambda r: text.points(r["error_half_iqr_percent"], _NO_TRUTH, signed=False)),
        (Column("absolute_error_percent", "absolute error", about="median of the error without its sign"),
         lambda r: text.points(r["absolute_error_percent"], _NO_TRUTH, signed=False)),
        (Column("coverage", "interval holds truth", about="of the estimates that have an interval and a truth"),
         coverage),
        (Column("interval_width_percent", "width", about="of these intervals, in percent of the capacity, median"),
         lambda r: text.points(r["interval_width_percent"], "no interval", signed=False)),
        (Column("open_intervals", "open", about="intervals that exclude nothing: they count as no interval"),
         lambda r: text.count(r["open_intervals"], _NO_TRUTH)),
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
        labels = [layout.shown(key, row[key]) for key in varying]
        empty = text.missing(why_empty(row))
        shown.append((*labels, *(show(row) if row["n_runs"] else empty for _, show in columns)))
    title = f"{layout.experiment.title}: all cells"
    return Table(f"cells-{layout.experiment.name}", title, (*keys, *(column for column, _ in columns)), tuple(shown))


def _bytes(value: float | None) -> Shown:
    if value is None:
        return text.missing("no estimate, or another program's, which does not report it")
    shown = text.number(value, "")
    return type(shown)(text.keep(byte_text(value)), shown.raw, value)


def method_lines() -> tuple[str, ...]:
    """How the truth was obtained."""
    return (
        "Available bandwidth: sender, router and receiver are namespaces of this machine, the bottleneck is on the "
        "router's egress. Truth of an estimate: what the link could carry less the cross traffic that came to it, "
        "counted in the kernel inside the estimate's own window (else between its first step and its answer), in bit/s "
        "of IP packets; where nobody counted, its rate less what the source sent. Error: estimate "
        f"less truth, over truth. Lower bounds count as answers; {percent_text(0.1)} of a core of other work, packets "
        "that the emulator let go late and packets missed by the sink mark an estimate as disturbed; it stays in all "
        "figures (docs/avb-lab.md).",
    )
