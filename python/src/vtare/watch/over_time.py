"""A store over time: what `vtare watch` keeps, or the runs of a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.errors import BadInput
from vtare.series.over_time import OverTime, of_runs
from vtare.stored.paths import is_watched
from vtare.watch.history import History

if TYPE_CHECKING:
    from pathlib import Path


def over_time(store: Path) -> OverTime:
    """Read what `vtare watch` keeps, or the runs of a campaign in the order in which they were made.

    Raises:
        BadInput: it is neither, or has no figure yet.
    """
    if is_watched(store):
        with History(store, read_only=True) as history:
            figures = OverTime("round", tuple(history.series()), tuple(history.changes()))
    else:
        from vtare.summary.measured import read_measured

        measured = read_measured(store)
        figures = of_runs(measured.work.run_rows, measured.samples.files, measured.samples.keys)
    if not figures.series and figures.bounds:
        raise BadInput(
            f"{store}: every figure is only a bound ({figures.bounds[0]}): raise the limit that its runs end at"
        )
    if not figures.series:
        raise BadInput(f"{store}: it has no figure yet: wait for the first round or run")
    return figures
