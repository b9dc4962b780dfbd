"""What the parts of a page on available bandwidth have in common: the estimates of an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from vtare.report.layout import Layout
    from vtare.summary import Summary


def estimates_of(summary: Summary, layout: Layout) -> pl.DataFrame:
    """The estimates of one experiment, answered or not, as `Summary.estimates` has them."""
    return summary.estimates.filter(pl.col("experiment") == layout.experiment.name)
