"""What a run that its time limit ended has completed, and figures of lateness that stay defined for it.

A sleep that is 60 ms late takes the time of 60 others: a run of fixed length holds few of the late ones and of the
punctual ones whatever was left. A median over what was completed then describes the survivors. So the share that was
completed is a figure of its own, and beside the median stand the share of the time that was spent late and the share of
the readings above common thresholds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from scipy import special

from vtare import stats
from vtare.summary.rows import values_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from vtare.instruments.model import Instrument
    from vtare.stats import Tally

#: Fields of `Exceedances` and their thresholds, in ns.
THRESHOLDS_NS: Final = {
    "above_1us": 1e3, "above_10us": 1e4, "above_100us": 1e5, "above_1ms": 1e6, "above_10ms": 1e7, "above_100ms": 1e8,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceedances:
    """The shares of the readings above each of `THRESHOLDS_NS` (P(X > x), strict); None where there is no reading."""

    above_1us: float | None = None
    above_10us: float | None = None
    above_100us: float | None = None
    above_1ms: float | None = None
    above_10ms: float | None = None
    above_100ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(Exceedances):
    """What a run has completed: readings `asked` for, the share of them that there are, the share of its time late."""

    asked: int | None = None
    completed_fraction: float | None = None
    late_fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCompletion(Completion):
    """The same of a cell: sums over its runs, and the interval of `late_fraction` over them."""

    completed: int | None = None
    capped_runs: int | None = None
    late_fraction_low: float | None = None
    late_fraction_high: float | None = None


#: Below this share of what was asked for, a median describes the survivors.
LEAST_COMPLETED: Final = 0.9
_LEAST_RUNS: Final = 3


def figures(
    record: Instrument, group: pl.DataFrame, counted: Tally, parameters: Mapping[str, Any], target_ns: float | None
) -> Completion:
    """Return what one part of a run has completed.

    `group` holds all its rows, the warm-up too; `counted` its readings without it; `parameters` are those of the
    footer, with defaults filled in; `target_ns` is the length of the sleeps. `asked` is the number of readings that the
    parameters allow: `samples`, but not more sleeps than the time limit holds when none is late. `late_fraction` is the
    time spent after the targets over the time of all sleeps. None where the instrument has no such figure.
    """
    if not record.timed:
        return Completion()
    above = exceedances(counted)
    if record.until is None or parameters.get("samples") is None:
        return Completion(**values_of(above))
    done = group.drop_nulls("value")
    asked = int(parameters["samples"])
    seconds = parameters.get("seconds")
    if seconds is not None and target_ns:
        asked = max(1, min(asked, int(float(seconds) * 1e9 / target_ns)))
    late = float(done["value"].clip(lower_bound=0).sum())
    whole = float((done["value"] + done[record.until]).sum())
    return Completion(
        **values_of(above),
        asked=asked,
        completed_fraction=min(1.0, done.height / asked),
        late_fraction=late / whole if whole > 0 else None,
    )


def exceedances(counted: Tally) -> Exceedances:
    """Return the share of readings above each threshold."""
    total = int(counted.counts.sum())
    if not total:
        return Exceedances()
    return Exceedances(
        **{
            name: float(counted.counts[counted.values > threshold].sum()) / total
            for name, threshold in THRESHOLDS_NS.items()
        }
    )


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


def of_cell(runs: Sequence[Mapping[str, Any]]) -> CellCompletion:
    """Return what the runs of a cell have completed, from their figures; None where no run has the figure.

    >>> cell = of_cell([{"asked": 300, "completed_fraction": 0.05}, {"asked": 300, "completed_fraction": 1.0}])
    >>> cell.asked, cell.completed, cell.completed_fraction, cell.capped_runs
    (600, 315, 0.525, 1)
    """
    late = stats.median_interval([run["late_fraction"] for run in runs if run.get("late_fraction") is not None])
    known = [run for run in runs if run.get("asked") is not None]
    asked = sum(run["asked"] for run in known)
    completed = sum(round(run["asked"] * run["completed_fraction"]) for run in known)
    return CellCompletion(
        **{
            name: stats.median([run[name] for run in runs if run.get(name) is not None]).value
            for name in ("late_fraction", *THRESHOLDS_NS)
        },
        late_fraction_low=late.low,
        late_fraction_high=late.high,
        asked=asked if known else None,
        completed=completed if known else None,
        completed_fraction=completed / asked if known else None,
        capped_runs=sum(map(is_capped, known)) if known else None,
    )
