"""Hosts of a Slurm cluster: Slurm gives the nodes, alone and for the whole campaign; workers of Dask there measure.

A worker that ends is started again on its node.
"""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
import time
from typing import TYPE_CHECKING, Final

from vtare.errors import BadInput, MachineCannot
from vtare.fleet.agent_requests import ANY_HOST, RESOURCE
from vtare.fleet.cluster import QUIET
from vtare.fleet.hosts import FleetHost
from vtare.fleet.own_scheduler import WORKER_OPTIONS, OwnScheduler, end, end_with_the_lab, environment
from vtare.process import start

if TYPE_CHECKING:
    from vtare.process import Process

SLURM: Final = "slurm:"
#: An allocation may have to wait for other jobs; a worker starts within seconds of it.
_MOST_NODES: Final = 4096


def node_count(on: str) -> int:
    """How many nodes `slurm:N` asks for.

    Raises:
        BadInput: that is no number, or too large.
    """
    number = on.removeprefix(SLURM)
    if not number.isdecimal() or not 1 <= int(number) <= _MOST_NODES:
        raise BadInput(f"--on: found '{on}', expected slurm:NODES with 1 to {_MOST_NODES} nodes, such as slurm:4")
    return int(number)


class SlurmCluster(OwnScheduler):
    """Workers on nodes that Slurm allocates for this campaign."""

    def __init__(self, on: str) -> None:
        """Ask for the nodes and wait until there is a worker on each; Slurm may let that wait for other jobs.

        Raises:
            BadInput: the package `distributed` is not installed.
            MachineCannot: there is no Slurm here, or it refuses.
        """
        number = node_count(on)
        self._library(on)
        if shutil.which("srun") is None:
            raise MachineCannot(f"--on {on}: the program 'srun' is missing: install slurm-client, or name other hosts")
        self._nodes: Process | None = None
        try:
            self._start(on, socket.gethostname())
            self._nodes = self._start_workers(number)
            self.hosts = tuple(FleetHost(name) for name in self._await(number))
        except BaseException:
            self.close(quickly=True)
            raise

    def _end_workers(self) -> None:
        """Give the nodes back."""
        if self._nodes is not None:
            end(self._nodes)

    def _start_workers(self, number: int) -> Process:
        words = [sys.executable, "-m", "distributed.cli.dask_worker", self._address, *WORKER_OPTIONS]
        # Slurm ends the shell with the allocation.
        script = f'while :; do {shlex.join(words)} --resources "{RESOURCE}$SLURMD_NODENAME=1"; sleep 1; done'
        words = ["srun", "--job-name=vtare", f"--nodes={number}", "--ntasks-per-node=1", "--exclusive", "--no-kill"]
        words += ["--kill-on-bad-exit=0", "--input=none", "--chdir=/tmp", "sh", "-c", script]
        return start(
            words,
            # Which nodes Slurm gives is not known yet, so they have one certificate.
            environment={**environment(self._certificates.agent(ANY_HOST)), **QUIET},
            stderr=self._log("srun"),
            session=True,
            before=end_with_the_lab,
        )

    def _await(self, number: int) -> list[str]:
        """Wait for a worker on each node."""
        while len(names := self._names()) < number:
            if self._nodes is None or self._nodes.poll() is not None:
                raise MachineCannot(f"--on {self._on}: Slurm gives no nodes: {self._last('srun')}")
            time.sleep(0.5)
        return sorted(names)


__all__ = ["SLURM", "SlurmCluster", "node_count"]
