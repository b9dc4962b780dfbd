"""Guests of `vtare weigh`: what boots, what it is asked to run, and where a guest is no choice."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vtare.errors import MachineCannot
from vtare.platforms.guest.kernel import Kernel
from vtare.platforms.protocol import Resources
from vtare.weigh import guest
from vtare.weigh.launchers import LAUNCHERS, QemuLauncher
from vtare.weigh.runner import RefusedThere, WeighRunner
from vtare.weigh.weighing import read_platforms

MEBIBYTE = 1 << 20


def words(resources: Resources, accelerator: str = "tcg") -> str:
    kernel = Kernel(Path("/boot/kernel"), Path("/lib/modules/6"))
    return " ".join(guest.words(accelerator, kernel, Path("/p"), Path("/p/rootfs"), Path("/p/guests/a"), resources))


def test_a_request_becomes_the_program_in_its_directory_with_its_variables_alone(tmp_path: Path) -> None:
    place = tmp_path / "a b"
    place.mkdir()
    script = guest.request(
        ["/bin/sh", "-c", 'pwd; echo "$GREETING|$HOME|$1"', "sh", "it's $HOME"], str(place), {"GREETING": "a 'b'\n$c"}
    )
    done = subprocess.run(["env", "-i", "/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{place}\na 'b'\n$c||it's $HOME\n"


def test_the_limits_of_all_platforms_are_those_of_the_guest() -> None:
    limited = words(Resources(pinned=(0, 3, 4), memory_byte=640 * MEBIBYTE))
    assert "-smp 3 -m 512M " in limited
    assert "tcg" not in words(Resources(), "kvm")
    assert "-cpu host" in words(Resources(), "kvm")
    with pytest.raises(MachineCannot, match="a guest needs --memory 256MiB or more"):
        words(Resources(memory_byte=255 * MEBIBYTE))


def test_files_are_offered_to_be_read_only() -> None:
    shared = [word for word in words(Resources()).split() if word.startswith("local,")]
    assert [word.split(",")[1] for word in shared] == ["path=/p/rootfs", "path=/p/guests/a"]
    assert all("readonly=on" in word.split(",") for word in shared)


def test_the_first_files_have_the_modules_that_are_not_built_in_each_after_what_it_needs(tmp_path: Path) -> None:
    modules = tmp_path / "6.1"
    modules.mkdir()
    (modules / "modules.builtin").write_text("".join(f"kernel/{name}.ko\n" for name in guest._DRIVERS if name != "9p"))
    (modules / "9p.ko").write_bytes(b"\0depends=netfs\0")
    (modules / "netfs.ko").write_bytes(b"\0depends=\0")
    (tmp_path / "busybox").write_bytes(b"static")
    archive = guest.initramfs(Kernel(tmp_path / "kernel", modules), tmp_path / "busybox")
    assert b"for one in netfs 9p; do" in archive
    assert [name for name in (b"modules/9p.ko", b"modules/netfs.ko", b"bin/busybox") if name not in archive] == []


def test_a_guest_is_measured_only_where_it_is_named_and_nothing_enters_it() -> None:
    assert [name for name, one in LAUNCHERS.items() if one.IS_MACHINE] == ["qemu"]
    assert "qemu" not in read_platforms(None)
    assert read_platforms("qemu") == ["host", "qemu"]
    here = Path("/vtare")
    groups: dict[str, Any] = {"qemu": None}
    runner = WeighRunner(here, here, ["true"], {"qemu": QemuLauncher(Resources())}, groups, most_s=1.0)
    with pytest.raises(RefusedThere, match="powers off"), runner.instance("qemu"):
        pass


def test_a_server_is_not_asked_in_a_guest(lab_command: Callable[..., Any]) -> None:
    done = lab_command("weigh", "--on", "qemu", "--server", "80", "--", "true")
    assert done.returncode == 2
    assert "Leave qemu out" in done.stderr
