"""What the parts of a page on available bandwidth have in common: the estimates of an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from vtare.plan.factors import PATH_FACTORS
from vtare.report.layout import described_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.report.layout import Layout
    from vtare.summary import Summary


def estimates_of(summary: Summary, layout: Layout) -> pl.DataFrame:
    """The estimates of one experiment, answered or not, as `Summary.estimates` has them."""
    return summary.estimates.filter(pl.col("experiment") == layout.experiment.name)


def rows_at_baseline(layout: Layout, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cells of every path and method at the baseline of all else, or its first level that has a figure."""
    chosen = list(rows)
    for key in layout.keys:
        if key != layout.series and key not in PATH_FACTORS:
            chosen = rows_described(layout, key, chosen)
    return chosen


def rows_described(layout: Layout, key: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cells at the level of a key that sentences describe, and those that do not have the key."""
    level = described_level(layout, key, {row[key] for row in rows})
    return [row for row in rows if row[key] in (None, level)]
