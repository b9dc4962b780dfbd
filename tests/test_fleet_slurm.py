"""A campaign on nodes that Slurm gives: a Slurm of four nodes on this machine, made for the test."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from machines import sleeps_plan, wait_until
from slurm_nodes import NoSlurm, slurm_of

from vtare.campaign.journal import Journal
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.errors import BadInput
from vtare.fleet.host_use import overlaps
from vtare.fleet.named_fleet import fleet_campaign, open_fleet
from vtare.fleet.slurm import SlurmCluster, node_count
from vtare.plan.files import parse_plan

pytestmark = pytest.mark.e2e

PLAN = sleeps_plan(2, "0.1 s")
NODES = 4


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Slurm whose nodes are daemons of this machine."""
    pytest.importorskip("distributed", reason="the Python package 'distributed' is missing")
    with ExitStack() as stack:
        try:
            monkeypatch.setenv("SLURM_CONF", str(stack.enter_context(slurm_of(NODES, tmp_path / "slurm"))))
        except NoSlurm as reason:
            pytest.skip(str(reason))
        yield


def pids_of(words: tuple[bytes, ...]) -> list[int]:
    """The processes of which each of these is a word."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if set(words) <= set(place.read_bytes().split(b"\0")):
                found.append(int(place.parent.name))
    return found


def test_runs_on_four_nodes_of_slurm_survive_a_killed_worker(slurm: None, vtare: Path, tmp_path: Path) -> None:
    plan, path = parse_plan(PLAN, source=Path("plan.toml")), tmp_path / "store"
    workers = open_fleet(f"slurm:{NODES}", plan, path)
    assert [host.name for host in workers.hosts] == ["n1", "n2", "n3", "n4"]
    assert isinstance(workers, SlurmCluster)
    address = workers._address.encode()
    # Each worker has a certificate and a key of its own.
    pids = pids_of((sys.executable.encode(), b"distributed.cli.dask_worker", address))
    environments = [Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") for pid in pids]
    keys = [word for words in environments for word in words if b"TLS__WORKER__KEY=" in word]
    assert len(set(keys)) == len(keys) == NODES
    for pid in pids[:1]:
        os.kill(pid, signal.SIGKILL)
    with Store.create(path, plan, 5) as store, StopRequest() as stop:
        result = fleet_campaign(store, workers, vtare, stop).run()
    with Journal(path / "journal.sqlite", read_only=True) as journal:
        reasons = {entry.reason for entry in journal.entries().values()}
    assert (result.done, result.total) == (6, 6), reasons
    with Journal(path / "journal.sqlite", read_only=True) as journal:
        assert overlaps(journal.host_events()) == []
    # The nodes are given back, and nothing of the campaign runs any more.
    wait_until("all has ended", lambda: not pids_of((b"distributed.cli.dask_worker", address)))


def test_a_number_of_nodes_is_stated() -> None:
    assert node_count("slurm:4") == 4
    for word in ("slurm:", "slurm:0", "slurm:x", "slurm:99999"):
        with pytest.raises(BadInput, match="use slurm:NODES"):
            node_count(word)
