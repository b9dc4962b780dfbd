"""Tables and durations on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table


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


def for_tables(console: Console) -> Console:
    """Return what fits tables to a terminal, but in a pipe, which has no width, leaves a row on one line."""
    return console if console.is_terminal else Console(file=console.file, width=1000, highlight=False, markup=False)


def print_table(console: Console, table: Table) -> None:
    """Print a table on what `for_tables` gives."""
    for_tables(console).print(table)
