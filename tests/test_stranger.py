"""A stranger types what README shows under "First steps", line by line, on a machine where vtare is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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


@contextmanager
def two_machines() -> Iterator[tuple[str, str]]:
    """Two namespaces that see each other."""
    names = [f"vtare-stranger-{os.getpid()}-{end}" for end in "ab"]
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "dev", "lo", "up"], check=True)
        words = ["ip", "link", "add", "va", "netns", names[0], "type", "veth", "peer", "name", "vb", "netns", names[1]]
        subprocess.run(words, check=True)
        for name, device, address in ((names[0], "va", HERE), (names[1], "vb", THERE)):
            subprocess.run(["ip", "-n", name, "addr", "add", f"{address}/24", "dev", device], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "dev", device, "up"], check=True)
        yield names[0], names[1]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


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
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("the two last lines need root and ip: two machines are namespaces here")
    with two_machines() as (here, there):
        words = ["ip", "netns", "exec", there, *last["serve"].split()]
        with subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as far:
            assert far.stdout is not None
            shown = [far.stdout.readline() for _ in range(2)]
            # The line that is printed is the one that README announces.
            assert re.fullmatch(
                last["path"].replace("...", "[0-9a-f]{64}").replace("HOST", re.escape(THERE)), shown[1].strip()
            )
            type_line(shown[1].strip(), "path", ("ip", "netns", "exec", here))
            far.terminate()
    print(f"{times[-1][1]:6.1f} s  {last['path']}")
