"""The figures of one run, one row per part of it: what `summary.parquet` holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from vtare import stats
from vtare.contract import QUANTITIES, load_contract
from vtare.samples import OWN_FAR_END
from vtare.summary import bandwidth, completion, round_trips, shift, throughput

if TYPE_CHECKING:
    from vtare.samples import RunFile, SampleSet
    from vtare.stats import Tally
    from vtare.stats._arrays import FloatArray

_DEFAULT_SLEEP_EXCEED_NS: Final = 1e6
_DEFAULT_TAIL_NS: Final = 1000
#: Instruments whose rows are readings one after another.
_SERIES: Final = ("sleep", "rtt")

#: Figures of every part, in the order of the frame, with their types.
FIGURE_COLUMNS: Final[dict[str, Any]] = {
    "quantity": pl.String,
    "n": pl.Int64,
    **dict.fromkeys(
        (
            "median", "half_iqr", "mad_raw", "min", "max", "mean", "p99", "p999", "threshold_ns", "exceed_per_s",
            "exceed_fraction", "elapsed_s",
        ),
        pl.Float64,
    ),
    "interrupted": pl.Boolean,
    "warmup_n": pl.Int64,
    "settled": pl.Boolean,
    **dict.fromkeys(("lag1", "n_eff"), pl.Float64),
    **dict.fromkeys(
        (
            "read_cost_ns", "cpu_fraction", "disturbed_fraction", "spin_ns_mean",
            "cv", "cv_within", "cv_between", "cv_thread_cpu", "step_ns",
            "lost_fraction", "gaps_per_s",
        ),
        pl.Float64,
    ),
    **completion.COLUMNS,
    **shift.COLUMNS,
    **round_trips.COLUMNS,
    **bandwidth.COLUMNS,
    **throughput.COLUMNS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a run: its labels (`{"source": "vtare"}`), its figures, and its readings for resampling.

    `weights` is None where each row is one reading in order of time. `tally` counts the readings by value; `box` is
    what a box plot shows of all of them, the warm-up too.
    """

    labels: Mapping[str, str]
    figures: Mapping[str, Any]
    values: FloatArray
    weights: np.ndarray | None
    tally: Tally
    box: Mapping[str, Any] | None


def run_parts(samples: SampleSet, file: RunFile, *, exceed_ns: float | None) -> Iterator[Part]:
    """Read one run and yield its parts.

    Raises:
        OSError, polars.exceptions.PolarsError: the file is damaged behind its footer.
        BadInput: a capture beside it cannot be used.
    """
    instrument = file.run.instrument
    frame = samples.read(file)
    quantity, names = QUANTITIES[instrument]
    parameters = load_contract().instruments[instrument]
    cells: dict[tuple[Any, ...], Mapping[str, Any]] = {
        tuple(cell.get(name) for name in names): cell for cell in file.footer.get("result", {}).get("cells", [])
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
        if instrument == "rtt" and "peer" not in file.run.parameters:
            labels["peer"] = OWN_FAR_END
        warm_up = _warm_up(group, instrument, file)
        settled = group if not warm_up.get("warmup_n") else _without_first(group, warm_up["warmup_n"])
        kept = settled.drop_nulls("value")
        values = kept["value"].to_numpy()
        weights = kept["weight"].to_numpy() if instrument == "timer" else None
        counted = stats.tally(values, weights=weights)
        figures = {
            "quantity": quantity,
            **warm_up,
            "elapsed_s": file.footer["elapsed_ns"] / 1e9,
            "interrupted": bool(file.footer.get("interrupted", False)),
            **_common(values, weights, counted),
            **_memory(values, instrument),
            **_exceed(group, file, exceed_ns),
            **_special(group, instrument, cells.get(key, {})),
            **shift.figures(counted),
            **completion.figures(
                instrument,
                group,
                counted,
                file.footer.get("run", {}).get("parameters", {}),
                dict(zip(names, key, strict=True)).get("target_ns"),
            ),
            **(round_trips.figures(group, cells.get(key, {}), file.path) if instrument == "rtt" else {}),
            **(bandwidth.figures(group, file.path, file.footer) if instrument == "avb" else {}),
            **(throughput.figures(cells.get(key, {})) if instrument == "throughput" else {}),
        }
        everything = counted if settled is group else stats.tally(group.drop_nulls("value")["value"].to_numpy())
        yield Part(labels, figures, values, weights, counted, box_of(everything))


def _groups(frame: pl.DataFrame, names: tuple[str, ...]) -> dict[tuple[Any, ...], pl.DataFrame]:
    """The rows of each part. The frame itself where there is one part only: a copy of a long run is dear."""
    if frame.height and all(bool(frame[name].eq_missing(frame[name][0]).all()) for name in names):
        return {tuple(frame[name][0] for name in names): frame}
    return {tuple(key): group for key, group in frame.group_by(names, maintain_order=True)}


def box_of(counted: Tally) -> dict[str, Any] | None:
    """What a box plot shows of one run; p99 is None where it cannot be estimated."""
    if not len(counted):
        return None
    ordered = counted.ordered
    return {
        "n": ordered.n,
        "min": float(counted.values[0]),
        **{name: ordered.quantile(q) for name, q in (("q1", 0.25), ("median", 0.5), ("q3", 0.75))},
        "max": float(counted.values[-1]),
        "p99": stats.quantile(ordered, 0.99).value,
    }


def _warm_up(group: pl.DataFrame, instrument: str, file: RunFile) -> dict[str, Any]:
    """How many readings to cut from the start and whether the run settled; null where readings are no series in time.

    A histogram has lost its order, gaps are not a series, and the counter mixes its arguments on purpose.
    """
    if instrument not in _SERIES:
        return {"warmup_n": None, "settled": None}
    values = group.drop_nulls("value")["value"].to_numpy()
    if len(values) < stats.LONG_SERIES:
        return {"warmup_n": None, "settled": None}
    found = stats.settle(values, quantum=file.footer.get("clock", {}).get("quantum_ns") or 0.0)
    return {"warmup_n": found.cut, "settled": found.settled}


def _without_first(group: pl.DataFrame, readings: int) -> pl.DataFrame:
    """The rows from the reading of this number on; rows without a value before it go with the warm-up."""
    known = group["value"].is_not_null().cum_sum()
    return group.filter(known > readings)


def _common(values: FloatArray, weights: np.ndarray | None, counted: Tally) -> dict[str, Any]:
    ordered = counted.ordered
    n = ordered.n
    total = float(values.sum() if weights is None else np.dot(values, weights))
    return {
        "n": n,
        "median": stats.median(ordered).value,
        "half_iqr": stats.half_iqr(ordered).value,
        "mad_raw": stats.mad_raw(ordered).value,
        "min": float(values.min()) if n else None,
        "max": float(values.max()) if n else None,
        "mean": total / n if n else None,
        "p99": stats.quantile(ordered, 0.99).value,
        "p999": stats.quantile(ordered, 0.999).value,
    }


def _exceed(group: pl.DataFrame, file: RunFile, exceed_ns: float | None) -> dict[str, Any]:
    """Readings above the threshold, per second of the series itself (what was slept or read, not set-up)."""
    instrument = file.run.instrument
    resolved = file.footer.get("run", {}).get("parameters", {})
    threshold: float | None = exceed_ns
    if threshold is None and instrument == "timer":
        threshold = float(resolved.get("tail_ns", _DEFAULT_TAIL_NS))
    if threshold is None and instrument == "sleep":
        threshold = _DEFAULT_SLEEP_EXCEED_NS
    if threshold is None or instrument == "noise":
        return {"threshold_ns": None, "exceed_per_s": None, "exceed_fraction": None}
    kept = group.drop_nulls("value")
    length_ns = float((kept["value"] * kept["weight"]).sum())
    if instrument == "sleep":
        length_ns += float(kept["target_ns"].sum())
    if instrument == "rtt":
        # Packets overlap in time: the series lasts as long as its schedule, not as the sum of its round trips.
        length_ns = float(file.footer["elapsed_ns"])
    above = int(kept.filter(pl.col("value") > threshold)["weight"].sum())
    n = int(kept["weight"].sum())
    return {
        "threshold_ns": threshold,
        "exceed_per_s": above / (length_ns / 1e9) if length_ns > 0 else None,
        "exceed_fraction": above / n if n else None,
    }


def _memory(values: FloatArray, instrument: str) -> dict[str, float | None]:
    """How readings follow each other; null where they are no series in time."""
    if instrument not in _SERIES:
        return {"lag1": None, "n_eff": None}
    found = stats.autocorrelation(values)
    return {"lag1": found.lag1, "n_eff": found.n_eff}


def _special(group: pl.DataFrame, instrument: str, cell: Mapping[str, Any]) -> dict[str, Any]:
    if instrument == "timer":
        return {"read_cost_ns": (cell.get("read_cost_ns") or {}).get("median")}
    if instrument == "sleep":
        disturbed = group["disturbed"].mean()
        return {
            "cpu_fraction": cell.get("cpu_fraction"),
            "spin_ns_mean": group["spin_ns"].mean(),
            "disturbed_fraction": disturbed,
        }
    if instrument == "counter":
        batches = group["batch"].to_list()
        wall = stats.coefficient_of_variation(group["wall_ns"].to_numpy(), groups=batches)
        cpu = stats.coefficient_of_variation(group["cpu_ns"].to_numpy())
        steps = cell.get("steps")
        return {
            "cv": wall.cv,
            "cv_within": wall.within,
            "cv_between": wall.between,
            "cv_thread_cpu": cpu.cv,
            # Each machine finds its own number of steps for a call of the same length: the time of one is its speed.
            "step_ns": float(np.median(group["wall_ns"].to_numpy())) / steps if steps and group.height else None,
        }
    if instrument == "noise":
        return {"lost_fraction": cell.get("lost_fraction"), "gaps_per_s": cell.get("gaps_per_s")}
    return {}
