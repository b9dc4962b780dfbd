"""How much a run can leave: the rows and bytes of its samples, from what its plan asks for.

What a guest or another machine sends beyond it cannot be a measurement, and is refused: a hostile far end costs the lab
no more than an honest one of the same plan may.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.contract import columns, load_contract

if TYPE_CHECKING:
    from vtare.design import Run

SAMPLES: Final = "samples.parquet"
#: Bytes of one value as the instruments write it: 64 bits in the worst block of DELTA_BINARY_PACKED; an address of IPv6
#: with its port, compressed.
_WIDTH_BYTE: Final = {"int64": 9, "float64": 9, "boolean": 1, "string": 32}
#: The footer, and what Parquet itself takes for the row groups of a million rows.
_AROUND_BYTE: Final = 8 << 20
#: Rows of one timer source beyond its histogram (crates/vtare/src/timer/series.rs), and the histogram's values in 1 ns.
_TIMER_TAIL_ROWS: Final = 500_000
_PS_PER_NS: Final = 1000
#: The most packets that `rtt` sends to a peer in 1 s (crates/vtare/src/rtt/parameters.rs), or a capture point keeps.
_PACKET_PER_S: Final = 1_000_000
#: Estimates of available bandwidth, interim ones too, and trials of a tester, in 1 s.
_ESTIMATE_PER_S: Final = 1_000


@dataclass(frozen=True, slots=True)
class Allowance:
    """The most rows that a run's samples can have, and the most bytes of their file."""

    rows: int
    byte: int


def allowance(run: Run, timeout_s: float) -> Allowance:
    """What a run that is ended after `timeout_s` can leave."""
    rows = math.ceil(_rows(run, timeout_s))
    row_byte = sum(_WIDTH_BYTE[column["type"]] for column in columns()[run.instrument].values())
    return Allowance(rows, _AROUND_BYTE + rows * row_byte)


def _rows(run: Run, timeout_s: float) -> float:
    parameters = load_contract().instruments[run.instrument]

    def value(name: str) -> Any:
        return run.parameters.get(name, parameters[name].default)

    def count(name: str) -> int:
        """How many parts a list asks for; all that there can be where it is left open, one where the lab names it."""
        given = value(name)
        return max(1, len(parameters[name].choices if given is None else given))

    rows: float
    match run.instrument:
        case "timer":
            rows = count("source") * min(value("samples"), _TIMER_TAIL_ROWS + _PS_PER_NS * value("tail_ns"))
        case "sleep":
            rows = count("method") * count("target_ns") * value("samples")
        case "counter":
            rows = value("batches") * value("calls") * (value("max_exponent") + 1)
        case "noise":
            # Gaps follow one another, on one CPU after the other.
            rows = timeout_s * 1e9 / value("threshold_ns") + 1
        case "rtt":
            rows = count("peer") * _packets(value, timeout_s)
        case "capture":
            rows = value("packets") or min(timeout_s, value("seconds") or timeout_s) * _PACKET_PER_S
        case _:
            rows = timeout_s * _ESTIMATE_PER_S
    return rows


def _packets(value: Any, timeout_s: float) -> float:
    """The packets of `rtt` to one peer."""
    per_s = 1e9 / value("gap_ns") if value("gap_ns") else value("rate_packet_per_s")
    seconds = min(timeout_s, value("seconds") or timeout_s)
    mean = seconds * (_PACKET_PER_S if value("flood") else per_s)
    # Poisson: as good as never more than ten standard deviations above the mean.
    most: float = mean + 10 * math.sqrt(mean) + 10 if value("poisson") else mean + 1
    packets: float | None = value("packets")
    return most if packets is None else min(most, packets)


__all__ = ["SAMPLES", "Allowance", "allowance"]
