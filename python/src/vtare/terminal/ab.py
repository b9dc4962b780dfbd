"""A comparison of commands, for the terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from vtare.ab.verdict import written
from vtare.terminal.tables import print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from vtare.ab.compare import Compared


@contextmanager
def shown_progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Show what goes on, as plain text: a command may hold what would be markup."""
    with console.status("", spinner="dots") as status:
        yield lambda text: status.update(Text(text))


def show_compared(console: Console, found: Compared) -> None:
    """Print the answer, what it rests on, a row for each command and figure, and the noise beside it."""
    shown = written(found)
    for line in (*shown.answer, *shown.about):
        console.print(line)
    table = Table()
    for heading in ("figure", "command", "median", shown.change_heading, "verdict"):
        table.add_column(heading)
    for row in shown.rows:
        name = "" if row.finding else row.figure
        table.add_row(*map(Text, (name, row.command, row.median, row.change, row.verdict)))
    print_table(console, table)
    for name, command in shown.commands:
        console.print(f"{name}: {command}")
    if shown.beside is not None:
        console.print(shown.beside)
