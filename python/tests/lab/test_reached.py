"""Machines made elsewhere: the wait for their sshd, and the notes that outlive the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vtare import platforms
from vtare.errors import MachineCannot, PlatformFailed
from vtare.platforms import cloud, netns, reached, remove_leftovers
from vtare.platforms.network import Site
from vtare.platforms.notes import PlatformNotes
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Resources
from vtare.platforms.reached import MachineConnections, MadePlatform
from vtare.platforms.ssh import SshInstance

OWNER = "vtare-1-2"


def refused() -> MachineCannot:
    error = MachineCannot("10.0.0.1: Connection refused")
    error.__cause__ = ConnectionRefusedError()
    return error


def denied() -> MachineCannot:
    error = MachineCannot("10.0.0.1: Permission denied")
    error.__cause__ = RuntimeError()
    return error


@pytest.fixture
def way_with(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A way in whose connections end as given, one after the other; the hosts that were connected to."""

    def made(*outcomes: MachineCannot | None) -> list[str]:
        left, hosts = list(outcomes), []

        class Instance:
            def describe(self, name: str, about: Any, interface: str | None) -> None:
                hosts.append(name)

        class Way:
            def __init__(self, binary: Path, owner: str, settings: dict[str, Any]) -> None:
                self.host = settings["host"]

            def start(self, instances: int) -> list[Instance]:
                hosts.append(self.host)
                outcome = left.pop(0)
                if outcome is not None:
                    raise outcome
                return [Instance()]

            def stop(self) -> None:
                hosts.append("left")

        monkeypatch.setattr(reached, "SshPlatform", Way)
        monkeypatch.setattr(reached, "_AGAIN_S", 0.0)
        return hosts

    return made


def test_a_machine_whose_sshd_is_only_starting_is_asked_again(way_with: Any) -> None:
    hosts = way_with(refused(), refused(), None)
    ways = MachineConnections(Path("/vtare"), OWNER, {"user": "root"})
    ways.reach("mine", "10.0.0.1", {})
    ways.leave()
    ways.leave()
    assert hosts == ["10.0.0.1", "10.0.0.1", "10.0.0.1", "mine", "left"]


def test_a_machine_that_answers_no_is_not_asked_again(way_with: Any) -> None:
    hosts = way_with(denied())
    with pytest.raises(MachineCannot, match="Permission denied"):
        MachineConnections(Path("/vtare"), OWNER, {"host": "other way"}).reach("mine", "10.0.0.1", {})
    assert hosts == ["other way"]


def test_a_machine_that_never_answers_costs_its_run(way_with: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    way_with(refused())
    monkeypatch.setattr(reached, "LISTENS_S", -1.0)
    with pytest.raises(PlatformFailed, match=r"mine: nobody answers at 10.0.0.1 .*Connection refused"):
        MachineConnections(Path("/vtare"), OWNER, {}).reach("mine", "10.0.0.1", {})


def test_machines_are_made_in_order_and_deleted_though_one_resists(way_with: Any) -> None:
    hosts = way_with(None, None)

    class Made(MadePlatform):
        name = "made"

        def _missing(self, resources: Resources) -> str | None:
            return None

        def _make_machines(self, indices: range, resources: Resources) -> list[SshInstance]:
            names = [f"m{index}" for index in indices]
            for name in names:
                self._removals.callback(self._delete, name)
            return [self._reached.reach(name, "10.0.0.1", {}) for name in names]

        def _delete(self, name: str) -> None:
            hosts.append(f"delete {name}")
            if name == "m4":
                raise PlatformFailed("it resists")

    platform = Made(Path("/vtare"), OWNER, {"user": "root"})
    with pytest.raises(MachineCannot, match="behind no bridge"):
        platform.start(1, Site("sender server", "vtare-1-2-s", 1, ("10.77.2.1",)))
    platform.start(2, first=3)
    with pytest.raises(PlatformFailed, match="it resists"):
        platform.stop()
    platform.stop()
    assert hosts == ["10.0.0.1", "m3", "10.0.0.1", "m4", "left", "left", "delete m4", "delete m3"]


def test_a_note_stays_until_its_machine_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    notes = PlatformNotes("cloud")
    assert notes.leftovers("machine", notes.drop) == ()
    mine, gone = f"{own_prefix()}-cloud-0", "vtare-999999999-1-cloud-0"
    for name in (mine, gone):
        notes.write(name, {"driver": "dummy"})
    notes.write(gone, {"driver": "dummy", "id": "7"})
    (tmp_path / "vtare/cloud/letter.json").write_text("{}")
    found = {one.name: one for one in notes.leftovers("machine", notes.drop)}
    assert set(found) == {mine, gone}
    assert "still runs" in str(found[mine].kept_because)
    assert notes.read(gone) == {"driver": "dummy", "id": "7"}
    found[gone].remove()
    assert notes.read(gone) is None
    (tmp_path / f"vtare/cloud/{mine}.json").write_text("{")
    with pytest.raises(PlatformFailed, match=r"look after the machine .* by hand"):
        notes.read(mine)


def test_a_campaign_leaves_machines_elsewhere_to_vtare_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    # Only these are looked for here, whatever stands on the machine of the test.
    monkeypatch.setattr(platforms, "KINDS", {"cloud": "CloudPlatform", "esxi": "EsxiPlatform"})
    monkeypatch.setattr(netns, "leftovers", lambda: ())
    tried: list[str] = []
    monkeypatch.setattr(cloud, "_delete", tried.append)
    PlatformNotes("cloud").write("vtare-999999999-1-cloud-0", {"driver": "dummy"})
    assert remove_leftovers(elsewhere=False) == ()
    assert tried == []
    assert [one.name for one in remove_leftovers()] == tried == ["vtare-999999999-1-cloud-0"]
