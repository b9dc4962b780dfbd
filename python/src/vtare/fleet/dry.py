"""A dry run: a whole campaign on a simulated fleet, with the scheduler, the journal and the store of a real one.

Nothing is measured: a run is a directory without samples, in a store that is removed at the end.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.campaign.attempts import timeout_s
from vtare.campaign.journal import Journal
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.campaign.verify import verify
from vtare.design import expected_run_s
from vtare.errors import BadInput, bad_value
from vtare.fleet.campaign import FleetCampaign
from vtare.fleet.host_use import HostUse, overlaps, use_of
from vtare.fleet.hosts import MOST_SIMULATED, simulated_hosts
from vtare.fleet.needs import check_plan, request_of, with_pairs
from vtare.fleet.simulated import ControllerKilled, SimulatedFiles, SimulatedMachines
from vtare.records.answer import answered
from vtare.sentences import fleet as wording
from vtare.sentences.words import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.plan.model import Plan
    from vtare.records import fleets

SIMULATED: Final = "simulated:"
#: A directory in memory, where there is one: nothing of a dry run has to survive.
_IN_MEMORY: Final = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class DryRun:
    """What became of a campaign on a simulated fleet. Times are simulated.

    `left` are runs that are neither done nor given up, which must be none. `faults` has how often each kind was met;
    `sessions` is how many lab processes it took. `overlaps` states where two runs were on one host, `twice` which runs
    were kept twice, `unsound` what a check of the store found: all empty where the fleet works as it should.
    """

    plan: str
    seed: int
    runs: int
    done: int
    failed: int
    skipped: int
    left: int
    makespan_s: float
    hosts: tuple[HostUse, ...]
    faults: Mapping[str, int]
    sessions: int
    overlaps: tuple[str, ...]
    twice: tuple[str, ...]
    unsound: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether nothing was lost, counted twice or on one host at a time."""
        return not (self.left or self.overlaps or self.twice or self.unsound)

    def headline(self) -> str:
        """How much of the campaign was made, and in what time."""
        others = {"failed": self.failed, "skipped": self.skipped, "lost": self.left}
        return wording.dry_run(self.plan, len(self.hosts), self.done, self.runs, others, duration(self.makespan_s))

    def wrong(self) -> list[str]:
        """What must not be: runs on one host, or kept twice, and what a check of the store found."""
        return [
            *(f"{wording.TWO_RUNS}: {where}" for where in self.overlaps),
            *(f"{wording.KEPT_TWICE}: {run}" for run in self.twice),
            *self.unsound,
        ]

    def document(self) -> fleets.DryRunDocument:
        """The document `vtare.dry_run/1`."""
        return {
            "schema": "vtare.dry_run/1",
            "answer": answered([f"{self.headline()}."], "kept" if self.kept else "lost", limits=self.wrong()),
            "plan": self.plan,
            "seed": self.seed,
            "runs": self.runs,
            "done": self.done,
            "failed": self.failed,
            "skipped": self.skipped,
            "left": self.left,
            "makespan_s": self.makespan_s,
            "faults": dict(self.faults),
            "sessions": self.sessions,
            "overlaps": list(self.overlaps),
            "counted_twice": list(self.twice),
            "unsound": list(self.unsound),
            "hosts": [use.document() for use in self.hosts],
        }


def simulated_number(word: str) -> tuple[int, int | None]:
    """Hosts and faults of `simulated:HOSTS` or `simulated:HOSTS:FAULTS`; None where no faults are stated.

    Raises:
        BadInput: the words are no numbers, or too large.
    """
    hosts, _, faults = word.removeprefix(SIMULATED).partition(":")
    if not hosts.isdecimal() or not 1 <= int(hosts) <= MOST_SIMULATED or not (faults.isdecimal() or not faults):
        raise BadInput(
            f"--on {bad_value(word, 'simulated:HOSTS or simulated:HOSTS:FAULTS')} with 1 to {MOST_SIMULATED} hosts, "
            "such as simulated:64"
        )
    return int(hosts), int(faults) if faults else None


def dry_run(plan: Plan, seed: int, hosts: int, faults: int | None = None) -> DryRun:
    """Run a plan on this many simulated hosts. Where no number of `faults` is given, one run in 20 meets one.

    Raises:
        BadInput: the plan cannot run on a fleet.
    """
    fleet = simulated_hosts(hosts)
    plan = with_pairs(plan, fleet)
    check_plan(plan, fleet, f"{SIMULATED}{hosts}", made_there=True)
    parent = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="vtare-dry-run-", dir=parent) as place:
        return _dry_run(plan, seed, fleet, faults, Path(place) / "store")


def _dry_run(plan: Plan, seed: int, fleet: Any, faults: int | None, path: Path) -> DryRun:
    files = SimulatedFiles()
    store = Store.create(path, plan, seed, files=files)
    names = [host.name for host in fleet]
    total = len(store.runs)
    machines = SimulatedMachines(
        names,
        lambda run: expected_run_s(run, plan),
        seed=seed,
        faults=max(1, total // 20) if faults is None else faults,
        runs=total,
        files=files,
    )
    sessions = 0
    while True:
        sessions += 1
        try:
            with store:
                campaign = FleetCampaign(
                    store,
                    names,
                    lambda run: request_of(run, plan, fleet, timeout_s(run, plan)),
                    machines,
                    Path("/"),
                    StopRequest(),
                )
                result = campaign.run()
            break
        except ControllerKilled:
            machines.lab_restarted()
            store = Store.open(path, files=files)
    with Journal(path / "journal.sqlite", read_only=True) as journal:
        events = journal.host_events()
    return DryRun(
        plan=plan.name,
        seed=seed,
        runs=total,
        done=result.done,
        failed=result.failed,
        skipped=result.skipped,
        left=total - result.done - result.failed - result.skipped,
        makespan_s=machines.now_s(),
        hosts=use_of(events, machines.now_s()),
        faults=machines.faults,
        sessions=sessions,
        overlaps=(*machines.overlaps, *overlaps(events)),
        twice=tuple(run_id for run_id, times in files.published.items() if times > 1),
        unsound=tuple(verify(path).problems()),
    )
