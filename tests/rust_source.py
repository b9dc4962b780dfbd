"""Rust source without its comments and literals, so that a word in prose is not taken for code."""

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


def lines_with(pattern: str, source: str) -> list[int]:
    """The numbers, from 1, of the lines whose code matches `pattern`."""
    return [number for number, line in enumerate(code_only(source).split("\n"), start=1) if re.search(pattern, line)]
