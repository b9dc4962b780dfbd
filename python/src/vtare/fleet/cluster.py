"""The workers of a Dask cluster: each is on its host, and its runs are made there as on one machine.

A worker states its host as a resource, `host-NAME=1`: what is asked of a host then goes to it alone, one at a time, and
to the worker that takes its place after a restart. Dask carries what is asked and what comes back, and decides nothing.
"""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import BadInput
from vtare.fleet.hosts import FleetHost
from vtare.fleet.worker import leave

if TYPE_CHECKING:
    from collections.abc import Callable

DASK: Final = "dask://"
RESOURCE: Final = "host-"
#: The environment of a worker that wakes up 5 times a second while it waits, not 100 times (bench/fleet).
QUIET: Final = {
    f"DASK_DISTRIBUTED__{name}": value
    for name, value in {
        "ADMIN__TICK__INTERVAL": "2s",
        "ADMIN__TICK__LIMIT": "10s",
        "ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
        "WORKER__PROFILE__ENABLED": "False",
    }.items()
}
#: The environment of a scheduler that never gives up a worker whose connection stays: it is stopped while it measures.
PATIENT: Final = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "None"}
_CONNECT_S: Final = 30
_LEAVING_S: Final = 20.0


class WorkerLost(ConnectionError):
    """The scheduler of the cluster is out of reach."""


class Cluster:
    """The workers that a Dask scheduler knows, by the hosts that they state."""

    #: Whether a worker is on its host.
    on_the_host = True

    hosts: tuple[FleetHost, ...]
    #: Half the time after which the scheduler gives up a worker that sends nothing.
    freeze_s: float

    def __init__(self, on: str) -> None:
        """Connect to the scheduler of `dask://HOST:PORT`.

        Raises:
            BadInput: the package `distributed` is not installed, nobody answers, or no worker states its host.
        """
        self._distributed = self._library(on)
        self._address = f"tcp://{on.removeprefix(DASK)}"
        self._client = self._connected(on)
        self.freeze_s = self._patience_s() / 2.0
        names = sorted(self._names())
        if not names:
            self._client.close()
            raise BadInput(
                f"--on {on}: found no worker that states its host; start one on each with `dask worker "
                f"{on.removeprefix(DASK)} --nthreads 1 --resources host-$(hostname)=1`"
            )
        self.hosts = tuple(FleetHost(name) for name in names)

    def hold(self, host: FleetHost) -> str | None:
        """Nothing to do: whatever is asked of a worker waits until it has done what it was asked for before."""
        return None

    def submit(self, host: str, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """See `Workers.submit`. Dask's own futures do what is needed of those of Python."""
        try:
            if self._client.status not in ("running", "connecting"):
                self._client = self._new_client()
            submitted: Future[Any] = self._client.submit(
                work, *arguments, resources={f"{RESOURCE}{host}": 1}, pure=False, retries=0
            )
            return submitted
        except (OSError, ValueError, RuntimeError) as error:
            failed: Future[Any] = Future()
            failed.set_exception(WorkerLost(f"no Dask scheduler answers at {self._address} ({error})"))
            return failed

    def lost(self, error: BaseException) -> bool:
        """See `Workers.lost`."""
        names = ("KilledWorker", "CommClosedError", "FutureCancelledError", "FuturesCancelledError", "NoWorker")
        kinds = {kind.__name__ for kind in type(error).__mro__}
        return isinstance(error, WorkerLost | CancelledError | asyncio.CancelledError) or bool(kinds & {*names})

    def end(self, host: str, future: Future[Any]) -> None:
        """Take back what was asked. What a worker does already it does to its end; a probe waits behind it."""
        with suppress(OSError, RuntimeError):
            future.cancel()

    def close(self, *, quickly: bool) -> None:
        """Let the workers leave their instances, and disconnect."""
        if not quickly:
            asked = [self.submit(host.name, leave) for host in self.hosts]
            for future in asked:
                with suppress(Exception):
                    future.result(timeout=_LEAVING_S)
        with suppress(OSError, RuntimeError, TimeoutError):
            self._client.close(timeout=5)

    @staticmethod
    def _library(on: str) -> Any:
        try:
            return import_module("distributed")
        except ImportError as error:
            raise BadInput(
                f"--on {on} needs the package 'distributed': install it with pip install distributed, or name a file "
                "of hosts"
            ) from error

    def _new_client(self) -> Any:
        return self._distributed.Client(self._address, timeout=_CONNECT_S, set_as_default=False)

    def _patience_s(self) -> float:
        stated = self._client.run_on_scheduler(import_module("dask.config").get, "distributed.scheduler.worker-ttl")
        return math.inf if stated is None else float(import_module("dask.utils").parse_timedelta(stated))

    def _connected(self, on: str) -> Any:
        try:
            return self._new_client()
        except (OSError, ValueError, TypeError) as error:
            raise BadInput(
                f"--on: no Dask scheduler answers at {self._address} ({error}); start one with `dask scheduler`"
            ) from error

    def _names(self) -> set[str]:
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return {
            name.removeprefix(RESOURCE)
            for worker in workers
            for name in worker.get("resources", {})
            if name.startswith(RESOURCE)
        }


__all__ = ["DASK", "PATIENT", "QUIET", "Cluster", "WorkerLost"]
