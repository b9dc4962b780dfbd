"""The figures of a run through forwarding guests beside its answers: how even the load was, and latency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.quantities import unit_of, write
from vtare.stats import Known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.instruments.model import PartRows
    from vtare.samples import SampleSet

#: Columns of the frame of latencies beside run and keys.
LOAD_COLUMNS: Final[dict[str, Any]] = {
    "load_packet_per_s": pl.Float64,
    "load_share": pl.Float64,
    "jain": pl.Float64,
    "loss_ratio": pl.Float64,
    "latency_ns": pl.Float64,
    "latency_p99_ns": pl.Float64,
    "latency_total_ns": pl.Float64,
}


def figures(part: PartRows) -> dict[str, Any]:
    """The figures of one run's cell, as its footer has them; null where the cell is not there.

    `latency_shared_ns` is the median at the first load that all cells share, `latency_least_p99_ns` and
    `latency_most_p99_ns` are the p99 at the least and the greatest share of the throughput that was found.
    """
    cell = part.cell
    bursts: Mapping[str, Any] = cell.get("back_to_back") or {}
    recovery: Mapping[str, Any] = cell.get("recovery") or {}
    latency = cell.get("latency_ns") or {}
    latencies: Sequence[Mapping[str, Any]] = cell.get("latencies") or ()
    at: Mapping[str, Any] = next((one for one in latencies if one.get("load_share") == 1.0), {})
    shared = next((one for one in latencies if one.get("load_share") is None), None)
    shares = sorted((one for one in latencies if one.get("load_share") is not None), key=lambda one: one["load_share"])
    least, most = (shares[0], shares[-1]) if len(shares) > 1 else (None, None)
    lossless, most_packet = cell.get("zero_loss_packet_per_s"), cell.get("throughput_packet_per_s")
    return {
        "jain": cell.get("jain"),
        "jain_planned": cell.get("jain_planned"),
        "throughput_bit_per_s": _known(cell.get("throughput_bit_per_s"), cell.get("censored")),
        # Without any loss the same limit ended the search only where it came as far.
        "zero_loss_packet_per_s": _known(
            lossless, cell.get("censored") if (lossless or 0) >= (most_packet or 0) else None
        ),
        "latency_ns": latency.get("median"),
        "latency_p99_ns": latency.get("p99"),
        "latency_p999_ns": latency.get("p999"),
        "latency_total_ns": at.get("latency_total_ns"),
        "tagged_ns": (at.get("tagged_ns") or {}).get("mean"),
        "trial_s": cell.get("trial_s"),
        "latency_shared_ns": _latency(shared, "median"),
        "latency_least_p99_ns": _latency(least, "p99"),
        "latency_most_p99_ns": _latency(most, "p99"),
        "burst_frames": _known((bursts.get("frames") or {}).get("median"), bursts.get("censored")),
        "buffer_frames": _known(bursts.get("buffer_frames"), bursts.get("censored")),
        "buffer_ns": _known(bursts.get("buffer_ns"), bursts.get("censored")),
        "soak_loss_fraction": (cell.get("soak") or {}).get("loss_ratio"),
        "recovery_ns": _known((recovery.get("recovery_ns") or {}).get("median"), recovery.get("unrecovered") or None),
        "searches": cell.get("searches"),
        "unanswered_searches": cell.get("unanswered"),
        "censored_runs": None if not cell else int(cell.get("censored") is not None),
        "trials": cell.get("trials"),
        "void_trials": cell.get("void_trials"),
        "disturbed_trials": cell.get("disturbed_trials"),
    }


def _known(number: float | None, censored: object) -> Known | None:
    """A figure of a cell; `censored` is what kept it from being greater, None where it is exact."""
    return None if number is None else Known(float(number), "exact" if censored is None else "at least")


def _latency(one: Mapping[str, Any] | None, figure: str) -> float | None:
    latency: float | None = ((one or {}).get("latency_ns") or {}).get(figure)
    return latency


def loads_frame(samples: SampleSet, experiment: str, keys: Sequence[str]) -> pl.DataFrame:
    """Latency at every load of every run: `run_id`, keys, and the columns of LOAD_COLUMNS; one row a load and cell."""
    schema = {**dict.fromkeys(("run_id", *keys), pl.String), **LOAD_COLUMNS}
    rows = []
    for file in samples.files:
        if file.run.experiment != experiment or file.run.control is not None:
            continue
        for cell in file.footer.get("result", {}).get("cells", []):
            labels = {key: file.run.factors.get(key) or _label(key, cell.get(key)) for key in keys}
            for one in cell.get("latencies") or ():
                latency = one.get("latency_ns") or {}
                rows.append(
                    {
                        "run_id": file.run.run_id,
                        **labels,
                        **{name: one.get(name) for name in ("load_packet_per_s", "load_share", "jain", "loss_ratio")},
                        "latency_ns": latency.get("median"),
                        "latency_p99_ns": latency.get("p99"),
                        "latency_total_ns": one.get("latency_total_ns"),
                    }
                )
    return pl.DataFrame(rows, schema=schema)


def _label(key: str, value: Any) -> str | None:
    if value is None:
        return None
    unit = unit_of(key)
    return str(value) if unit is None else write(value, unit)
