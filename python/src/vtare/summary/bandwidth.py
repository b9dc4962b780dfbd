"""The figures of a run that estimates available bandwidth: estimates beside the truth of their windows, and costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from vtare import stats
from vtare.instruments import instrument as record_of
from vtare.sentences import caveats as wording
from vtare.summary.model import Note
from vtare.topology.truth import JUDGED, Truth, document, judge, read_truth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vtare.instruments.model import PartRows
    from vtare.samples import RunFile, SampleSet

_LEAST_PIECE_NS: Final = 5_000_000
#: Columns of the estimates frame beside the keys.
ESTIMATE_COLUMNS: Final[dict[str, Any]] = {
    "block": pl.Int64,
    "estimate": pl.Int64,
    "elapsed_ns": pl.Int64,
    "avb_bit_per_s": pl.Int64,
    "low_bit_per_s": pl.Int64,
    "high_bit_per_s": pl.Int64,
    "occupied_bit_per_s": pl.Int64,
    "probe_byte": pl.Int64,
    "extra_byte": pl.Int64,
    "trains": pl.Int64,
    "at_least": pl.Boolean,
    "stopped": pl.String,
    **JUDGED,
}


def judged(group: pl.DataFrame, truth: Truth | None) -> pl.DataFrame:
    """A run's estimates with the truth beside each. A lower bound has no error: it does not state a value."""
    estimates = judge(group, truth)
    error = pl.when(pl.col("at_least").fill_null(value=False)).then(None).otherwise(pl.col("error_percent"))
    return estimates.with_columns(error.alias("error_percent"))


def figures(part: PartRows) -> dict[str, Any]:
    """The figures of one run. Bounds (`at_least`) count as answers, and have no error.

    Raises:
        BadInput: what the path's helpers left cannot be used.
    """
    samples = part.path
    truth = read_truth(samples.parent, part.footer)
    estimates = judged(part.rows, truth)
    errors = estimates["error_percent"].drop_nulls().to_numpy()
    ordered = stats.in_order(errors, None)
    known = estimates.filter(pl.col("covered").is_not_null())
    answered = estimates.filter(pl.col("avb_bit_per_s").is_not_null())
    has_path = (samples.parent / "surroundings.json").exists()
    return {
        "truth_bit_per_s": _median(estimates["truth_bit_per_s"]),
        "true_capacity_bit_per_s": _median(estimates["true_capacity_bit_per_s"]),
        "error_percent": stats.median(ordered).value,
        "error_half_iqr_percent": stats.half_iqr(ordered).value,
        "absolute_error_percent": _median(estimates["error_percent"].abs()),
        "estimate_byte": _median(estimates["probe_byte"] + estimates["extra_byte"]),
        "estimate_ns": _median(estimates["elapsed_ns"]),
        "occupied_bit_per_s": _median(estimates["occupied_bit_per_s"]),
        "occupied_share": _median(occupied_shares(estimates)),
        "cross_bit_per_s": None if truth is None else truth.cross_bit_per_s,
        "cross_share": None if truth is None else truth.cross_share,
        "others_cores": (document(samples.parent, "surroundings") or {}).get("others_cores"),
        "estimates": estimates.height,
        "unanswered": estimates.height - answered.height,
        "at_least": int(answered["at_least"].sum()),
        "truth_unknown": int(estimates["truth_bit_per_s"].null_count()) if has_path else None,
        "disturbed_estimates": estimates.height - int(estimates["disturbed"].null_count()) if has_path else None,
        "intervals": known.height if has_path else None,
        "intervals_covering": int(known["covered"].sum()) if has_path else None,
        "open_intervals": int((estimates["width_percent"].is_not_null() & estimates["covered"].is_null()).sum())
        if has_path
        else None,
        "interval_width_percent": _median(known["width_percent"]),
    }


def occupied_shares(found: pl.DataFrame) -> pl.Series:
    """The share of the capacity that each estimate's probes occupied.

    Without those in whose window the link passed nothing, as where its machine was stalled: there is no share of it.
    """
    passed = found.filter(pl.col("true_capacity_bit_per_s") > 0)
    return passed["occupied_bit_per_s"] / passed["true_capacity_bit_per_s"]


def _median(values: pl.Series) -> float | None:
    return stats.median(values.drop_nulls().cast(pl.Float64).to_numpy()).value


def estimates_frame(samples: SampleSet, key_names: Sequence[str]) -> pl.DataFrame:
    """Every estimate of every run: `run_id`, `experiment`, keys, and the columns of ESTIMATE_COLUMNS.

    Raises:
        BadInput: what the path's helpers of a run left cannot be used; such runs are left out before.
    """
    schema = {**dict.fromkeys(("run_id", "experiment", *key_names), pl.String), **ESTIMATE_COLUMNS}
    parts = []
    for file in samples.files:
        if record_of(file.run.instrument).estimates and file.run.control is None:
            estimates = judged(samples.read(file), read_truth(file.path.parent, file.footer))
            labels = {**dict.fromkeys(key_names), "method": None, **_labels(file)}
            own = [pl.lit(label, pl.String).alias(key) for key, label in labels.items() if label or key != "method"]
            block = pl.lit(file.run.block, pl.Int64).alias("block")
            parts.append(
                estimates.with_columns(*own, block).select(pl.col(name).cast(kind) for name, kind in schema.items())
            )
    return pl.concat(parts) if parts else pl.DataFrame(schema=schema)


def _labels(file: RunFile) -> dict[str, str]:
    return {"run_id": file.run.run_id, "experiment": file.run.experiment, **file.run.factors}


def reasons(estimates: pl.DataFrame, column: str) -> str:
    """How often each reason stands in a column, the most frequent first: `no_answer 3, lossy 1`."""
    counts: Counter[str] = Counter()
    for words in estimates[column].drop_nulls():
        counts.update(str(words).split("; "))
    return ", ".join(f"{word.replace('_', ' ')} {count}" for word, count in counts.most_common())


def notes(estimates: pl.DataFrame) -> list[Note]:
    """What the reader must know: estimates without answer, without truth, and in windows that were disturbed."""
    remarks: list[Note] = []
    total = estimates.height

    def note(key: str, some: pl.DataFrame, text: str) -> None:
        remarks.append(Note(key, text, some["run_id"].n_unique()))

    silent = estimates.filter(pl.col("avb_bit_per_s").is_null())
    if silent.height:
        note("no_answer", silent, wording.no_estimate(silent.height, total, reasons(silent, "stopped")))
    bounds = estimates.filter(pl.col("at_least") & pl.col("avb_bit_per_s").is_not_null())
    if bounds.height:
        note("at_least", bounds, wording.bounds_only(bounds.height, total))
    void = estimates.filter(pl.col("no_truth").is_not_null())
    if void.height:
        note("truth_unknown", void, wording.truth_unknown(void.height, total, reasons(void, "no_truth")))
    # An emulator has a log of its own.
    uncounted = estimates.filter((~pl.col("counted")) & pl.col("truth_bit_per_s").is_not_null())
    if "bottleneck" in uncounted.columns:
        uncounted = uncounted.filter(pl.col("bottleneck").ne_missing("link"))
    if uncounted.height:
        note("not_counted", uncounted, wording.not_counted(uncounted.height, total))
    related = estimates.filter(pl.col("clock_bound_ns").is_not_null())
    if related.height:
        bound_us = float(related["clock_bound_ns"].max()) / 1e3  # type: ignore[arg-type]
        note("clocks_related", related, wording.clocks_related(related.height, total, bound_us))
    marked = estimates.filter(pl.col("disturbed").is_not_null())
    if marked.height:
        text = wording.disturbed_estimates(marked.height, total, reasons(marked, "disturbed"))
        note("disturbed", marked, text)
    return remarks


@dataclass(frozen=True, slots=True)
class TruthLine:
    """The truth over a run: the mean available bandwidth, bit/s, between two times, NaN where it is not known."""

    edges_ns: NDArray[np.float64]
    bit_per_s: NDArray[np.float64]


def truth_line(file: RunFile, begin_ns: int, end_ns: int, *, pieces: int = 120) -> TruthLine | None:
    """The truth of a run in pieces between two times; None where its path was not the lab's.

    Raises:
        BadInput: what the path's helpers left cannot be used.
    """
    truth = read_truth(file.path.parent, file.footer)
    if truth is None or end_ns <= begin_ns:
        return None
    # A piece shorter than a few packets of cross traffic would show packets, not rates.
    edges = np.linspace(begin_ns, end_ns, 1 + max(1, min(pieces, (end_ns - begin_ns) // _LEAST_PIECE_NS)))
    means = [truth.over(int(a), int(b))[0] for a, b in pairwise(edges)]
    return TruthLine(edges, np.array([np.nan if mean is None else mean for mean in means]))
