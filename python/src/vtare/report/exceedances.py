"""Readings above common thresholds, and what runs completed: figures that stay defined where a time limit ended runs.

A run without enough readings has no p99; the share of its readings above 1 ms it always has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from vtare.number_text import percent_range_text, percent_text, tick_text
from vtare.report import text
from vtare.report.layout import LATE, figure_name, key_name
from vtare.report.parts import Column, Table
from vtare.report.text import Shown, missing
from vtare.sentences.words import count_text
from vtare.summary.completion import THRESHOLDS_NS, mean_over_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.report.layout import Layout
    from vtare.summary import Summary


def exceedance_table(summary: Summary, layout: Layout) -> Table | None:
    """Shares of readings above each threshold that some readings pass and some do not; None where there is none."""
    if not layout.experiment.record.timed:
        return None
    runs = summary.runs.filter((pl.col("experiment") == layout.experiment.name) & pl.col("control").is_null())
    by_cell = runs.partition_by(list(layout.keys), as_dict=True, maintain_order=True)
    named = [
        name for name in THRESHOLDS_NS
        if (known := runs[name].drop_nulls()).len() and known.max() != 0.0 and known.min() != 1.0
    ]  # fmt: skip
    cells = summary.cells.filter((pl.col("experiment") == layout.experiment.name) & (pl.col("n_runs") > 0))
    late = cells["asked"].drop_nulls().len() > 0
    cut = late and cells["completed_fraction"].min() != 1.0
    if not named:
        return None
    rows = []
    for cell in sorted(cells.iter_rows(named=True), key=layout.sort_key):
        of_cell = by_cell.get(tuple(cell[key] for key in layout.keys))
        if of_cell is None:
            continue
        shown = [layout.shown(key, cell[key]) for key in layout.keys]
        shown += [_completed(cell)] if cut else []
        shown += [_late(cell)] if late else []
        shown += [_share(of_cell[name].drop_nulls().to_list(), cell["n"]) for name in named]
        rows.append(tuple(shown))
    what = figure_name(layout.quantity, short=True)
    columns = [Column(key, key_name(key), numeric=False) for key in layout.keys]
    if cut:
        about = "of the readings that samples and time limit allow, in all runs"
        columns.append(Column("completed", "completed", about=about))
    if late:
        columns += [
            Column(LATE, "time late", about="time spent after the targets over the time of all sleeps, over runs"),
        ]
    columns += [
        Column(name, f"P({what} > {text.keep(tick_text(THRESHOLDS_NS[name]))})", about="mean share over runs")
        for name in named
    ]
    title = f"{layout.experiment.title}: readings above common thresholds"
    return Table(f"exceedances-{layout.experiment.name}", title, tuple(columns), tuple(rows))


def _completed(cell: Mapping[str, Any]) -> Shown:
    share = cell["completed_fraction"]
    if share is None:
        return missing("no number asked for")
    counts = f"{count_text(cell['completed'])} of {count_text(cell['asked'])}"
    kind = text.DIFFERS if cell["capped_runs"] else ""
    return Shown(text.keep(f"{percent_text(share)} ({counts})"), f"{share:.7g}", float(f"{share:.7g}"), kind)


def _late(cell: Mapping[str, Any]) -> Shown:
    value, low, high = cell[LATE], cell[f"{LATE}_low"], cell[f"{LATE}_high"]
    shown = text.percent(value, "no reading")
    if value is None or low is None or high is None:
        return shown
    span = text.keep(percent_range_text(low, high))
    return Shown(f"{shown.text} ({span})", f"{value:.7g} [{low:.7g}..{high:.7g}]", float(f"{value:.7g}"))


def _share(rates: list[float], readings: int) -> Shown:
    """The mean share over runs with its interval; a share of 0 states how many readings it is of."""
    share = mean_over_runs(rates)
    if share is None:
        return missing("no reading")
    mean, low, high = share
    if mean == 0.0:
        return Shown(f"0 of {count_text(readings)}", "0", 0.0)
    shown = text.percent(mean, "")
    if low is None or high is None:
        return shown
    raw = f"{mean:.7g} [{low:.7g}..{high:.7g}]"
    return Shown(f"{shown.text} ({text.keep(percent_range_text(low, high))})", raw, float(f"{mean:.7g}"))
