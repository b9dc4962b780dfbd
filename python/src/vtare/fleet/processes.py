"""Worker processes on the machine of the lab, one for each host: nothing of the lab runs on a host between its runs."""

from __future__ import annotations

import fcntl
import hashlib
import json
import multiprocessing
import os
import signal
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtare.fleet.worker import leave, perform, prepare, probe
from vtare.platforms.notes import state_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtare.fleet.hosts import FleetHost
    from vtare.fleet.worker import Job, Result

_LEAVING_S = 20.0


class Processes:
    """The workers of a fleet's hosts. Each is started when it is first needed, and anew where it was killed."""

    #: Whether a worker is on its host.
    on_the_host = False
    freeze_s = 0.0

    def __init__(self, hosts: Sequence[FleetHost], store: Path) -> None:
        """Start nothing yet; `store` is what others read who want one of the hosts."""
        self.hosts = tuple(hosts)
        self._store = store
        self._pools: dict[str, ProcessPoolExecutor] = {}
        self._locks: dict[str, int] = {}

    def hold(self, host: FleetHost) -> str | None:
        """Take a host for this lab process until it ends. Why it is not available, or None where it is ours."""
        if host.name in self._locks:
            return None
        path = lock_path(host)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return holder_of(host) or "another campaign has it"
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "store": str(self._store)}).encode(), 0)
        self._locks[host.name] = descriptor
        return None

    def submit(self, host: str, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Let a host's worker do something, behind what it was asked for before."""
        for _ in range(2):
            pool = self._pools.get(host)
            if pool is None:
                context = multiprocessing.get_context("spawn")
                pool = ProcessPoolExecutor(1, context, prepare, (os.getpid(),))
                self._pools[host] = pool
            try:
                return pool.submit(work, *arguments)
            except BrokenProcessPool:
                self._kill(host)
        raise BrokenProcessPool(f"the worker of {host} cannot be started")

    def perform(self, host: str, job: Job) -> Future[Result]:
        """See `Workers.perform`."""
        return self.submit(host, perform, job)

    def probe(self, host: FleetHost, binary: str) -> Future[dict[str, Any]]:
        """See `Workers.probe`."""
        return self.submit(host.name, probe, host, binary)

    def end(self, host: str, future: Future[Any]) -> None:
        """Kill a host's worker, and with it what it has started."""
        self._kill(host)

    def _kill(self, host: str) -> None:
        pool = self._pools.pop(host, None)
        if pool is not None:
            for pid in list(getattr(pool, "_processes", None) or ()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            pool.shutdown(wait=False, cancel_futures=True)

    def lost(self, error: BaseException) -> bool:
        """See `Workers.lost`."""
        return isinstance(error, BrokenProcessPool)

    def close(self, *, quickly: bool) -> None:
        """End all workers, which leave their hosts first unless it has to be `quickly`; give the hosts back."""
        leaving = []
        for pool in () if quickly else self._pools.values():
            with suppress(BrokenProcessPool):
                leaving.append(pool.submit(leave))
        for future in leaving:
            with suppress(Exception):
                future.result(_LEAVING_S)
        for host in list(self._pools):
            self._kill(host)
        while self._locks:
            os.close(self._locks.popitem()[1])


def lock_path(host: FleetHost) -> Path:
    """The file whose lock is the host's, for all campaigns of this user."""
    named = json.dumps({key: host.settings.get(key) for key in ("kind", "host", "port", "namespace")})
    return state_directory("fleet") / f"{hashlib.sha256(named.encode()).hexdigest()[:16]}.lock"


def holder_of(host: FleetHost) -> str | None:
    """Which lab process has a host now; None where none has."""
    try:
        descriptor = os.open(lock_path(host), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        try:
            document = json.loads(os.pread(descriptor, 4096, 0))
            return f"process {int(document['pid'])} has it for {document['store']}"
        except (ValueError, KeyError, TypeError):
            return "another campaign has it"
    finally:
        os.close(descriptor)
    return None
