"""A campaign over a fleet: what the scheduler decides is carried out, and what comes of it is kept in the store.

The journal has when each run took its hosts and gave them back, written before a run starts and together with its row.
A result counts where its attempt still has its hosts: what an abandoned one brings later is removed.
"""

from __future__ import annotations

import errno
import itertools
import secrets
import time
from typing import TYPE_CHECKING

from vtare.campaign.execute import RunOutcome
from vtare.campaign.journal import Entry, HostEvent
from vtare.campaign.progress import NoProgress, Pace, Progress
from vtare.campaign.results import enough, explained, keep, left, result_of
from vtare.design import groups_of
from vtare.errors import Interrupted
from vtare.fleet.machines import Made
from vtare.fleet.scheduler import Abandon, Ended, GiveUp, HostAnswered, Lost, Passed, Probe, Queued, Scheduler, Start

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vtare.campaign.journal import Status
    from vtare.campaign.progress import Forecast
    from vtare.campaign.results import CampaignResult, Precise
    from vtare.campaign.stop import StopRequest
    from vtare.campaign.store import Store, Tidied
    from vtare.design import Run
    from vtare.fleet.machines import Machines, Report
    from vtare.fleet.scheduler import Decision, Request


class FleetCampaign:
    """One session of work on one store, with the hosts of a fleet."""

    def __init__(
        self,
        store: Store,
        hosts: Sequence[str],
        request_of: Callable[[Run], Request],
        machines: Machines,
        binary: Path,
        stop: StopRequest,
        *,
        progress: Progress | None = None,
        precise: Precise | None = None,
        tidied: Callable[[Tidied], None] | None = None,
        only: frozenset[str] | None = None,
    ) -> None:
        """Prepare to run what `store` lacks on these hosts; `request_of` states what a run needs of them.

        The others are those of `vtare.campaign.Campaign`.
        """
        self._store = store
        self._request_of = request_of
        self._machines = machines
        self._binary = binary
        self._stop = stop
        self._progress = progress or NoProgress()
        self._precise = precise
        self._tidied = tidied or (lambda _: None)
        self._only = only
        self._scheduler = Scheduler(hosts, store.seed)
        self._runs = {run.run_id: run for run in store.runs}
        self._groups = dict(zip(self._runs, groups_of(store.plan, store.runs), strict=True))
        self._pace = Pace(store.plan)
        self._answering: set[str] = set()
        #: Directories that could not be removed yet; what is left at the end is removed when the campaign goes on.
        self._to_remove: set[Path] = set()
        #: Directories of this session's attempts: an attempt of an earlier one may still write to its own.
        self._session = secrets.token_hex(4)

    def run(self) -> CampaignResult:
        """Make every run that is not done, one group of the design after the other, as many at a time as hosts allow.

        Raises:
            Interrupted: a stop was requested; the first lets running cells end, the second drops them.
            CampaignStopped: no further run can succeed.
        """
        begin = time.monotonic()
        tidied = self._store.tidy()
        self._tidied(tidied)
        todo, begun = left(self._store, self._only)
        self._pace.begin(todo, len(self._store.runs))
        self._release_all()
        try:
            self._progress.started(self._forecast())
            self._carry_out(self._scheduler.begin(self._machines.now_s()))
            for (block, _), runs in itertools.groupby(todo, lambda run: (run.block, self._groups[run.run_id])):
                if block not in begun and enough(self._store, self._precise, block - 1):
                    break
                begun.add(block)
                self._make([self._request_of(run) for run in runs])
        except OSError as error:
            raise explained(error, self._store, self._binary) from error
        finally:
            self._machines.close()
            self._release_all()
            self._progress.ended()
        return result_of(self._store, tidied, time.monotonic() - begin)

    def _make(self, requests: Sequence[Request]) -> None:
        """Make these runs, or give them up."""
        scheduler, machines = self._scheduler, self._machines
        self._carry_out(scheduler.handle(Queued(requests), machines.now_s()))
        while scheduler.busy:
            if self._stop.requested:
                scheduler.drop_waiting()
                if self._stop.count > 1 or not scheduler.busy:
                    break
            reports = machines.wait(scheduler.deadline_s)
            for report in reports:
                self._take_in(report)
            if not reports:
                self._carry_out(scheduler.handle(Passed(), machines.now_s()))
        if self._stop.requested:
            raise Interrupted("stopped between two runs")

    def _take_in(self, report: Report) -> None:
        now_s = self._machines.now_s()
        events: list[HostEvent] = []
        match report:
            case Made(run_id, attempt, outcome):
                lease = self._scheduler.lease(run_id, attempt)
                if lease is not None:
                    self._keep(run_id, attempt, outcome, _released(lease, now_s))
                self._remove(run_id, attempt)
                self._carry_out(self._scheduler.handle(Ended(run_id, attempt), now_s))
                return
            case Lost(run_id, attempt, hosts):
                lease = self._scheduler.lease(run_id, attempt)
                if lease is not None:
                    events += _released(lease, now_s) + self._lost(hosts, now_s)
                self._remove(run_id, attempt)
            case HostAnswered(host):
                if host not in self._answering:
                    self._answering.add(host)
                    events.append(HostEvent(now_s, host, "answered"))
        self._store.journal.add_host_events(events)
        self._carry_out(self._scheduler.handle(report, now_s))

    def _carry_out(self, decisions: Sequence[Decision]) -> None:
        """Carry out what was decided: first it is written, then done."""
        now_s, events = self._machines.now_s(), list[HostEvent]()
        for decision in decisions:
            match decision:
                case Start():
                    events += [HostEvent(now_s, host, "taken", decision.run_id) for host in decision.held]
                case Abandon(run_id, _, hosts):
                    events += [HostEvent(now_s, host, "released", run_id) for host in hosts]
                    events += self._lost(frozenset(hosts), now_s)
        self._store.journal.add_host_events(events)
        for decision in decisions:
            match decision:
                case Start(run_id, attempt):
                    run, directory = self._runs[run_id], self._directory(run_id, attempt)
                    self._store.files.make_directory(directory)
                    self._progress.run_started(run, self._forecast())
                    self._machines.start(decision, run, directory)
                case Abandon(run_id, attempt):
                    self._machines.abandon(run_id, attempt)
                    self._remove(run_id, attempt)
                case Probe(host, at_s):
                    self._machines.probe(host, at_s)
                case GiveUp(run_id, reason, tried):
                    status: Status = "failed" if tried else "skipped"
                    self._store.journal.record(Entry(run_id, status, None, reason, None, None))
                    self._report_end(run_id, RunOutcome(status, 0.0, reason=reason))

    def _keep(self, run_id: str, attempt: int, outcome: RunOutcome, events: Sequence[HostEvent]) -> None:
        keep(self._store, self._runs[run_id], outcome, self._directory(run_id, attempt), events)
        self._report_end(run_id, outcome)

    def _report_end(self, run_id: str, outcome: RunOutcome) -> None:
        self._pace.ended(self._runs[run_id], outcome)
        self._progress.run_ended(self._runs[run_id], outcome, self._forecast())

    def _forecast(self) -> Forecast:
        return self._pace.forecast(max(1, len(self._answering)))

    def _lost(self, hosts: frozenset[str], now_s: float) -> list[HostEvent]:
        self._answering -= hosts
        return [HostEvent(now_s, host, "lost") for host in sorted(hosts)]

    def _directory(self, run_id: str, attempt: int) -> Path:
        return self._store.temporary(f"{run_id}.{self._session}.{attempt}")

    def _remove(self, run_id: str, attempt: int) -> None:
        """Remove an attempt's directory; one into which a lost worker still writes, later."""
        self._to_remove.add(self._directory(run_id, attempt))
        for directory in list(self._to_remove):
            try:
                self._store.files.remove_tree(directory)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                    raise
            else:
                self._to_remove.discard(directory)

    def _release_all(self) -> None:
        """Give back what runs of a session that has ended still have: it was killed, or asked to stop."""
        self._store.journal.keep_host_events()
        now_s, holders = self._machines.now_s(), dict[str, str]()
        for event in self._store.journal.host_events():
            if event.kind == "taken":
                holders[event.host] = str(event.run_id)
            elif event.kind == "released":
                holders.pop(event.host, None)
        self._store.journal.add_host_events(
            [HostEvent(now_s, host, "released", run_id) for host, run_id in sorted(holders.items())]
        )


def _released(lease: Start, now_s: float) -> list[HostEvent]:
    return [HostEvent(now_s, host, "released", lease.run_id) for host in lease.held]
