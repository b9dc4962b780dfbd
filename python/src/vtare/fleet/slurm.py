"""Hosts of a Slurm cluster: Slurm gives the nodes, alone and for the whole campaign; workers of Dask there measure.

The scheduler of Dask runs on the machine of the lab and talks to workers over TLS, with certificates that are made for
this campaign: nobody else can connect. A worker that ends is started again, and so is the scheduler.
"""

from __future__ import annotations

import ctypes
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import BadInput, MachineCannot
from vtare.fleet.cluster import PATIENT, QUIET, RESOURCE, Cluster
from vtare.fleet.hosts import FleetHost
from vtare.process import start

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from vtare.process import Process

SLURM: Final = "slurm:"
#: An allocation may have to wait for other jobs; a worker starts within seconds of it.
_MOST_NODES: Final = 4096
_STARTING_S: Final = 60.0
_PR_SET_PDEATHSIG: Final = 1
# Loaded before any fork: the forked child must not import or look up anything.
_PRCTL: Final = ctypes.CDLL(None).prctl
_END: Final = int(signal.SIGTERM)


def node_count(on: str) -> int:
    """How many nodes `slurm:N` asks for.

    Raises:
        BadInput: that is no number, or too large.
    """
    number = on.removeprefix(SLURM)
    if not number.isdecimal() or not 1 <= int(number) <= _MOST_NODES:
        raise BadInput(f"--on: found '{on}', expected slurm:NODES with 1 to {_MOST_NODES} nodes, such as slurm:4")
    return int(number)


class SlurmCluster(Cluster):
    """Workers on nodes that Slurm allocates for this campaign."""

    def __init__(self, on: str) -> None:
        """Ask for the nodes and wait until there is a worker on each; Slurm may let that wait for other jobs.

        Raises:
            BadInput: the package `distributed` is not installed.
            MachineCannot: there is no Slurm here, or it refuses.
        """
        number = node_count(on)
        distributed = self._library(on)
        if shutil.which("srun") is None:
            raise MachineCannot(f"--on {on}: the program 'srun' is missing: install slurm-client, or name other hosts")
        self._on = on
        try:
            self._security = import_module("distributed.security").Security.temporary()
        except ImportError as error:
            raise BadInput(
                f"--on {on} needs the package 'cryptography': install it with pip install cryptography"
            ) from error
        self._place = tempfile.TemporaryDirectory(prefix="vtare-slurm-")
        self._port = _free_port()
        self._scheduler = self._start_scheduler()
        self._nodes: Process | None = None
        try:
            self._distributed, self._address = distributed, f"tls://{socket.gethostname()}:{self._port}"
            self._client = self._first_client()
            self.freeze_s = self._patience_s() / 2.0
            self._nodes = self._start_workers(number)
            self.hosts = tuple(FleetHost(name) for name in self._await(number))
        except BaseException:
            self.close(quickly=True)
            raise

    def submit(self, host: str, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """See `Workers.submit`."""
        if self._scheduler.poll() is not None:
            self._scheduler = self._start_scheduler()
        return super().submit(host, work, *arguments)

    def close(self, *, quickly: bool) -> None:
        """Give the nodes back."""
        if hasattr(self, "_client"):
            super().close(quickly=quickly)
        for process in (self._nodes, self._scheduler):
            if process is not None and process.poll() is None:
                process.terminate()
                process.communicate()
        self._place.cleanup()

    def _environment(self) -> dict[str, str]:
        """The certificates of this campaign, as the programs of Dask read them."""
        roles = {role: self._security.get_tls_config_for_role(role) for role in ("scheduler", "worker")}
        found = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": roles["worker"]["ca_file"]}
        for role, tls in roles.items():
            found[f"DASK_DISTRIBUTED__COMM__TLS__{role.upper()}__CERT"] = tls["cert"]
            found[f"DASK_DISTRIBUTED__COMM__TLS__{role.upper()}__KEY"] = tls["key"]
        return {**found, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}

    def _start_scheduler(self) -> Process:
        words = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--protocol", "tls", "--no-dashboard"]
        words += ["--port", str(self._port)]
        return start(
            words,
            environment={**self._environment(), **PATIENT},
            stderr=self._log("scheduler"),
            session=True,
            before=_end_with_the_lab,
        )

    def _start_workers(self, number: int) -> Process:
        worker = shlex.join([sys.executable, "-m", "distributed.cli.dask_worker", self._address, "--protocol", "tls"])
        worker += " --nthreads 1 --no-nanny --no-dashboard --memory-limit 0 --death-timeout 60"
        # Slurm ends the shell with the allocation.
        script = f'while :; do {worker} --resources "{RESOURCE}$SLURMD_NODENAME=1"; sleep 1; done'
        words = ["srun", "--job-name=vtare", f"--nodes={number}", "--ntasks-per-node=1", "--exclusive", "--no-kill"]
        words += ["--kill-on-bad-exit=0", "--input=none", "--chdir=/tmp", "sh", "-c", script]
        return start(
            words,
            environment={**self._environment(), **QUIET},
            stderr=self._log("srun"),
            session=True,
            before=_end_with_the_lab,
        )

    def _log(self, name: str) -> Any:
        return (Path(self._place.name) / name).open("ab")

    def _first_client(self) -> Any:
        deadline = time.monotonic() + _STARTING_S
        while True:
            try:
                return self._new_client()
            except (OSError, ValueError) as error:
                if self._scheduler.poll() is not None or time.monotonic() > deadline:
                    raise MachineCannot(
                        f"--on {self._on}: the scheduler of Dask did not start ({error}): {self._last('scheduler')}"
                    ) from error
                time.sleep(0.5)

    def _new_client(self) -> Any:
        return self._distributed.Client(self._address, timeout=5, set_as_default=False, security=self._security)

    def _await(self, number: int) -> list[str]:
        """Wait for a worker on each node."""
        while len(names := self._names()) < number:
            if self._nodes is None or self._nodes.poll() is not None:
                raise MachineCannot(f"--on {self._on}: Slurm gives no nodes: {self._last('srun')}")
            time.sleep(0.5)
        return sorted(names)

    def _last(self, log: str) -> str:
        lines = (Path(self._place.name) / log).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no reason was printed"


def _end_with_the_lab() -> None:
    """In a new process: end when the lab does, however it ends."""
    _PRCTL(_PR_SET_PDEATHSIG, _END)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


__all__ = ["SLURM", "SlurmCluster", "node_count"]
