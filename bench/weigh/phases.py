"""Where a delay goes: start, command and stop of a run beside a delay that was planted in one of them.

What plants it sends when its delay began and ended, on the clock that the phases are on: it must lie within its phase.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from figures import figure

from vtare.ab.commands import Command
from vtare.platforms.protocol import Resources
from vtare.weigh.group import Group
from vtare.weigh.launchers import LAUNCHERS
from vtare.weigh.runner import START, STOP, WHOLE, WeighRunner

#: The tool of each platform: the host has none, and what is inside gVisor has a clock of its own.
TOOLS = {"docker": "docker", "podman": "podman", "nspawn": "systemd-nspawn", "bubblewrap": "bwrap"}
PHASES = ("start", "command", "stop")
DELAY_MS = 5.0
#: Stamps are taken before and after the delay, so they may lie outside by what that takes.
TOLERANCE_MS = 0.1
WANTED = 0.99
DELAY = (
    "import socket, time; begin = time.monotonic_ns(); time.sleep({delay}); end = time.monotonic_ns(); "
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'%d %d' % (begin, end), ('127.0.0.1', {port}))"
)
WRAPPER = """#!/usr/bin/python3 -SE
import os, subprocess, sys
delays = "run" in sys.argv or {always}
phase = os.environ.get("VTARE_PLANTED") if delays else None
if phase == "start":
    {delay}
    os.execv({tool!r}, [{tool!r}, *sys.argv[1:]])
code = subprocess.call([{tool!r}, *sys.argv[1:]])
if phase == "stop":
    {delay}
sys.exit(code)
"""


def wrap(tools: Path, platform: str, port: int) -> None:
    """Put a tool in front that delays what the environment names."""
    real = shutil.which(TOOLS[platform])
    assert real is not None
    delay = DELAY.format(delay=DELAY_MS / 1e3, port=port)
    file = tools / TOOLS[platform]
    # Others of its commands than the one that runs programs are no part of a run.
    always = platform in ("nspawn", "bubblewrap")
    file.write_text(WRAPPER.format(tool=real, delay=delay, always=always))
    file.chmod(0o755)


def trial(runner: WeighRunner, platform: str, phase: str, planted: socket.socket) -> tuple[bool, bool]:
    """Whether all phases are known, and whether the delay is in its phase."""
    os.environ["VTARE_PLANTED"] = phase
    (run,), _ = runner.run([Command((platform,), platform)])
    begin, end = map(int, planted.recv(100).split())
    start, stop, whole = (next(iter(run.readings[name].values), math.nan) for name in (START, STOP, WHOLE))
    is_whole = not math.isnan(start + stop + whole)
    ends = [run.begin_ns + start, run.begin_ns + start + run.wall_ns, run.begin_ns + whole]
    at = PHASES.index(phase)
    tolerance = 1e6 * TOLERANCE_MS
    lies_inside = [run.begin_ns, *ends][at] - tolerance <= begin and end <= ends[at] + tolerance
    return is_whole, lies_inside


def main(trials: int, platforms: list[str], binary: Path, place: Path) -> bool:
    """Plant that many delays, print where they went, and judge."""
    rng = random.Random(1)
    done: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    with ExitStack() as stack:
        planted = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        planted.bind(("127.0.0.1", 0))
        planted.settimeout(10.0)
        port = planted.getsockname()[1]
        delay = DELAY.format(delay=DELAY_MS / 1e3, port=port)
        command = ["/usr/bin/python3", "-SEc", f"import os\nif os.environ['VTARE_PLANTED'] == 'command': {delay}"]
        runners: dict[str, Any] = {}
        for at, platform in enumerate(platforms):
            if (reason := LAUNCHERS[platform].missing(binary)) is not None:
                print(f"  {platform}: left out, {reason}")
                continue
            launcher, group = LAUNCHERS[platform](Resources()), Group(at)
            stack.callback(group.close)
            stack.callback(launcher.close)
            launcher.open(at, binary)
            wrap(place, platform, port)
            runners[platform] = WeighRunner(
                binary, binary.resolve(), command, {platform: launcher}, {platform: group}, most_s=60.0
            )
        os.environ["PATH"] = f"{place}{os.pathsep}{os.environ['PATH']}"
        chosen = [(platform, phase) for platform in runners for phase in PHASES]
        for number in range(trials):
            if number % len(chosen) == 0:
                rng.shuffle(chosen)
            platform, phase = chosen[number % len(chosen)]
            done.setdefault((platform, phase), []).append(trial(runners[platform], platform, phase, planted))
    for platform in runners:
        told = ", ".join(
            f"{phase} {sum(ok for _, ok in results)} of {len(results)}"
            for phase in PHASES if (results := done.get((platform, phase), []))
        )  # fmt: skip
        print(f"  {platform:<12}{DELAY_MS:g} ms in its phase: {told}")
    results = [one for many in done.values() for one in many]
    known, right = sum(whole for whole, _ in results), sum(ok for _, ok in results)
    figure("phases/all known", known / max(len(results), 1))
    figure("phases/attributed", right / max(len(results), 1))
    is_known = 0 < len(results) == known
    is_right = 0 < WANTED * len(results) <= right
    # The stop is the rest of the whole, so the sum is right by definition: what can be wrong is where a delay lies.
    print(f"  {'reached' if is_known else 'MISSED '}  start, command and stop are known: in {known} of {len(results)} "
          "runs")  # fmt: skip
    print(f"  {'reached' if is_right else 'MISSED '}  the delay lies in its phase: in {right} of {len(results)} runs, "
          f"goal {100 * WANTED:g} %")  # fmt: skip
    return is_known and is_right
