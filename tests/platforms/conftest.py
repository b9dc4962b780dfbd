"""What real platforms need: a Docker daemon, machines with sshd; each skipped with the reason where it cannot be."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import PATIENCE_S, Sshd, end_daemon, skip_unless_made, sshd_machine

from vtare.platforms.binary import not_static
from vtare.platforms.owner import own_prefix
from vtare.topology.links import TwoHosts


@pytest.fixture(scope="session")
def static_vtare(vtare: Path) -> Path:
    """The installed binary, which must be static to go into containers."""
    reason = not_static(vtare)
    if reason is not None:
        pytest.skip(reason)
    return vtare


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skip where this machine or user cannot make namespaces."""
    skip_unless_made(TwoHosts.missing(), TwoHosts(own_prefix()))


@pytest.fixture(scope="session")
def docker_host(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Docker daemon: the machine's, else one of these tests' own."""
    docker = pytest.importorskip("docker", reason="the Python package 'docker' is missing: make platforms")
    given = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if Path(given.removeprefix("unix://")).exists():
        yield given
        return
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        pytest.skip(f"no Docker daemon at {given}, and dockerd is not installed or this is not root")
    # Short: the path of a socket has 108 bytes at most.
    place = Path(f"/tmp/vtare-dockerd-{os.getpid()}")
    place.mkdir()
    address = f"unix://{place}/socket"
    words = ["dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs", "-H", address]
    words += [f"--{name}={place}/{name}" for name in ("data-root", "exec-root", "pidfile")]
    with (place / "log").open("wb") as log:
        daemon = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        answered = False
        deadline = time.monotonic() + PATIENCE_S
        while not answered and daemon.poll() is None and time.monotonic() < deadline:
            try:
                docker.APIClient(base_url=address, version="auto", timeout=30)
                answered = True
            except docker.errors.DockerException:
                time.sleep(0.1)
        if not answered:
            last = (place / "log").read_text(errors="replace").strip().splitlines()[-1:]
            pytest.skip(f"dockerd does not work on this machine: {last}")
        yield address
    finally:
        end_daemon(daemon)
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def sshd(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A machine with sshd."""
    with sshd_machine("ssh", tmp_path_factory.mktemp("sshd")) as made:
        yield made
