"""A campaign among the papers, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from vtare.terminal.tables import print_table

if TYPE_CHECKING:
    from rich.console import Console

    from vtare.report.overlay import Overlay


def show_overlay(console: Console, found: Overlay) -> None:
    """Print every table, the columns as a reader of the report sees them."""
    for table in found.tables:
        grid = Table(title=table.caption, title_justify="left")
        for column in table.columns:
            grid.add_column(column.label, justify="right" if column.numeric else "left", overflow="fold")
        for row in table.rows:
            grid.add_row(*(Text(cell.text) for cell in row))
        print_table(console, grid)
    for note in found.notes:
        console.print(Text(note))
