"""A stranger types what README shows under "First steps", line by line, on a machine where vtare is installed."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from machines import joined_namespaces

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

HERE, THERE = "10.118.0.1", "10.118.0.2"
#: What a line must print, by its command.
SHOWN = {
    "check": r"(GOOD|USABLE|NOT NOW): ",
    "ab": r"wall time .* slower",
    "exec": r"",
    "run": r"report: \S*quickstart-quick/report\.html",
    "report": r"quickstart-quick/report\.html",
    "path": r"(Up: |Could not judge the path)",
}
#: The first answer comes within this time.
FIRST_S = 30.0


def lines(root: Path) -> list[str]:
    """The lines as README has them, without what is said of them."""
    section = (root / "README.md").read_text(encoding="utf-8").split("## First steps\n")[1].split("\n## ")[0]
    return [line.split("  #")[0].strip() for line in section.splitlines() if line.startswith("    ")]


def test_every_line_of_the_first_steps_works_as_it_stands(root: Path, vtare: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}"}
    typed = lines(root)
    commands = [next(word for word in line.split() if word in (*SHOWN, "serve")) for line in typed]
    assert sorted(commands) == sorted([*SHOWN, "serve"]), "README shows other steps than this test knows"
    last, times = dict(zip(commands, typed, strict=True)), []

    def type_line(line: str, command: str, inside: tuple[str, ...] = ()) -> None:
        began = time.monotonic()
        words = [*inside, "sh", "-c", line]
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        times.append((line, time.monotonic() - began))
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert re.search(SHOWN[command], done.stdout + done.stderr), f"{line}\n{done.stdout}{done.stderr}"

    for line, command in zip(typed, commands, strict=True):
        if command not in ("serve", "path"):
            type_line(line, command)
    print("".join(f"{seconds:6.1f} s  {line}\n" for line, seconds in times))
    assert times[0][1] < FIRST_S
    with joined_namespaces("stranger", HERE, THERE) as (here, there):
        words = ["ip", "netns", "exec", there, *last["serve"].split()]
        with subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as far:
            assert far.stdout is not None
            try:
                shown = next(line.strip() for line in far.stdout if line.startswith("VTARE_KEY="))
                # The line that is printed is the one that README announces.
                announced = last["path"].replace("...", "[0-9a-f]{64}").replace("HOST", re.escape(THERE))
                assert re.fullmatch(announced, shown)
                type_line(shown, "path", ("ip", "netns", "exec", here))
            finally:
                far.terminate()
    print(f"{times[-1][1]:6.1f} s  {last['path']}")
