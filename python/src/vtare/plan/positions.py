"""Where keys and values of a plan stand in its text: line and column for messages.

`tomllib` states no positions. The text is known to be valid TOML here: only where things start is looked for.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_BLANK: Final = re.compile(r"(?:\s+|#[^\n]*)*")
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' + r"|'''.*?'{3,5}" + r'|"(?:\\.|[^"\\])*"' + r"|'[^']*'", re.DOTALL
)
_BARE_KEY: Final = re.compile(r"[\w-]+")
_SPACE: Final = re.compile(r"[ \t]*")
_SCALAR: Final = re.compile(r"[^,\]}#\n]+")
_ESCAPE: Final = re.compile(r'\\(?:["\\]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[btnfr])')
_SIMPLE: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


class Position(NamedTuple):
    """A place in a text, both counted from 1."""

    line: int
    column: int


@dataclass
class Positions:
    """The positions of a text by key path, as messages write it: `experiment[0].factors.target_ns[1]`."""

    text: str
    _keys: dict[str, int] = field(default_factory=dict)
    _values: dict[str, int] = field(default_factory=dict)
    _tables: dict[str, int] = field(default_factory=dict)
    _at: int = 0

    def __post_init__(self) -> None:
        """Go through the text once."""
        with suppress(_NotToml, RecursionError):
            self._document()

    def of(self, path: str, *, key: bool = False) -> Position | None:
        """Where the value at a key path starts, or its key; of what is not there, the table that lacks it."""
        first, second = (self._keys, self._values) if key else (self._values, self._keys)
        while path:
            at = first.get(path, second.get(path))
            if at is not None:
                before = self.text[:at]
                return Position(before.count("\n") + 1, at - before.rfind("\n"))
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return None

    def _document(self) -> None:
        table = ""
        while True:
            self._take(_BLANK)
            if self._at >= len(self.text):
                return
            if self._here("[["):
                table = self._header("]]")
            elif self._here("["):
                table = self._header("]")
            else:
                self._pair(table)

    def _header(self, end: str) -> str:
        """A line `[a.b]` or `[[a.b]]`: the key path of the table that begins."""
        start, path = self._at - len(end), ""
        parts = self._parts()
        for number, (part, _) in enumerate(parts, 1):
            path = _joined(path, part)
            self._keys.setdefault(path, start)
            if end == "]]" and number == len(parts):
                self._tables[path] = self._tables.get(path, -1) + 1
            if path in self._tables:
                path = f"{path}[{self._tables[path]}]"
                self._keys.setdefault(path, start)
        self._expect(end)
        return path

    def _pair(self, table: str) -> None:
        path = table
        for part, at in self._parts():
            path = _joined(path, part)
            self._keys.setdefault(path, at)
        self._expect("=")
        self._value(path)

    def _parts(self) -> list[tuple[str, int]]:
        """The parts of a dotted key, and where each starts."""
        parts = []
        while True:
            self._take(_SPACE)
            at = self._at
            quoted = self._take(_STRING)
            parts.append((_plain(quoted) if quoted else self._take(_BARE_KEY), at))
            if not parts[-1][0] and not quoted:
                raise _NotToml
            self._take(_SPACE)
            if not self._here("."):
                return parts

    def _value(self, path: str) -> None:
        self._take(_BLANK)
        self._values[path] = self._at
        if self._here("["):
            self._items(path)
        elif self._here("{"):
            self._take(_BLANK)
            while not self._here("}"):
                self._pair(path)
                self._take(_BLANK)
                self._here(",")
                self._take(_BLANK)
        elif not self._take(_STRING) and not self._take(_SCALAR):
            raise _NotToml

    def _items(self, path: str) -> None:
        number = 0
        self._take(_BLANK)
        while not self._here("]"):
            self._value(f"{path}[{number}]")
            number += 1
            self._take(_BLANK)
            self._here(",")
            self._take(_BLANK)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _here(self, mark: str) -> bool:
        if not self.text.startswith(mark, self._at):
            return False
        self._at += len(mark)
        return True

    def _expect(self, mark: str) -> None:
        self._take(_SPACE)
        if not self._here(mark):
            raise _NotToml


class _NotToml(Exception):
    """The text is not what TOML allows here."""


def _joined(path: str, part: str) -> str:
    return f"{path}.{part}" if path else part


def _plain(quoted: str) -> str:
    """What a quoted key is."""
    if quoted[0] == "'":
        return quoted[1:-1]
    return _ESCAPE.sub(lambda found: _character(found[0][1:]), quoted[1:-1])


def _character(escape: str) -> str:
    return chr(int(escape[1:], 16)) if escape[0] in "uU" else _SIMPLE.get(escape, escape)
