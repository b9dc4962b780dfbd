"""Reading a report as a reader does."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import polars as pl

from vtare.summary import Summary


def plain(document: str) -> str:
    """The words of a page: no tags, no-break spaces as spaces."""
    body = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", document, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", body)).replace("\u00a0", " ")


def answer_of(document: str) -> str:
    found = re.search(r'<p class="answer">(.*?)</p>', document, re.DOTALL)
    assert found is not None
    return plain(found.group(1))


def cell(summary: Summary, **wanted: str) -> dict[str, Any]:
    frame = summary.cells
    for key, value in wanted.items():
        frame = frame.filter(pl.col(key) == value)
    assert frame.height == 1, wanted
    return frame.row(0, named=True)


def next_digit(pattern: str) -> Callable[[str], str]:
    """Change the digit that the group of a pattern finds."""

    def change(text: str) -> str:
        match = re.search(pattern, text, re.MULTILINE)
        assert match is not None, pattern
        at = match.start(1)
        return f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"

    return change
