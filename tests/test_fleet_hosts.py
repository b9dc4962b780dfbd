"""Campaigns on four hosts, each a network namespace: worker processes here, or workers of Dask there; and faults."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import polars as pl
import pytest
from fleet_machines import NAMES, Dask, Hosts, bridged_hosts, children_of, finished, sources, start_scheduler
from machines import PLAN_HEAD, sleeps_plan, sshd_machine, wait_until

from vtare.campaign.executor import Campaign
from vtare.campaign.journal import Journal
from vtare.campaign.results import CampaignResult
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.campaign.verify import verify
from vtare.fleet.host_use import overlaps
from vtare.fleet.hosts import load_hosts
from vtare.fleet.named_fleet import fleet_campaign, open_fleet
from vtare.fleet.needs import with_pairs
from vtare.fleet.real_machines import Workers
from vtare.fleet.survey import survey
from vtare.plan.files import parse_plan
from vtare.plan.mesh import PAIR, hosts_of_pair
from vtare.plan.model import Plan
from vtare.platforms import network
from vtare.platforms.binary import not_static
from vtare.summary import summarise

pytestmark = pytest.mark.e2e

PLAN = sleeps_plan(1, "0.1 s")
PAIRS = """
[[experiment]]
name = "rtt"
instrument = "rtt"
parameters = { rate_packet_per_s = "1 kpacket/s", seconds = "0.1 s" }
factors = { capture = ["off", "on"] }
"""
MESH = """
mesh = true
[[experiment]]
name = "delay"
instrument = "rtt"
parameters = { rate_packet_per_s = "1 kpacket/s", seconds = "0.1 s" }
factors = { capture = ["on"] }
[[experiment]]
name = "bandwidth"
instrument = "avb"
parameters = { method = "abacus", most_ns = "1 s" }
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with bridged_hosts(tmp_path_factory.mktemp("hosts")) as made:
        yield made


def plan_of(text: str) -> Plan:
    return parse_plan(text, source=Path("plan.toml"))


def campaign_on(
    workers: Workers, store: Store, vtare: Path, meanwhile: Callable[[], None] = lambda: None
) -> CampaignResult:
    """Run what a store lacks on a fleet, while something else happens."""
    beside = threading.Thread(target=meanwhile)
    beside.start()
    try:
        with StopRequest() as stop:
            return fleet_campaign(store, workers, vtare, stop).run()
    finally:
        beside.join()


def check_store(path: Path, done: int) -> None:
    """Nothing is lost or there twice, and no host had two runs at a time."""
    found = verify(path)
    assert (found.problems(), found.strangers, len(found.conditions.whole)) == ([], (), done)
    with Journal(path / "journal.sqlite", read_only=True) as journal:
        assert overlaps(journal.host_events()) == []
        assert [entry.status for entry in journal.entries().values()] == ["done"] * done


def test_a_campaign_on_four_hosts_is_the_one_on_this_machine(hosts: Hosts, vtare: Path, tmp_path: Path) -> None:
    plan = plan_of(PLAN + PAIRS)
    with Store.create(tmp_path / "fleet", plan, 5) as store:
        result = campaign_on(open_fleet(str(hosts.file), plan, tmp_path / "fleet"), store, vtare)
        assert (result.done, result.total) == (5, 5)
        fleet = store.runs
    check_store(tmp_path / "fleet", 5)
    with Store.create(tmp_path / "local", plan, 5) as store, StopRequest() as stop:
        assert Campaign(store, vtare, stop).run().done == 5
        assert store.runs == fleet
    for run in fleet:
        there, here = (tmp_path / name / "runs" / run.run_id for name in ("fleet", "local"))
        schemas = [pl.read_parquet_schema(place / "samples.parquet") for place in (there, here)]
        assert schemas[0] == schemas[1]
    with Journal(tmp_path / "fleet" / "journal.sqlite", read_only=True) as journal:
        taken = [event for event in journal.host_events() if event.kind == "taken"]
    pairs = {run.run_id for run in fleet if run.experiment == "rtt"}
    assert all(len([e for e in taken if e.run_id == run.run_id]) == 1 + (run.run_id in pairs) for run in fleet)
    topology = json.loads((tmp_path / "fleet" / "runs" / min(pairs) / "topology.json").read_text())
    assert {topology["sender"]["platform"], topology["responder"]["platform"]} <= {*NAMES}


def test_every_pair_of_four_hosts_is_measured_once_by_its_own_hosts(hosts: Hosts, vtare: Path, tmp_path: Path) -> None:
    fleet, path = load_hosts(hosts.file), tmp_path / "store"
    plan = with_pairs(plan_of(PLAN_HEAD + MESH), fleet)
    with Store.create(path, plan, 5) as store:
        result = campaign_on(open_fleet(str(hosts.file), plan, path), store, vtare)
        runs = store.runs
    assert (result.done, result.total) == (18, 18)
    check_store(path, 18)
    with Journal(path / "journal.sqlite", read_only=True) as journal:
        taken = [(event.run_id, event.host) for event in journal.host_events() if event.kind == "taken"]
    assert sorted(taken) == sorted((run.run_id, host) for run in runs for host in hosts_of_pair(run.factors[PAIR]))
    for run in runs:
        topology = json.loads((path / "runs" / run.run_id / "topology.json").read_text())
        assert (topology["sender"]["platform"], topology["responder"]["platform"]) == hosts_of_pair(run.factors[PAIR])
    found = summarise(path)
    # Nothing shapes these links: on a slow machine each estimate is a bound of the sender, which is no value of a mesh.
    estimates = found.runs.filter(pl.col("instrument") == "avb")
    exact = [("avb_bit_per_s", 12)] if estimates["median"].count() else []
    assert [(one.quantity, one.pairs) for one in found.meshes] == [("rtt_ns", 6), ("wire_ns", 6), *exact]
    assert exact or estimates["bounds"].count() == 12
    # On a busy machine a method may give no estimate in its time.
    assert [one.absent for one in found.meshes[:2]] == [0, 0]


def test_a_run_whose_worker_is_killed_is_made_again(hosts: Hosts, vtare: Path, tmp_path: Path) -> None:
    plan = plan_of(PLAN.replace("blocks = 1", "blocks = 2"))

    def kill() -> None:
        wait_until("a run has ended", lambda: finished(tmp_path / "store") > 0)
        for pid in children_of(os.getpid())[:1]:
            os.kill(pid, signal.SIGKILL)

    with Store.create(tmp_path / "store", plan, 5) as store:
        result = campaign_on(open_fleet(str(hosts.two), plan, tmp_path / "store"), store, vtare, kill)
    assert result.done == 6
    check_store(tmp_path / "store", 6)


def test_a_campaign_whose_lab_is_killed_goes_on(hosts: Hosts, vtare: Path, tmp_path: Path) -> None:
    plan, path = tmp_path / "plan.toml", tmp_path / "store"
    plan.write_text(PLAN.replace("blocks = 1", "blocks = 3"))
    words = [sys.executable, "-m", "vtare.start"]
    options = ["--on", str(hosts.two), "--binary", str(vtare)]
    lab = subprocess.Popen(
        [*words, "run", str(plan), *options, "--store", str(path)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": sources()},
    )  # fmt: skip
    wait_until("a run has ended", lambda: finished(path) > 0 or lab.poll() is not None)
    workers = children_of(lab.pid)
    lab.kill()
    lab.wait()
    wait_until("its workers end with it", lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    assert 0 < finished(path) < 9
    with Store.open(path) as store:
        result = campaign_on(open_fleet(str(hosts.two), store.plan, path), store, vtare)
    assert (result.done, result.failed) == (9, 0)
    check_store(path, 9)


def test_a_host_that_another_campaign_has_is_waited_for(hosts: Hosts, vtare: Path, tmp_path: Path) -> None:
    plan = plan_of(PLAN)
    first, second = (open_fleet(str(hosts.two), plan, tmp_path / name) for name in ("first", "second"))
    host = first.hosts[0]
    assert first.hold(host) is None
    assert str(second.hold(host)).startswith(f"process {os.getpid()} has it for {tmp_path}/first")
    first.close(quickly=True)
    assert second.hold(host) is None
    second.close(quickly=True)


def test_hosts_report_their_facts_and_one_that_is_not_there_its_reason(
    hosts: Hosts, vtare: Path, tmp_path: Path
) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(hosts.two.read_text().replace(f"{hosts.prefix}-b", "vtare-not-there"))
    found = survey(load_hosts(path), vtare)
    first, second = found.hosts
    assert (first.reason, first.facts["kernel"]) == (None, os.uname().release)
    assert {"sleep", "timer", "rtt"} <= {*first.measures}
    assert "there is no network namespace vtare-not-there" in str(second.reason)
    assert found.differing == {}
    assert found.document()["schema"] == "vtare.fleet/1"


#: A campaign in a process of its own, since the scheduler of Dask is only reached from beside the bridge.
_LAB = """
import sys
from pathlib import Path
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.fleet.hosts import load_hosts
from vtare.fleet.named_fleet import fleet_campaign, open_fleet
from vtare.plan.files import parse_plan
plan, store, binary = map(Path, sys.argv[1:])
parsed = parse_plan(plan.read_text(), source=plan)
workers = open_fleet("dask://10.76.0.254:8786", parsed, store)
with Store.create(store, parsed, 5) as opened, StopRequest() as stop:
    print(fleet_campaign(opened, workers, binary, stop).run())
"""


def test_runs_on_workers_of_dask_survive_its_scheduler(hosts: Hosts, vtare: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the Python package 'distributed' is missing")
    plan, path = tmp_path / "plan.toml", tmp_path / "store"
    plan.write_text(PLAN.replace("blocks = 1", "blocks = 4"))
    dask = Dask.of(hosts, tmp_path)
    try:
        logs = list(tmp_path.glob("worker-*"))
        wait_until("both workers are there", lambda: all(b"Registered to" in log.read_bytes() for log in logs))
        lab = subprocess.Popen(
            hosts.inside("hub", sys.executable, "-c", _LAB, plan, path, vtare),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": sources()},
        )  # fmt: skip
        wait_until("a run has ended", lambda: finished(path) > 0 or lab.poll() is not None)
        dask.scheduler.kill()
        dask.scheduler.wait()
        dask.scheduler = start_scheduler(hosts, tmp_path)
        for worker in dask.workers:
            worker.kill()
            worker.wait()
        dask.start_workers()
        out, errors = lab.communicate(timeout=200)
        assert "done=12, failed=0" in out, errors[-2000:]
    finally:
        dask.end()
    check_store(path, 12)


def test_a_worker_of_dask_is_stopped_while_it_measures_but_not_until_it_is_given_up(
    hosts: Hosts, vtare: Path, tmp_path: Path
) -> None:
    pytest.importorskip("distributed", reason="the Python package 'distributed' is missing")
    plan, path = tmp_path / "plan.toml", tmp_path / "store"
    plan.write_text(sleeps_plan(1, "3.5 s").replace("samples = 20", "samples = 100000"))
    # Given up after 3 s without a sign of life, so that it is stopped for 1.5 s at a time.
    dask = Dask.of(hosts, tmp_path, DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="3s")
    seen = []
    try:
        logs = list(tmp_path.glob("worker-*"))
        wait_until("both workers are there", lambda: all(b"Registered to" in log.read_bytes() for log in logs))
        lab = subprocess.Popen(
            hosts.inside("hub", sys.executable, "-c", _LAB, plan, path, vtare),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": sources()},
        )  # fmt: skip
        while lab.poll() is None:
            seen += [_state_of(worker.pid) for worker in dask.workers]
            time.sleep(0.05)
        out, errors = lab.communicate()
        assert "done=3, failed=0" in out, errors[-2000:]
    finally:
        dask.end()
    check_store(path, 3)
    with Journal(path / "journal.sqlite", read_only=True) as journal:
        kinds = [event.kind for event in journal.host_events()]
    assert (kinds.count("taken"), kinds.count("lost")) == (3, 0)
    # Three times for 1.5 s, looked at 20 times a second at the most; each run goes on for 2 s more.
    assert 30 <= seen.count("t") < len(seen) / 3


def test_agents_on_hosts_over_ssh_measure_stopped_and_one_that_is_killed_is_started_again(
    vtare: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0 or (missing := network.missing_tools()) is not None:
        pytest.skip("namespaces need root" if os.geteuid() else str(missing))
    if (reason := not_static(vtare)) is not None:
        pytest.skip(reason)
    pytest.importorskip("distributed", reason="the Python package 'distributed' is missing")
    # The Python of the hosts, with the same vtare as here.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={sources()} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    plan = plan_of(sleeps_plan(2, "1 s").replace("samples = 20", "samples = 100000"))
    with ExitStack() as stack:
        machines = [stack.enter_context(sshd_machine(name, tmp_path / name)) for name in ("one", "two")]
        lines = ['schema = "vtare.hosts/1"']
        for name, machine in zip(("one", "two"), machines, strict=True):
            settings = {"agent": str(python), **machine.settings()}
            lines += [f"[hosts.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
        path = tmp_path / "hosts.toml"
        path.write_text("\n".join(lines))
        seen = []

        def stopped() -> list[int]:
            return [pid for pid in machines[0].processes() if _state_of(pid) == "t"]

        def strike() -> None:
            wait_until("an agent is stopped", lambda: bool(stopped()))
            seen.extend(stopped())
            for pid in seen:
                os.kill(pid, signal.SIGKILL)

        with Store.create(tmp_path / "store", plan, 5) as store:
            workers = open_fleet(str(path), plan, tmp_path / "store", vtare)
            result = campaign_on(workers, store, vtare, strike)
        assert (result.done, len(seen)) == (6, 1)
        check_store(tmp_path / "store", 6)
        with Journal(tmp_path / "store" / "journal.sqlite", read_only=True) as journal:
            lost = [event.host for event in journal.host_events() if event.kind == "lost"]
            answered = {event.host for event in journal.host_events() if event.kind == "answered"}
        assert (lost, answered) == (["one"], {"one", "two"})
        wait_until(
            "nothing is left there", lambda: not any([*one.work.iterdir(), *one.processes()] for one in machines)
        )


def _state_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


@pytest.mark.parametrize("fault", ["worker killed", "connection cut"])
def test_a_run_over_ssh_is_made_again_and_nothing_is_left_of_it(fault: str, vtare: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0 or (missing := network.missing_tools()) is not None:
        pytest.skip("namespaces need root" if os.geteuid() else str(missing))
    if (reason := not_static(vtare)) is not None:
        pytest.skip(reason)
    plan = plan_of(PLAN)
    with sshd_machine("one", tmp_path / "one") as machine:
        lines = [f"{key} = {json.dumps(value)}" for key, value in machine.settings().items()]
        path = tmp_path / "hosts.toml"
        path.write_text("\n".join(['schema = "vtare.hosts/1"', "[hosts.far]", *lines]))

        def strike() -> None:
            wait_until("something runs there", lambda: machine.runs([b"measure"]))
            if fault == "connection cut":
                machine.cut()
                return
            for pid in children_of(os.getpid()):
                os.kill(pid, signal.SIGKILL)

        with Store.create(tmp_path / "store", plan, 5) as store:
            result = campaign_on(open_fleet(str(path), plan, tmp_path / "store"), store, vtare, strike)
        assert result.done == 3
        check_store(tmp_path / "store", 3)
        with Journal(tmp_path / "store" / "journal.sqlite", read_only=True) as journal:
            assert "lost" in [event.kind for event in journal.host_events()]
        wait_until("nothing is left there", lambda: not any(machine.work.iterdir()) and machine.processes() == [])


def test_check_on_named_machines_ranks_them_and_names_who_does_not_answer(vtare: Path) -> None:
    words = [str(vtare), "check", "--on", "127.0.0.1:1", "--seconds", "5"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "sleep of 50 us" in done.stdout, "the columns of a check"
    assert re.search(r"^127\.0\.0\.1-1: .", done.stdout, re.MULTILINE), done.stdout


def test_check_on_a_machine_behind_ssh_uses_the_accounts_and_keys_of_the_user(vtare: Path, tmp_path: Path) -> None:
    if (reason := not_static(vtare)) is not None:
        pytest.skip(reason)
    with sshd_machine("one", tmp_path / "one") as machine:
        home = tmp_path / "home"
        (home / ".ssh").mkdir(parents=True, mode=0o700)
        shutil.copy(machine.place / "user_key", home / ".ssh" / "id_ed25519")
        shutil.copy(machine.place / "known", home / ".ssh" / "known_hosts")
        words = [str(vtare), "check", "--on", f"root@{machine.host}:{machine.port}", "--seconds", "5", "--json"]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "HOME": str(home)}
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (host,) = json.loads(done.stdout)["hosts"]
        assert (host["reason"], host["status"] in ("good", "usable", "not_now")) == (None, True)
        wait_until("nothing is left there", lambda: machine.processes() == [])
