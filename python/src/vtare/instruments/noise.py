"""`vtare noise`: the time that a machine takes from a spinning thread."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from vtare.instruments.model import Instrument, Metric, PartRows, PlannedRun, Value

if TYPE_CHECKING:
    from collections.abc import Mapping


def _expected_s(asked: PlannedRun) -> float:
    return float(len(asked.value("cpu") or range(os.cpu_count() or 1)) * asked.limit_s)


def _most_rows(asked: PlannedRun, timeout_s: float) -> float:
    # Gaps follow one another, on one CPU after the other.
    return float(timeout_s * 1e9 / asked.value("threshold_ns") + 1)


def _figures(part: PartRows) -> Mapping[str, Any]:
    return {"lost_fraction": part.cell.get("lost_fraction"), "gaps_per_s": part.cell.get("gaps_per_s")}


RECORD: Final = Instrument(
    name="noise",
    asks="How much of its time does a spinning thread lose?",
    quantity="gap_ns",
    value=Value("gap_ns"),
    parts=("cpu",),
    expected_s=_expected_s,
    most_rows=_most_rows,
    metrics=(
        Metric("gap_ns", "gap", "gap", "gap in a spinning thread", better="less"),
        Metric(
            "lost_fraction",
            "share lost",
            "share lost",
            "share of the time lost",
            better="less",
            interval=True,
            heading="time lost",
            about="share of the time taken from the spinning thread",
            missing="not estimable",
        ),
        Metric("gaps_per_s", better="less", missing="not estimable"),
    ),
    figures=_figures,
    series=("cpu",),
    compared="lost_fraction",
    shown_by_compared=True,
)
