"""What the parts of a page on available bandwidth have in common: the estimates of an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from vtare.plan import PATH_FACTORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.report.layout import Layout
    from vtare.summary import Summary


def estimates_of(summary: Summary, layout: Layout) -> pl.DataFrame:
    """The estimates of one experiment, answered or not, as `Summary.estimates` has them."""
    return summary.estimates.filter(pl.col("experiment") == layout.experiment.name)


def rows_at_baseline(layout: Layout, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cells of every path and method at the baseline of all else, or its first level that has a figure."""
    found = list(rows)
    usual = {factor.name: factor.baseline for factor in layout.experiment.factors}
    for key in layout.keys:
        if key == layout.series or key in PATH_FACTORS or not found:
            continue
        present = {row[key] for row in found}
        first = next((label for label in layout.order[key] if label in present), None)
        chosen = usual[key] if usual.get(key) in present else first
        found = [row for row in found if row[key] in (None, chosen)]
    return found
