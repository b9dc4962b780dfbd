"""The workers of a Dask cluster: each is on its host, and its runs are made there as on one machine.

A worker states its host as a resource, `host-NAME=1`: what is asked of a host then goes to it alone, one at a time, and
to the worker that takes its place after a restart. Dask carries what is asked and what comes back, and decides nothing.
No worker is trusted: what comes back is bytes, and this process unpickles nothing (`plain_dask`).
"""

from __future__ import annotations

import math
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.campaign.allowance import allowance
from vtare.campaign.attempts import timeout_s
from vtare.campaign.execute import RunOutcome
from vtare.errors import BadInput, PlatformFailed
from vtare.fleet.agent_answers import BadAnswer, read_announced, read_document, take_files
from vtare.fleet.agent_requests import RESOURCE
from vtare.fleet.agent_tasks import find_facts, leave_host, make_run, read_piece
from vtare.fleet.hosts import FleetHost
from vtare.fleet.plain_dask import DESERIALIZERS, allow_pickles, refuse_pickles
from vtare.fleet.worker import Result
from vtare.platforms.intake import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.fleet.worker import Job

DASK: Final = "dask://"
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
_LEAVING_S: Final = 20.0
#: Any message is short, and a worker is awake when it is asked.
_FETCHING_S: Final = 120.0
#: Results that are fetched at a time. One that does not come keeps a thread for as long as its run may take.
_MOST_FETCHING: Final = 64


class WorkerLost(ConnectionError):
    """The scheduler of the cluster is out of reach."""


class Cluster:
    """The workers that a Dask scheduler knows, by the hosts that they state."""

    #: Whether a worker is on its host.
    on_the_host = True
    #: How long a client tries to reach the scheduler.
    connect_s = 30

    hosts: tuple[FleetHost, ...]
    #: Whether this process refuses pickles for this cluster.
    _refusing = False
    #: Half the time after which the scheduler gives up a worker that sends nothing.
    freeze_s: float

    def __init__(self, on: str) -> None:
        """Connect to the scheduler of `dask://HOST:PORT`.

        Raises:
            BadInput: the package `distributed` is not installed, nobody answers, or no worker states its host.
        """
        self._begin(on)
        self._address = f"tcp://{on.removeprefix(DASK)}"
        try:
            self._client = self._connected()
        except BadInput:
            self._allow()
            raise
        self.freeze_s = self._patience_s() / 2.0
        names = sorted(self._names())
        if not names:
            self.close(quickly=True)
            raise BadInput(
                f"--on {on}: found no worker that states its host; start one on each with `dask worker "
                f"{on.removeprefix(DASK)} --nthreads 1 --resources host-$(hostname)=1`"
            )
        self.hosts = tuple(FleetHost(name) for name in names)

    def _begin(self, on: str) -> None:
        """Load Dask, which unpickles nothing here until `close`. Raises BadInput."""
        self._distributed = self._library(on)
        refuse_pickles()
        self._refusing = True
        self._fetching = ThreadPoolExecutor(_MOST_FETCHING)

    def _allow(self) -> None:
        """Take back `_begin`. May be called twice."""
        if self._refusing:
            self._refusing = False
            allow_pickles()

    def hold(self, host: FleetHost) -> str | None:
        """Nothing to do: whatever is asked of a worker waits until it has done what it was asked for before."""
        return None

    def perform(self, host: str, job: Job) -> Future[Result]:
        """See `Workers.perform`."""
        return self._ask(host, partial(self._take_run, host, job), make_run, job)

    def probe(self, host: FleetHost, binary: str) -> Future[dict[str, Any]]:
        """See `Workers.probe`."""
        return self._ask(host.name, _facts, find_facts, binary)

    def _take_run(self, host: str, job: Job, data: object, brought: Future[Any]) -> Result:
        """The result that an agent announces; its files are then fetched."""
        most = allowance(job.run, timeout_s(job.run, job.plan))
        try:
            announced = read_announced(data, job.run, most)
            if announced.outcome.status == "done":
                piece = partial(self._piece, host, job, brought)
                take_files(announced, Path(job.directory), job.run, most, piece, host)
            return Result(announced.outcome)
        except (BadAnswer, PlatformFailed) as error:
            return Result(
                RunOutcome("failed", 0.0, reason=f"{host}: its agent's answer is refused: {error}", away=True)
            )

    def _piece(self, host: str, job: Job, brought: Future[Any], name: str, offset: int) -> object:
        return self._fetched(self._submit(host, read_piece, job.directory, name, offset), brought)

    def _ask(
        self, host: str, take: Callable[[object, Future[Any]], Any], work: Callable[..., bytes], *arguments: Any
    ) -> Future[Any]:
        """Let the worker of a host do something, and take in what comes back, in a thread: it may never come whole."""
        brought: Future[Any] = Future()
        try:
            asked = self._submit(host, work, *arguments)
        except WorkerLost as error:
            brought.set_exception(error)
            return brought

        def bring() -> None:
            # Nobody may wait for it any more.
            with suppress(InvalidStateError):
                try:
                    answer = take(self._fetched(asked, brought), brought)
                except BaseException as error:
                    brought.set_exception(error)
                else:
                    brought.set_result(answer)

        def begin(_: object) -> None:
            # Nothing is fetched after `close`.
            with suppress(RuntimeError):
                self._fetching.submit(bring)

        brought.add_done_callback(lambda _: self._forget(asked))
        asked.add_done_callback(begin)
        return brought

    def _submit(self, host: str, work: Callable[..., bytes], *arguments: Any) -> Any:
        """Hand a task to the worker of a host. Raises WorkerLost."""
        try:
            if self._client.status not in ("running", "connecting"):
                self._client = self._new_client()
            return self._client.submit(work, *arguments, resources={f"{RESOURCE}{host}": 1}, pure=False, retries=0)
        except (OSError, ValueError, RuntimeError) as error:
            raise WorkerLost(f"no Dask scheduler answers at {self._address} ({error})") from error

    def _fetched(self, asked: Any, brought: Future[Any]) -> object:
        """What a task has returned; given up once nobody waits for it. Raises WorkerLost.

        A task of vtare's own raises nothing, so an error is that of a worker which was lost, or is none of vtare's.
        Dask's own way to a result asks again and again where a worker does not give it, and for several hosts at once.
        """
        while not brought.done():
            try:
                asked.exception(timeout=1.0)
                if asked.status == "finished":
                    gather = self._client.scheduler.gather
                    fetched = self._client.sync(gather, keys=[asked.key], callback_timeout=_FETCHING_S)
                    return fetched["data"][asked.key]
                raise WorkerLost(f"its worker was lost: its task is {asked.status}")
            except TimeoutError:
                if asked.done():
                    raise WorkerLost(f"its worker gave no result in {_FETCHING_S:g} s") from None
            except WorkerLost:
                raise
            except Exception as error:
                raise WorkerLost(f"its worker was lost: {printable(repr(error))}") from error
        raise WorkerLost("nobody waits for it any more")

    @staticmethod
    def _forget(asked: Any) -> None:
        with suppress(OSError, RuntimeError):
            asked.cancel()

    def lost(self, error: BaseException) -> bool:
        """See `Workers.lost`."""
        return isinstance(error, WorkerLost | CancelledError)

    def end(self, host: str, future: Future[Any]) -> None:
        """Take back what was asked. What a worker does already it does to its end; a probe waits behind it."""
        future.cancel()

    def close(self, *, quickly: bool) -> None:
        """Let the workers leave their instances, and disconnect. May be called twice."""
        if not self._refusing:
            return
        if not quickly:
            asked = [self._ask(host.name, lambda *_: None, leave_host) for host in self.hosts]
            for future in asked:
                with suppress(Exception):
                    future.result(timeout=_LEAVING_S)
        self._fetching.shutdown(wait=False, cancel_futures=True)
        with suppress(OSError, RuntimeError, TimeoutError):
            self._client.close(timeout=5)
        self._allow()

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
        return self._distributed.Client(
            self._address, timeout=self.connect_s, set_as_default=False, deserializers=DESERIALIZERS, **self._security()
        )

    def _security(self) -> dict[str, Any]:
        """What a client needs beside the address."""
        return {}

    def _patience_s(self) -> float:
        stated = self._client.run_on_scheduler(import_module("dask.config").get, "distributed.scheduler.worker-ttl")
        return math.inf if stated is None else float(import_module("dask.utils").parse_timedelta(stated))

    def _connected(self) -> Any:
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


def _facts(data: object, _brought: Future[Any]) -> dict[str, Any]:
    try:
        return read_document(data)
    except BadAnswer as error:
        return {"reason": f"its agent's answer is refused: {error}"}
