"""The wire: two namespaces joined by a veth pair, and programs at its ends."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

HERE, THERE = f"vtare-bench-{os.getpid()}-a", f"vtare-bench-{os.getpid()}-b"
PEER = "10.112.0.2"
RATE = 1000
SIZE = 64


@dataclass(frozen=True)
class Ended:
    """A program that ended: its output and what it took."""

    out: str
    err: str
    code: int
    cpu_s: float
    wall_s: float


def sh(*words: str) -> None:
    """Runs a command that must succeed."""
    subprocess.run(words, check=True, capture_output=True)


def inside(namespace: str, words: Sequence[str], cpu: int | None) -> list[str]:
    """The command that runs `words` in a namespace, pinned."""
    pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
    return ["ip", "netns", "exec", namespace, *pinned, *words]


def first(words: Sequence[str], *, fork: bool = True) -> list[str]:
    """The command in a session of its own, before the ordinary work of others where the kernel groups by session."""
    shell = 'echo -20 >/proc/self/autogroup 2>/dev/null; exec "$@"'
    return ["setsid", *(["-w"] if fork else []), "sh", "-c", shell, "sh", *words]


def run(words: Sequence[str], *, cpu: int | None = 0, limit_s: float = 120.0) -> Ended:
    """Runs a sender to its end and weighs it."""
    before, begin = os.times(), time.monotonic()
    done = subprocess.run(inside(HERE, first(words), cpu), capture_output=True, text=True, timeout=limit_s, check=False)
    after, end = os.times(), time.monotonic()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return Ended(done.stdout, done.stderr, done.returncode, cpu_s, end - begin)


def busy() -> float:
    """CPUs that were busy during the last half second."""

    def used() -> int:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        return sum(int(ticks) for at, ticks in enumerate(fields) if at not in (3, 4))

    before = used()
    time.sleep(0.5)
    return (used() - before) / os.sysconf("SC_CLK_TCK") / 0.5


def quiet(limit_s: float = 30.0) -> float:
    """Waits until other work takes less than a tenth of a CPU, for so long at most, and gives what it takes then."""
    end = time.monotonic() + limit_s
    while (share := busy()) > 0.1 and time.monotonic() < end:
        pass
    return share


@contextmanager
def responder(words: Sequence[str], *, cpu: int | None = 1, ready_s: float = 1.0) -> Iterator[None]:
    """Runs a responder in the far namespace."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(inside(THERE, first(words, fork=False), cpu), stdout=quiet, stderr=quiet)
    try:
        time.sleep(ready_s)
        if process.poll() is not None:
            raise RuntimeError(f"{words[0]} ended at once with {process.returncode}")
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(3)
        process.kill()
        process.wait()


@contextmanager
def wire() -> Iterator[None]:
    """Two namespaces joined by a veth pair with an MTU of 9000, removed at the end."""
    try:
        sh("ip", "netns", "add", HERE)
        sh("ip", "netns", "add", THERE)
        sh("ip", "link", "add", "va", "netns", HERE, "type", "veth", "peer", "name", "vb", "netns", THERE)
        for namespace, device, address in ((HERE, "va", "10.112.0.1/24"), (THERE, "vb", f"{PEER}/24")):
            sh("ip", "-n", namespace, "addr", "add", address, "dev", device)
            sh("ip", "-n", namespace, "link", "set", "lo", "up")
            sh("ip", "-n", namespace, "link", "set", device, "mtu", "9000", "up")
        yield
    finally:
        for namespace in (HERE, THERE):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)
