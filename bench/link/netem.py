"""netem in a user-mode Linux: a kernel as a process, between the same two interfaces as `vtare link`.

The host's files are its root, so that its `tc` and `ip` are the host's. Each of its interfaces is a tap that a bridge
joins to one of the two. Frames go from one to the other by redirection (act_mirred); netem is at the outgoing end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAM = "linux.uml"
FORWARDING = ("sch_ingress", "cls_matchall", "act_mirred")
#: Packets that a netem may hold: 20 ms at 10 Gbit/s.
LIMIT = 100_000
START_S = 20.0

_SCRIPT = """#!/bin/sh
exec 2>&1
set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
for module in {modules}; do insmod /usr/lib/uml/modules/$(uname -r)/kernel/net/sched/$module.ko; done
for device in vec0 vec1; do ip link set dev $device up promisc on; tc qdisc add dev $device ingress; done
tc filter add dev vec0 ingress matchall action mirred egress redirect dev vec1
tc filter add dev vec1 ingress matchall action mirred egress redirect dev vec0
{qdiscs}
echo ready
read -r end
"""


def missing() -> str | None:
    """Why there is no such kernel here; None where there is one."""
    if shutil.which(PROGRAM) is None:
        return f"no {PROGRAM} (Debian: user-mode-linux)"
    from vtare.platforms.uml import cannot_start

    if (reason := cannot_start()) is not None:
        return reason
    found = list(Path("/usr/lib/uml/modules").glob("*/kernel/net/sched/sch_netem.ko"))
    return None if found else "no module sch_netem in /usr/lib/uml/modules (Debian: user-mode-linux)"


@contextmanager
def bridged(namespace: str, interfaces: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Names of two taps, each joined to an interface."""
    taps = (f"{interfaces[0]}-tap", f"{interfaces[1]}-tap")
    ip = ("ip", "-n", namespace)
    try:
        for interface, tap in zip(interfaces, taps, strict=True):
            bridge = f"{interface}-br"
            for words in (
                ("link", "add", bridge, "type", "bridge", "mcast_snooping", "0"),
                ("tuntap", "add", tap, "mode", "tap"),
                ("link", "set", "dev", interface, "master", bridge),
                ("link", "set", "dev", tap, "master", bridge, "up"),
                ("link", "set", "dev", bridge, "up"),
            ):
                subprocess.run((*ip, *words), check=True, capture_output=True)
        yield taps
    finally:
        for interface, tap in zip(interfaces, taps, strict=True):
            for name in (tap, f"{interface}-br"):
                subprocess.run((*ip, "link", "del", name), check=False, capture_output=True)


@contextmanager
def netem(namespace: str, interfaces: tuple[str, str], forward: str, back: str, cpu: int) -> Iterator[None]:
    """Carries frames between two interfaces of a namespace while open."""
    with bridged(namespace, interfaces) as taps:
        prefix = ("ip", "netns", "exec", namespace, "taskset", "-c", str(cpu), "nice", "-n", "-19")
        with kernel(prefix, taps, forward, back):
            yield


@contextmanager
def kernel(prefix: Sequence[str], taps: tuple[str, str], forward: str, back: str) -> Iterator[None]:
    """A user-mode Linux between two taps while open; `prefix` are the words that start it in its namespace."""
    ways = (("vec1", forward), ("vec0", back))
    words = [f"qdisc add dev {device} root netem {how} limit {LIMIT}" for device, how in ways]
    with qdiscs(prefix, taps, ("sch_netem",), words):
        yield


@contextmanager
def qdiscs(
    prefix: Sequence[str], taps: tuple[str, str], modules: Sequence[str], words: Sequence[str]
) -> Iterator[None]:
    """The same with any qdiscs: the words behind `tc`, of vec1 forward and vec0 back, and the modules they need."""
    directory = Path(tempfile.mkdtemp(prefix="vtare-uml-"))
    commands = "\n".join(f"tc {line}" for line in words)
    script = _SCRIPT.format(modules=" ".join((*modules, *FORWARDING)), qdiscs=commands)
    (directory / "init").write_text(script)
    (directory / "init").chmod(0o755)
    devices = [f"vec{at}:transport=tap,ifname={name},depth=128" for at, name in enumerate(taps)]
    boot = ["mem=256M", "root=/dev/root", "rootfstype=hostfs", "hostfs=/", "ro", f"init={directory / 'init'}"]
    own = [f"uml_dir={directory}", "con=null", "con0=fd:0,fd:1", "quiet"]
    log = directory / "console"
    try:
        with log.open("wb") as console:
            process = subprocess.Popen(
                [*prefix, PROGRAM, *boot, *devices, *own],
                stdin=subprocess.PIPE, stdout=console, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            end = time.monotonic() + START_S
            while "ready" not in log.read_text(errors="replace").split():
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"user-mode Linux did not start: {log.read_text(errors='replace')[-500:]}")
                time.sleep(0.05)
            yield
        finally:
            # A group of its own: the kernel and the processes that it runs its programs in.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
