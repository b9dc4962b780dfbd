"""Two ends in network namespaces of this machine: for tests of pages, and for tools that run what pages show."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

NEAR, FAR = "10.0.0.1", "10.0.0.2"


def _run(*words: str) -> None:
    subprocess.run(words, check=True, timeout=30)


def inside(namespace: str) -> tuple[str, ...]:
    """The words in front of a command that runs in a namespace."""
    return ("ip", "netns", "exec", namespace)


@contextmanager
def two_ends(purpose: str) -> Iterator[dict[str, str]]:
    """Two network namespaces, "near" (10.0.0.1) and "far" (10.0.0.2), by their names; as root."""
    names = {end: f"vtare-{purpose}-{os.getpid()}-{end}" for end in ("near", "far")}
    try:
        for name in names.values():
            _run("ip", "netns", "add", name)
        _run("ip", "link", "add", "v0", "netns", names["near"], "type", "veth", "peer", "v0", "netns", names["far"])
        for name, address in zip(names.values(), (NEAR, FAR), strict=True):
            _run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "v0")
            for device in ("lo", "v0"):
                _run("ip", "-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in names.values():
            subprocess.run(("ip", "netns", "delete", name), check=False, timeout=30)


@contextmanager
def running(*words: str, ready: str) -> Iterator[None]:
    """A program beside the run, from the line that says that it is `ready` on."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        if process.stdout is not None:
            while (line := process.stdout.readline()) and ready not in line:
                pass
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def served_path(key: str, rate: str | None) -> Iterator[dict[str, str]]:
    """The two ends, with a far end of everything at 10.0.0.2, behind that rate and a buffer of 20 ms."""
    with two_ends("runs") as ends:
        if rate is not None:
            shape = ("rate", rate, "burst", "15kb", "latency", "20ms")
            _run("tc", "-n", ends["near"], "qdisc", "add", "dev", "v0", "root", "tbf", *shape)
        serve = ("env", f"VTARE_KEY={key}", "vtare", "serve", "--rpm", f"{FAR}:4043")
        with running(*inside(ends["far"]), *serve, ready="4043"):
            yield ends
