"""`vtare capture`: packets seen at a capture point of the kernel."""

from __future__ import annotations

import os
from typing import Final

from vtare.instruments.model import Asked, Exceed, Instrument, Limits, Metric, Value, limit_s

#: The most packets that a capture point keeps in 1 s.
_PACKET_PER_S: Final = 1_000_000


def _expected_s(asked: Asked) -> float:
    return float((os.cpu_count() or 1) * limit_s(asked.parameters))


def _most_rows(limits: Limits) -> float:
    seconds = min(limits.timeout_s, limits.value("seconds") or limits.timeout_s)
    return float(limits.value("packets") or seconds * _PACKET_PER_S)


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
