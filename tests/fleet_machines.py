"""Hosts of a fleet on this machine, and a Dask cluster on them: what tests of campaigns on fleets share."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from vtare.campaign.journal import Journal
from vtare.fleet.cluster import PATIENT, QUIET
from vtare.platforms import network
from vtare.platforms.owner import own_prefix

NAMES = ("a", "b", "c", "d")
HUB = "10.76.0.254"


@dataclass
class Hosts:
    """Four namespaces behind one bridge, which stands in a namespace of its own: `hub`."""

    prefix: str
    #: The file that names all four, and one that names the first two.
    file: Path
    two: Path

    def inside(self, name: str, *words: str | Path) -> list[str]:
        """What runs a program on a host."""
        return ["ip", "netns", "exec", f"{self.prefix}-{name}", *map(str, words)]


@contextmanager
def bridged_hosts(place: Path) -> Iterator[Hosts]:
    """Four hosts, described in files in this directory; skips the test where there can be none."""
    if os.geteuid() != 0 or (missing := network.missing_tools()) is not None:
        pytest.skip("namespaces need root" if os.geteuid() else str(missing))
    made = Hosts(f"{own_prefix()}-fleet", place / "hosts.toml", place / "two.toml")
    names = [f"{made.prefix}-{name}" for name in ("hub", *NAMES)]
    lines = ['schema = "vtare.hosts/1"']
    try:
        for name in names:
            network.carry_out(network.make_namespace(name))
        hub = names[0]
        network.run_tool(("ip", "-n", hub, "link", "add", "br0", "type", "bridge"))
        network.run_tool(("ip", "-n", hub, "addr", "add", f"{HUB}/24", "dev", "br0"))
        network.run_tool(("ip", "-n", hub, "link", "set", "br0", "up"))
        for number, (name, inside) in enumerate(zip(NAMES, names[1:], strict=True), start=1):
            network.run_tool(
                ("ip", "-n", hub, "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", inside)
            )
            network.run_tool(("ip", "-n", hub, "link", "set", f"to-{name}", "master", "br0", "up"))
            network.run_tool(("ip", "-n", inside, "addr", "add", f"10.76.0.{number}/24", "dev", "eth0"))
            network.run_tool(("ip", "-n", inside, "link", "set", "eth0", "up"))
            lines += [f"[hosts.{name}]", 'kind = "host"', f'namespace = "{inside}"', f'address = "10.76.0.{number}"']
        made.file.write_text("\n".join(lines) + "\n")
        made.two.write_text("\n".join(lines[:9]) + "\n")
        yield made
    finally:
        network.remove_namespaces(names)


def finished(path: Path) -> int:
    """How many runs of a store are done."""
    with suppress(Exception), Journal(path / "journal.sqlite", read_only=True) as journal:
        return len(journal.entries())
    return 0


def children_of(pid: int, word: str = "spawn_main") -> list[int]:
    """The worker processes of a lab process, or others that a process has started, by a word of their command."""
    found = subprocess.run(["pgrep", "-P", str(pid), "-f", word], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def sources() -> str:
    """Where the package is imported from."""
    import vtare as package

    return str(Path(package.__file__).parents[1])


@dataclass
class Dask:
    """A scheduler of Dask beside the bridge, and a worker on each of two hosts."""

    hosts: Hosts
    place: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    @classmethod
    def of(cls, hosts: Hosts, place: Path, **more: str) -> Dask:
        """Start a cluster whose logs lie in this directory; `more` is added to the scheduler's environment."""
        made = cls(hosts, place, start_scheduler(hosts, place, **more), [])
        made.start_workers()
        return made

    def start_workers(self) -> None:
        """Start a worker on each host."""
        self.workers += [self.start_worker(name) for name in NAMES[:2]]

    def start_worker(self, name: str) -> subprocess.Popen[bytes]:
        """Start the worker of one host."""
        words = [f"{HUB}:8786", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
        words = ["worker", *words, "--resources", f"host-{name}=1", "--local-directory", str(self.place)]
        return _started(self.hosts, name, self.place / f"worker-{name}-{time.time()}", words)

    def end(self) -> None:
        """End all of it."""
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()


def start_scheduler(hosts: Hosts, place: Path, **more: str) -> subprocess.Popen[bytes]:
    """Start a scheduler of Dask, whose log lies in this directory."""
    words = ["scheduler", "--host", HUB, "--port", "8786", "--no-dashboard"]
    return _started(hosts, "hub", place / f"scheduler-{time.time()}", words, **{**PATIENT, **more})


def _started(hosts: Hosts, name: str, log: Path, words: Sequence[str], **more: str) -> subprocess.Popen[bytes]:
    command = hosts.inside(name, sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:])
    environment = {**os.environ, **QUIET, "PYTHONPATH": sources(), **more}
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=environment)
