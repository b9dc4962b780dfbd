"""What real platforms need: a Docker daemon, machines with sshd; each skipped with the reason where it cannot be."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import PATIENCE_S, Sshd, end_daemon, skip_unless_made, wait_until

from vtare.links import TwoHosts
from vtare.platforms import network
from vtare.platforms.binary import not_static
from vtare.platforms.owner import own_prefix


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
    """A running sshd in a namespace of its own, with keys of these tests' own."""
    pytest.importorskip("asyncssh", reason="the Python package 'asyncssh' is missing: make platforms")
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if program is None or shutil.which("ssh-keygen") is None:
        pytest.skip("sshd or ssh-keygen is not installed (Debian: openssh-server)")
    place = tmp_path_factory.mktemp("sshd")
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)], check=True)
    third, fourth = secrets.randbelow(200) + 20, 4 * secrets.randbelow(60)
    here, there = f"10.78.{third}.{fourth + 1}", f"10.78.{third}.{fourth + 2}"
    port = 2222
    (place / "authorized").write_bytes((place / "user_key.pub").read_bytes())
    (place / "known").write_text(f"[{there}]:{port} {(place / 'host_key.pub').read_text()}")
    (place / "config").write_text(
        f"ListenAddress {there}:{port}\nHostKey {place}/host_key\nAuthorizedKeysFile {place}/authorized\n"
        f"PidFile {place}/pid\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n"
        "Subsystem sftp internal-sftp\n"
    )
    name, pair = f"{own_prefix()}-ssh", f"vt{os.getpid()}"
    Path("/run/sshd").mkdir(exist_ok=True)
    network.carry_out(network.make_namespace(name))
    try:
        for words in (
            ("ip", "link", "add", pair, "type", "veth", "peer", "name", "eth0", "netns", name),
            ("ip", "addr", "add", f"{here}/30", "dev", pair),
            ("ip", "link", "set", pair, "up"),
            ("ip", "-n", name, "addr", "add", f"{there}/30", "dev", "eth0"),
            ("ip", "-n", name, "link", "set", "eth0", "up"),
        ):
            network.run_tool(words)
        with (place / "log").open("wb") as log:
            daemon = subprocess.Popen(
                ["ip", "netns", "exec", name, program, "-D", "-e", "-f", str(place / "config")],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        try:
            wait_until(
                "sshd listens", lambda: b"listening" in (place / "log").read_bytes() or daemon.poll() is not None
            )
            if daemon.poll() is not None:
                pytest.skip(f"sshd does not work on this machine: {(place / 'log').read_text(errors='replace')[:300]}")
            yield Sshd(there, port, place / "user_key", place / "known")
        finally:
            daemon.terminate()
            daemon.wait()
    finally:
        network.remove_namespaces([name])
