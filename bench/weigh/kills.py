"""Kills of `vtare weigh` at random moments: what is left of a run, after the product's own tidying."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

NOWHERE = subprocess.DEVNULL
PLACES = Path("/var/lib/vtare/weigh")
GROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup/memory"))
WEIGH = [sys.executable, "-m", "vtare.start", "weigh"]
#: Moments of a kill: within preparing, warming up, the rounds, what is entered, the burst or many servers.
LONGEST_S = 15.0
#: What processes may take to see that theirs is gone.
GONE_S = 5.0
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def judged(number: int, platforms: str, binary: Path, place: Path) -> tuple[str, int, list[str]]:
    """What was killed, how much of it was there right afterwards, and all that is left of it in the end."""
    rng = random.Random(number)
    name = SIGNALS[number % len(SIGNALS)]
    # By the names of its program and its files everything of this run is told from what else runs here.
    mark = f"vtare-kill-{os.getpid()}-{number}"
    program, files = place / mark, place / f"{mark}-files"
    shutil.copy2(binary, program)
    files.mkdir()
    port = 20_000 + (os.getpid() + number) % 10_000
    is_server = number // len(SIGNALS) % 2 == 0
    what = (
        ["--server", str(port), "--density", "1 s", "--", "/usr/bin/python3", "-m", "http.server", "{port}"]
        if is_server
        else ["--rounds", "3", "--burst", "3", "--", "sleep", "0.0625"]
    )
    words = ["env", "--default-signal=INT", f"TMPDIR={files}", *WEIGH]
    options = ["--on", platforms, "--max-time", "20 s", "--binary", str(program)]
    started = subprocess.Popen([*words, *options, *what], start_new_session=True, stdout=NOWHERE, stderr=NOWHERE)
    after_s = rng.uniform(0.2, LONGEST_S)
    try:
        started.wait(timeout=after_s)
    except subprocess.TimeoutExpired:
        if name == signal.SIGKILL:
            os.killpg(started.pid, name)
        else:
            started.send_signal(name)
    started.wait(timeout=60)
    at_once = len(left(f"vtare-{started.pid}-", mark, files))
    if name == signal.SIGKILL:
        # What the next run does.
        again = ["--on", "host,host", "--rounds", "1", "--binary", str(binary), "--", "true"]
        subprocess.run(
            ["env", f"TMPDIR={files}", *WEIGH, *again], check=True, timeout=120, stdout=NOWHERE, stderr=NOWHERE
        )
    until = time.monotonic() + GONE_S
    while (rest := left(f"vtare-{started.pid}-", mark, files)) and time.monotonic() < until:
        time.sleep(0.1)
    shutil.rmtree(files, ignore_errors=True)
    program.unlink()
    return f"{name.name} {after_s:.1f} s after the start of a {'server' if is_server else 'command'}", at_once, rest


def left(prefix: str, mark: str, files: Path) -> list[str]:
    """All that is left of the run whose names begin with the prefix, and whose program has the mark."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [
        *(f"directory {path}" for path in PLACES.glob(f"{prefix}*")),
        *(f"mount {where}" for where in mounts if f"/{prefix}" in where),
        *(f"control group {path}" for root in GROUPS for path in root.glob(f"{prefix}*")),
        *(f"process {words}" for words in running(mark)),
        *(f"file {path}" for path in files.glob("*")),
        *(f"container {name}" for tool in ("docker", "podman") for name in listed(tool, "ps", "--all", "{{.Names}}")
          if name.startswith(prefix)),
        *(f"image {name}" for name in listed("docker", "images", "{{.Repository}}") if name.startswith(prefix)),
    ]  # fmt: skip


def running(mark: str) -> list[str]:
    """The commands of all processes that have the mark in their words or environment."""
    commands = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            words, own = (directory / "cmdline").read_bytes(), (directory / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in words + own:
            commands.append(f"{directory.name} {words.replace(bytes(1), b' ').decode(errors='replace')[:200]}")
    return commands


def listed(tool: str, *words: str) -> list[str]:
    """Names that a tool lists; none where it does not work here."""
    *command, form = words
    if shutil.which(tool) is None:
        return []
    done = subprocess.run([tool, *command, "--format", form], capture_output=True, text=True, check=False)
    return done.stdout.split()


def main(kills: int, platforms: str, binary: Path, place: Path) -> bool:
    """Kill that often, print what is left, and judge; whether nothing was."""
    leaving = untidy = 0
    for number in range(kills):
        what, at_once, rest = judged(number, platforms, binary, place)
        leaving += bool(rest)
        untidy += at_once > 0
        for one in rest:
            print(f"  {what}: left {one}", flush=True)
    ok = leaving == 0 and kills > 0
    print(f"{kills} kills at random moments: in {kills - leaving} nothing was left; right after the kill "
          f"something was there in {untidy}")  # fmt: skip
    print(f"  {'reached' if ok else 'MISSED '}  nothing is left over")
    return ok
