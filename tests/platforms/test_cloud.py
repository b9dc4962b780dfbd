"""A cloud of nothing but apache-libcloud's Dummy driver, whose machine is a namespace with sshd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from machines import PATIENCE_S, Sshd

from vtare.errors import BadInput
from vtare.platforms import leftovers, open_platform
from vtare.platforms.owner import own_prefix

pytestmark = pytest.mark.platform


@pytest.fixture(autouse=True)
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("libcloud", reason="the package 'apache-libcloud' is missing: make platforms")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("VTARE_CLOUD_KEY", "0")


@pytest.mark.e2e
def test_a_machine_is_made_measured_on_and_deleted(sshd: Sshd, static_vtare: Path, tmp_path: Path) -> None:
    cloud = {"driver": "dummy", "image": "1", "size": "1", **sshd.settings()}
    platform = open_platform("cloud", binary=static_vtare, owner=own_prefix(), settings=cloud)
    assert platform.missing() is None
    work = tmp_path / "work"
    work.mkdir()
    try:
        (instance,) = platform.start(1)
        notes = list((tmp_path / "state" / "vtare" / "cloud").glob("*.json"))
        assert [json.loads(note.read_text())["driver"] for note in notes] == ["dummy"]
        # The note stays as long as the machine does: this process, which made it, still runs.
        kept = [leftover.kept_because for leftover in leftovers() if leftover.kind == "cloud machine"]
        assert ["still runs" in str(reason) for reason in kept] == [True]
        child = instance.start(["--version"], directory=work, stdout=work / "out", stderr=work / "err")
        assert child.wait(PATIENCE_S) == 0
        assert (work / "out").read_text().startswith("vtare ")
    finally:
        platform.stop()
    assert [leftover.name for leftover in leftovers() if leftover.kind == "cloud machine"] == []


def test_what_the_plan_leaves_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(**settings: str) -> str:
        return str(
            open_platform("cloud", binary=Path("/proc/self/exe"), owner=own_prefix(), settings=settings).missing()
        )

    assert "names no image" in missing(driver="dummy", size="1")
    with pytest.raises(BadInput, match="unknown setting 'imge'"):
        missing(driver="dummy", imge="1")
