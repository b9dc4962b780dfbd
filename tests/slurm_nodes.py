"""A Slurm of some nodes on this machine: a daemon of each, with a port of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from machines import PATIENCE_S, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")


class NoSlurm(Exception):
    """Why there can be no Slurm here."""


def program(name: str) -> str | None:
    """Where a program of Slurm is; daemons stand in directories that a user's PATH may lack."""
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@contextmanager
def slurm_of(nodes: int, place: Path) -> Iterator[Path]:
    """A Slurm with the nodes n1, n2, ... whose files are in `place`; its configuration, for SLURM_CONF.

    Raises:
        NoSlurm: it is not installed, or its daemons do not run here.
    """
    if os.geteuid() != 0:
        raise NoSlurm("daemons of Slurm need root")
    for name in PROGRAMS:
        if program(name) is None:
            raise NoSlurm(f"{name} is not installed (Debian: slurmctld slurmd slurm-client munge)")
    host = socket.gethostname().partition(".")[0]
    (place / "state").mkdir(parents=True)
    # Munge refuses a socket below a directory that others cannot reach.
    for directory in (place, *place.parents):
        if directory.stat().st_uid == os.geteuid() and directory != Path("/"):
            directory.chmod(directory.stat().st_mode | 0o755)
    (place / "key").write_bytes(os.urandom(1024))
    (place / "key").chmod(0o400)
    ports = [_free_port() for _ in range(nodes + 1)]
    listed = "\n".join(
        f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 State=UNKNOWN"
        for number, port in enumerate(ports[1:], start=1)
    )
    (place / "slurm.conf").write_text(
        f"ClusterName=vtare\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={ports[0]}\nAuthType=auth/munge\n"
        f"AuthInfo=socket={place}/munge\nSlurmUser=root\nSlurmdUser=root\nStateSaveLocation={place}/state\n"
        f"SlurmdSpoolDir={place}/spool-%n\nSlurmctldPidFile={place}/ctld.pid\nSlurmdPidFile={place}/%n.pid\n"
        f"ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/linear\nReturnToService=2\n"
        f"SwitchType=switch/none\nMpiDefault=none\n{listed}\nPartitionName=p Nodes=ALL Default=YES State=UP\n"
    )
    environment = {**os.environ, "SLURM_CONF": str(place / "slurm.conf")}
    daemons: list[subprocess.Popen[bytes]] = []

    def daemon(*words: str) -> None:
        log = (place / f"log-{len(daemons)}").open("wb")
        daemons.append(subprocess.Popen([str(program(words[0])), *words[1:]], stdout=log, stderr=log, env=environment))
        log.close()

    try:
        files = {
            "socket": "munge",
            "key-file": "key",
            "pid-file": "munge.pid",
            "log-file": "munge.log",
            "seed-file": "seed",
        }
        daemon("munged", "--foreground", "--force", *(f"--{name}={place}/{file}" for name, file in files.items()))
        wait_until("munged listens", lambda: (place / "munge").exists() or daemons[0].poll() is not None)
        daemon("slurmctld", "-D")
        for number in range(1, nodes + 1):
            (place / f"spool-n{number}").mkdir()
            daemon("slurmd", "-D", "-N", f"n{number}")

        def idle() -> int:
            if any(one.poll() is not None for one in daemons):
                logs = "".join(path.read_text(errors="replace")[-300:] for path in sorted(place.glob("log-*")))
                raise NoSlurm(f"a daemon of Slurm does not run on this machine: {logs}")
            words = [str(program("sinfo")), "--noheader", "--Node", "--format=%T"]
            return (
                subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
                .stdout.split()
                .count("idle")
            )

        wait_until("all nodes are idle", lambda: idle() == nodes)
        yield place / "slurm.conf"
    finally:
        for one in reversed(daemons):
            one.terminate()
            with suppress(subprocess.TimeoutExpired):
                one.wait(PATIENCE_S / 10)
            one.kill()
            one.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
