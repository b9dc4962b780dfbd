"""What tests of real platforms share."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from vtare.platforms.network import NetworkRefused

#: A slow machine with other work: waiting for a condition ends long before this, a hang after it.
PATIENCE_S = 120.0


def wait_until(what: str, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"waited {patience_s:g} s in vain: {what}"
        time.sleep(0.02)


def end_daemon(daemon: subprocess.Popen[bytes]) -> None:
    """End a daemon of these tests: kindly at first."""
    daemon.terminate()
    try:
        daemon.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def skip_unless_made(
    missing: str | None, topology: AbstractContextManager[object], then: Callable[[], None] = lambda: None
) -> None:
    """Skip the test where this machine or user cannot make a topology, or do with it what follows; with the reason."""
    if missing is not None:
        pytest.skip(missing)
    try:
        with topology:
            then()
    except NetworkRefused as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class Sshd:
    """A machine with sshd: a namespace that this one reaches."""

    host: str
    port: int
    key_file: Path
    known_hosts: Path

    def settings(self) -> dict[str, str | int]:
        """The table of a plan."""
        return {
            "host": self.host,
            "user": "root",
            "port": self.port,
            "key_file": str(self.key_file),
            "known_hosts": str(self.known_hosts),
        }
