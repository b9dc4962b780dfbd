"""A comparison of commands, for the terminal."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from vtare.ab.verdict import (
    basis,
    change_text,
    finer_text,
    letter,
    typical_values_text,
    word_in_suite,
    worst_first,
    written,
)
from vtare.sentences import ab as wording
from vtare.stats import Unclear
from vtare.terminal.tables import print_lines, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from vtare.ab.compare import Compared, Finding


@contextmanager
def shown_progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Show what goes on, as plain text: a command may hold what would be markup."""
    # Drawn twice a second: more often it would take CPU from the commands.
    with console.status("", spinner="dots", refresh_per_second=2) as status:
        yield lambda text: status.update(Text(text))


#: Figures that are shown beside the one that is judged; of all others those that differ.
_ALWAYS: Final = ("CPU time", "peak memory")
_MOST_ROWS: Final = 4
_MOST_BENCHMARKS: Final = 8
_MOST_LINES: Final = 6
_WIDTH: Final = 80


def show_compared(console: Console, found: Compared, *, verbose: bool = False) -> None:
    """Print the answer, a line for each figure that matters, and what it rests on; with `verbose` all there is."""
    if verbose:
        _show_all(console, found)
        return
    shown = written(found)
    head, finer = (*shown.answer, *shown.warnings), finer_text(found)
    for line in head:
        console.print(line)
    if found.is_suite:
        _show_suite(console, found)
        return
    room = _MOST_LINES - sum(math.ceil(len(line) / _WIDTH) for line in head) - 1 - (finer is not None)
    figures = [*found.primary, *(it for it in found.others if it.ratio is not None and _matters(it))]
    rows = [
        (
            f"{letter(it.command)}  {it.figure.name}" if len(found.commands) > 2 else it.figure.name,
            typical_values_text(found, it),
            change_text(it),
            Unclear.NO_CLEAR_DIFFERENCE if it.is_noisy else it.word,
        )
        for it in figures[: max(min(_MOST_ROWS, room), len(found.primary))]
    ]
    print_lines(console, rows, drop=[len(rows[0]) - 3])
    if finer is not None:
        console.print(finer)
    console.print(f"{basis(found)} {wording.MORE}")


def _show_suite(console: Console, found: Compared) -> None:
    """Print the worst benchmarks of a suite, and what the answer rests on."""
    findings = worst_first(found)
    shown = findings[:_MOST_BENCHMARKS]
    rows = [(it.figure.name, typical_values_text(found, it), change_text(it), word_in_suite(it)) for it in shown]
    print_lines(console, rows, drop=[1])
    more = wording.more_benchmarks(len(findings) - len(shown))
    console.print(f"{more}{basis(found)} {wording.MORE}")


def _matters(finding: Finding) -> bool:
    return finding.is_different or finding.figure.name in _ALWAYS


def _show_all(console: Console, found: Compared) -> None:
    """Print the answer, what it rests on, a row for each command and figure, and the noise beside it."""
    shown = written(found)
    for line in (*shown.answer, *shown.warnings, *shown.about):
        console.print(line)
    table = Table()
    for heading in ("figure", "command", "typical run", shown.change_heading, "verdict"):
        table.add_column(heading)
    above = ""
    for row in shown.rows:
        name, above = "" if row.figure == above else row.figure, row.figure
        table.add_row(*map(Text, (name, row.command, row.typical, row.change, row.verdict)))
    print_table(console, table)
    for name, command in shown.commands:
        console.print(f"{name}: {command}", soft_wrap=True)
    if shown.beside is not None:
        console.print(shown.beside)
