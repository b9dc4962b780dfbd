"""A missing or too old tool is named, with the commands that install it on Debian and on Fedora."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

ALWAYS = ("sed", "sort", "head", "dirname", "sh", "cat")


class Machine:
    """A PATH of its own, on which only chosen tools stand."""

    def __init__(self, bin_directory: Path, need: Path) -> None:
        self.bin = bin_directory
        self.need = need
        self.bin.mkdir()
        for tool in ALWAYS:
            self.link(tool)

    def link(self, tool: str) -> None:
        """Put this machine's own `tool` on the PATH."""
        found = subprocess.run(["sh", "-c", f"command -v {tool}"], check=True, capture_output=True, text=True).stdout
        (self.bin / tool).symlink_to(found.strip())

    def add(self, tool: str, script: str) -> None:
        """Put a tool on the PATH that runs `script`."""
        path = self.bin / tool
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(self, python: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Run tools/need there, as the Makefile does."""
        command = [str(self.need), python, *more]
        return subprocess.run(command, env={"PATH": str(self.bin)}, capture_output=True, text=True, check=False)


@pytest.fixture
def machine(tmp_path: Path, root: Path) -> Machine:
    """A machine that has all that vtare needs."""
    made = Machine(tmp_path / "bin", root / "tools" / "need")
    made.add("cargo", "exit 0")
    made.add("rustc", "echo 'rustc 1.99.0 (0123abc 2030-01-01)'")
    made.add("python3", "exit 0")
    made.add("cc", "echo /usr/lib/libc.a")
    return made


def test_a_machine_with_everything_passes_in_silence(machine: Machine) -> None:
    result = machine.run("python3")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_release_needs_no_compiler(machine: Machine) -> None:
    for tool in ("cargo", "rustc", "cc"):
        (machine.bin / tool).unlink()
    result = machine.run("python3", "wheel")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_no_rust_is_named_with_the_commands(machine: Machine) -> None:
    (machine.bin / "cargo").unlink()
    result = machine.run("python3")
    assert result.returncode == 2
    assert "(cargo and rustc), and there is none" in result.stderr
    assert "sudo apt install rustup && rustup default stable" in result.stderr
    assert "sudo dnf install rustup" in result.stderr


@pytest.mark.parametrize("version", ["1.63.0", "1.9.0", "1.87.1"])
def test_too_old_a_rust_is_named_with_both_versions(machine: Machine, version: str) -> None:
    machine.add("rustc", f"echo 'rustc {version} (0123abc 2022-08-08)'")
    result = machine.run("python3")
    assert result.returncode == 2
    assert result.stderr.startswith("vtare needs Rust 1.")
    assert f"not {version}" in result.stderr
    assert "rustup update stable" in result.stderr


def test_too_old_a_python_is_named_with_both_versions(machine: Machine) -> None:
    machine.add("python3", "echo 'Python 3.9.2'")
    result = machine.run("")
    assert result.returncode == 2
    assert "vtare needs Python 3.11 or newer, not 3.9.2" in result.stderr
    assert "sudo dnf install python3" in result.stderr


def test_a_python_without_venv_is_shown_the_package_of_its_series(machine: Machine) -> None:
    machine.add("python3", 'case "$2" in *ensurepip*) exit 1 ;; *) echo 3.12 ;; esac')
    result = machine.run("python3")
    assert result.returncode == 2
    assert "sudo apt install python3.12-venv" in result.stderr


def test_no_compiler_is_named(machine: Machine) -> None:
    (machine.bin / "cc").unlink()
    result = machine.run("python3")
    assert result.returncode == 2
    assert "sudo apt install gcc libc6-dev" in result.stderr


def test_no_static_c_library_is_named(machine: Machine) -> None:
    machine.add("cc", "echo libc.a")
    result = machine.run("python3")
    assert result.returncode == 2
    assert "sudo dnf install glibc-static" in result.stderr


def test_everything_lacking_is_named_at_once(machine: Machine) -> None:
    for tool in ("cargo", "rustc", "python3", "cc"):
        (machine.bin / tool).unlink()
    assert machine.run("").stderr.count("vtare needs ") == 3


def test_the_documents_name_the_rust_that_the_workspace_needs(root: Path) -> None:
    wanted = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["rust-version"]
    assert f"needs Rust {wanted}," in (root / "README.md").read_text(encoding="utf-8")
    assert f"| Rust {wanted} or newer |" in (root / "docs/guide/install.md").read_text(encoding="utf-8")
