"""What a store holds, read once: plan, design, journal, the usable runs and their cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtare.campaign.journal import Entry, Journal, Stopped
from vtare.campaign.store import read_store
from vtare.errors import BadInput
from vtare.samples import SampleSet, open_samples
from vtare.summary.work import CellWork

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.design import Run
    from vtare.plan.model import Plan


@dataclass(frozen=True, slots=True)
class MeasuredStore:
    """One store. `samples.problems` lists the runs that cannot be used, `work` holds the figures of the others."""

    store: Path
    plan: Plan
    runs: tuple[Run, ...]
    seed: int
    entries: Mapping[str, Entry]
    samples: SampleSet
    work: CellWork
    stopped: Stopped | None = None


def read_measured(store: Path, *, resample: bool = False) -> MeasuredStore:
    """Read every finished run of a store, cell by cell; with `resample`, keep resamples of their readings.

    Raises:
        vtare.errors.BadInput: the path is no store, or its runs must not be pooled.
    """
    plan, runs, seed = read_store(store)
    with Journal(store / "journal.sqlite", read_only=True) as journal:
        entries, stopped = journal.entries(), journal.stopped()
    finished = [run for run in runs if run.run_id in entries and entries[run.run_id].status == "done"]
    work = CellWork(plan, seed, resample=resample)
    samples = work.read(open_samples(store, plan, finished))
    return MeasuredStore(store, plan, tuple(runs), seed, entries, samples, work, stopped)


def refuse_empty(measured: MeasuredStore) -> None:
    """Refuse a store without a run that can be used, with the reason of the first that cannot.

    Raises:
        vtare.errors.BadInput: there is none.
    """
    if measured.samples.files:
        return
    problems = measured.samples.problems
    why = f"; {len(problems)} cannot be used, such as {problems[0].reason}" if problems else ""
    raise BadInput(f"{measured.store}: no run is finished{why}; make them with `vtare resume {measured.store}`")
