"""Building and running small C, C++ and Java programs against an installed clock library."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
STANDARDS = {".c": ("gcc", "-std=c11"), ".cpp": ("g++", "-std=c++17")}


def need(tool: str, package: str) -> str:
    """The path of `tool`; skips the test where it is missing."""
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"no {tool} on PATH (Debian: {package})")
    return found


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `command`, which must end by itself; the caller judges how."""
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=120
    )


@dataclass(frozen=True)
class Installed:
    """The clock library as `make install PREFIX=...` left it."""

    prefix: Path

    @property
    def lib(self) -> Path:
        """The directory of the libraries."""
        return self.prefix / "lib"

    @property
    def library(self) -> Path:
        """The shared library."""
        return self.lib / "libvtare_clock.so"

    def flags(self, *, static: bool = False) -> list[str]:
        """The flags that pkg-config gives for a program."""
        command = [
            need("pkg-config", "pkgconf"),
            "--cflags",
            "--libs",
            "vtare_clock",
            *(["--static"] if static else []),
        ]
        result = run(command, PKG_CONFIG_PATH=str(self.lib / "pkgconfig"))
        assert result.returncode == 0, result.stderr
        return result.stdout.split()

    def build(self, source: Path, to: Path, *, static: bool = False, standard: str | None = None) -> Path:
        """Compile one C or C++ file with all warnings as errors."""
        compiler, usual = STANDARDS[source.suffix]
        program = to / source.stem
        mode = ["-static"] if static else []
        command = [need(compiler, compiler), standard or usual, *WARNINGS, "-O1", "-pthread", *mode, str(source)]
        result = run([*command, *self.flags(static=static), "-o", str(program)])
        assert result.returncode == 0, result.stderr
        return program

    def start(self, program: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program that may need the shared library."""
        return run([str(program), *arguments], LD_LIBRARY_PATH=str(self.lib), **environment)
