"""The local executor: runs what a store still lacks, one run after another, on this machine.

A failing run costs its run, never the campaign: it is kept in the journal as failed with its exit code and the end of
its log, and `resume` tries it again. What makes every further run fail as well (disk full, binary gone) stops the
campaign with a clear error, and everything measured so far is kept.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.campaign.execute import Outcome, RunSettings, execute
from vtare.campaign.forwarding import ForwardingSetup
from vtare.campaign.journal import Entry, Stopped, not_needed
from vtare.campaign.one_host import OneHostSetup
from vtare.campaign.progress import Forecast, Progress, Silent
from vtare.campaign.setup import Setup, close_quietly
from vtare.campaign.two_hosts import TwoHostSetup
from vtare.design import expected_run_s, run_seed
from vtare.errors import CampaignStopped, Interrupted, MachineCannot, VtareError, refusal_of
from vtare.platforms import PlatformFailed
from vtare.platforms.network import NetworkError
from vtare.platforms.owner import own_prefix
from vtare.stored import MANIFEST, manifest_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vtare.campaign.stop import StopRequest
    from vtare.campaign.store import Store, Tidied
    from vtare.design import Run
    from vtare.plan import Experiment

_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_DISK_FULL_TEXT: Final = ("No space left on device", "Disk quota exceeded")


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """How a campaign ended: runs of the whole store by status, and what this session removed and took.

    `adopted` whole runs were missing in the journal; `set_aside` damaged ones were made again.
    `stopped` states how it stopped by its plan's rule; `not_needed` runs of later blocks were then not made.
    """

    total: int
    done: int
    failed: int
    skipped: int
    removed_leftovers: int
    elapsed_s: float
    not_needed: int = 0
    stopped: Stopped | None = None
    adopted: int = 0
    set_aside: int = 0


#: Asked after a block (its number) with all runs so far in the store: why to stop now, or None to go on.
Precise = Callable[[int], str | None]


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
    ) -> None:
        """Prepare to run what `store` lacks with this `binary`; `precise` judges the plan's stopping rule.

        `tidied` is called with what the check of the store found, before the first run.
        """
        self._tidied = tidied or (lambda _: None)
        self._precise = precise
        self._store = store
        self._binary = binary
        self._stop = stop
        self._progress = progress or Silent()
        owner, settings, hosts = own_prefix(), store.plan.platforms, store.plan.hosts
        self._one_host = OneHostSetup(binary, owner, settings, hosts)
        self._two_hosts = TwoHostSetup(binary, owner, settings, hosts)
        self._forwarding = ForwardingSetup(binary, owner, settings)
        self._current: Setup[Any] | None = None
        self._pace = _Pace(store)

    def run(self) -> CampaignResult:
        """Make every run that is not done, in the design's order. The finished ones are checked before.

        Where the plan has a stopping rule it is asked between blocks. What it decides is kept in the journal: a
        campaign that has stopped makes no run of a later block, whoever resumes it.

        Raises:
            Interrupted: a stop was requested; the running cell was dropped.
            CampaignStopped: no further run can succeed.
        """
        begin = time.monotonic()
        found = self._store.tidy()
        self._tidied(found)
        entries = self._store.journal.entries()
        # What was skipped is tried again: what was missing may be there now, and is looked for before a run starts.
        finished = {run_id for run_id, entry in entries.items() if entry.status == "done"}
        stopped = self._store.journal.stopped()
        todo = [
            run
            for run in self._store.runs
            if run.run_id not in finished and (stopped is None or run.block <= stopped.block)
        ]
        begun = {run.block for run in self._store.runs if run.run_id in entries}
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
            if self._current is not None:
                close_quietly(self._current.close)
            self._progress.ended()
        return self._result(found, time.monotonic() - begin)

    def _enough(self, block: int) -> bool:
        """Whether the plan's rule states to stop after this block; kept in the journal then."""
        rule = self._store.plan.stop
        if rule is None or self._precise is None or block < rule.least_blocks:
            return False
        reason = self._precise(block)
        if reason is None:
            return False
        self._store.journal.stop(Stopped(block, reason))
        return True

    def _setup_for(self, experiment: Experiment | None) -> Setup[Any]:
        """The setup of a run of this experiment, or of a control run; that of the run before ends where it differs."""
        if experiment is not None and experiment.two_hosts:
            setup: Setup[Any] = self._two_hosts
        elif experiment is not None and experiment.through_guests:
            setup = self._forwarding
        else:
            setup = self._one_host
        if self._current is not None and setup is not self._current:
            close_quietly(self._current.close)
        self._current = setup
        return setup

    def _one(self, run: Run) -> Outcome:
        """Make one run and bring its result to the disk, or nothing of it."""
        store = self._store
        temporary, final = store.temporary(run.run_id), store.directory(run.run_id)
        try:
            try:
                store.files.remove_tree(temporary)
                store.files.make_directory(temporary)
                outcome = self._attempt(run, temporary)
                if outcome.status == "done":
                    store.files.write(temporary / MANIFEST, manifest_of(temporary))
                    store.files.sync_tree(temporary)
                    store.files.publish(temporary, final)
            finally:
                store.files.remove_tree(temporary)
        except OSError as error:
            raise self._explain(error) from error
        self._refuse_full_disk(outcome)
        store.journal.record(
            Entry(run.run_id, outcome.status, outcome.exit_code, outcome.reason, outcome.log_tail, outcome.elapsed_s)
        )
        return outcome

    def _attempt(self, run: Run, temporary: Path) -> Outcome:
        experiment = None if run.control is not None else self._store.plan.experiment(run.experiment)
        setup = self._setup_for(experiment)
        try:
            wanted = setup.wanted(run, experiment)
            reason = setup.missing(wanted)
            if reason is not None:
                return Outcome("skipped", 0.0, reason=reason)
            with setup.entered(wanted, temporary) as made:
                settings = self._settings(run)
                outcome = execute(run, settings, temporary, setup=made, files=self._store.files, stop=self._stop)
        except MachineCannot as error:
            return Outcome("skipped", 0.0, reason=str(error))
        except (NetworkError, PlatformFailed) as error:
            outcome = Outcome("failed", 0.0, reason=str(error))
        if outcome.status == "failed":
            # An instance may hang, or be gone: the next run gets others.
            close_quietly(setup.close)
        return outcome

    def _settings(self, run: Run) -> RunSettings:
        plan = self._store.plan
        load = {"kind": "idle"}
        timeout_s = None
        if run.control is None:
            experiment = plan.experiment(run.experiment)
            timeout_s = experiment.run_timeout_s
            if "load" in run.factors:
                load = experiment.factor("load").level(run.factors["load"]).value
        if timeout_s is None:
            # Ten times the estimate: an oversubscribed machine is slow, a hung program is slower still.
            timeout_s = max(60.0, 30.0 + 10.0 * expected_run_s(run, plan))
        return RunSettings(run_seed(self._store.seed, run.run_id), load, plan.settle_s, timeout_s)

    def _refuse_full_disk(self, outcome: Outcome) -> None:
        """Stop where a run failed for want of space: every further run would fail the same way."""
        if outcome.status == "failed" and any(text in (outcome.log_tail or "") for text in _DISK_FULL_TEXT):
            raise self._explain(OSError(errno.ENOSPC, _DISK_FULL_TEXT[0]))

    def _explain(self, error: OSError) -> VtareError:
        path = self._store.path
        refused = refusal_of(error)
        if isinstance(refused, MachineCannot):
            return MachineCannot(f"{refused}; then `vtare resume {path}`")
        resume = f"`vtare resume {path}` goes on; finished runs are kept"
        if error.errno in _DISK_FULL:
            return CampaignStopped(f"{path}: the disk is full ({error.strerror}); free some space, then {resume}")
        if not self._binary.exists():
            return CampaignStopped(
                f"{self._binary}: the vtare binary is gone; bring it back or name one with --binary, then {resume}"
            )
        where = f"{error.filename}: " if error.filename else ""
        return CampaignStopped(f"{where or f'{path}: '}{error.strerror or error}; fix that, then {resume}")

    def _result(self, found: Tidied, elapsed_s: float) -> CampaignResult:
        entries = self._store.journal.entries()
        statuses = [entries[run.run_id].status for run in self._store.runs if run.run_id in entries]
        stopped = self._store.journal.stopped()
        return CampaignResult(
            total=len(self._store.runs),
            done=statuses.count("done"),
            failed=statuses.count("failed"),
            skipped=statuses.count("skipped"),
            removed_leftovers=found.removed,
            elapsed_s=elapsed_s,
            not_needed=sum(not_needed(run, entries, stopped) for run in self._store.runs),
            stopped=stopped,
            adopted=len(found.adopted),
            set_aside=len(found.set_aside),
        )


class _Pace:
    """Forecasts the rest of a campaign from the estimates and from how finished runs compared with theirs."""

    def __init__(self, store: Store) -> None:
        self._plan = store.plan
        self._todo: dict[str, float] = {}
        self._total = 0
        self._expected_s = 0.0
        self._taken_s = 0.0

    def begin(self, todo: list[Run], total: int) -> None:
        self._todo = {run.run_id: expected_run_s(run, self._plan) for run in todo}
        self._total = total

    def ended(self, run: Run, outcome: Outcome) -> None:
        self._expected_s += self._todo.pop(run.run_id)
        self._taken_s += outcome.elapsed_s

    def forecast(self) -> Forecast:
        # Two runs' worth of trust in the estimate keeps the first forecasts from jumping.
        prior = 2.0 * sum(self._todo.values()) / max(1, len(self._todo))
        factor = (self._taken_s + prior) / (self._expected_s + prior) if self._expected_s + prior > 0 else 1.0
        return Forecast(self._total - len(self._todo), self._total, factor * sum(self._todo.values()))
