"""Tables as a terminal shows them, by its width."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from vtare.terminal.tables import print_table


def _shown(width: int) -> str:
    table = Table(title="Cells")
    table.add_column("cell")
    table.add_column("after / before (over campaigns)")
    table.add_row("timer, load idle, source vtare", "0.997x (0.962 to 1.03)")
    table.add_row("timer, load cpu, source vtare", "1.01x (0.910 to 1.11)")
    stream = io.StringIO()
    print_table(Console(file=stream, width=width, force_terminal=True, color_system=None, highlight=False), table)
    return stream.getvalue()


def test_a_terminal_that_is_wide_enough_shows_a_row_on_a_line() -> None:
    assert any("load idle" in line and "0.997x (0.962 to 1.03)" in line for line in _shown(100).splitlines())


def test_on_a_narrow_terminal_each_row_is_a_block() -> None:
    lines = _shown(60).splitlines()
    first = [line.split("  ", 1) for line in lines]
    assert first[0] == ["Cells"]
    assert [line[0] for line in first].count("cell") == 2
    assert any("0.997x (0.962 to 1.03)" in line for line in lines)
    assert all(len(line) <= 60 for line in lines)
