"""Counts and lists in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def count_text(value: int) -> str:
    """A count in groups of three from 10 000 on: 10000000 gives `10 000 000`, with no-break spaces."""
    return str(value) if abs(value) < 10_000 else f"{value:,}".replace(",", "\N{NO-BREAK SPACE}")


def plural(n: int, one: str, many: str | None = None) -> str:
    """A count with its word.

    >>> plural(1, "run"), plural(5, "run"), plural(2, "family", "families")
    ('1 run', '5 runs', '2 families')
    """
    return f"{count_text(n)} {one if n == 1 else many or one + 's'}"


def are(n: int) -> str:
    """Return the verb that fits a count: `is` or `are`."""
    return "is" if n == 1 else "are"


def were(n: int) -> str:
    """Return the past form that fits a count: `was` or `were`."""
    return "was" if n == 1 else "were"


def listing(items: Iterable[str]) -> str:
    """Join items as a person lists them.

    >>> listing(["a"]), listing(["a", "b"]), listing(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *first, last = [*items] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def duration(seconds: float) -> str:
    """Write a duration for people: `0.4 s`, `42 s`, `3 min 05 s`, `2 h 07 min`."""
    whole = round(seconds)
    if 0.05 <= seconds < 0.95:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
