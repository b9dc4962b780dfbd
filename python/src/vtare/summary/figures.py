"""The figures of one run, one row per part of it: what `summary.parquet` holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from vtare import stats
from vtare.contract import load_contract
from vtare.instruments import RECORDS
from vtare.instruments import instrument as record_of
from vtare.instruments.model import Instrument, PartRows
from vtare.plan.factors import symbol_of_key
from vtare.plan.level import Level
from vtare.samples import FAR_END_PART, OWN_FAR_END
from vtare.summary import completion, shift
from vtare.summary.rows import BOUNDS, BOUNDS_TYPE, apart, columns_of, values_of

if TYPE_CHECKING:
    from vtare.samples import RunFile, SampleSet
    from vtare.stats import Tally
    from vtare.stats._arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Usual:
    """The figures of every part, of `n` readings after the warm-up; None where they are too few for one."""

    n: int
    median: float | None
    half_iqr: float | None
    mad_raw: float | None
    min: float | None
    max: float | None
    mean: float | None
    p99: float | None
    p999: float | None


@dataclass(frozen=True, slots=True)
class Exceeding:
    """Readings above the threshold, per second of the series and as a share; None where there is no threshold."""

    threshold_ns: float | None = None
    exceed_per_s: float | None = None
    exceed_fraction: float | None = None


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Readings cut from the start, and whether the run settled; None where readings are no series in time."""

    warmup_n: int | None = None
    settled: bool | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """How readings follow each other; None where they are no series in time."""

    lag1: float | None = None
    n_eff: float | None = None


#: The instruments' own figures; their quantity is what `median` and its like are of.
_OWN: Final[dict[str, Any]] = {
    metric.name: pl.Int64 if metric.over_runs == "sum" else pl.Float64
    for record in RECORDS
    for metric in record.metrics
    if metric.name != record.quantity
}

#: Figures that a spread of readings has; 0 is below the clock's step.
SPREADS: Final = ("half_iqr", "mad_raw")

#: Figures of every part, in the order of the frame, with their types.
FIGURE_COLUMNS: Final[dict[str, Any]] = {
    "quantity": pl.String,
    **columns_of(Usual),
    **columns_of(Exceeding),
    "elapsed_s": pl.Float64,
    "interrupted": pl.Boolean,
    **columns_of(WarmUp),
    **columns_of(Memory),
    **columns_of(completion.Completion),
    **shift.COLUMNS,
    **_OWN,
    BOUNDS: BOUNDS_TYPE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What a box plot shows of the readings of one part of a run; `p99` is None where it cannot be estimated."""

    n: int
    min: float
    q1: float | None
    median: float | None
    q3: float | None
    max: float
    p99: float | None


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a run: its labels (`{"target_ns": "1 ms"}`), its figures, and its readings for resampling.

    `levels` are what the labels stand for.

    `weights` is None where each row is one reading in order of time. `tally` counts the readings by value; `box` is
    what a box plot shows of all of them, the warm-up too.
    """

    labels: Mapping[str, str]
    levels: Mapping[str, Level]
    figures: Mapping[str, Any]
    values: FloatArray
    weights: np.ndarray | None
    tally: Tally
    box: Box | None


def run_parts(samples: SampleSet, file: RunFile, *, exceed_ns: float | None) -> Iterator[Part]:
    """Read one run and yield its parts.

    Raises:
        OSError, polars.exceptions.PolarsError: the file is damaged behind its footer.
        BadInput: a capture beside it cannot be used.
    """
    record = record_of(file.run.instrument)
    frame = samples.read(file)
    names = record.parts
    parameters = load_contract().instruments[record.name]
    cells: dict[tuple[Any, ...], Mapping[str, Any]] = {
        tuple(cell.get(name) for name in names): cell
        for cell in file.footer.get("result", {}).get("cells", [])
        # A cell of several parts (both directions of a path, all loads) is none of them.
        if all(name in cell for name in names)
    }
    groups = _groups(frame, names)
    empty = frame.clear()
    del frame
    # A part that measured and found nothing (no gap at all) has no rows, only its cell in the footer.
    for key in [*groups, *(key for key in cells if key not in groups)]:
        group = groups.get(key, empty)
        labels = {
            name: file.run.factors.get(name) or (parameters[name].label(v) if name in parameters else str(v))
            for name, v in zip(names, key, strict=True)
        }
        if FAR_END_PART in names and FAR_END_PART not in file.run.parameters:
            labels[FAR_END_PART] = OWN_FAR_END
        warm_up = _warm_up(group, record, file)
        settled = _without_first(group, warm_up.warmup_n) if warm_up.warmup_n else group
        kept = settled.drop_nulls("value")
        described = _of_readings(kept, record)
        # Beyond its own figures a bound counts nowhere: not as an outlier, not in a resample or a histogram.
        kept = kept.filter(~_is_bound(kept, record))
        values = kept["value"].to_numpy()
        weights = kept["weight"].to_numpy() if record.value.weight is not None else None
        counted = stats.tally(values, weights=weights)
        of_part = PartRows(settled, cells.get(key, {}), file.path, file.footer, group)
        figures = apart({
            "quantity": record.quantity,
            **values_of(warm_up),
            "elapsed_s": file.footer["elapsed_ns"] / 1e9,
            "interrupted": bool(file.footer.get("interrupted", False)),
            **described,
            **values_of(_memory(values, record)),
            **values_of(_exceeding(settled, file, record, exceed_ns, share=settled.height / max(1, group.height))),
            **values_of(
                completion.figures(
                    record,
                    group,
                    counted,
                    file.footer.get("run", {}).get("parameters", {}),
                    None if record.until is None else dict(zip(names, key, strict=True)).get(record.until),
                )
            ),
            **(record.figures(of_part) if record.figures else {}),
        })  # fmt: skip
        everything = counted if settled is group else stats.tally(group.drop_nulls("value")["value"].to_numpy())
        levels = {name: Level(labels[name], v, symbol_of_key(name)) for name, v in zip(names, key, strict=True)}
        yield Part(labels, levels, figures, values, weights, counted, box_of(everything))


def _groups(frame: pl.DataFrame, names: tuple[str, ...]) -> dict[tuple[Any, ...], pl.DataFrame]:
    """The rows of each part. The frame itself where there is one part only: a copy of a long run takes memory."""
    if frame.height and all(bool(frame[name].eq_missing(frame[name][0]).all()) for name in names):
        return {tuple(frame[name][0] for name in names): frame}
    return {tuple(key): group for key, group in frame.group_by(names, maintain_order=True)}


def box_of(counted: Tally) -> Box | None:
    """What a box plot shows of one run; None where it has no reading."""
    if not len(counted):
        return None
    ordered = counted.ordered
    return Box(
        n=ordered.n,
        min=float(counted.values[0]),
        q1=ordered.quantile(0.25),
        median=ordered.quantile(0.5),
        q3=ordered.quantile(0.75),
        max=float(counted.values[-1]),
        p99=stats.quantile(ordered, 0.99).value,
    )


def _warm_up(group: pl.DataFrame, record: Instrument, file: RunFile) -> WarmUp:
    """How many readings to cut from the start and whether the run settled.

    A histogram has lost its order, gaps are not a series, and the counter mixes its arguments on purpose.
    """
    if not record.in_order:
        return WarmUp()
    values = group.drop_nulls("value")["value"].to_numpy()
    if len(values) < stats.LONG_SERIES:
        return WarmUp()
    warm_up = stats.settle(values, quantum=file.footer.get("clock", {}).get("quantum_ns") or 0.0)
    return WarmUp(warm_up.cut, warm_up.settled)


def _without_first(group: pl.DataFrame, readings: int) -> pl.DataFrame:
    """The rows from the reading of this number on; rows without a value before it go with the warm-up."""
    known = group["value"].is_not_null().cum_sum()
    return group.filter(known > readings)


def _is_bound(kept: pl.DataFrame, record: Instrument) -> pl.Series:
    """Which readings are lower bounds."""
    column = record.value.at_least
    if column is None:
        return pl.Series([False] * kept.height, dtype=pl.Boolean)
    marks = kept[column]
    return marks.fill_null(value=False) if marks.dtype == pl.Boolean else marks.is_not_null()


def _of_readings(kept: pl.DataFrame, record: Instrument) -> dict[str, Any]:
    """The usual figures and the quantiles: what raising the bounds would change is a bound, a spread then unknown."""

    def described(values: FloatArray) -> dict[str, Any]:
        counted = stats.tally(values, weights=weights)
        return {**values_of(_usual(values, weights, counted)), **shift.figures(counted)}

    values = kept["value"].to_numpy()
    weights = kept["weight"].to_numpy() if record.value.weight is not None else None
    exact = described(values)
    is_bound = _is_bound(kept, record).to_numpy()
    if not is_bound.any():
        return exact
    raised = described(np.where(is_bound, 2.0 * np.abs(values).max() + 1.0, values))
    return {
        name: value if value == raised[name] else None if name in SPREADS else stats.Known(value, "at least")
        for name, value in exact.items()
    }


def _usual(values: FloatArray, weights: np.ndarray | None, counted: Tally) -> Usual:
    ordered = counted.ordered
    n = ordered.n
    total = float(values.sum() if weights is None else np.dot(values, weights))
    return Usual(
        n=n,
        median=stats.median(ordered).value,
        half_iqr=stats.half_iqr(ordered).value,
        mad_raw=stats.mad_raw(ordered).value,
        min=float(values.min()) if n else None,
        max=float(values.max()) if n else None,
        mean=total / n if n else None,
        p99=stats.quantile(ordered, 0.99).value,
        p999=stats.quantile(ordered, 0.999).value,
    )


def _exceeding(
    settled: pl.DataFrame, file: RunFile, record: Instrument, exceed_ns: float | None, *, share: float
) -> Exceeding:
    """Readings above the threshold, per second of the series itself (what was slept or read, not set-up).

    `share` is that of the run which the settled rows are.
    """
    exceed = record.exceed
    threshold = exceed_ns
    if threshold is None and exceed is not None:
        resolved = file.footer.get("run", {}).get("parameters", {})
        stated = resolved.get(exceed.parameter, exceed.default_ns)
        threshold = None if stated is None else float(stated)
    if threshold is None or exceed is None:
        return Exceeding()
    kept = settled.drop_nulls("value")
    length_ns = float((kept["value"] * kept["weight"]).sum())
    if record.until is not None:
        length_ns += float(kept[record.until].sum())
    if exceed.overlapping:
        # Packets overlap in time: the series lasts as long as its schedule, not as the sum of its round trips.
        length_ns = share * float(file.footer["elapsed_ns"])
    above = int(kept.filter(pl.col("value") > threshold)["weight"].sum())
    n = int(kept["weight"].sum())
    return Exceeding(
        threshold_ns=threshold,
        exceed_per_s=above / (length_ns / 1e9) if length_ns > 0 else None,
        exceed_fraction=above / n if n else None,
    )


def _memory(values: FloatArray, record: Instrument) -> Memory:
    if not record.in_order:
        return Memory()
    memory = stats.autocorrelation(values)
    return Memory(memory.lag1, memory.n_eff)
