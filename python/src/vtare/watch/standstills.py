"""Times in which a program that measured stalled: named in their round, and left out of its distributions.

Instruments find them (docs/internals/contract.md: `outages`) and leave them out of their own figures. Round trips that
were on their way meanwhile are among the samples, and are left out here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from vtare.samples import SampleSet
from vtare.sentences import watch as wording
from vtare.series.sentences import standstill

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vtare.samples import RunFile

#: When the program did not go on, in ns since its start.
_Window = tuple[int, int]


class SteadySamples(SampleSet):
    """Samples without the round trips that were on their way while the program stalled."""

    def read(self, file: RunFile) -> pl.DataFrame:
        """See `SampleSet.read`; such rows have no value."""
        frame = super().read(file)
        if not {"sent_ns", "arrived_ns"} <= set(frame.columns):
            return frame
        for began, ended in dict.fromkeys(_windows(file)):
            meanwhile = (pl.col("sent_ns") < ended) & (pl.col("arrived_ns") > began)
            frame = frame.with_columns(value=pl.when(meanwhile.fill_null(value=False)).then(None).otherwise("value"))
        return frame


def _outages(file: RunFile) -> Iterable[Mapping[str, Any]]:
    """Those of this machine; others are of a path, and belong to what is measured."""
    cells = file.footer.get("result", {}).get("cells", [])
    return [one for cell in cells for one in cell.get("outages") or () if one["place"] == "here"]


def _windows(file: RunFile) -> list[_Window]:
    return [(int(one["began_ns"]), int(one["began_ns"] + one["length_ns"])) for one in _outages(file)]


def standstills_of(file: RunFile) -> list[dict[str, Any]]:
    """The standstills of one run, with their text. Far ends of one run share them."""
    by_window = {window: one for window, one in zip(_windows(file), _outages(file), strict=True)}
    started_s = file.footer["started_unix_ns"] / 1e9
    return [
        {
            "experiment": file.run.experiment,
            "began_unix_s": started_s + began / 1e9,
            "length_s": (ended - began) / 1e9,
            "cause": one.get("cause"),
            "text": wording.standstill_left_out(standstill(
                wording.measuring(file.run.experiment), started_s + began / 1e9, (ended - began) / 1e9,
                wording.CAUSES.get(str(one.get("cause")), wording.UNKNOWN_CAUSE),
            )),
        }
        for (began, ended), one in by_window.items()
    ]  # fmt: skip
