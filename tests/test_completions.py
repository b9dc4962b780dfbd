"""TAB in real shells, with both halves: commands, options, plans, stores and files."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

SHELLS = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
#: What makes the shell complete, where `SCRIPT` is what `vtare completions` printed.
SETUP = {
    "bash": "source SCRIPT",
    "zsh": "autoload -U compinit; compinit -u -d DUMP; source SCRIPT",
    "fish": "source SCRIPT",
}
PATIENCE_S = 30.0


@dataclass
class Terminal:
    """A shell on a terminal of its own."""

    pid: int
    fd: int
    text: str = ""

    def read_until(self, wanted: str) -> None:
        """Read what it shows up to some text."""
        end = time.monotonic() + PATIENCE_S
        while wanted not in self.text:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                pytest.fail(f"no '{wanted}' after {PATIENCE_S:g} s: {self.text[-2000:]!r}")
            self.text += os.read(self.fd, 65_536).decode(errors="replace")

    def wait_for(self, file: Path) -> None:
        """Read on until there is a file."""
        end = time.monotonic() + PATIENCE_S
        while not file.exists():
            if time.monotonic() > end:
                pytest.fail(f"the shell asked for nothing: {self.text[-2000:]!r}")
            if select.select([self.fd], [], [], 0.02)[0]:
                self.text += os.read(self.fd, 65_536).decode(errors="replace")

    def type(self, text: str) -> None:
        """Type it."""
        os.write(self.fd, text.encode())

    def close(self) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, vtare: Path, tmp_path: Path) -> str:
    """A shell of this machine, with what it needs in `tmp_path`."""
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed: apt install {name}")
    script = subprocess.run([vtare, "completions", name], capture_output=True, check=True)
    (tmp_path / "script").write_bytes(script.stdout)
    (tmp_path / "bin").mkdir()
    # What was typed is shown, and nothing is measured; the shell's questions reach the program.
    stand_in = tmp_path / "bin/vtare"
    stand_in.write_text(
        f'#!/bin/sh\n[ -z "$VTARE_COMPLETE" ] && echo "TYPED[$*]" && exit\n{vtare} "$@" && touch {tmp_path}/asked\n'
    )
    stand_in.chmod(0o755)
    (tmp_path / "vtare-store").mkdir()
    (tmp_path / "kept.toml").write_text("")
    return name


def completed(shell: str, place: Path, line: str) -> str:
    """What a person has typed who presses TAB at the end of a line, then Enter."""
    pid, fd = pty.fork()
    if pid == 0:
        environment = {**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}", "TERM": "xterm", "HOME": str(place)}
        os.chdir(place)
        os.execvpe(SHELLS[shell][0], SHELLS[shell], environment)
    terminal = Terminal(pid, fd)
    try:
        setup = SETUP[shell].replace("SCRIPT", str(place / "script")).replace("DUMP", str(place / "dump"))
        terminal.type(f"{setup}; echo rea''dy\n")
        terminal.read_until("ready\r\n")
        terminal.type(f"{line}\t")
        # What comes while the shell thinks could keep it from inserting anything.
        terminal.wait_for(place / "asked")
        terminal.type("\n")
        terminal.read_until("TYPED[")
        terminal.read_until("]\r\n")
    finally:
        terminal.close()
    return terminal.text.rpartition("TYPED[")[2].partition("]")[0].rstrip()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("vtare rep", "report"),
        ("vtare run kirova-timers-q", "run kirova-timers-quick"),
        ("vtare run ki", "run kirova-"),
        ("vtare run kept", "run kept.toml"),
        ("vtare report --for", "report --format"),
        ("vtare report --format ht", "report --format html"),
        ("vtare report vtare-st", "report vtare-store/"),
        ("vtare plan sch", "plan schema"),
        ("vtare doctor throu", "doctor throughput"),
        ("vtare timer --all", "timer --all-cpus"),
        ("vtare help --al", "help --all"),
        ("vtare help stat", "help status"),
    ],
)
def test_a_line_is_completed_with_tab(shell: str, tmp_path: Path, line: str, wanted: str) -> None:
    assert completed(shell, tmp_path, line) == wanted


def test_completions_of_a_line_come_at_once(vtare: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "VTARE_COMPLETE": "fish"}
    line: list[str | Path] = [vtare, "--", "vtare", "report", "--f"]
    subprocess.run(line, env=environment, capture_output=True, check=True)
    begin = time.monotonic()
    answer = subprocess.run(line, env=environment, capture_output=True, check=True, text=True).stdout
    assert answer.startswith("--format\t")
    # Alone it takes 0.1 s.
    assert time.monotonic() - begin < 2.0
