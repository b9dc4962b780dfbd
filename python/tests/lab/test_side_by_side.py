"""Parts of one plan that stand side by side: their names differ, and none is alive while another is measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vtare import platforms
from vtare.campaign.executor import Campaign
from vtare.design import Run
from vtare.forwarders import ForwardingRoom
from vtare.guests import MOST_BACKGROUND
from vtare.links import RoutedHosts
from vtare.platforms import docker as docker_platform
from vtare.platforms import remove_leftovers, virtualbox
from vtare.platforms.protocol import PlatformFailed

OWNER = "vtare-1-2"


def made(steps: list[Any]) -> set[str]:
    return {step.words[3] for step in steps if step.words[:3] == ("ip", "netns", "add")}


def test_the_topologies_of_one_plan_share_no_namespace() -> None:
    room = ForwardingRoom(OWNER, 2, switch="linux")
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
        assert taken.isdisjoint({routed.source_namespace, routed.sink_namespace, routed.sink_address})


@pytest.mark.parametrize(
    ("kind", "ended"),
    [("_on_one_machine", {"rooms"}), ("_between_hosts", {"live", "rooms"}), ("_through_guests", {"live"})],
)
def test_what_another_kind_of_run_keeps_alive_ends_before_a_run(
    kind: str, ended: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: set[str] = set()
    campaign = Campaign.__new__(Campaign)
    campaign._live = SimpleNamespace(end=lambda: seen.add("live"))  # type: ignore[assignment]
    campaign._rooms = SimpleNamespace(clear=lambda: seen.add("rooms"), missing=lambda place: "none")  # type: ignore[assignment]
    campaign._stage = SimpleNamespace(missing=lambda roles: "none")  # type: ignore[assignment]
    plan = SimpleNamespace(experiment=lambda name: SimpleNamespace(factor=None, two_hosts=True), platforms={})
    campaign._store = SimpleNamespace(plan=plan)  # type: ignore[assignment]
    campaign._open = lambda name: SimpleNamespace(missing=lambda resources: "none")  # type: ignore[method-assign]
    run = Run(0, 1, 1, "0123456789abcdef", "e", "rtt", None, {}, {})
    assert getattr(campaign, kind)(run, tmp_path).status == "skipped"
    assert seen == ended


def test_a_broken_hypervisor_is_no_reason_not_to_measure_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "_KINDS", {"virtualbox": "VirtualBoxPlatform", "docker": "DockerPlatform"})
    monkeypatch.setattr(virtualbox, "PROGRAM", "/bin/false")
    monkeypatch.setattr(platforms, "find_spec", lambda name: name.endswith(("virtualbox", "docker")) or None)

    class Broken(Exception):
        pass

    def refuse(**_: object) -> None:
        raise Broken("500 Server Error: the daemon's disk is full")

    library = SimpleNamespace(errors=SimpleNamespace(DockerException=Broken))
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
