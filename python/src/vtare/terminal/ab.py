"""A comparison of commands, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from vtare.ab.verdict import (
    basis,
    beside_text,
    change_text,
    floor_text,
    known_beside,
    letter,
    median_text,
    sentence,
    word,
)
from vtare.terminal.tables import print_table

if TYPE_CHECKING:
    from rich.console import Console

    from vtare.ab.compare import Compared


def show_compared(console: Console, found: Compared) -> None:
    """Print the answer, what it rests on, a row for each command and figure, and the noise beside it."""
    for finding in found.primary:
        console.print(sentence(found, finding))
    for more in (known_beside(found), floor_text(found)):
        if more is not None:
            console.print(more)
    console.print(basis(found))
    table = Table()
    for heading in ("figure", "command", "median", f"change against {letter(0)} (interval)", "verdict"):
        table.add_column(heading)
    shown = None
    for finding in (*found.primary, *found.others):
        figure = finding.figure
        if figure is not shown:
            shown = figure
            table.add_row(*map(Text, (figure.name, letter(0), median_text(found, figure, 0), "", "")))
        median = median_text(found, figure, finding.command)
        table.add_row(*map(Text, ("", letter(finding.command), median, change_text(finding), word(finding))))
    print_table(console, table)
    for k, command in enumerate(found.commands):
        console.print(f"{letter(k)}: {command.text}")
    if (beside := beside_text(found)) is not None:
        console.print(beside)
