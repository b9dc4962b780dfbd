"""VirtualBox by a transcript: what is asked of VBoxManage, word by word, with a namespace's sshd as the machine."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from machines import PATIENCE_S, Sshd

from vtare.errors import BadInput, PlatformFailed
from vtare.platforms import open_platform, unverified, virtualbox
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Resources

HERE = Path(__file__).parent.parent / "transcripts"


def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transcript: Path, address: str = "192.0.2.1") -> Path:
    """Put a VBoxManage in front of all others that answers from a transcript; where its state is."""
    state, programs = tmp_path / "state", tmp_path / "bin"
    state.mkdir()
    programs.mkdir()
    program = programs / "VBoxManage"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / "replay.py"} "$0" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("REPLAY_TRANSCRIPT", str(transcript))
    monkeypatch.setenv("REPLAY_STATE", str(state))
    monkeypatch.setenv("REPLAY_ADDRESS", address)
    monkeypatch.setattr(virtualbox, "_LOOK_S", 0.01)
    return state


def commands_left(transcript: Path, state: Path) -> int:
    done = (state / "done").read_text().splitlines()
    return sum(1 for line in transcript.read_text().splitlines() if line.startswith("$ ")) - len(done)


@pytest.mark.e2e
@pytest.mark.platform
def test_a_machine_is_cloned_started_measured_on_and_deleted(
    sshd: Sshd, static_vtare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript = HERE / "virtualbox.txt"
    state = replay(tmp_path, monkeypatch, transcript, sshd.host)
    login = {key: value for key, value in sshd.settings().items() if key != "host"}
    platform = open_platform(
        "virtualbox", binary=static_vtare, owner=own_prefix(), settings={"template": "tiny", **login}
    )
    resources = Resources(vcpus=1, memory_byte=256 << 20, nic="virtio")
    assert platform.missing(resources) is None
    work = tmp_path / "work"
    work.mkdir()
    try:
        (instance,) = platform.start(1, None, resources)
        guest = instance.facts()["guest"]
        assert isinstance(guest, dict)
        assert (guest["hypervisor"], guest["version"]) == ("virtualbox", "7.2.22_Debianr175245")
        assert (guest["vcpus"], guest["memory_byte"], guest["nic"]) == (1, 256 << 20, "virtio")
        assert guest["paravirtualized_by"] == "kvm"
        assert instance.capture_interface() == "vboxnet0"
        child = instance.start(["--version"], directory=work, stdout=work / "out", stderr=work / "err")
        assert child.wait(PATIENCE_S) == 0
        assert (work / "out").read_text().startswith("vtare ")
        (left,) = virtualbox.leftovers()
        assert left.name == instance.name
        assert "still runs" in str(left.kept_because)
    finally:
        platform.stop()
    assert commands_left(transcript, state) == 0


def test_what_virtualbox_refuses_is_stated_with_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = tmp_path / "transcript"
    transcript.write_text(
        "$ VBoxManage showvminfo debian --machinereadable\n"
        "! VBoxManage: error: Could not find a registered machine named 'debian'\n"
        "! VBoxManage: error: Details: code VBOX_E_OBJECT_NOT_FOUND (0x80bb0001), component VirtualBoxWrap\n"
        "= 1\n"
        "$ VBoxManage list vms\n"
        '"my own" {6b2b5a0e-6e8b-4a5c-9f3e-0f6a1c1f7a01}\n'
        '"vtare-mine" {6b2b5a0e-6e8b-4a5c-9f3e-0f6a1c1f7a02}\n'
        '"vtare-999999999-1-vbox-00-0" {6b2b5a0e-6e8b-4a5c-9f3e-0f6a1c1f7a03}\n'
        "= 0\n"
    )
    replay(tmp_path, monkeypatch, transcript)
    with pytest.raises(PlatformFailed, match="Could not find a registered machine named 'debian'"):
        virtualbox._facts("debian")
    # Only what a lab process made, and nothing that is merely called alike.
    (left,) = virtualbox.leftovers()
    assert (left.name, left.kept_because) == ("vtare-999999999-1-vbox-00-0", None)


def test_a_machine_whose_session_is_still_open_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = "$ VBoxManage showvminfo vtare-1 --machinereadable\n"
    transcript = tmp_path / "transcript"
    transcript.write_text(
        '$ VBoxManage list vms\n"vtare-1" {6b2b5a0e-6e8b-4a5c-9f3e-0f6a1c1f7a01}\n'
        f'{facts}VMState="running"\nSessionName="headless"\n'
        "$ VBoxManage controlvm vtare-1 poweroff\n"
        f'{facts}VMState="stopping"\nSessionName="headless"\n'
        f'{facts}VMState="poweroff"\nSessionName="headless"\n'
        f'{facts}VMState="poweroff"\n'
        "$ VBoxManage unregistervm vtare-1 --delete\n"
    )
    state = replay(tmp_path, monkeypatch, transcript)
    virtualbox._delete("vtare-1")
    assert commands_left(transcript, state) == 0


def test_what_cannot_be_had_is_stated_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(resources: Resources = Resources(), **settings: str | int) -> str:  # noqa: B008
        found = open_platform("virtualbox", binary=Path("/proc/self/exe"), owner=own_prefix(), settings=settings)
        return str(found.missing(resources))

    monkeypatch.setattr(shutil, "which", lambda program: None)
    assert "'VBoxManage' is missing; install VirtualBox" in missing(template="t")
    assert virtualbox.leftovers() == ()
    monkeypatch.setattr(shutil, "which", lambda program: program)
    assert "names no template" in missing()
    assert "has no CPUs to pin to to choose" in missing(Resources(pinned=(0,)), template="t")
    assert "no network card 'vmxnet3': use one of: virtio, e1000" in missing(Resources(nic="vmxnet3"), template="t")
    with pytest.raises(BadInput, match="unknown setting 'templat'"):
        missing(templat="t")
    with pytest.raises(BadInput, match="template is 3"):
        missing(template=3)
    assert (unverified("virtualbox"), unverified("nonsense")) == (None, None)
    monkeypatch.setattr(virtualbox.VirtualBoxPlatform, "UNVERIFIED", "nobody ran it")
    assert (unverified("virtualbox"), unverified("mine", {"kind": "virtualbox"})) == ("nobody ran it", "nobody ran it")
