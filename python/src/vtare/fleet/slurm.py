"""Hosts of a Slurm cluster: Slurm gives the nodes, alone and for the whole campaign; workers of Dask there measure.

One step of the job holds the nodes and states their names. Each node then has a step of its own, with a worker and with
a certificate that names the node. A worker that ends is started again on its node.
"""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.errors import BadInput, MachineCannot, bad_value
from vtare.fleet.agent_requests import RESOURCE
from vtare.fleet.cluster import QUIET
from vtare.fleet.hosts import FleetHost
from vtare.fleet.own_scheduler import WORKER_OPTIONS, OwnScheduler, end, end_with_the_lab, environment
from vtare.process import start, where_the_lab_is

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.process import Process

SLURM: Final = "slurm:"
#: An allocation may have to wait for other jobs; a worker starts within seconds of it.
_MOST_NODES: Final = 4096
#: What the first step prints on each node.
_HOLD: Final = 'echo "$SLURM_JOB_ID $SLURMD_NODENAME"; exec sleep infinity'


def node_count(on: str) -> int:
    """How many nodes `slurm:N` asks for.

    Raises:
        BadInput: that is no number, or too large.
    """
    number = on.removeprefix(SLURM)
    if not number.isdecimal() or not 1 <= int(number) <= _MOST_NODES:
        raise BadInput(f"--on {bad_value(on, f'slurm:NODES with 1 to {_MOST_NODES} nodes')}, such as slurm:4")
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
        self._workers: list[Process] = []
        try:
            self._start(on, socket.gethostname())
            self._nodes = self._srun(
                ["--job-name=vtare", f"--nodes={number}", "--ntasks-per-node=1", "--exclusive", "--no-kill"],
                _HOLD, {}, "nodes",
            )  # fmt: skip
            job, names = self._given(number)
            self._workers = [self._start_worker(job, name) for name in names]
            self.hosts = tuple(FleetHost(name) for name in self._await(names))
        except BaseException:
            self.close(quickly=True)
            raise

    def _end_workers(self) -> None:
        """Give the nodes back."""
        for process in (*self._workers, *([] if self._nodes is None else [self._nodes])):
            end(process)

    def _srun(self, options: list[str], script: str, more: Mapping[str, str], log: str = "workers") -> Process:
        """Start a step of one task a node. Slurm ends its shell with the allocation."""
        words = ["srun", *options, "--kill-on-bad-exit=0", "--input=none", "--chdir=/tmp", "sh", "-c", script]
        return start(
            words,
            environment={**more, **QUIET},
            stdout=self._log(log),
            stderr=self._log("srun"),
            session=True,
            before=end_with_the_lab,
        )

    def _given(self, number: int) -> tuple[str, list[str]]:
        """Wait for the nodes; return the number of the job, and their names."""
        while True:
            lines = (Path(self._place.name) / "nodes").read_text(errors="replace").splitlines(keepends=True)
            pairs = {tuple(line.split()) for line in lines if line.endswith("\n")}
            if len(pairs) >= number:
                break
            self._refuse_ended()
        jobs = {words[0] for words in pairs if len(words) == 2}
        if len(pairs) > number or len(jobs) != 1:
            raise MachineCannot(
                f"--on {self._on}: Slurm printed {len(lines)} lines for {number} nodes. See its own log"
            )
        return jobs.pop(), sorted(words[1] for words in pairs)

    def _start_worker(self, job: str, name: str) -> Process:
        words = [sys.executable, "-m", "distributed.cli.dask_worker", self._address, *WORKER_OPTIONS]
        words += ["--resources", f"{RESOURCE}{name}=1"]
        options = [f"--jobid={job}", f"--nodelist={name}", "--nodes=1", "--ntasks=1", "--overlap"]
        script = f"while :; do {shlex.join(words)}; sleep 1; done"
        return self._srun(options, script, {**environment(self._certificates.agent(name)), **where_the_lab_is()})

    def _await(self, names: list[str]) -> list[str]:
        """Wait for a worker on each node."""
        while not set(names) <= self._names():
            self._refuse_ended()
        return names

    def _refuse_ended(self) -> None:
        """Wait a little while Slurm still gives nodes."""
        if self._nodes is None or self._nodes.poll() is not None:
            raise MachineCannot(f"--on {self._on}: Slurm gives no nodes: {self._last('srun')}")
        time.sleep(0.5)
