"""The table of available bandwidth, and how its truth was obtained."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.number_text import percent_text
from vtare.report import text
from vtare.report.pages.avb.rows import estimates_of
from vtare.report.pages.model import CellColumn
from vtare.report.parts import Column
from vtare.sentences import method as wording
from vtare.summary.bandwidth import reasons

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.report.layout import Layout
    from vtare.report.text import Shown
    from vtare.summary import Summary


COLUMNS: Final = (
    "truth_bit_per_s", "avb_bit_per_s", "avb_interval_bit_per_s", "error_percent", "error_half_iqr_percent",
    "absolute_error_percent", "coverage", "interval_width_percent", "open_intervals", "estimate_byte", "estimate_ns",
    "occupied_share", "estimates", "unanswered", "at_least", "truth_unknown", "disturbed_estimates", "others_cores",
    "n_runs",
)  # fmt: skip


def made_columns(summary: Summary, layout: Layout) -> dict[str, CellColumn]:
    """How often intervals held the truth, and why estimates have no answer."""
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
        return replace(shown, text=f"{shown.text} ({covering} of {known})")

    held = Column("coverage", "interval holds truth", about="of the estimates that have an interval and a truth")
    why = Column("unanswered", "no answer", numeric=False, about="estimates without an answer, by reason")
    return {"coverage": CellColumn(held, coverage), "unanswered": CellColumn(why, why_silent)}


def method_lines() -> tuple[str, ...]:
    """How the truth was obtained."""
    return (wording.available_bandwidth(percent_text(0.1)),)
