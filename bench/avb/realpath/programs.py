"""Programs in the namespaces of the path: pinned, and before the other work of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from realpath.others import OTHERS

ENDS = ("from", "cross", "router", "to", "second", "wire")
NAMES = {end: f"vtare-real-{os.getpid()}-{end}" for end in ENDS}
#: Whether the programs of a measurement run before the other work of the machine; not beside busy threads.
PREFERRED = [True]


def sh(*words: str) -> None:
    """Runs a command that must succeed."""
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


def first_in_line() -> None:
    """Puts this process before all others: its own session, which the scheduler weighs as a group, and its niceness."""
    with suppress(OSError):
        os.setsid()
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("-19")
    with suppress(OSError):
        os.nice(-19)


def start(end: str, cpu: int | None, *words: str) -> subprocess.Popen[str]:
    """Starts a program in a namespace, pinned (none: where the scheduler puts it) and before others."""
    pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
    command = ["ip", "netns", "exec", NAMES[end], *pinned, *words]
    pipe = subprocess.PIPE
    preferred = first_in_line if PREFERRED[0] else None
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=preferred)
    OTHERS.own.add(process.pid)
    return process


def ready(process: subprocess.Popen[str]) -> None:
    """Waits until a load reports that it is ready."""
    assert process.stderr is not None
    line = process.stderr.readline()
    if line.strip() != "ready":
        raise RuntimeError(line + process.stderr.read())


def ended(process: subprocess.Popen[str], limit_s: float = 30) -> str:
    """Ends a program and returns its output."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=limit_s)
    return out
