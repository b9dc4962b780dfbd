"""The instruments: one file and one line here for each, named nowhere else (docs/internals/add-an-instrument.md).

`RECORDS` holds them in the order of `_NAMES`, in which a report answers: what a reader asks first comes first.
"""

from __future__ import annotations

from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Final

from vtare.errors import BadInput, instead_of
from vtare.instruments.model import COUNT, Instrument, Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES: Final = (
    "avb",
    "path",
    "throughput",
    "rtt",
    "sleep",
    "timer",
    "counter",
    "noise",
    "capture",
)
RECORDS: Final[tuple[Instrument, ...]] = tuple(import_module(f"{__name__}.{name}").RECORD for name in _NAMES)

#: Figures that every instrument's runs have, or that the lab makes of any of them. `{of}` and `{what}` name the
#: readings, `{threshold}` is that of the plan.
COMMON: Final = (
    Metric("median", heading="median{of}", about="median of the run medians of {what}", interval=True, always=True,
           of_readings=True),
    Metric("mean", "mean", "mean reading"),
    Metric("half_iqr", "half IQR", about="half the interquartile range inside a run", always=True, of_readings=True),
    Metric("p99", about="99 % of the readings of a run are at or below", missing="n < 299", always=True,
           of_readings=True, needs=299),
    Metric("p999", "p99.9", about="99.9 % of the readings of a run are at or below", missing="n < 2995", always=True,
           of_readings=True, needs=2995),
    Metric("min", about="smallest reading of all runs", always=True, of_readings=True),
    Metric("max", about="largest reading of all runs", always=True, of_readings=True),
    Metric("exceed_per_s", heading="above {threshold}, per s", missing="no threshold in the plan",
           about="readings above {threshold} per second of the series"),
    Metric("lag1", heading="lag-1 autocorrelation", missing="no spread",
           about="of consecutive readings of a run, median over runs"),
    Metric("n_eff", heading="n_eff", unit=COUNT, missing="no spread",
           about="independent readings a run is worth for its mean, median over runs"),
    Metric("between_run_cv", heading="between runs", unit="1", missing="needs 2 runs", always=True,
           about="standard deviation of the run medians over their mean"),
    Metric("n_runs", heading="runs", about="finished runs", over_runs="sum", always=True),
    Metric("n", heading="readings", about="readings of all runs", over_runs="sum", always=True),
    Metric("late_fraction", "time late", "share of the time spent late", better="less", interval=True),
)  # fmt: skip
_BY_NAME: Final[Mapping[str, Instrument]] = {record.name: record for record in RECORDS}
_METRICS: Final[Mapping[str, Metric]] = {
    metric.name: metric for metric in chain(COMMON, *(record.metrics for record in RECORDS))
}


def instrument(name: str) -> Instrument:
    """The record of one instrument.

    Raises:
        BadInput: this version of the lab has none of that name, though the binary may.
    """
    if name not in _BY_NAME:
        raise BadInput(f"unknown instrument '{name}'{instead_of(name, _BY_NAME)}")
    return _BY_NAME[name]


def order_of(name: str) -> int:
    """The place of an instrument in a report: 0 is what a reader asks first."""
    return list(_BY_NAME).index(name)


def metric(name: str) -> Metric:
    """The record of a figure; of one that no instrument states, what its name states: quantity and unit."""
    return _METRICS.get(name) or Metric(name)


def control_instrument() -> Instrument:
    """The instrument of a control cell that a plan asks for without naming one.

    >>> control_instrument().quantity
    'miss_ns'
    """
    return next(record for record in RECORDS if record.control is not None)
