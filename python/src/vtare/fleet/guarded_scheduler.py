"""The scheduler of Dask that the lab starts, as a program: agents may ask it for little, and it unpickles nothing.

Whether a connection is the lab's or an agent's is read from its certificate. An agent may register the worker of its
own host, state that it lives, and report what became of the tasks that it was given. What else it sends ends the
connection. So does an answer of an agent that is no answer, is too large or does not come in time.

Run as `python -m vtare.fleet.guarded_scheduler PORT`, with certificates and settings in the environment.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final, NoReturn

from vtare.fleet.agent_requests import MOST_MESSAGE_BYTE, AgentConnection, BadRequest, Registry, answer, handshake
from vtare.fleet.certificates import host_of

# Dask has types here and there, which would make the checks depend on its version.
dask: Any = import_module("dask")
distributed: Any = import_module("distributed")
tcp: Any = import_module("distributed.comm.tcp")
comm_core: Any = import_module("distributed.comm.core")
protocol_core: Any = import_module("distributed.protocol.core")
protocol_pickle: Any = import_module("distributed.protocol.pickle")

#: An agent answers within this time. It is asked between runs, when it is awake.
ANSWER_S: Final = 60.0
_LOG = logging.getLogger("distributed.scheduler")
#: How many bytes the message that is being read may still have; None for one of the lab.
_left: ContextVar[list[int] | None] = ContextVar("left", default=None)
_registry: Final = Registry()


class _CheckedConnection(tcp.TLS):  # type: ignore[misc]
    """A connection whose messages are checked where its other end is an agent."""

    #: The host whose agent is at the other end; None where the lab is.
    host: str | None = None
    _greeted = False

    def _check(self, message: Any) -> Any:
        """What the scheduler is to take of a message of an agent. Raises BadRequest."""
        raise NotImplementedError

    async def read(self, deserializers: Any = None) -> Any:
        """Read a message; one of an agent within its bounds."""
        if self.host is None:
            return await super().read(deserializers)
        token = _left.set([MOST_MESSAGE_BYTE])
        try:
            message = await super().read(deserializers)
            if self._greeted:
                return self._check(message)
            self._greeted = True
            return handshake(message)
        except OSError:
            raise
        except Exception as error:
            _LOG.warning("The agent of %s is disconnected: it sent %s", self.host, error or type(error).__name__)
            self.abort()
            raise comm_core.CommClosedError(str(error)) from error
        finally:
            _left.reset(token)


class OpenedConnection(_CheckedConnection):
    """A connection that the lab or an agent has opened."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Find out who has opened it."""
        super().__init__(*arguments, **named)
        try:
            self.host = host_of(self._extra.get("peercert"))
        except ValueError:
            self.abort()
            raise
        self._agent = None if self.host is None else AgentConnection(self.host, _registry)

    def _check(self, message: Any) -> Any:
        assert self._agent is not None
        return self._agent.request(message)


class Outgoing(_CheckedConnection):
    """A connection to an agent, which is asked for results at the address that it has registered."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Refuse it where another than that agent has answered."""
        super().__init__(*arguments, **named)
        self.host = _registry.host_of(self.peer_address)
        if self.host is None or self.host != host_of(self._extra.get("peercert")):
            self.abort()
            raise comm_core.FatalCommClosedError(f"the agent of {self.host} does not answer at {self.peer_address}")

    async def read(self, deserializers: Any = None) -> Any:
        """Read an answer that comes in time."""
        try:
            return await asyncio.wait_for(super().read(deserializers), ANSWER_S)
        except TimeoutError as error:
            raise comm_core.CommClosedError(
                f"the agent of {self.host} does not answer within {ANSWER_S:g} s"
            ) from error

    def _check(self, message: Any) -> Any:
        return answer(message)


class GuardedScheduler(distributed.Scheduler):  # type: ignore[misc]
    """A scheduler that believes each agent what it may know."""

    def handle_task_finished(self, key: Any, worker: str, stimulus_id: str, **message: Any) -> None:
        """Take that a task is done from the worker that has it; only then is its result there."""
        if self._has(worker, key):
            super().handle_task_finished(key, worker, stimulus_id, **message)
        elif worker in self.stream_comms:
            self.worker_send(worker, {"op": "free-keys", "keys": [key], "stimulus_id": stimulus_id})

    def handle_task_erred(self, key: Any, stimulus_id: str, **message: Any) -> None:
        """The same for one that has failed."""
        if self._has(str(message.get("worker")), key):
            super().handle_task_erred(key, stimulus_id, **message)

    def _has(self, worker: str, key: Any) -> bool:
        task = self.tasks.get(key)
        return task is not None and task.processing_on is not None and task.processing_on.address == worker


def _install() -> None:
    """Put the bounds into Dask's own connections, for this process."""
    tcp.TLSListener.comm_class, tcp.TLSConnector.comm_class = OpenedConnection, Outgoing
    read, unpickle, unfold = tcp.read_bytes_rw, protocol_pickle.loads, protocol_core.decompress

    async def read_bounded(stream: Any, byte: int) -> Any:
        left = _left.get()
        if left is not None:
            left[0] -= byte
            if left[0] < 0:
                raise BadRequest(f"a message of more than {MOST_MESSAGE_BYTE} B")
        return await read(stream, byte)

    def unpickle_the_lab(data: Any, **named: Any) -> Any:
        return _not_of_an_agent() if _left.get() is not None else unpickle(data, **named)

    def unfold_the_lab(header: Any, frames: Any) -> Any:
        return _not_of_an_agent() if _left.get() is not None else unfold(header, frames)

    tcp.read_bytes_rw = read_bounded
    protocol_pickle.loads = unpickle_the_lab
    protocol_core.decompress = unfold_the_lab


def _not_of_an_agent() -> NoReturn:
    raise BadRequest("an object that would have to be unpickled")


async def _serve(port: int) -> None:
    async with GuardedScheduler(
        protocol="tls", port=port, security=distributed.Security(), dashboard=False
    ) as scheduler:
        await scheduler.finished()


def main() -> None:
    """Serve until the lab ends this process."""
    _install()
    # No class is looked up by the name that a message states.
    with dask.config.set({"distributed.scheduler.allowed-imports": [], "distributed.scheduler.http.routes": []}):
        asyncio.run(_serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
