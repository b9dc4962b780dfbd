"""Tables and durations on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType


_ANY_WIDTH: Final = 10_000


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
    if console.is_terminal:
        return console
    # Colours in a pipe are there because they were asked for.
    colours: Literal["standard"] | None = "standard" if console.color_system else None
    return Console(file=console.file, width=1000, highlight=False, markup=False, color_system=colours)


def print_table(console: Console, table: Table) -> None:
    """Print a table on what `for_tables` gives; on a terminal that is narrower than the table, a block for each row."""
    chosen = for_tables(console)
    needed = Measurement.get(chosen, chosen.options.update(width=_ANY_WIDTH), table).maximum
    if needed <= chosen.width:
        chosen.print(table)
        return
    if table.title:
        chosen.print(table.title, style="italic")
    for row in zip(*(column.cells for column in table.columns), strict=True):
        chosen.print(_block([column.header for column in table.columns], row))


def _block(headings: Iterable[RenderableType], row: Iterable[RenderableType]) -> Table:
    """A row from top to bottom: a line for each column, an empty one at the end."""
    block = Table.grid(padding=(0, 2))
    for heading, cell in zip(headings, row, strict=True):
        block.add_row(heading, cell)
    block.add_row(Text(), Text())
    return block
