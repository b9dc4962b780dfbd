"""`vtare timer`: what one reading of a clock costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from vtare.instruments.model import QUIET, Exceed, Flaw, Instrument, Metric, PartRows, PlannedRun, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Between a counter read (10 ns) and a real system call (260 ns).
_READ_S: Final = 50e-9
#: Rows of one source beyond its histogram (crates/vtare/src/timer/series.rs), and the histogram's values in 1 ns.
_TAIL_ROWS: Final = 500_000
_PS_PER_NS: Final = 1000


def _expected_s(asked: PlannedRun) -> float:
    limit = asked.limit_s
    one = asked.value("samples") * _READ_S
    return float(asked.count("source") * (limit if asked.crowded and math.isfinite(limit) else min(one, limit)))


def _most_rows(asked: PlannedRun, timeout_s: float) -> float:
    kept = min(asked.value("samples"), _TAIL_ROWS + _PS_PER_NS * asked.value("tail_ns"))
    return float(asked.count("source") * kept)


def _figures(part: PartRows) -> Mapping[str, Any]:
    loops = part.cell.get("read_cost_ns") or {}
    return {"read_cost_ns": loops.get("median"), "loops": loops.get("n"),
            "preempted_loops": part.cell.get("preempted_loops")}  # fmt: skip


RECORD: Final = Instrument(
    name="timer",
    asks="What does reading the clock cost?",
    quantity="cost_ns",
    value=Value("cost_ps", divisor=1000.0, weight="count"),
    parts=("source",),
    expected_s=_expected_s,
    most_rows=_most_rows,
    metrics=(
        Metric("cost_ns", "cost", "cost of a reading", "difference between readings", better="less"),
        # Medians of differences between readings are multiples of the clock's step; loops of reads are not.
        Metric("read_cost_ns", "read cost", "cost of a reading", "cost of one read", better="less", interval=True,
               about="of one read in a tight loop, median over runs", missing="not recorded", always=True),
        Metric("loops", over_runs="sum"),
        Metric("preempted_loops", over_runs="sum"),
    ),
    figures=_figures,
    timed=True,
    compared="read_cost_ns",
    shown_by_compared=True,
    compared_parts=("source",),
    series=("source",),
    # A CPU that is taken away lengthens few readings, and those by far: the mean shows it.
    tail_figures=("mean",),
    exceed=Exceed(1000.0, "tail_ns"),
    flaws=(
        Flaw(("preempted_loops",), ("loops", "preempted_loops"), "loops lost their CPU and are left out", QUIET,
             made_by_load=True),
    ),
)  # fmt: skip
