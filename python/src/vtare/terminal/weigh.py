"""What each platform costs a command, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.terminal.tables import print_lines
from vtare.weigh.verdict import answer, basis, density_text, headings, notes, predictions, reasons, rows

if TYPE_CHECKING:
    from rich.console import Console

    from vtare.weigh.weighing import Weighed


def show_weighed(console: Console, weighed: Weighed) -> None:
    """Print the answer, a line for each platform, and what it rests on."""
    console.print(answer(weighed))
    compared = weighed.compared
    if compared is not None:
        console.print()
        platforms = rows(weighed)
        drop = [10, 9, 8, 7, 5] if weighed.server is None else [6]
        print_lines(console, [headings(weighed), *platforms], drop=drop)
        console.print()
    if (density := density_text(weighed)) is not None:
        console.print(density)
    for (_, heading), *lines in (*reasons(weighed), *predictions(weighed)):
        console.print(heading)
        width = max(len(time) for time, _ in lines)
        for time, text in lines:
            console.print(f"  {time:>{width}}  {text}")
        console.print()
    for line in notes(weighed):
        console.print(line)
    if compared is not None:
        console.print(basis(compared))
