"""What is printed for people: prose is broken at spaces where the terminal ends, commands and paths never."""

from __future__ import annotations

import textwrap
from typing import Any

from rich.console import Console


class Screen(Console):
    """A console whose strings are lines of prose; with `soft_wrap=True` they are to be copied, and stay whole."""

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        """Print; a pipe has no width, so that nothing is broken there."""
        if soft_wrap is None and self.is_terminal:
            objects = tuple(_broken(each, self.width) if isinstance(each, str) else each for each in objects)
        prose = all(isinstance(each, str) for each in objects)
        super().print(*objects, soft_wrap=prose or not self.is_terminal or bool(soft_wrap), **options)


def _broken(text: str, width: int) -> str:
    """Each line of a text on lines of at most that width; those that follow stand two columns further in."""
    return "\n".join(line if len(line) <= width else _folded(line, width) for line in text.split("\n"))


def _folded(line: str, width: int) -> str:
    indent = f"{line[: len(line) - len(line.lstrip())]}  "
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
