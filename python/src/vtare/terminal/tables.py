"""Tables and durations on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from rich.console import Console
from rich.measure import Measurement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table


_ANY_WIDTH: Final = 10_000


def for_tables(console: Console) -> Console:
    """Return what fits tables to a terminal, but in a pipe, which has no width, leaves a row on one line."""
    if console.is_terminal:
        return console
    # Colours in a pipe are there because they were asked for.
    colours: Literal["standard"] | None = "standard" if console.color_system else None
    return Console(file=console.file, width=1000, highlight=False, markup=False, color_system=colours)


def print_table(console: Console, table: Table, more: str = "--json") -> None:
    """Print a table on what `for_tables` gives; a narrower terminal leaves out columns from the right.

    `more` is what shows them.
    """
    chosen = for_tables(console)
    left_out = []
    while len(table.columns) > 2 and _width(chosen, table) > chosen.width:
        left_out.append(str(table.columns.pop().header))
    chosen.print(table)
    if left_out:
        chosen.print(f"Not shown on {chosen.width} columns: {', '.join(reversed(left_out))}. All of it: {more}")


def _width(console: Console, table: Table) -> int:
    return Measurement.get(console, console.options.update(width=_ANY_WIDTH), table).maximum


def print_lines(console: Console, rows: Sequence[Sequence[str]], *, drop: Sequence[int] = ()) -> None:
    """Print rows as aligned lines, without a frame.

    What is wider than a terminal of this width leaves out the columns `drop`, one after the other, and then the end of
    the first column.
    """
    left_out: list[int] = []
    for column in (None, *drop):
        left_out += [] if column is None else [column]
        shown = [[cell for at, cell in enumerate(row) if at not in left_out] for row in rows]
        widths = [max(map(len, cells)) for cells in zip(*shown, strict=True)]
        line = 2 + sum(widths) + 2 * (len(widths) - 1)
        if line <= console.width:
            break
    else:
        widths[0] = max(8, widths[0] - (line - console.width))
    for first, *rest in shown:
        name = first if len(first) <= widths[0] else f"{first[: widths[0] - 1]}\N{HORIZONTAL ELLIPSIS}"
        cells = (f"{cell:<{width}}" for cell, width in zip((name, *rest), widths, strict=True))
        console.print(f"  {'  '.join(cells)}".rstrip())
