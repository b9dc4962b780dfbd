"""What all platforms share, and that the failure of one is no failure of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vtare.errors import PlatformFailed
from vtare.platforms import KINDS, docker, open_platform, platform_class
from vtare.platforms.base import BasePlatform, Layer
from vtare.platforms.host import HostInstance
from vtare.platforms.network import Site
from vtare.platforms.protocol import Resources
from vtare.platforms.uml import known_fault

OWNER = "vtare-1-2"


class Made(BasePlatform[HostInstance]):
    """Instances that are nothing but their names; the third cannot be made, the second not be removed."""

    name = "made"
    LAYER = Layer.HOST
    WORDS = "a made-up instance"
    OFFERED = frozenset({"vcpus"})

    def __init__(self) -> None:
        super().__init__(Path("/vtare"), OWNER)
        self.here: list[int] = []

    def _missing(self, resources: Resources) -> str | None:
        return None

    def _make(self, index: int, site: Site | None, resources: Resources) -> HostInstance:
        self._removals.callback(self._remove, index)
        if index == 2:
            raise PlatformFailed("no room for a third")
        self.here.append(index)
        return HostInstance(self._binary)

    def _remove(self, index: int) -> None:
        if index in self.here:
            self.here.remove(index)
        if index == 1:
            raise PlatformFailed("it resists")


def test_what_a_failed_start_has_made_is_removed_though_one_resists() -> None:
    platform = Made()
    with pytest.raises(PlatformFailed, match="no room for a third"):
        platform.start(3)
    assert platform.here == [0, 1]
    with pytest.raises(PlatformFailed, match="it resists"):
        platform.stop()
    assert platform.here == []
    platform.stop()


def test_only_what_a_platform_offers_can_be_chosen() -> None:
    assert Made().missing(Resources(vcpus=2)) is None
    reason = Made().missing(Resources(nic="e1000"))
    assert reason == "a made-up instance has no model of its network card to choose: leave out e1000"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_traits(kind: str, tmp_path: Path) -> None:
    found = platform_class("mine", {"kind": kind})
    assert found is not None
    assert found.name == kind
    assert found.LAYER in Layer
    assert isinstance(found.WORDS, str)
    opened = open_platform(kind, binary=tmp_path, owner=OWNER)
    # What was never started ends as often as asked.
    opened.stop()
    opened.stop()


@pytest.fixture
def silent_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Docker daemon whose connection breaks at every request."""
    requests = pytest.importorskip("docker").api.client.requests

    class Client:
        def __getattr__(self, name: str) -> Any:
            raise requests.exceptions.ConnectionError("Connection aborted")

    monkeypatch.setattr(docker, "_connect", Client)


def test_a_daemon_that_does_not_answer_fails_its_own_runs_and_no_campaign(silent_daemon: None, tmp_path: Path) -> None:
    platform = open_platform("docker", binary=tmp_path, owner=OWNER)
    with pytest.raises(PlatformFailed, match="docker: Connection aborted"):
        platform.start(1)
    with pytest.raises(PlatformFailed, match="could not be removed: Connection aborted"):
        platform.stop()
    with pytest.raises(PlatformFailed, match="cannot be listed: Connection aborted"):
        docker.leftovers()


@pytest.mark.parametrize(
    ("version", "flags", "starts"),
    [("6.1.176", "fpu amx_tile avx", False), ("6.1.176", "fpu avx", True), ("6.18.1", "fpu amx_tile", True)],
)
def test_user_mode_linux_is_left_out_where_it_is_known_not_to_start(version: str, flags: str, starts: bool) -> None:
    reason = known_fault(version, f"flags\t\t: {flags}\n")
    assert (reason is None) == starts
    assert starts or "AMX" in str(reason)
