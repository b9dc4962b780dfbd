"""What a run that its time limit ended has completed, and figures of lateness that stay defined for it.

A sleep that is 60 ms late takes the time of 60 others: a run of fixed length holds few of the late ones and of the
punctual ones whatever was left. A median over what was completed then describes the survivors. So the share that was
completed is a figure of its own, and beside the median stand the share of the time that was spent late and the share of
the readings above common thresholds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from scipy import special

from vtare import stats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.instruments import Instrument
    from vtare.stats import Tally

#: Columns of a run: the share of its readings above each of these thresholds, in ns.
THRESHOLDS_NS: Final = {
    "above_1us": 1e3, "above_10us": 1e4, "above_100us": 1e5, "above_1ms": 1e6, "above_10ms": 1e7, "above_100ms": 1e8,
}  # fmt: skip
COLUMNS: Final[dict[str, Any]] = {
    "asked": pl.Int64,
    **dict.fromkeys(("completed_fraction", "late_fraction", *THRESHOLDS_NS), pl.Float64),
}
#: Columns of a cell: sums over its runs, the interval of `late_fraction` over runs, and how many runs were capped.
CELL_COLUMNS: Final[dict[str, Any]] = {
    **dict.fromkeys(("asked", "completed", "capped_runs"), pl.Int64),
    **dict.fromkeys(
        ("completed_fraction", "late_fraction", "late_fraction_low", "late_fraction_high", *THRESHOLDS_NS), pl.Float64
    ),
}
#: Below this share of what was asked for, a median describes the survivors.
LEAST_COMPLETED: Final = 0.9
_LEAST_RUNS: Final = 3


def figures(
    record: Instrument, group: pl.DataFrame, counted: Tally, parameters: Mapping[str, Any], target_ns: float | None
) -> dict[str, Any]:
    """Return the columns of one part of a run.

    `group` holds all its rows, the warm-up too; `counted` its readings without it; `parameters` are those of the
    footer, with defaults filled in; `target_ns` is the length of the sleeps. `asked` is the number of readings that the
    parameters allow: `samples`, but not more sleeps than the time limit holds when none is late. `late_fraction` is the
    time spent after the targets over the time of all sleeps. Null where the instrument has no such figure.
    """
    found: dict[str, Any] = dict.fromkeys(COLUMNS)
    if not record.timed:
        return found
    found.update(exceedances(counted))
    if record.until is None or parameters.get("samples") is None:
        return found
    done = group.drop_nulls("value")
    asked = int(parameters["samples"])
    seconds = parameters.get("seconds")
    if seconds is not None and target_ns:
        asked = max(1, min(asked, int(float(seconds) * 1e9 / target_ns)))
    found["asked"] = asked
    found["completed_fraction"] = min(1.0, done.height / asked)
    if done.height:
        late = float(done["value"].clip(lower_bound=0).sum())
        whole = float((done["value"] + done[record.until]).sum())
        found["late_fraction"] = late / whole if whole > 0 else None
    return found


def exceedances(counted: Tally) -> dict[str, float | None]:
    """Return the share of readings above each threshold (P(X > x), strict); null where there is no reading."""
    total = int(counted.counts.sum())
    if not total:
        return dict.fromkeys(THRESHOLDS_NS)
    return {
        name: float(counted.counts[counted.values > threshold].sum()) / total
        for name, threshold in THRESHOLDS_NS.items()
    }


def mean_over_runs(values: Sequence[float], *, level: float = 0.95) -> tuple[float, float | None, float | None] | None:
    """Return the mean of a share over runs and its interval by Student's t, kept within 0 to 1; None without a run.

    The interval is None below 3 runs and where all runs have the same share.

    >>> mean, low, high = mean_over_runs([0.1, 0.2, 0.3])
    >>> round(mean, 3), round(low, 3), round(high, 3)
    (0.2, 0.0, 0.448)
    """
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    if len(values) < _LEAST_RUNS or max(values) == min(values):
        return mean, None, None
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = float(special.stdtrit(len(values) - 1, 0.5 + level / 2)) * spread / math.sqrt(len(values))
    return mean, max(0.0, mean - half), min(1.0, mean + half)


def is_capped(figures_of_run: Mapping[str, Any]) -> bool:
    """Whether the time limit ended a run before 90 % of what was asked for."""
    share = figures_of_run.get("completed_fraction")
    return share is not None and share < LEAST_COMPLETED


def cell_row(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns of a cell from those of its runs; null where no run has the figure.

    >>> row = cell_row([{"asked": 300, "completed_fraction": 0.05}, {"asked": 300, "completed_fraction": 1.0}])
    >>> row["asked"], row["completed"], row["completed_fraction"], row["capped_runs"]
    (600, 315, 0.525, 1)
    """
    row: dict[str, Any] = dict.fromkeys(CELL_COLUMNS)
    for name in ("late_fraction", *THRESHOLDS_NS):
        row[name] = stats.median([run[name] for run in runs if run.get(name) is not None]).value
    late = stats.median_interval([run["late_fraction"] for run in runs if run.get("late_fraction") is not None])
    row.update(late_fraction_low=late.low, late_fraction_high=late.high)
    known = [run for run in runs if run.get("asked") is not None]
    if known:
        asked = sum(run["asked"] for run in known)
        completed = sum(round(run["asked"] * run["completed_fraction"]) for run in known)
        row.update(
            asked=asked,
            completed=completed,
            completed_fraction=completed / asked,
            capped_runs=sum(map(is_capped, known)),
        )
    return row


__all__ = [
    "CELL_COLUMNS",
    "COLUMNS",
    "LEAST_COMPLETED",
    "THRESHOLDS_NS",
    "cell_row",
    "exceedances",
    "figures",
    "is_capped",
    "mean_over_runs",
]
