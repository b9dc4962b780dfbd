"""The quality of readings before any headline: which cells are too flawed for one, and what to do about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.instruments import instrument
from vtare.instruments.model import Flaw

if TYPE_CHECKING:
    from vtare.summary.contrasts import ComparisonRow
    from vtare.summary.model import Summary

#: From this share of its readings on a flaw takes a cell out of the headline: a median is then one of flawed readings.
HIDES: Final = 0.5
#: Above this share a flaw is named beside the headline.
MENTIONED: Final = 0.1
_RUNS: Final = Flaw(
    ("failed_runs", "skipped_runs"), ("failed_runs", "skipped_runs", "n_runs"),
    "runs failed or were skipped", "see the reasons in the tables of runs, then `vtare resume`",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flawed:
    """A cell (its row of the cells frame) with a flaw: `count` of `total` readings."""

    row: Mapping[str, Any]
    flaw: Flaw
    count: float
    total: float

    @property
    def share(self) -> float:
        """The share of the cell's readings."""
        return self.count / self.total


def flawed(summary: Summary, *, least: float = MENTIONED) -> list[Flawed]:
    """Every flaw of every measured cell, from this share of its readings on; the gravest of a cell first."""
    flaws = []
    for row in summary.cells.iter_rows(named=True):
        # A cell without any run has no figure that could be taken for one.
        if not row["n_runs"]:
            continue
        own = [
            Flawed(row, _explained(summary, row, flaw), count, total)
            for flaw in (*instrument(row["instrument"]).flaws, _RUNS)
            if not (flaw.made_by_load and row.get("load") not in (None, "idle"))
            for count, total in [_counts(row, flaw)]
            if total and (count / total > MENTIONED and count / total >= least)
        ]
        flaws += sorted(own, key=lambda one: -one.share)
    return flaws


def _explained(summary: Summary, row: Mapping[str, Any], flaw: Flaw) -> Flaw:
    """The flaw with the words and the remedy of the reason that most estimates of the cell state."""
    if flaw.reason is None:
        return flaw
    keys = [key for key in ("experiment", *summary.keys[row["experiment"]]) if key in summary.estimates.columns]
    same = [pl.col(key).eq_missing(pl.lit(row[key], pl.String)) for key in keys]
    stated = summary.estimates.filter(pl.all_horizontal(same))[flaw.reason].drop_nulls().to_list()
    reasons = Counter(reason for text in stated for reason in text.split("; "))
    words, remedy = flaw.by_reason.get(max(reasons, key=reasons.__getitem__, default=""), (flaw.words, flaw.remedy))
    return replace(flaw, words=words, remedy=remedy)


def _counts(row: Mapping[str, Any], flaw: Flaw) -> tuple[float, float]:
    """How many readings have the flaw, and of how many; shares count as that of one."""
    total = sum(row[name] or 0 for name in flaw.of) if flaw.of else 1.0
    return sum(row[name] or 0 for name in flaw.counts), total


def sound(summary: Summary, experiment: str | None = None) -> Summary:
    """The summary without the cells that no headline may use, their estimates and what is compared with them.

    Of one experiment, of all where it is None.
    """
    hidden = [one.row for one in flawed(summary, least=HIDES) if experiment in (None, one.row["experiment"])]
    for row in hidden:
        keys = summary.keys[row["experiment"]]
        summary = replace(
            summary,
            cells=_without(summary.cells, row, keys),
            estimates=_without(summary.estimates, row, keys),
            comparisons=_not_with(summary.comparisons, row, keys),
            tails=_not_with(summary.tails, row, keys),
            layers=_not_with(summary.layers, row, keys),
        )
    return summary


def _without(frame: pl.DataFrame, cell: Mapping[str, Any], keys: Sequence[str]) -> pl.DataFrame:
    """The rows of a frame that are not of this cell."""
    of_cell = [pl.col(key).eq_missing(pl.lit(cell[key], pl.String)) for key in keys if key in frame.columns]
    return frame.filter((pl.col("experiment") != cell["experiment"]) | ~pl.all_horizontal(of_cell))


def _not_with(rows: Sequence[ComparisonRow], cell: Mapping[str, Any], keys: Sequence[str]) -> tuple[ComparisonRow, ...]:
    """The comparisons that have this cell on neither side."""

    def is_of_cell(row: ComparisonRow, **other: str) -> bool:
        labels = {**row.labels, **other}
        return all(labels.get(key) == cell[key] for key in keys)

    return tuple(
        row
        for row in rows
        if row.experiment != cell["experiment"]
        or not (is_of_cell(row) or is_of_cell(row, **{row.factor: row.baseline}))
    )
