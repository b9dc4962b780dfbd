"""Machines with kernels of their own: emulated guests with sshd, and this machine's root read-only over 9p."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import outer
import pytest
from machines import ROUTED, end_daemon, sshd_program, wait_until

from vtare.platforms.guest.qemu_command import PROGRAM

#: Cards, and what a path over a router is made of.
DRIVERS = ("virtio_net", "sch_tbf", "sch_htb", "sch_netem")
#: Devices of each machine beside eth0, over which the lab reaches it.
DEVICES = {"sender": ("eth1",), "router": ("eth1", "eth2"), "responder": ("eth1",)}
#: Emulated kernels boot slowly beside other work.
BOOT_S = 240.0


@dataclass
class Guest:
    """One machine: where its sshd is reached, and the files that it shares."""

    port: int
    place: Path
    process: subprocess.Popen[bytes]

    def settings(self) -> dict[str, str | int]:
        """The table of a plan."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": "root",
            "key_file": str(self.place.parent / "user_key"),
            "known_hosts": str(self.place / "known"),
            "directory": "/run/work",
        }

    def shell(self, command: str) -> str:
        """Run a command there."""
        words = ["ssh", "-q", "-p", str(self.port), "-i", str(self.place.parent / "user_key"), "-o", "BatchMode=yes"]
        words += ["-o", f"UserKnownHostsFile={self.place / 'known'}", "root@127.0.0.1", command]
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _job(role: str) -> str:
    number = {"sender": "1", "responder": "2"}
    lines = [
        "mkdir -p /run/work /run/sshd",
        "mount -t tmpfs root /root",
        "ip addr add 10.0.2.15/24 dev eth0",
        "ip link set eth0 up",
    ]
    for device in DEVICES[role]:
        lines.append(f"ip link set {device} up")
    if role == "router":
        lines += [f"ip addr add 10.79.{n}.1/24 dev eth{n}" for n in (1, 2)]
        lines.append("echo 1 >/proc/sys/net/ipv4/ip_forward")
    else:
        lines.append(f"ip addr add {ROUTED[role]}/24 dev eth1")
        lines.append(f"ip route add 10.79.0.0/16 via 10.79.{number[role]}.1")
    return "\n".join(["export PATH=$PATH:/usr/sbin:/sbin", *lines, f"exec {sshd_program()} -D -e -f /run/job/config\n"])


@contextmanager
def three_guests(place: Path) -> Iterator[dict[str, Guest]]:
    """A sender and a responder with a router between them, each a guest; skips the test where there can be none."""
    pytest.importorskip("asyncssh", reason="the Python package 'asyncssh' is missing: make platforms")
    if sshd_program() is None or shutil.which("ssh-keygen") is None:
        pytest.skip("sshd or ssh-keygen is not installed (Debian: openssh-server)")
    kernel = outer.kernels()["generic"]
    place.mkdir()
    image = place / "image"
    image.write_bytes(outer.image(kernel, DRIVERS))
    for key in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / key)], check=True)
    *ssh_ports, first, second = _free_ports(5)
    # The router listens for both of its neighbours.
    cables = {"router": [f"listen=127.0.0.1:{first}", f"listen=127.0.0.1:{second}"],
              "sender": [f"connect=127.0.0.1:{first}"], "responder": [f"connect=127.0.0.1:{second}"]}  # fmt: skip
    common = [
        *(PROGRAM, "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "384", "-nodefaults", "-no-user-config"),
        *("-display", "none", "-no-reboot", "-kernel", str(kernel.image), "-initrd", str(image)),
        *("-append", "console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check"),
        *("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
    ]
    with ExitStack() as stack:
        found = {}
        for port, (role, plugs) in zip(ssh_ports, cables.items(), strict=True):
            # Their clocks shall differ.
            time.sleep(1.0)
            found[role] = _boot(role, port, plugs, place, common)
            stack.callback(end_daemon, found[role].process)
            if role == "router":
                wait_until("the router's cables are there", lambda: _taken(first) and _taken(second))
        for guest in found.values():
            wait_until("sshd answers in the guest", lambda guest=guest: _answers(guest), BOOT_S)  # type: ignore[misc]
        yield found


def _boot(role: str, port: int, plugs: Sequence[str], place: Path, common: Sequence[str]) -> Guest:
    job = place / role
    job.mkdir()
    shutil.copy(place / "host_key", job / "host_key")
    (job / "host_key").chmod(0o600)
    (job / "authorized").write_bytes((place / "user_key.pub").read_bytes())
    (job / "known").write_text(f"[127.0.0.1]:{port} {(place / 'host_key.pub').read_text()}")
    (job / "config").write_text(
        "Port 22\nHostKey /run/job/host_key\nAuthorizedKeysFile /run/job/authorized\nPidFile none\nUsePAM no\n"
        "StrictModes no\nPermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n"
    )
    (job / "job.sh").write_text(_job(role))
    number = sorted(DEVICES).index(role)
    words = [*common, "-serial", f"file:{job / 'console'}", "-virtfs",
             f"local,path={job},mount_tag=job,security_model=none",
             "-netdev", f"user,id=n0,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:22"]  # fmt: skip
    for at, plug in enumerate(plugs, start=1):
        words += ["-netdev", f"socket,id=n{at},{plug}"]
    for at in range(len(plugs) + 1):
        words += ["-device", f"virtio-net-pci,netdev=n{at},mac=52:54:00:79:0{number}:0{at},romfile="]
    log = (job / "qemu").open("wb")
    with log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return Guest(port, job, process)


def _taken(port: int) -> bool:
    """Whether somebody listens here; asked without a connection, which would be taken for the cable."""
    entries = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(words[1].endswith(f":{port:04X}") and words[3] == "0A" for words in map(str.split, entries))


def _answers(guest: Guest) -> bool:
    assert guest.process.poll() is None, (guest.place / "qemu").read_text(errors="replace")
    try:
        with socket.create_connection(("127.0.0.1", guest.port), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
