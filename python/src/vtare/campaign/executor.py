"""The local executor: runs what a store still lacks, one run after another, on this machine.

A failing run costs its run, never the campaign: it is kept in the journal as failed with its exit code and the end of
its log, and `resume` tries it again. What makes every further run fail as well (disk full, binary gone) stops the
campaign with a clear error, and everything measured so far is kept.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vtare.campaign.attempts import Attempts
from vtare.campaign.progress import NoProgress, Pace, Progress
from vtare.campaign.results import CampaignResult, enough, explained, keep, left, result_of
from vtare.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vtare.campaign.execute import RunOutcome
    from vtare.campaign.results import Precise
    from vtare.campaign.stop import StopRequest
    from vtare.campaign.store import Store, Tidied
    from vtare.design import Run


class Campaign:
    """One session of work on one store."""

    def __init__(
        self,
        store: Store,
        binary: Path,
        stop: StopRequest,
        progress: Progress | None = None,
        precise: Precise | None = None,
        tidied: Callable[[Tidied], None] | None = None,
        only: frozenset[str] | None = None,
    ) -> None:
        """Prepare to run what `store` lacks with this `binary`; `precise` judges the plan's stopping rule.

        `tidied` is called with what the check of the store found, before the first run. With `only`, runs of those
        statuses alone are made again.
        """
        self._only = only
        self._tidied = tidied or (lambda _: None)
        self._precise = precise
        self._store = store
        self._binary = binary
        self._stop = stop
        self._progress = progress or NoProgress()
        self._attempts = Attempts(store.plan, store.seed, binary, store.files, stop)
        self._pace = Pace(store.plan)

    def run(self) -> CampaignResult:
        """Make every run that is not done, in the design's order. The finished ones are checked before.

        Where the plan has a stopping rule it is asked between blocks. What it decides is kept in the journal: a
        campaign that has stopped makes no run of a later block, whoever resumes it.

        Raises:
            Interrupted: a stop was requested; the running cell was dropped.
            CampaignStopped: no further run can succeed.
        """
        begin = time.monotonic()
        tidied = self._store.tidy()
        self._tidied(tidied)
        todo, begun = left(self._store, self._only)
        self._pace.begin(todo, len(self._store.runs))
        try:
            self._progress.started(self._pace.forecast())
            for run in todo:
                if self._stop.requested:
                    raise Interrupted("stopped between two runs")
                if run.block not in begun:
                    begun.add(run.block)
                    if self._enough(run.block - 1):
                        break
                self._progress.run_started(run, self._pace.forecast())
                outcome = self._one(run)
                self._pace.ended(run, outcome)
                self._progress.run_ended(run, outcome, self._pace.forecast())
        finally:
            self._attempts.close()
            self._progress.ended()
        return result_of(self._store, tidied, time.monotonic() - begin)

    def _enough(self, block: int) -> bool:
        """Whether the plan's rule states to stop after this block; kept in the journal then."""
        return enough(self._store, self._precise, block)

    def _one(self, run: Run) -> RunOutcome:
        """Make one run and bring its result to the disk, or nothing of it."""
        store = self._store
        temporary = store.temporary(run.run_id)
        try:
            try:
                store.files.remove_tree(temporary)
                store.files.make_directory(temporary)
                outcome = self._attempts.attempt(run, temporary)
                keep(store, run, outcome, temporary)
            finally:
                store.files.remove_tree(temporary)
        except OSError as error:
            raise explained(error, store, self._binary) from error
        return outcome
