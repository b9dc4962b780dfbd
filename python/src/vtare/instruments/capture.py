"""`vtare capture`: packets seen at a capture point of the kernel."""

from __future__ import annotations

import os
from typing import Final

from vtare.instruments.model import Exceed, Instrument, Metric, PlannedRun, Value

#: The most packets that a capture point keeps in 1 s.
_PACKET_PER_S: Final = 1_000_000


def _expected_s(asked: PlannedRun) -> float:
    return float((os.cpu_count() or 1) * asked.limit_s)


def _most_rows(asked: PlannedRun, timeout_s: float) -> float:
    seconds = min(timeout_s, asked.value("seconds") or timeout_s)
    return float(asked.value("packets") or seconds * _PACKET_PER_S)


RECORD: Final = Instrument(
    name="capture",
    quantity="packet_gap_ns",
    # The gap to the packet of its session before, that went the same way; null for the first.
    value=Value("captured_ns", gaps_within=("session", "kind", "direction")),
    parts=("kind",),
    expected_s=_expected_s,
    most_rows=_most_rows,
    metrics=(Metric("packet_gap_ns", axis="gap between packets at a capture point", better="less"),),
    exceed=Exceed(),
)
