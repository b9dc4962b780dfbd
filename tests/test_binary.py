"""The binary `vtare` runs anywhere: static, small, and in a root file system that holds nothing but busybox."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elf import linkage

SIZE_LIMIT_BYTE = 15_000_000


def test_a_program_with_a_dynamic_linker_is_not_called_static() -> None:
    shell = Path("/bin/sh").read_bytes()
    if not subprocess.run(["ldd", "/bin/sh"], capture_output=True, check=False).stdout:
        pytest.skip("/bin/sh of this machine is static itself: nothing to compare")
    assert linkage(shell).interpreter
    assert linkage(shell).libraries >= 1


def test_a_file_that_is_no_program_is_refused() -> None:
    with pytest.raises(ValueError, match="does not begin a 64-bit little-endian ELF file"):
        linkage(b"#!/bin/sh\nexit 0\n")


@pytest.mark.e2e
def test_the_binary_is_static(vtare: Path) -> None:
    assert linkage(vtare.read_bytes()).static


@pytest.mark.e2e
def test_the_binary_is_under_15_mb(vtare: Path) -> None:
    assert vtare.stat().st_size < SIZE_LIMIT_BYTE


def chroot_command(directory: Path) -> list[str]:
    """The words that run a program in `directory` as root file system, with root's rights or a user namespace's.

    Skips the test, with the reason, where this machine allows neither.
    """
    # An ordinary user's PATH may lack the directories of root's programs.
    chroot = shutil.which("chroot", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if chroot is None:
        pytest.skip("this machine has no chroot program (Debian: coreutils)")
    enter = [chroot, str(directory)]
    if os.geteuid() == 0:
        return enter
    enter = ["unshare", "--user", "--map-root-user", *enter]
    probe = subprocess.run([*enter, "/bin/busybox", "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"this machine gives ordinary users no user namespace: {probe.stderr.strip()}")
    return enter


@pytest.fixture
def busybox_root(tmp_path: Path, vtare: Path) -> Path:
    """A root file system that holds busybox and vtare, no library, no /proc, no /sys, no /dev."""
    busybox = shutil.which("busybox")
    if busybox is None or not linkage(Path(busybox).read_bytes()).static:
        pytest.skip("no static busybox on PATH (Debian: busybox-static, Fedora: busybox)")
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(busybox, root / "bin" / "busybox")
    (root / "bin" / "sh").symlink_to("busybox")
    shutil.copy(vtare, root / "bin" / "vtare")
    return root


@pytest.mark.e2e
def test_the_binary_measures_where_there_is_only_busybox(busybox_root: Path) -> None:
    script = "exec vtare timer --samples 1000 --json"
    result = subprocess.run(
        [*chroot_command(busybox_root), "/bin/sh", "-c", script],
        env={"PATH": "/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    counted = {cell["source"]: cell["cost_ns"]["n"] for cell in json.loads(result.stdout)["cells"]}
    assert {"clock_monotonic", "clock_monotonic_syscall", "vtare"} <= set(counted)
    assert set(counted.values()) == {1000}


@pytest.mark.e2e
def test_a_command_of_the_lab_states_how_to_get_the_lab_where_there_is_none(busybox_root: Path) -> None:
    command = [*chroot_command(busybox_root), "/bin/vtare", "run", "quickstart"]
    result = subprocess.run(command, env={"PATH": "/bin"}, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 3  # this machine cannot do it
    assert "vtare-lab" in result.stderr
    assert "make install" in result.stderr


@pytest.mark.e2e
def test_the_binary_states_the_version_of_the_package(vtare: Path) -> None:
    said = subprocess.run([vtare, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    code = "import importlib.metadata; print(importlib.metadata.version('vtare'))"
    packaged = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    assert said == f"vtare {packaged}"
