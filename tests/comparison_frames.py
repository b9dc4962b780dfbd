"""The comparisons of a summary as a frame, for tests that select some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from vtare.summary.contrasts import ComparisonRow
from vtare.summary.rows import frame_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def compared(rows: Sequence[ComparisonRow]) -> pl.DataFrame:
    """A row for each comparison: a column for each field and each key of its labels, and the name of its `figure`."""
    keys = list(dict.fromkeys(key for row in rows for key in row.labels))
    figures = pl.Series("figure", [row.figure for row in rows], dtype=pl.String)
    return frame_of(ComparisonRow, rows, keys).with_columns(figures)
