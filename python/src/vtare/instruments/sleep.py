"""`vtare sleep`: how late a sleep ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vtare.instruments.model import QUIET, Exceed, Flaw, Instrument, Metric, PartRows, PlannedRun, Value

if TYPE_CHECKING:
    from collections.abc import Mapping


def _expected_s(asked: PlannedRun) -> float:
    late_s = 0.01 if asked.crowded else 1e-4
    samples = asked.value("samples")
    one = sum(min(samples * (t * 1e-9 + late_s), asked.limit_s) for t in asked.value("target_ns"))
    return float(asked.count("method") * one)


def _most_rows(asked: PlannedRun, timeout_s: float) -> float:
    return float(asked.count("method") * asked.count("target_ns") * asked.value("samples"))


def _figures(part: PartRows) -> Mapping[str, Any]:
    return {
        "cpu_fraction": part.cell.get("cpu_fraction"),
        "spin_ns_mean": part.rows["spin_ns"].mean(),
        "disturbed_fraction": part.rows["disturbed"].mean(),
    }


RECORD: Final = Instrument(
    name="sleep",
    asks="How late does a sleep wake?",
    quantity="miss_ns",
    value=Value("miss_ns"),
    parts=("method", "target_ns"),
    expected_s=_expected_s,
    most_rows=_most_rows,
    metrics=(
        Metric("miss_ns", "miss", "miss", "miss: actual minus target wake-up", better="less"),
        Metric(
            "cpu_fraction",
            better="less",
            heading="CPU time",
            about="CPU time used per time slept",
            missing="not recorded",
        ),
        Metric(
            "disturbed_fraction",
            better="less",
            heading="disturbed",
            about="share of sleeps hit by a gap of the machine",
            missing="not recorded",
        ),
        Metric("spin_ns_mean", unit="ns", better="less"),
    ),
    figures=_figures,
    in_order=True,
    timed=True,
    until="target_ns",
    control={"method": "clock_nanosleep", "target_ns": "1 ms", "samples": 200, "seconds": "0.4 s"},
    compared_parts=("method",),
    series=("method",),
    exceed=Exceed(1e6),
    flaws=(Flaw(("disturbed_fraction",), (), "sleeps were disturbed", QUIET, made_by_load=True),),
)
