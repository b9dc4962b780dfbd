"""A store over time, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from vtare.quantity_text import quantity_of
from vtare.sentences import comparison as wording
from vtare.series.model import magnitude
from vtare.series.over_time import answer
from vtare.series.sentences import sentence
from vtare.terminal.tables import print_table

if TYPE_CHECKING:
    from rich.console import Console

    from vtare.series.over_time import OverTime


def show_over_time(console: Console, found: OverTime, margin: float) -> None:
    """Print the answer and each change as sentences, then a row for each series."""
    console.print(answer(found))
    for change in found.changes:
        small = magnitude(change.before, change.after) < margin
        line = wording.below_margin(sentence(change), margin) if small else sentence(change)
        console.print(f"{found.unit} {change.at}: {line}")
    for bound in found.bounds:
        console.print(wording.not_followed(bound))
    table = Table()
    for heading in ("figure", f"{found.unit}s", "first", "newest", "least", "greatest", "changes"):
        table.add_column(heading)
    for one in found.series:
        text = quantity_of(one.key.quantity).text
        values = (one.values[0], one.values[-1], min(one.values), max(one.values))
        table.add_row(*map(Text, (one.key.text, str(len(one.values)), *map(text, values), str(len(found.of(one.key))))))
    print_table(console, table)
