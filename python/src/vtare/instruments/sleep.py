"""`vtare sleep`: how late a sleep ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vtare.instruments.model import QUIET, Asked, Exceed, Flaw, Instrument, Limits, Metric, PartRows, Value, limit_s

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What a plan measures that names no targets and no methods (docs/contract.md), and its time limit a target.
_TARGETS_NS: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_METHODS: Final = 5
_LIMIT_S: Final = 2.0


def _expected_s(asked: Asked) -> float:
    p = asked.parameters
    limit = limit_s(p, _LIMIT_S)
    late_s = 0.01 if asked.crowded else 1e-4
    one = sum(min(p.get("samples", 1000) * (t * 1e-9 + late_s), limit) for t in p.get("target_ns", _TARGETS_NS))
    return float(len(p.get("method") or range(_METHODS)) * one)


def _most_rows(limits: Limits) -> float:
    return float(limits.count("method") * limits.count("target_ns") * limits.value("samples"))


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
        Metric("cpu_fraction", better="less"),
        Metric("disturbed_fraction", better="less"),
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
