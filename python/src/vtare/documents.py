"""JSON documents that another machine made: bounded in size and depth, and checked, before anything uses them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import BadInput
from vtare.stored.paths import read_regular

if TYPE_CHECKING:
    from pathlib import Path

#: The largest document that a run leaves: a footer with a cell for each of some thousand guests, about 1 kB each.
MOST_BYTE: Final = 4 << 20
#: The contract's documents have 8 levels at most.
MOST_DEPTH: Final = 32
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 64) - 1


class BadDocument(ValueError):
    """Bytes from another machine are not a document that can be used. The message is one line."""


def parse(data: bytes, *, most_byte: int = MOST_BYTE) -> dict[str, Any]:
    """Return the JSON object that `data` holds.

    Every number in it is finite and fits 64 bits, every text can be written as UTF-8, and no part of it is deeper than
    `MOST_DEPTH`: what uses it needs no check of that kind.

    Raises:
        BadDocument: longer than `most_byte`, not JSON, not an object, or with such a part.
    """
    if len(data) > most_byte:
        raise BadDocument(f"{len(data)} B of JSON are too long: {most_byte} B are allowed")
    try:
        document = json.loads(data, parse_constant=_refuse_constant)
    except RecursionError:
        raise BadDocument(f"the JSON is nested too deep: {MOST_DEPTH} levels are allowed") from None
    except BadDocument:
        raise
    except ValueError as error:
        raise BadDocument(f"not JSON ({error})") from None
    if not isinstance(document, dict):
        raise BadDocument(f"the JSON is of type {type(document).__name__}, not an object")
    _check(document)
    return document


def read(path: Path, *, most_byte: int = MOST_BYTE) -> dict[str, Any]:
    """Return the JSON object in a file; see `parse`.

    Raises:
        BadInput: the file is missing, not a regular file, or does not hold such an object.
    """
    try:
        return parse(read_regular(path, most_byte), most_byte=most_byte)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
    except BadDocument as error:
        raise BadInput(f"{path}: {error}") from error


def _refuse_constant(found: str) -> None:
    raise BadDocument(f"the JSON has the number {found}, which is not finite")


def _check(document: dict[str, Any]) -> None:
    waiting: list[tuple[Any, int]] = [(document, 1)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, dict | list):
            if depth > MOST_DEPTH:
                raise BadDocument(f"the JSON is nested too deep: {MOST_DEPTH} levels are allowed")
            waiting.extend((part, depth + 1) for part in (value.values() if isinstance(value, dict) else value))
            if isinstance(value, dict):
                waiting.extend((key, depth) for key in value)
        elif isinstance(value, str):
            if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
                raise BadDocument("the JSON has a text with half of a surrogate pair, which is not Unicode")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise BadDocument("the JSON has a number beyond the range of 64 bits")
        elif isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
            raise BadDocument("the JSON has a number beyond the range of 64 bits")
