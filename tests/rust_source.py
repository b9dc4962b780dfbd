"""Rust source taken apart: its code without comments and literals, or its strings alone."""

from __future__ import annotations

import re

_NOT_CODE = re.compile(
    r"""
    //[^\n]*                                  # line and doc comments
  | /\*.*?\*/                                 # block comments
  | \b(?:br|cr|r)(?P<hashes>\#*)".*?"(?P=hashes)   # raw strings
  | "(?:\\.|[^"\\])*"                         # strings
  | '(?:\\[^\n]{1,9}?|[^'\\\n])'              # characters; a lifetime has no closing quote
    """,
    re.VERBOSE | re.DOTALL,
)


def code_only(source: str) -> str:
    """`source` with every comment, string and character replaced by a blank; line numbers stay."""
    return _NOT_CODE.sub(lambda match: " " + "\n" * match[0].count("\n"), source)


def strings(source: str) -> list[str]:
    """The strings of `source`, each in one line. Those of C, Java and Go have the same form."""
    literals = (match[0] for match in _NOT_CODE.finditer(source))
    return [re.sub(r"\\\n\s*", "", text) for text in literals if text.endswith(('"', "#")) and not text.startswith("/")]


def lines_with(pattern: str, source: str) -> list[int]:
    """The numbers, from 1, of the lines whose code matches `pattern`."""
    return [number for number, line in enumerate(code_only(source).split("\n"), start=1) if re.search(pattern, line)]
