"""Distributions of stores larger than memory: readings counted by value, slice by slice of runs.

All runs of a cell are counted together, a slice of runs at a time, and the slices are added up. What is in memory is
one row per distinct value, so 10^9 readings take no more room than 10^6; exact quantiles and the exact CCDF follow from
the counts. A slice of 10^7 readings that are all different takes 0.8 GB; a run that is longer
than a slice is counted whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from vtare import stats
from vtare.errors import BadInput
from vtare.instruments import instrument as record_of
from vtare.samples import part_label

if TYPE_CHECKING:
    from vtare.samples import RunFile, SampleSet
    from vtare.stats import Tally

#: Readings in a slice: a second of work.
SLICE_ROWS: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Slice:
    """Some runs of one cell: their instrument and the paths of their samples files."""

    instrument: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Distribution:
    """All readings of one cell, warm-up included. `labels` holds its keys as a person writes them."""

    labels: dict[str, Any]
    tally: Tally


def slices_of(files: Sequence[RunFile], *, rows: int = SLICE_ROWS) -> list[Slice]:
    """Cut the runs of one cell into slices of about `rows` readings, at least one run each."""
    slices: list[Slice] = []
    held: list[str] = []
    size = 0
    for file in files:
        length = _rows(file)
        if held and size + length > rows:
            slices.append(Slice(file.run.instrument, tuple(held)))
            held, size = [], 0
        held.append(str(file.path))
        size += length
    if held:
        slices.append(Slice(files[0].run.instrument, tuple(held)))
    return slices


def _rows(file: RunFile) -> int:
    return int(pl.scan_parquet(file.path).select(pl.len()).collect().item())


def count_slice(piece: Slice) -> dict[tuple[Any, ...], Tally]:
    """Count the readings of some runs of a cell by value, for each part of the runs. Missing readings are left out.

    Raises:
        BadInput: a file cannot be read; damaged ones are left out before.
    """
    record = record_of(piece.instrument)
    column, names, weight = record.value.column, record.parts, record.value.weight
    needed = [*names, column, *([] if weight is None else [weight])]
    rows = pl.concat([pl.scan_parquet(path).select(needed) for path in piece.paths], how="vertical_relaxed")
    times = pl.len() if weight is None else pl.col(weight).sum()
    try:
        constant = _constant_parts(rows, names)
        split = [name for name in names if name not in constant]
        counted = (
            rows.filter(pl.col(column).is_not_null())
            .group_by(*split, pl.col(column).alias("value"))
            .agg(times.cast(pl.Int64).alias("times"))
            .sort(*split, "value")
            .collect(engine="streaming")
        )
    except (OSError, pl.exceptions.PolarsError) as error:
        # Damaged files were left out before: this one changed since.
        raise BadInput(
            f"the samples of {len(piece.paths)} runs cannot be counted ({error}); was the store changed while it was "
            "read? try again"
        ) from error
    values = counted["value"].to_numpy().astype(np.float64) / record.value.divisor
    counts = counted["times"].to_numpy()
    tallies: dict[tuple[Any, ...], Tally] = {}
    for key, where in _segments([counted[name].to_numpy() for name in split]):
        named = dict(zip(split, key, strict=True))
        tallies[tuple(constant.get(name, named.get(name)) for name in names)] = stats.Tally(
            values[where], counts[where]
        )
    return {key: tally for key, tally in tallies.items() if len(tally)}


def _constant_parts(rows: pl.LazyFrame, names: Sequence[str]) -> dict[str, Any]:
    """The parts that are alike in all rows: grouping by them would make the counting several times slower."""
    if not names:
        return {}
    ends = rows.select(
        *(pl.col(name).min().name.suffix(" least") for name in names),
        *(pl.col(name).max().name.suffix(" most") for name in names),
        *(pl.col(name).null_count().name.suffix(" null") for name in names),
    ).collect(engine="streaming").row(0, named=True)  # fmt: skip
    return {
        name: ends[f"{name} least"]
        for name in names
        if ends[f"{name} least"] is not None
        and ends[f"{name} least"] == ends[f"{name} most"]
        and not ends[f"{name} null"]
    }


def _segments(columns: list[np.ndarray]) -> Iterator[tuple[tuple[Any, ...], slice]]:
    """The stretches of rows, in order, over which these columns do not change."""
    if not columns:
        yield (), slice(None)
        return
    changes = np.zeros(max(0, len(columns[0]) - 1), dtype=bool)
    for column in columns:
        changes |= column[1:] != column[:-1]
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(columns[0])]
    for begin, end in pairwise(edges):
        if end > begin:
            yield tuple(column[begin].item() if hasattr(column[begin], "item") else column[begin]
                        for column in columns), slice(begin, end)  # fmt: skip


def distributions(samples: SampleSet, experiment: str, *, rows: int = SLICE_ROWS) -> Iterator[Distribution]:
    """Count all readings of an experiment, cell by cell; one cell is in memory at a time.

    Cells come in the order in which their first runs were made. Control runs are left out.

    Raises:
        BadInput: a file cannot be read; damaged ones are left out before.
    """
    by_cell: dict[tuple[tuple[str, str], ...], list[RunFile]] = defaultdict(list)
    for file in samples.files:
        if file.run.experiment == experiment and file.run.control is None:
            by_cell[tuple(file.run.factors.items())].append(file)
    for factors, files in by_cell.items():
        instrument = files[0].run.instrument
        if record_of(instrument).value.gaps_within:
            yield from _by_run(samples, experiment, files)
            continue
        adders: dict[tuple[Any, ...], stats.Adder] = defaultdict(stats.Adder)
        for tallies in map(count_slice, slices_of(files, rows=rows)):
            for key, tally in tallies.items():
                adders[key].add(tally)
        for key, adder in adders.items():
            named = dict(zip(record_of(instrument).parts, key, strict=True))
            parts = {name: part_label(samples.plan.experiment(experiment), name, value)
                     for name, value in named.items() if name not in dict(factors)}  # fmt: skip
            yield Distribution({**dict(factors), **parts}, adder.total())


def _by_run(samples: SampleSet, experiment: str, files: Iterable[RunFile]) -> Iterator[Distribution]:
    """The same for instruments whose value is no column: gaps between packets, for example."""
    keys = samples.keys(experiment)
    adders: dict[tuple[str, ...], stats.Adder] = defaultdict(stats.Adder)
    for file in files:
        frame = samples.scan(experiment, run_id=file.run.run_id).filter(pl.col("value").is_not_null()).collect()
        for key, part in frame.group_by(keys, maintain_order=True):
            adders[tuple(map(str, key))].add(stats.tally(part["value"].to_numpy(), weights=part["weight"].to_numpy()))
    for key, adder in adders.items():
        yield Distribution(dict(zip(keys, key, strict=True)), adder.total())
