"""A comparison that was kept, as what today's runs are compared with: on the same machine only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from vtare import documents
from vtare.ab.commands import Command
from vtare.ab.trials import COUNTED_FIELDS, Measured
from vtare.ab.verdict import SCHEMA
from vtare.errors import BadInput
from vtare.stored.paths import plain_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

T = TypeVar("T")
#: Facts of a machine between whose values runs are not compared.
_SAME: Final = ("kernel", "cpu_model", "cpus_allowed", "hypervisor", "container")
#: A comparison of 100 000 pairs, each with two runs of about 400 B.
_MOST_BYTE: Final = 128 << 20
#: What every run has.
_ALWAYS: Final = frozenset({"begin_ns", "wall_ns", "user_ns", "system_ns"})


def read_baseline(file: Path, here: Mapping[str, Any]) -> tuple[Command, list[Measured]]:
    """Return the last command of a document of `vtare ab`, and its runs: the state that was accepted.

    `here` are the facts of this machine.

    Raises:
        BadInput: it is no such document, or of another machine.
    """
    try:
        document = documents.read(file, most_byte=_MOST_BYTE)
    except BadInput as error:
        raise BadInput(f"--against: {error}. Give a document of `vtare ab --write json=FILE`") from error
    try:
        if document.get("schema") != SCHEMA:
            raise _Unusable(f"it has the schema {document.get('schema')!r}, not '{SCHEMA}'")
        machine = _member(document, "machine", dict)
        runs = [_run(_last(pair, "runs")) for pair in _member(document, "pairs", list)]
        text = _member(_last(document, "commands"), "text", str)
    except _Unusable as error:
        raise BadInput(
            f"--against: {file}: {plain_line(str(error))}. Give a document of `vtare ab --write json=FILE`"
        ) from None
    if not runs:
        raise BadInput(f"--against: {file}: it has no pairs. Give a document of a comparison that ran")
    if differs := [
        f"{key} {machine.get(key)}, here {here.get(key)}" for key in _SAME if machine.get(key) != here.get(key)
    ]:
        raise BadInput(
            f"--against: {file} was measured on another machine ({plain_line('; '.join(differs))}). Make a new "
            "baseline here"
        )
    return Command((), f"{plain_line(text)} (baseline)"), runs


class _Unusable(Exception):
    """A document is none of a comparison. The message is the cause."""


def _member(value: Any, key: str, kind: type[T]) -> T:
    member = value.get(key) if isinstance(value, dict) else None
    if not isinstance(member, kind):
        raise _Unusable(f"'{key}' is {member!r:.80}, not of the type {kind.__name__}")
    return member


def _last(value: Any, key: str) -> Any:
    items: list[Any] = _member(value, key, list)
    if not items:
        raise _Unusable(f"'{key}' is empty")
    return items[-1]


def _run(values: Any) -> Measured:
    """A run whose counts are numbers that are not below 0; those that may be missing are numbers or null."""
    if not isinstance(values, dict):
        raise _Unusable(f"a run is {values!r:.80}, not an object")
    unknown = values.keys() - set(COUNTED_FIELDS)
    missing = _ALWAYS - values.keys()
    if unknown or missing:
        raise _Unusable(f"a run has {', '.join(sorted(unknown)) or 'too little'}: {', '.join(sorted(missing))} missing")
    for key, value in values.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        if not is_number and (value is not None or key in _ALWAYS):
            raise _Unusable(f"'{key}' of a run is {value!r:.80}, not a number from 0 on")
    return Measured(**values)
