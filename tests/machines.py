"""What tests of real platforms share."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from vtare.platforms import network
from vtare.platforms.network import NetworkRefused
from vtare.platforms.owner import own_prefix

#: A slow machine with other work: waiting for a condition ends long before this, a hang after it.
PATIENCE_S = 120.0


#: The head of a plan that makes each run once, as quickly as it can.
PLAN_HEAD = """
schema = "vtare.plan/1"
name = "lab"
question = "Does the lab do what the plan asks for?"
blocks = 1
settle = "1 ms"
"""


def sleeps_plan(blocks: int, seconds: str) -> str:
    """A plan of sleeps by three methods, each run as long as this at most."""
    head = PLAN_HEAD.replace("blocks = 1", f"blocks = {blocks}")
    return f"""{head}
[[experiment]]
name = "sleep"
instrument = "sleep"
parameters = {{ target_ns = "1 ms", samples = 20, seconds = "{seconds}" }}
factors = {{ method = ["usleep", "adaptive", "clock_nanosleep"] }}
"""


def capacity_steps(bottleneck: str) -> str:
    """The experiment on a path whose capacity changes while it is measured."""
    return f"""
[[experiment]]
name = "steps"
instrument = "avb"
parameters = {{ seconds = "1 s", most_ns = "1 s", most_byte = "300 kB" }}

[experiment.factors]
bottleneck = ["{bottleneck}"]
capacity_steps = ["20 Mbit/s:0.2 s, 40 Mbit/s:0.2 s"]
"""


def wait_until(what: str, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"waited {patience_s:g} s in vain: {what}"
        time.sleep(0.02)


def end_daemon(daemon: subprocess.Popen[bytes]) -> None:
    """End a daemon of these tests: kindly at first."""
    daemon.terminate()
    try:
        daemon.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def skip_unless_made(
    missing: str | None, topology: AbstractContextManager[object], then: Callable[[], None] = lambda: None
) -> None:
    """Skip the test where this machine or user cannot make a topology, or do with it what follows; with the reason."""
    if missing is not None:
        pytest.skip(missing)
    try:
        with topology:
            then()
    except NetworkRefused as error:
        pytest.skip(str(error))


@dataclass
class Sshd:
    """A machine with sshd: a namespace that this one reaches, with a directory of its own to work in."""

    namespace: str
    host: str
    place: Path
    port: int = 2222
    daemon: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def settings(self) -> dict[str, str | int]:
        """The table of a plan."""
        return {
            "host": self.host,
            "user": "root",
            "port": self.port,
            "key_file": str(self.place / "user_key"),
            "known_hosts": str(self.place / "known"),
            "directory": str(self.work),
        }

    @property
    def work(self) -> Path:
        """Where the lab has its directories on this machine."""
        return self.place / "work"

    def boot(self) -> None:
        """Start sshd."""
        log = self.place / "log"
        words = [
            "ip",
            "netns",
            "exec",
            self.namespace,
            str(sshd_program()),
            "-D",
            "-e",
            "-f",
            str(self.place / "config"),
        ]
        with log.open("wb") as file:
            self.daemon = subprocess.Popen(words, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        daemon = self.daemon
        wait_until("sshd listens", lambda: b"listening" in log.read_bytes() or daemon.poll() is not None)
        if daemon.poll() is not None:
            pytest.skip(f"sshd does not work on this machine: {log.read_text(errors='replace')[:300]}")

    def processes(self) -> list[int]:
        """All that runs there but sshd itself and the connections that it has."""
        pids = map(int, network.run_tool(("ip", "netns", "pids", self.namespace)).split())
        return [pid for pid in pids if not _command(pid).startswith("sshd") and b"sshd" not in _words(pid)[:1]]

    def runs(self, words: Sequence[bytes]) -> bool:
        """Whether a program with all of these words runs there."""
        return any(all(word in _words(pid) for word in words) for pid in self.processes())

    def kill(self) -> None:
        """End everything there at once, as a power failure does."""
        for word in network.run_tool(("ip", "netns", "pids", self.namespace)).split():
            with suppress(ProcessLookupError):
                os.kill(int(word), signal.SIGKILL)
        if self.daemon is not None:
            self.daemon.wait()

    def silence(self) -> None:
        """Drop every packet from and to it without a word: neither end of a connection notices."""
        network.run_tool(("ip", "-n", self.namespace, "link", "set", "ssh0", "down"))

    def unsilence(self) -> None:
        """Let packets pass again."""
        network.run_tool(("ip", "-n", self.namespace, "link", "set", "ssh0", "up"))

    def cut(self) -> None:
        """End its connections, and nothing else."""
        for word in network.run_tool(("ip", "netns", "pids", self.namespace)).split():
            if self.daemon is not None and int(word) != self.daemon.pid and _command(int(word)) == "sshd":
                with suppress(ProcessLookupError):
                    os.kill(int(word), signal.SIGKILL)


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _words(pid: int) -> list[bytes]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def sshd_program() -> str | None:
    """The program sshd; None where it is not installed."""
    return shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@contextmanager
def sshd_machine(name: str, place: Path) -> Iterator[Sshd]:
    """A machine with sshd, and keys of these tests' own; skips the test where there can be none."""
    pytest.importorskip("asyncssh", reason="the Python package 'asyncssh' is missing: make platforms")
    if sshd_program() is None or shutil.which("ssh-keygen") is None:
        pytest.skip("sshd or ssh-keygen is not installed (Debian: openssh-server)")
    place.mkdir(exist_ok=True)
    for key in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / key)], check=True)
    third, fourth = secrets.randbelow(200) + 20, 4 * secrets.randbelow(60)
    here, there = f"10.78.{third}.{fourth + 1}", f"10.78.{third}.{fourth + 2}"
    made = Sshd(f"{own_prefix()}-{name}", there, place)
    made.work.mkdir()
    (place / "authorized").write_bytes((place / "user_key.pub").read_bytes())
    (place / "known").write_text(f"[{there}]:{made.port} {(place / 'host_key.pub').read_text()}")
    (place / "config").write_text(
        f"ListenAddress {there}:{made.port}\nHostKey {place}/host_key\nAuthorizedKeysFile {place}/authorized\n"
        f"PidFile {place}/pid\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n"
        "Subsystem sftp internal-sftp\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    # At most 15 characters; a new one each time: the kernel removes those of an earlier namespace when it likes.
    device = f"vt{secrets.token_hex(5)}"
    network.carry_out(network.make_namespace(made.namespace))
    try:
        for words in (
            ("ip", "link", "add", device, "type", "veth", "peer", "name", "ssh0", "netns", made.namespace),
            ("ip", "addr", "add", f"{here}/30", "dev", device),
            ("ip", "link", "set", device, "up"),
            ("ip", "-n", made.namespace, "addr", "add", f"{there}/30", "dev", "ssh0"),
            ("ip", "-n", made.namespace, "link", "set", "ssh0", "up"),
        ):
            network.run_tool(words)
        made.boot()
        try:
            yield made
        finally:
            made.kill()
    finally:
        network.remove_namespaces([made.namespace])


@contextmanager
def joined_namespaces(stem: str, here: str, there: str) -> Iterator[tuple[str, str]]:
    """Two namespaces joined by a veth pair, va with the first address and vb with the second; skips where refused."""
    names = [f"vtare-{stem}-{os.getpid()}-{end}" for end in "ab"]
    try:
        try:
            for name in names:
                network.run_tool(("ip", "netns", "add", name))
                network.run_tool(("ip", "-n", name, "link", "set", "lo", "up"))
            network.carry_out(network.pair((names[0], "va"), (names[1], "vb"), network.USUAL_MTU_BYTE))
            for name, device, address in ((names[0], "va", here), (names[1], "vb", there)):
                network.run_tool(("ip", "-n", name, "addr", "add", f"{address}/24", "dev", device))
                network.run_tool(("ip", "-n", name, "link", "set", device, "up"))
        except NetworkRefused as refused:
            pytest.skip(str(refused))
        yield names[0], names[1]
    finally:
        network.remove_namespaces(names)


@contextmanager
def three_machines(place: Path) -> Iterator[dict[str, Sshd]]:
    """A sender and a responder with a router between them that forwards packets of IP, each with sshd.

    sender eth0 10.79.1.2 - 10.79.1.1 in0 router out0 10.79.2.1 - 10.79.2.2 eth0 responder

    A program that joins in0 and out0 frame by frame finds the three in one more subnet (`JOINED`).
    """
    place.mkdir(exist_ok=True)
    with ExitStack() as stack:
        found = {
            role: stack.enter_context(sshd_machine(role, place / role)) for role in ("sender", "router", "responder")
        }
        inside = {role: machine.namespace for role, machine in found.items()}
        for number, side, inner in ((1, "sender", "in0"), (2, "responder", "out0")):
            network.carry_out(network.pair((inside[side], "eth0"), (inside["router"], inner), network.USUAL_MTU_BYTE))
            for role, device, host in ((side, "eth0", 2), ("router", inner, 1)):
                network.run_tool(("ip", "-n", inside[role], "addr", "add", f"10.79.{number}.{host}/24", "dev", device))
                network.run_tool(("ip", "-n", inside[role], "link", "set", device, "up"))
            network.run_tool(("ip", "-n", inside[side], "route", "add", "10.79.0.0/16", "via", f"10.79.{number}.1"))
        for role, device in (("sender", "eth0"), ("router", "in0"), ("responder", "eth0")):
            network.run_tool(("ip", "-n", inside[role], "addr", "add", f"{JOINED[role]}/24", "dev", device))
        network.run_tool(("ip", "netns", "exec", inside["router"], "sysctl", "-q", "-w", "net.ipv4.ip_forward=1"))
        yield found


#: Addresses over the router, and those of one subnet that it joins.
ROUTED = {"sender": "10.79.1.2", "responder": "10.79.2.2", "router": "10.79.1.1"}
JOINED = {"sender": "10.79.3.2", "responder": "10.79.3.3", "router": "10.79.3.1"}


def plan_tables(machines: dict[str, Sshd], roles: Sequence[str], addresses: dict[str, str] = ROUTED) -> str:
    """The tables of a plan that names these machines by role."""
    lines = []
    for role in roles:
        lines += [f"[platforms.m-{role}]", 'kind = "ssh"', f'address = "{addresses[role]}"']
        lines += [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"
                  for key, value in machines[role].settings().items()]  # fmt: skip
    hosts = {role: f'"m-{role}"' for role in roles}
    if addresses is JOINED:
        hosts["router"] = '{ platform = "m-router", inward = "in0", outward = "out0" }'
    return "\n".join([*lines, "[hosts]", *(f"{role} = {host}" for role, host in hosts.items()), ""])
