"""An agent under somebody else's control beside another: nothing of it runs elsewhere, and the campaign goes on."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fleet_machines import sources
from machines import sleeps_plan, wait_until

from vtare.campaign.journal import Journal
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.campaign.verify import verify
from vtare.fleet.cluster import QUIET
from vtare.fleet.hosts import FleetHost
from vtare.fleet.named_fleet import fleet_campaign
from vtare.fleet.own_scheduler import WORKER_OPTIONS, OwnScheduler, environment
from vtare.plan.files import parse_plan
from vtare.process import start

pytestmark = [pytest.mark.e2e, pytest.mark.attack]

AGENT = Path(__file__).with_name("hostile") / "agent.py"
#: What the agent tries beside its answers, and why the scheduler has refused it; None: another agent has.
TRIED = {
    "run on the scheduler": "the request run_function",
    "be a client": "the request register-client",
    "an object in a message": "an object that would have to be unpickled",
    "gather": "the request gather",
    "another host": "a worker with the resources {'host-good': 1}",
    "run on another agent": None,
}


class LocalAgents(OwnScheduler):
    """Two agents on this machine, each with the certificate of a host of its own; one of them is hostile."""

    def __init__(self, place: Path) -> None:
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self._start("agents", "127.0.0.1")
        hostile = [str(AGENT), str(place), self._address, str(place / "victim")]
        for name, words in (("good", ["-m", "distributed.cli.dask_worker"]), ("evil", hostile)):
            command = [sys.executable, *words, self._address, *WORKER_OPTIONS, "--resources", f"host-{name}=1"]
            settings = {**environment(self._certificates.agent(name)), **QUIET, "PYTHONPATH": sources()}
            again = f"while :; do {shlex.join([*command, '--host', '127.0.0.1'])}; sleep 0.2; done"
            with (place / f"log-{name}").open("wb") as log:
                self._agents[name] = start(
                    ["sh", "-c", again], environment=settings, stdout=log, stderr=log, group=True, directory=place
                )
        wait_until("both agents are there", lambda: self._names() == {"good", "evil"})
        self.hosts = (FleetHost("good"), FleetHost("evil"))
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        (address,) = (address for address, worker in workers.items() if "host-good" in worker["resources"])
        (place / "victim.new").write_text(address)
        (place / "victim.new").rename(place / "victim")
        wait_until("all was tried", lambda: {what for what, _ in tried(place)} >= {*TRIED})

    def _end_workers(self) -> None:
        log = Path(self._place.name) / "scheduler"
        if log.exists():
            self.scheduler_log = log.read_text()
        for agent in self._agents.values():
            subprocess.run(["kill", "-KILL", "--", f"-{agent.pid}"], check=False)
            agent.wait()


@contextmanager
def agents(place: Path) -> Iterator[LocalAgents]:
    pytest.importorskip("distributed", reason="the Python package 'distributed' is missing")
    pytest.importorskip("cryptography", reason="the Python package 'cryptography' is missing")
    (place / "ran").mkdir(parents=True)
    made = LocalAgents(place)
    try:
        yield made
    finally:
        made.close(quickly=True)


def test_a_hostile_agent_costs_its_own_runs_and_nothing_of_it_runs_elsewhere(vtare: Path, tmp_path: Path) -> None:
    plan, path, place = (
        parse_plan(sleeps_plan(6, "0.1 s"), source=Path("plan.toml")),
        tmp_path / "store",
        tmp_path / "x",
    )
    with agents(place) as workers, Store.create(path, plan, 5) as store, StopRequest() as stop:
        result = fleet_campaign(store, workers, vtare, stop).run()
    assert result.done + result.failed == result.total == 18
    assert result.done >= 1
    with Journal(path / "journal.sqlite", read_only=True) as journal:
        reasons = [str(entry.reason) for entry in journal.entries().values() if entry.status != "done"]
    assert [reason for reason in reasons if "evil" not in reason] == []
    assert verify(path).problems() == []
    assert list(tmp_path.rglob("escaped")) == []
    refused = {what: answer for what, answer in tried(place) if answer != "answered"}
    assert {what for what, answer in refused.items() if not answer.startswith("refused")} == set(), refused
    reasons = [f"The agent of evil is disconnected: it sent {reason}" for reason in TRIED.values() if reason]
    assert [reason for reason in reasons if reason not in workers.scheduler_log] == []
    # Its own process may unpickle its objects.
    ran = [file.read_text().replace("\0", " ") for file in (place / "ran").iterdir()]
    assert [command for command in ran if str(AGENT) not in command] == []
    assert len({what for what, answer in tried(place) if answer == "answered"}) >= 5


def tried(place: Path) -> list[tuple[str, str]]:
    """What the hostile agent has tried so far, and what came of it."""
    if not (place / "tried").exists():
        return []
    return [(what, result) for what, result in map(json.loads, (place / "tried").read_text().splitlines())]
