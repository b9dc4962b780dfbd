"""How much a run can leave: the rows and bytes of its samples, from what its plan asks for.

What a guest or another machine sends beyond it cannot be a measurement, and is refused: a hostile far end costs the lab
no more than an honest one of the same plan may.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vtare.contract import columns, load_contract
from vtare.instruments import instrument
from vtare.instruments.model import PlannedRun

if TYPE_CHECKING:
    from vtare.design import Run

SAMPLES: Final = "samples.parquet"
#: Bytes of one value as the instruments write it: 64 bits in the worst block of DELTA_BINARY_PACKED; an address of IPv6
#: with its port, compressed.
_WIDTH_BYTE: Final = {"int64": 9, "float64": 9, "boolean": 1, "string": 32}
#: The footer, and what Parquet itself takes for the row groups of a million rows.
_AROUND_BYTE: Final = 8 << 20
#: Facts, log, checksums and footer of a run, each file rounded up to blocks.
_FILES_BYTE: Final = 48 << 10
#: Rows beyond which no run goes, whatever its parameters allow.
_MOST_ROWS: Final = 10**10


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


def expected_byte(run: Run, expected_s: float) -> int:
    """About the most bytes that the samples of a run take on a disk which lasts as long as expected.

    A value takes half of its bits or less: times and counts that follow each other are packed as differences.
    """
    rows = min(_rows(run, expected_s), _MOST_ROWS)
    row_byte = sum(_WIDTH_BYTE[column["type"]] for column in columns()[run.instrument].values())
    return _FILES_BYTE + math.ceil(rows * row_byte / 2)


def _rows(run: Run, timeout_s: float) -> float:
    asked = PlannedRun(run.parameters, run.factors, load_contract().instruments[run.instrument])
    return instrument(run.instrument).most_rows(asked, timeout_s)
