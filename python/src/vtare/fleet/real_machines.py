"""Real machines: attempts are handed to workers, and what these bring back wakes the lab. Between that it sleeps."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vtare import __version__
from vtare.fleet.machines import Made, Report
from vtare.fleet.scheduler import HostAnswered, Lost, Silent
from vtare.fleet.worker import Job
from vtare.platforms.child import wait_readable
from vtare.platforms.intake import printable

if TYPE_CHECKING:
    from concurrent.futures import Future

    from vtare.campaign.stop import StopRequest
    from vtare.design import Run
    from vtare.fleet.hosts import FleetHost
    from vtare.fleet.scheduler import Start
    from vtare.fleet.worker import Result
    from vtare.plan.model import Plan


class Workers(Protocol):
    """Where workers are: processes of this machine (`Processes`), or those of a Dask cluster (`Cluster`)."""

    @property
    def on_the_host(self) -> bool:
        """Whether a worker is on its host."""
        ...

    @property
    def freeze_s(self) -> float:
        """How long a worker that is on its host may be stopped while it measures; 0: not at all."""
        ...

    @property
    def hosts(self) -> Sequence[FleetHost]:
        """The hosts, each with a worker."""
        ...

    def hold(self, host: FleetHost) -> str | None:
        """Take a host for this campaign. Why it is not available, or None where it is ours."""
        ...

    def perform(self, host: str, job: Job) -> Future[Result]:
        """Let a host's worker make an attempt, behind what it was asked for before."""
        ...

    def probe(self, host: FleetHost, binary: str) -> Future[dict[str, Any]]:
        """The same with a probe of its host; see `vtare.fleet.worker.probe`."""
        ...

    def end(self, host: str, future: Future[Any]) -> None:
        """End what a host's worker does, if that can be, and what it has not begun."""
        ...

    def lost(self, error: BaseException) -> bool:
        """Whether an error of a future states that its worker was lost, and not what the worker raised."""
        ...

    def close(self, *, quickly: bool) -> None:
        """Leave the hosts."""
        ...


@dataclass(frozen=True, slots=True)
class _Task:
    """What a worker was asked for: an attempt, or (`start` is None) a probe of `host`."""

    host: str
    future: Future[Any]
    start: Start | None = None


class RealMachines:
    """The hosts of `workers`, for the runs of one plan."""

    def __init__(self, workers: Workers, plan: Plan, seed: int, binary: Path, stop: StopRequest) -> None:
        """Ask for nothing yet. `seed` is the campaign's."""
        self._workers = workers
        self._hosts = {host.name: host for host in workers.hosts}
        self._plan = plan
        self._seed = seed
        self._binary = str(binary)
        self._stop = stop
        self._attempts: dict[tuple[str, int], _Task] = {}
        #: Probes that are to be made, by time.
        self._probes: list[tuple[float, str]] = []
        self._ended: deque[_Task] = deque()
        self._reports: deque[Report] = deque()
        self._read_fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._closed = False
        self._stops_seen = 0

    def now_s(self) -> float:
        """Seconds since 1970, UTC."""
        return time.time()

    def probe(self, host: str, at_s: float) -> None:
        """See `Machines.probe`."""
        self._probes.append((at_s, host))

    def start(self, start: Start, run: Run, directory: Path) -> None:
        """See `Machines.start`. The worker of the host that measures has the others, too."""
        gang = {role: self._hosts[name] for role, name in start.hosts.items()}
        plan, hosts = self._plan, tuple(gang.values())
        if self._workers.on_the_host:
            hosts = ()
        else:
            specs = {role: host.spec for role, host in gang.items()}
            plan = replace(
                plan,
                hosts=specs,
                platforms={**plan.platforms, **{host.name: dict(host.settings) for host in hosts}},
                experiments=tuple(replace(experiment, hosts=specs) for experiment in plan.experiments),
            )
        job = Job(plan, run, self._seed, self._binary, str(directory), hosts, self._workers.freeze_s)
        lead = next(iter(start.hosts.values()))
        task = _Task(lead, self._workers.perform(lead, job), start)
        self._attempts[start.run_id, start.attempt] = task
        self._watch(task)

    def abandon(self, run_id: str, attempt: int) -> None:
        """See `Machines.abandon`."""
        task = self._attempts.pop((run_id, attempt), None)
        if task is not None:
            self._workers.end(task.host, task.future)

    def wait(self, until_s: float | None) -> Sequence[Report]:
        """See `Machines.wait`."""
        while True:
            self._ask()
            while self._ended:
                self._take(self._ended.popleft())
            if self._reports:
                reports = list(self._reports)
                self._reports.clear()
                return reports
            if self._stop.requested and self._stop.count != self._stops_seen:
                self._stops_seen = self._stop.count
                self._stop.acknowledge()
                return []
            due_s = min((at_s for at_s, _ in self._probes), default=None)
            next_s = min((moment for moment in (until_s, due_s) if moment is not None), default=None)
            if until_s is not None and self.now_s() >= until_s:
                return []
            left_s = None if next_s is None else max(0.0, next_s - self.now_s())
            wait_readable([self._read_fd, self._stop.fd], None if left_s is None else time.monotonic() + left_s)
            with suppress(BlockingIOError):
                os.read(self._read_fd, 65536)

    def close(self) -> None:
        """See `Machines.close`."""
        if not self._closed:
            self._closed = True
            self._workers.close(quickly=bool(self._attempts))

    def _ask(self) -> None:
        """Send the probes that are due."""
        now_s = self.now_s()
        due = [name for at_s, name in self._probes if at_s <= now_s]
        self._probes = [(at_s, name) for at_s, name in self._probes if at_s > now_s]
        for name in due:
            host = self._hosts[name]
            reason = self._workers.hold(host)
            if reason is not None:
                self._reports.append(Silent(name, reason, held=True))
                continue
            task = _Task(name, self._workers.probe(host, self._binary))
            self._watch(task)

    def _watch(self, task: _Task) -> None:
        def ended(_: object) -> None:
            self._ended.append(task)
            # A full pipe wakes the lab, too.
            with suppress(OSError):
                os.write(self._write_fd, b"x")

        task.future.add_done_callback(ended)

    def _take(self, task: _Task) -> None:
        """Turn what a worker brings back into a report."""
        if task.start is None:
            self._take_probe(task)
            return
        run_id, attempt = task.start.run_id, task.start.attempt
        if self._attempts.pop((run_id, attempt), None) is None:
            return
        error, result = self._brought(task)
        if error is not None:
            # Nobody knows what is left on the hosts.
            self._reports.append(Lost(run_id, attempt, frozenset(task.start.held)))
            return
        if result.lost:
            self._reports.append(Lost(run_id, attempt, result.lost))
            return
        self._reports.append(Made(run_id, attempt, result.outcome))

    def _take_probe(self, task: _Task) -> None:
        error, facts = self._brought(task)
        if error is not None:
            facts = {"reason": f"its worker was lost ({error})"}
        reason = facts.get("reason")
        if reason is None and facts.get("lab") != __version__:
            version = printable(facts.get("lab"))
            reason = f"it has version {version} of vtare, this machine {__version__}; install this one there"
        if reason is not None:
            self._reports.append(Silent(task.host, printable(reason)))
        else:
            self._reports.append(HostAnswered(task.host))

    def _brought(self, task: _Task) -> tuple[BaseException | None, Any]:
        """Why a worker that was lost brings nothing back, or what it brings. What it raises itself is raised here."""
        if task.future.cancelled():
            return InterruptedError("cancelled"), None
        try:
            return None, task.future.result()
        except BaseException as error:
            if self._workers.lost(error):
                return error, None
            raise
