"""Tables as a terminal shows them, by its width."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from vtare.terminal.tables import print_lines, print_table


def _shown(width: int) -> str:
    table = Table(title="Cells")
    table.add_column("cell")
    table.add_column("after / before (over campaigns)")
    table.add_column("p")
    table.add_row("timer, load idle", "0.997x (0.962 to 1.03)", "0.123")
    table.add_row("timer, load cpu", "1.01x (0.910 to 1.11)", "1.0")
    stream = io.StringIO()
    print_table(Console(file=stream, width=width, force_terminal=True, color_system=None, highlight=False), table)
    return stream.getvalue()


def test_a_terminal_that_is_wide_enough_shows_a_row_on_a_line() -> None:
    assert any("load idle" in line and "0.997x (0.962 to 1.03)" in line for line in _shown(100).splitlines())


def test_a_narrow_terminal_leaves_out_columns_from_the_right_and_names_them() -> None:
    lines = _shown(60).splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert sum("timer, load" in line for line in lines) == 2
    assert any("0.997x" in line for line in lines)
    assert lines[-2:] == ["Not shown on 60 columns: p. All of it: --json"] or "Not shown on 60 columns: p" in lines[-1]


def test_lines_leave_out_columns_in_order_then_the_end_of_the_name() -> None:
    rows = [("sleep, load cpu, method usleep", "62 us -> 88 us", "1.42x (1.20 to 1.70)", "worse"),
            ("timer", "10 ns -> 10 ns", "1.00x", "equivalent")]  # fmt: skip

    def lines(width: int) -> list[str]:
        stream = io.StringIO()
        print_lines(Console(file=stream, width=width, highlight=False), rows, drop=(1,))
        return stream.getvalue().splitlines()

    assert lines(90)[0] == "  sleep, load cpu, method usleep  62 us -> 88 us  1.42x (1.20 to 1.70)  worse"
    assert lines(70)[0] == "  sleep, load cpu, method usleep  1.42x (1.20 to 1.70)  worse"
    assert lines(50)[0] == "  sleep, load c\N{HORIZONTAL ELLIPSIS}  1.42x (1.20 to 1.70)  worse"
    assert all(len(line) <= width for width in (90, 70, 50) for line in lines(width))
