"""A simulated fleet: hosts that do not exist, a clock that jumps, and faults drawn from a seed.

It knows what runs on each host, whatever the scheduler believes: two runs on one host at a time are noted. What a fault
leaves on a host stays there for a while, as a keeper of a real one needs some seconds to end it.
"""

from __future__ import annotations

import heapq
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from vtare.campaign.execute import RunOutcome
from vtare.campaign.files import Files
from vtare.fleet.machines import Made, Report
from vtare.fleet.scheduler import HostAnswered, Lost, Silent

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.design import Run
    from vtare.fleet.scheduler import Start

#: What can happen: the process that carries out a run is killed; a host is cut off; a run hangs; all that carries out
#: runs is restarted; the lab itself is killed.
FAULTS: Final = ("worker killed", "host cut off", "run hangs", "scheduler restarted", "controller killed")
#: A cut connection is noticed after this time (docs/guide/hosts.md).
NOTICED_S: Final = 25.0
#: Standard deviation of the logarithm of how long a run takes, against its estimate.
_SPREAD: Final = 0.1
_PROBE_S: Final = 0.05


class ControllerKilled(BaseException):
    """The simulated lab was killed at this moment: nothing of it runs any more."""


class SimulatedFiles(Files):
    """Operations without waiting for the disk: the store of a dry run is thrown away. The lab may be killed in them."""

    def __init__(self) -> None:
        """No kill is due."""
        self.kill: str | None = None
        self.published: Counter[str] = Counter()

    def write(self, path: Path, content: bytes) -> None:
        """Write a file."""
        path.write_bytes(content)

    def publish(self, temporary: Path, final: Path) -> None:
        """Rename a directory into place, where the lab is not killed before; or is killed just after it."""
        kill, self.kill = self.kill, None
        if kill == "before":
            raise ControllerKilled
        super().publish(temporary, final)
        self.published[final.name] += 1
        if kill == "after":
            raise ControllerKilled

    def _sync(self, path: Path) -> None:
        """Do nothing."""


@dataclass(slots=True)
class _SimulatedJob:
    """An attempt as it really is. `lab` is the number of the lab process that started it."""

    run: Run
    attempt: int
    hosts: tuple[str, ...]
    directory: Path
    lab: int
    reported: bool = False


@dataclass(slots=True)
class _SimulatedHost:
    cut_until_s: float = 0.0
    jobs: list[_SimulatedJob] = field(default_factory=list)


class SimulatedMachines:
    """Hosts of a fleet that exist in this process alone. `expected_s` is how long a run is expected to take."""

    def __init__(
        self,
        hosts: Sequence[str],
        expected_s: Callable[[Run], float],
        *,
        seed: int,
        faults: int,
        runs: int,
        files: SimulatedFiles,
    ) -> None:
        """Be ready at the time 0; of `runs` attempts about `faults` meet a fault each."""
        self.faults: Counter[str] = Counter()
        #: Where two runs were on one host at a time: what must never be.
        self.overlaps: list[str] = []
        self._expected_s = expected_s
        self._random = random.Random(seed)
        self._hosts = {host: _SimulatedHost() for host in hosts}
        self._now_s = 0.0
        self._agenda: list[tuple[float, int, Callable[[], Report | None]]] = []
        self._number = 0
        self._lab = 1
        self._faults_left, self._attempts_left = faults, runs
        self._files = files

    def now_s(self) -> float:
        """The simulated time, in s since the start of the dry run."""
        return self._now_s

    def lab_restarted(self) -> None:
        """Another lab process takes over after the killed one, of whose attempts nothing is reported any more."""
        for job in self._alive():
            if job.lab == self._lab and not job.reported:
                job.reported = True
                self._end_soon(job)
        self._lab += 1
        self._files.kill = None
        self._now_s += self._random.uniform(1.0, 60.0)

    def probe(self, host: str, at_s: float) -> None:
        """See `Machines.probe`."""
        self._at(max(at_s, self._now_s) + _PROBE_S, self._of_this_lab(lambda: self._answer(host)))

    def start(self, start: Start, run: Run, directory: Path) -> None:
        """See `Machines.start`."""
        job = _SimulatedJob(run, start.attempt, start.held, directory, self._lab)
        for name in job.hosts:
            host = self._hosts[name]
            if host.jobs:
                self.overlaps.append(f"{name} at {self._now_s:.3f} s: {run.run_id} beside {host.jobs[0].run.run_id}")
            host.jobs.append(job)
        takes_s = self._expected_s(run) * math.exp(self._random.gauss(0.0, _SPREAD))
        chance = self._faults_left / max(1, self._attempts_left)
        self._attempts_left -= 1
        if self._random.random() >= chance:
            self._at(self._now_s + takes_s, self._of_this_lab(lambda: self._made(job)))
            return
        self._faults_left -= 1
        kind = self._random.choice(FAULTS)
        self.faults[kind] += 1
        at_s = self._now_s + self._random.uniform(0.0, takes_s)
        end_s = self._now_s + takes_s
        match kind:
            case "worker killed":
                self._at(at_s, self._of_this_lab(lambda: self._lose(job, frozenset(job.hosts))))
            case "host cut off":
                cut = self._random.choice(job.hosts)
                self._at(at_s, self._of_this_lab(lambda: self._cut(job, cut, end_s)))
            case "run hangs":
                pass
            case "scheduler restarted":
                self._at(end_s, self._of_this_lab(lambda: self._made(job)))
                self._at(at_s, self._of_this_lab(self._restart))
            case "controller killed":
                self._at(end_s, self._of_this_lab(lambda: self._made(job)))
                self._at(at_s, self._of_this_lab(self._kill))

    def abandon(self, run_id: str, attempt: int) -> None:
        """See `Machines.abandon`."""
        for job in self._alive():
            if (job.run.run_id, job.attempt) == (run_id, attempt):
                job.reported = True
                self._end_soon(job)

    def wait(self, until_s: float | None) -> Sequence[Report]:
        """Jump to the next report, or to `until_s`."""
        while self._agenda and (until_s is None or self._agenda[0][0] < until_s):
            at_s, _, happens = heapq.heappop(self._agenda)
            self._now_s = max(self._now_s, at_s)
            report = happens()
            if report is not None:
                return [report]
        if until_s is None:
            raise AssertionError("the scheduler waits for nothing that can happen")
        self._now_s = max(self._now_s, until_s)
        return []

    def close(self) -> None:
        """End all attempts. A lab that was killed does not come to that, nor to what follows."""
        if isinstance(sys.exception(), ControllerKilled):
            raise ControllerKilled

    def _at(self, at_s: float, happens: Callable[[], Report | None]) -> None:
        self._number += 1
        heapq.heappush(self._agenda, (at_s, self._number, happens))

    def _of_this_lab(self, happens: Callable[[], Report | None]) -> Callable[[], Report | None]:
        """The same where the lab that asked for it is still there."""
        lab = self._lab
        return lambda: happens() if lab == self._lab else None

    def _alive(self) -> list[_SimulatedJob]:
        return list({id(job): job for host in self._hosts.values() for job in host.jobs}.values())

    def _leave(self, job: _SimulatedJob) -> None:
        for name in job.hosts:
            if job in self._hosts[name].jobs:
                self._hosts[name].jobs.remove(job)

    def _end_soon(self, job: _SimulatedJob) -> None:
        """What runs on the hosts ends within seconds, or where one is cut off, when its keeper misses the lab."""
        for name in job.hosts:
            cut_s = self._hosts[name].cut_until_s - self._now_s
            self._at(
                self._now_s + self._random.uniform(0.0, 5.0 if cut_s <= 0.0 else 60.0),
                lambda name=name: self._gone(job, name),  # type: ignore[misc]
            )

    def _gone(self, job: _SimulatedJob, name: str) -> None:
        if job in self._hosts[name].jobs:
            self._hosts[name].jobs.remove(job)

    def _answer(self, name: str) -> Report:
        host = self._hosts[name]
        if host.cut_until_s > self._now_s:
            return Silent(name, "no route to it")
        return Silent(name, "what an earlier run left there has not ended") if host.jobs else HostAnswered(name)

    def _made(self, job: _SimulatedJob) -> Report | None:
        """A run ends by itself and is whole, if its worker still is."""
        if job.reported:
            return None
        job.reported = True
        self._leave(job)
        (job.directory / "run.json").write_text(json.dumps({"run_id": job.run.run_id}))
        (job.directory / "samples.parquet").write_bytes(b"simulated")
        return Made(job.run.run_id, job.attempt, RunOutcome("done", self._expected_s(job.run), 0))

    def _lose(self, job: _SimulatedJob, hosts: frozenset[str]) -> Report | None:
        if job.reported:
            return None
        job.reported = True
        self._end_soon(job)
        return Lost(job.run.run_id, job.attempt, hosts)

    def _cut(self, job: _SimulatedJob, name: str, end_s: float) -> None:
        """A host is cut off: for less than anybody notices, or for longer."""
        lasts_s = self._random.choice((5.0, 40.0, 300.0))
        self._hosts[name].cut_until_s = max(self._hosts[name].cut_until_s, self._now_s + lasts_s)
        if lasts_s < NOTICED_S:
            self._at(max(end_s, self._now_s + lasts_s), self._of_this_lab(lambda: self._made(job)))
            return

        def noticed() -> Report | None:
            # The worker ends what runs on the other hosts before it reports.
            for other in job.hosts:
                if other != name:
                    self._gone(job, other)
            return self._lose(job, frozenset({name}))

        self._at(self._now_s + NOTICED_S, self._of_this_lab(noticed))

    def _restart(self) -> None:
        """All that carries out runs is restarted: every attempt is lost."""
        for job in self._alive():
            if job.lab == self._lab and not job.reported:
                self._at(self._now_s, self._of_this_lab(partial(self._lose, job, frozenset(job.hosts))))

    def _kill(self) -> None:
        """The lab is killed: now, or in the middle of keeping the next run."""
        stage = self._random.choice(("now", "before", "after"))
        if stage == "now":
            raise ControllerKilled
        self._files.kill = stage
