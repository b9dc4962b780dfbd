"""Parts of one plan that stand side by side: their names differ, and none is alive while another is measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vtare import platforms
from vtare.campaign.attempts import Attempts
from vtare.campaign.setup import Setup
from vtare.design import Run
from vtare.errors import PlatformFailed
from vtare.plan.model import Experiment
from vtare.platforms import docker as docker_platform
from vtare.platforms import remove_leftovers, virtualbox
from vtare.topology.forwarding import ForwardingTopology
from vtare.topology.instance_factors import MOST_BACKGROUND
from vtare.topology.links import RoutedHosts

OWNER = "vtare-1-2"


def made(steps: list[Any]) -> set[str]:
    return {step.words[3] for step in steps if step.words[:3] == ("ip", "netns", "add")}


def test_the_topologies_of_one_plan_share_no_namespace() -> None:
    room = ForwardingTopology(OWNER, 2, switch="linux")
    routed = RoutedHosts(OWNER)
    of_room = {*made(room.steps()), *room.guests}
    of_hosts = made(routed.steps())
    assert of_room.isdisjoint(of_hosts)
    # Whoever removes the two hosts removes what stands behind them, too.
    behind = [f"{site.namespace}-" for site in (routed.sender, routed.responder)]
    assert not [name for name in of_room for begin in behind if name.startswith(begin)]


def test_cross_traffic_stands_where_no_instance_in_the_background_can() -> None:
    routed = RoutedHosts(OWNER)
    for site in (routed.sender, routed.responder):
        instances = range(MOST_BACKGROUND + 1)
        taken = {site.instance_namespace(index) for index in instances}
        taken |= {site.instance_address(index) for index in instances}
        ends = [routed.server(end, Path("/vtare")) for end in ("source", "sink")]
        assert taken.isdisjoint({*(end.name for end in ends), ends[1].address})


EXPERIMENTS: dict[str, Any] = {
    "_one_host": None,
    "_two_hosts": SimpleNamespace(two_hosts=True, through_guests=False),
    "_forwarding": SimpleNamespace(two_hosts=False, through_guests=True),
}


class Recorded(Setup[None]):
    """A setup of nothing: `closed` is how often it was closed; `trouble` is why that fails."""

    def __init__(self, trouble: str | None = None) -> None:
        self.closed = 0
        self.trouble = trouble

    def wanted(self, run: Run, experiment: Experiment | None) -> None:
        return None

    def missing(self, wanted: None) -> str | None:
        return "none"

    def entered(self, wanted: None, directory: Path) -> Any:
        raise AssertionError("nothing is missing")

    def close(self) -> None:
        self.closed += 1
        if self.trouble is not None:
            raise PlatformFailed(self.trouble)


@pytest.mark.parametrize("now", EXPERIMENTS)
def test_what_another_kind_of_run_keeps_alive_ends_before_a_run(now: str) -> None:
    for before in EXPERIMENTS:
        attempts = Attempts.__new__(Attempts)
        setups = {name: Recorded() for name in EXPERIMENTS}
        for name, setup in setups.items():
            setattr(attempts, name, setup)
        attempts._current = None
        assert attempts._setup_for(EXPERIMENTS[before]) is setups[before]
        assert attempts._setup_for(EXPERIMENTS[now]) is setups[now]
        assert {name for name, setup in setups.items() if setup.closed} == {before} - {now}


def test_what_another_run_used_and_cannot_be_removed_is_no_failure_of_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    attempts = Attempts.__new__(Attempts)
    attempts._one_host, attempts._two_hosts = Recorded(), Recorded("VBoxManage: exit code 1")  # type: ignore[assignment]
    attempts._current = None
    attempts._setup_for(EXPERIMENTS["_two_hosts"])
    assert attempts._setup_for(None) is attempts._one_host
    assert "VBoxManage: exit code 1; `vtare clean` removes what is left" in caplog.text


def test_a_broken_hypervisor_is_no_reason_not_to_measure_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "KINDS", {"virtualbox": "VirtualBoxPlatform", "docker": "DockerPlatform"})
    monkeypatch.setattr(virtualbox, "PROGRAM", "/bin/false")

    class Broken(Exception):
        pass

    def refuse(**_: object) -> None:
        raise Broken("500 Server Error: the daemon's disk is full")

    requests = SimpleNamespace(exceptions=SimpleNamespace(RequestException=ConnectionError))
    api = SimpleNamespace(client=SimpleNamespace(requests=requests))
    library = SimpleNamespace(errors=SimpleNamespace(DockerException=Broken), api=api)
    monkeypatch.setattr(docker_platform, "_library", lambda: library)
    monkeypatch.setattr(docker_platform, "_connect", lambda: SimpleNamespace(containers=refuse))
    for kind in (docker_platform, virtualbox):
        with pytest.raises(PlatformFailed):
            kind.leftovers()
    remove_leftovers(elsewhere=False)
    with pytest.raises(PlatformFailed):
        remove_leftovers()


def test_no_message_recommends_a_package_that_is_on_no_index() -> None:
    root = Path(__file__).parents[3]
    texts = [*(root / "python/src").rglob("*.py"), *(root / "docs").rglob("*.md"), root / "README.md"]
    assert [path.name for path in texts if "vtare[" in path.read_text(encoding="utf-8")] == []
