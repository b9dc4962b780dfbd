"""A platform names all that a machine lacks at once, and `vtare doctor` makes one line of commands of it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from vtare.doctor.ways import Ways, for_this_user
from vtare.platforms import KINDS, cloud, docker, gvisor, lacks, network, open_platform, uml, virtualbox
from vtare.platforms.esxi import EsxiPlatform
from vtare.platforms.guest import xen_tools
from vtare.platforms.qemu import QemuPlatform

#: What plans name, for the platforms that look at nothing without it.
SETTINGS: dict[str, dict[str, str | int]] = {
    "ssh": {"host": "there"},
    "virtualbox": {"template": "one"},
    "esxi": {"server": "there", "account": "me", "template": "one"},
    "cloud": {"driver": "dummy", "image": "1", "size": "1"},
}
ROOT, DAEMON, STATIC, XEN, KEY = "root", "daemon", "static binary", "Xen", "key of the cloud"
#: A static program without program headers.
ELF = b"\x7fELF\x02\x01" + bytes(48) + b"\x38" + bytes(9)

Machine = Callable[[Callable[[str], bool]], Callable[[str], str | None]]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A machine that has the things of which `has` is true; gives what a platform lacks there."""

    def make(has: Callable[[str], bool]) -> Callable[[str], str | None]:
        def which(program: str, **_: object) -> str | None:
            return f"/usr/bin/{program}" if has(f"'{program}'") else None

        monkeypatch.setattr(shutil, "which", which)
        monkeypatch.setattr(lacks, "find_spec", lambda module: SimpleNamespace() if has(module) else None)
        monkeypatch.setattr(os, "geteuid", lambda: 0 if has(ROOT) else 1000)
        monkeypatch.setattr(network, "_has_capabilities", lambda: has(ROOT))
        socket, binary, root = tmp_path / "socket", tmp_path / "vtare", tmp_path / "root"
        for path, there in ((socket, has(DAEMON)), *((root / part, has(XEN)) for part in XEN_FILES)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if there:
                path.write_text(XEN_FILES.get(str(path.relative_to(root)), "") if path != socket else "")
        binary.write_bytes(ELF if has(STATIC) else b"#!/bin/sh\n")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.delenv("VTARE_GUEST_KERNEL", raising=False)
        monkeypatch.setattr(docker.DockerPlatform, "_connect", lambda _: None)
        monkeypatch.setattr(xen_tools, "ROOT", root)
        hypervisor = SimpleNamespace(cpus=2, free_memory_byte=1 << 40, dom0_gives_memory=False)
        monkeypatch.setattr(xen_tools, "ask_hypervisor", lambda: hypervisor)
        monkeypatch.setattr(uml, "cannot_start", lambda: None)
        monkeypatch.setattr(gvisor, "_flags", lambda: "systrap")
        monkeypatch.setattr(gvisor, "_known_traps", lambda _: ("systrap",))
        monkeypatch.setattr(QemuPlatform, "_accelerator", lambda *_: SimpleNamespace(name="kvm"))
        monkeypatch.setattr(QemuPlatform, "_manager", lambda *_: SimpleNamespace(uri=None, reason=""))
        monkeypatch.setattr(virtualbox, "_facts", lambda _: {"VMState": "poweroff"})
        monkeypatch.setattr(cloud, "_words", lambda: ["key"] if has(KEY) else [])
        monkeypatch.setattr(cloud, "_driver", lambda _: None)
        monkeypatch.setattr(EsxiPlatform, "_look", lambda *_: None)
        return lambda kind: open_platform(
            kind, binary=binary, owner="vtare-test", settings=SETTINGS.get(kind)
        ).missing()

    return make


XEN_FILES = {
    "sys/hypervisor/type": "xen\n",
    "proc/xen/capabilities": "control_d\n",
    "dev/loop-control": "",
    "sys/bus/xen-backend/drivers/vbd": "",
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_bare_machine_lacks_is_named_in_one_step(kind: str, machine: Machine) -> None:
    """Whatever is named where it alone is missing is named where everything is missing."""
    asked: list[str] = []

    def everything(thing: str) -> bool:
        asked.append(thing)
        return True

    assert machine(everything)(kind) is None
    things = list(dict.fromkeys(asked))
    bare = machine(lambda _: False)(kind) or ""
    for thing in things:
        alone = machine(lambda one, thing=thing: one != thing)(kind)  # type: ignore[misc]
        for part in (alone or "").split("; also ") if alone else ():
            # A program stands beside others of its package, a right of root beside what needs it.
            named = thing.strip("'") if thing.startswith("'") else "needs root" if thing == ROOT else part
            assert named in bare, f"{kind} names {part!r} only once the rest is there; on a bare machine: {bare!r}"


@pytest.mark.parametrize("kind", KINDS)
def test_one_line_of_commands_gets_all_that_commands_can_get(
    kind: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = Ways()
    monkeypatch.setattr(Ways, "_candidates", frozenset(ways.packages.values()))
    reason = machine(lambda thing: thing == "'sudo'")(kind)
    line = ways.out_of(reason or "") or ""
    for package in re.findall(r"; install ([\w.+-]+)(?![\w:/]| from)", (reason or "").replace("install it with", "")):
        if package not in ("it", "VirtualBox"):
            assert re.search(rf"apt-get install -y [^&]*\b{re.escape(package)}\b", line), (package, line)
    for package in re.findall(r"`pip install ([^`]+)`", reason or ""):
        assert f"-m pip install {package}" in line
    assert ("sudo vtare ..." in line) == ("needs root" in (reason or ""))
    assert line.count("apt-get install") <= 1


DOCKER = "no Docker daemon at unix:///var/run/docker.sock; start one (install docker.io) or set DOCKER_HOST"


@pytest.mark.parametrize(
    ("user", "programs", "line"),
    [
        (0, (), "apt-get install -y iproute2 docker.io && sh -c 'dockerd "),
        (1000, ("sudo",), "sudo apt-get install -y iproute2 docker.io && sudo sh -c 'dockerd "),
        (1000, (), "su -c 'PATH=$PATH:/usr/sbin:/sbin; apt-get install -y iproute2 docker.io && sh -c '"),
    ],
)
def test_a_line_of_commands_is_for_this_user(
    user: int, programs: tuple[str, ...], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = Ways()
    monkeypatch.setattr(Ways, "_candidates", frozenset(ways.packages.values()))
    monkeypatch.setattr("vtare.doctor.ways._lists_read", lambda: True)
    monkeypatch.setattr("vtare.doctor.ways._has_systemd", lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}" if name in programs else None)
    found = ways.out_of(f"{DOCKER}; also the program 'ip' is missing; install iproute2; also needs root to do it")
    assert found is not None
    assert found.startswith(line)
    assert found.endswith("vtare ..." if user == 0 or programs else "vtare ...'")


def test_a_machine_whose_package_lists_were_never_read_reads_them_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtare.doctor.ways._lists_read", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    line = Ways().out_of("the program 'lxc-start' is missing; install lxc")
    assert line == "apt-get update && apt-get install -y lxc"


def test_a_user_without_sudo_has_root_carry_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert for_this_user("sudo modprobe kvm_amd") == "su -c 'PATH=$PATH:/usr/sbin:/sbin; modprobe kvm_amd'"
    assert for_this_user("pip install x") == "pip install x"
