"""Dask in the lab's own process takes plain data and unpickles nothing, whoever has sent it.

Dask unpickles results, exceptions, types and events of workers. Here each of these ways ends in `REFUSED`, a text, or
in an error that Dask expects there. What the lab needs from a worker comes as bytes, which `answers` reads.
"""

from __future__ import annotations

import pickle
import threading
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Stands in place of an object that is no plain data.
REFUSED: Final = "an object that could only be unpickled was refused"
#: What the lab's client asks for: the one family of Dask that has no code.
DESERIALIZERS: Final = ("msgpack",)

_lock = threading.Lock()
_users = 0
#: What stood in Dask's modules before: module, name, value.
_before: list[tuple[Any, str, Any]] = []


class PickleRefused(TypeError):
    """Dask wanted to unpickle what somebody has sent. A TypeError, which Dask takes as a broken traceback."""


def refuse_pickles() -> None:
    """Refuse pickles in this process until `allow_pickles` was called as often as this."""
    global _users
    with _lock:
        _users += 1
        if _users > 1:
            return
        for module, name, value in _replacements():
            _before.append((module, name, getattr(module, name)))
            setattr(module, name, value)


def allow_pickles() -> None:
    """Take back one call of `refuse_pickles`."""
    global _users
    with _lock:
        _users -= 1
        while _users == 0 and _before:
            module, name, value = _before.pop()
            setattr(module, name, value)


def _replacements() -> list[tuple[Any, str, Any]]:
    client, core, pickles = (
        import_module(f"distributed.{name}") for name in ("client", "protocol.core", "protocol.pickle")
    )
    return [
        (pickles, "loads", _refuse),
        (client, "loads", _refuse),
        (client, "pickle", SimpleNamespace(loads=_refuse, dumps=pickle.dumps)),
        # An object inside a message must not end the connection, with which all hosts would be lost.
        (core, "pickle", SimpleNamespace(loads=_refused, dumps=pickles.dumps)),
        (core, "decompress", _as_they_came),
        (core, "merge_and_deserialize", plain_value),
        (core, "msgpack_decode_default", _plain_part),
    ]


def _refuse(*_: object, **__: object) -> NoReturn:
    raise PickleRefused(REFUSED)


def _refused(*_: object, **__: object) -> str:
    return REFUSED


def _as_they_came(_header: object, frames: Any) -> Any:
    """Compressed frames stay so: they may unfold to any size. `plain_value` then refuses them."""
    return frames


def plain_value(header: Any, frames: Sequence[Any], deserializers: object = None) -> Any:
    """The value that a message holds where it is plain data in msgpack and not compressed; else `REFUSED`."""
    try:
        if header.get("serializer") != "msgpack" or any(header.get("compression") or ()):
            return REFUSED
        limits = import_module("distributed.protocol.utils").msgpack_opts
        return import_module("msgpack").unpackb(b"".join(frames), use_list=False, **limits)
    except Exception:
        return REFUSED


def _plain_part(part: Mapping[str, Any]) -> Any:
    """What Dask makes of a part of a message: sets. A member of a class that it would import stays as it came."""
    try:
        return set(part["as-list"]) if "__Set__" in part else part
    except (KeyError, TypeError):
        return REFUSED
