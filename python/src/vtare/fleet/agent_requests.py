"""What an agent may ask of the scheduler, and for whom: checks of messages, without a network.

A message that passes is made anew from the fields that the scheduler needs, so nothing else of an agent gets into its
state, or from there into the lab.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms.intake import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    #: Fields of a message, each with its check.
    Fields = Mapping[str, Callable[[Any], bool]]

RESOURCE: Final = "host-"
#: The longest message: one piece of a file with what is around it, or what a worker registers with.
MOST_MESSAGE_BYTE: Final = 3 << 20
#: Addresses that are remembered of a certificate: a worker has a new one whenever it starts.
_MOST_ADDRESSES: Final = 8192
_MOST_THREADS: Final = 1024
#: In place of what a worker measures of itself, by which nothing here is decided.
_METRICS: Final = {
    "bandwidth": {"total": 1e8, "workers": {}, "types": {}},
    "digests_total_since_heartbeat": {},
    "memory": 0,
    "managed_bytes": 0,
    "spilled_bytes": {"memory": 0, "disk": 0},
}


class BadRequest(ValueError):
    """An agent has sent what no agent may."""


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 1000


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


_REGISTER: Final[Fields] = {
    "address": _text,
    "status": lambda value: value in ("init", "running", "undefined"),
    "server_id": _text,
    "nthreads": lambda value: _count(value) and 1 <= value <= _MOST_THREADS,
    "name": _text,
    "now": _number,
    "memory_limit": lambda value: value is None or _count(value),
    "pid": _count,
    "local_directory": _text,
    "versions": lambda value: isinstance(value, dict),
    "stimulus_id": _text,
}
_HEARTBEAT: Final[Fields] = {"address": _text, "now": _number}
_TASK: Final[Fields] = {"key": _text, "run_id": _count, "stimulus_id": _text}
_REPORTS: Final[Mapping[str, Fields]] = {
    "task-finished": {**_TASK, "nbytes": _count},
    "task-erred": _TASK,
    "release-worker-data": {"key": _text, "stimulus_id": _text},
    "reschedule": {"key": _text, "stimulus_id": _text},
    "keep-alive": {},
    "worker-status-change": {
        "status": lambda value: value in ("running", "paused", "closing_gracefully"),
        "stimulus_id": _text,
    },
    "close-stream": {},
}
#: What reports get in place of objects of an agent.
_INSTEAD: Final[Mapping[str, Mapping[str, Any]]] = {
    "task-finished": {"metadata": {}, "type": b"", "typename": "bytes", "startstops": ()},
    "task-erred": {"exception": "the agent failed", "traceback": None, "traceback_text": ""},
}
#: Sent by workers of Dask, and of no use here.
_DROPPED: Final = frozenset({"log-event", "long-running", "request-refresh-who-has"})


class Registry:
    """Which host has registered which address."""

    def __init__(self) -> None:
        """Know none."""
        self._addresses: dict[str, list[str]] = {}

    def host_of(self, address: str) -> str | None:
        """The host that has registered an address; None where none has."""
        return next((host for host, addresses in self._addresses.items() if address in addresses), None)

    def add(self, host: str, address: str) -> None:
        """Keep that a host has this address.

        Raises:
            BadRequest: it is another host's.
        """
        if self.host_of(address) not in (None, host):
            raise BadRequest(f"the address {printable(address)} of another host")
        known = self._addresses.setdefault(host, [])
        if address not in known:
            known.append(address)
            del known[:-_MOST_ADDRESSES]


class AgentConnection:
    """One connection that the agent of a host has opened."""

    def __init__(self, host: str, registry: Registry) -> None:
        """The certificate of the connection names this host."""
        self._host = host
        self._registry = registry
        #: The address that has registered on this connection, which carries reports from then on.
        self._registered: str | None = None

    def request(self, message: Any) -> Any:
        """Return what the scheduler is to take of a message.

        Raises:
            BadRequest: an agent may not send it.
        """
        if self._registered is None:
            return self._first(message)
        several = message if isinstance(message, list | tuple) else (message,)
        reports = [_report(one, self._registered) for one in several]
        return [report for report in reports if report is not None]

    def _first(self, message: Any) -> dict[str, Any]:
        operation = message.get("op") if isinstance(message, dict) else None
        if operation == "register-worker":
            return self._register(message)
        if operation == "heartbeat_worker":
            heartbeat = _only(message, operation, _HEARTBEAT)
            if self._registry.host_of(heartbeat["address"]) != self._host:
                raise BadRequest(f"a heartbeat of {printable(heartbeat['address'])}, which is not its own")
            return {**heartbeat, **_answered(message), "metrics": _METRICS}
        if operation == "close":
            return {"op": "close", **_answered(message)}
        raise BadRequest(f"the request {printable(operation)}")

    def _register(self, message: Mapping[str, Any]) -> dict[str, Any]:
        request = _only(message, "register-worker", _REGISTER)
        resources = self._checked(message.get("resources"))
        if request["name"] != request["address"] or message.get("nanny"):
            raise BadRequest(f"a worker with the name {printable(request['name'])}")
        self._registry.add(self._host, request["address"])
        self._registered = request["address"]
        others = {"resources": resources, "services": {}, "extra": {}, "nanny": None, "metrics": _METRICS}
        return {**request, **others, "reply": False}

    def _checked(self, resources: Any) -> dict[str, int]:
        """The resource that states the worker's own host."""
        names = list(resources) if isinstance(resources, dict) else []
        if len(names) == 1 and _text(names[0]) and names[0].startswith(RESOURCE) and resources[names[0]] == 1:
            host = names[0].removeprefix(RESOURCE)
            if self._host == host:
                return {names[0]: 1}
        raise BadRequest(f"a worker with the resources {printable(resources)}")


def handshake(message: Any) -> dict[str, Any]:
    """The first message of a connection, which states what its other end understands; nothing of it is believed.

    Raises:
        BadRequest: it is no such message.
    """
    if not isinstance(message, dict):
        raise BadRequest("a handshake that is none")
    return {"compression": None, "python": (), "pickle-protocol": 4}


def answer(message: Any) -> dict[str, Any]:
    """Return what an agent answers when it is asked for results.

    Raises:
        BadRequest: it is no answer.
    """
    if not isinstance(message, dict) or message.get("status") != "OK" or not isinstance(message.get("data"), dict):
        raise BadRequest("an answer that holds no results")
    return {"status": "OK", "data": message["data"]}


def _report(message: Any, address: str) -> dict[str, Any] | None:
    operation = message.get("op") if isinstance(message, dict) else None
    if not isinstance(operation, str):
        raise BadRequest("a report that is none")
    if operation in _DROPPED:
        return None
    if operation not in _REPORTS:
        raise BadRequest(f"the report {printable(operation)}")
    if message.get("worker", address) != address:
        raise BadRequest(f"a report for {printable(message['worker'])}")
    return {**_only(message, operation, _REPORTS[operation]), **_INSTEAD.get(operation, {})}


def _only(message: Mapping[str, Any], operation: str, fields: Fields) -> dict[str, Any]:
    for field, holds in fields.items():
        if field not in message or not holds(message[field]):
            raise BadRequest(f"{operation} with the {field} {printable(message.get(field))}")
    return {"op": operation, **{field: message[field] for field in fields}}


def _answered(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"reply": bool(message.get("reply", True))}
