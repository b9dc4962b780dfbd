"""A far end in a network namespace of this machine, for tools and benchmarks that show commands as people type them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

NETNS = "vtare-runs"


@contextmanager
def running(*words: str, ready: str | None = None) -> Iterator[None]:
    """A program beside the run, from its first line (the one that is `ready`) on."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        if process.stdout is not None and ready is not None:
            while (line := process.stdout.readline()) and ready not in line:
                pass
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def far_end(key: str, rate: str | None) -> Iterator[None]:
    """A namespace 10.0.0.2 with a far end of everything, behind a link of that rate."""

    def run(*words: str) -> None:
        subprocess.run(words, check=True, timeout=30)

    inside = ("ip", "netns", "exec", NETNS)
    run("ip", "netns", "add", NETNS)
    try:
        run("ip", "link", "add", "vtare-runs0", "type", "veth", "peer", "vtare-runs1", "netns", NETNS)
        run("ip", "address", "add", "10.0.0.1/24", "dev", "vtare-runs0")
        run("ip", "link", "set", "vtare-runs0", "up")
        run("ip", "-n", NETNS, "address", "add", "10.0.0.2/24", "dev", "vtare-runs1")
        for device in ("lo", "vtare-runs1"):
            run("ip", "-n", NETNS, "link", "set", device, "up")
        if rate is not None:
            shape = ("rate", rate, "burst", "15kb", "latency", "20ms")
            run("tc", "qdisc", "add", "dev", "vtare-runs0", "root", "tbf", *shape)
        serve = (*inside, "env", f"VTARE_KEY={key}", "vtare", "serve", "--rpm", "10.0.0.2:4043")
        with running(*serve, ready="4043"):
            yield
    finally:
        subprocess.run(("ip", "netns", "delete", NETNS), check=False, timeout=30)
