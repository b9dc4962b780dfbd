"""How many runs a campaign needs, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from vtare.instruments import metric
from vtare.sentences import campaign as wording
from vtare.summary.power import answer
from vtare.terminal.tables import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from vtare.summary.power import Needs, PowerQuestion


def show_needs(console: Console, question: PowerQuestion, needs: Sequence[Needs]) -> None:
    """Print what each cell needs, a figure a row, and the number of blocks that is enough for all."""
    console.print(Text(answer(question, needs)["text"]))
    console.print(wording.power(question.shift_percent, question.power, question.alpha))
    table = Table()
    headings = ("cell", "figure", "comparisons", "spread of runs", "inside blocks", "runs", "cautious",
                f"{question.blocks} runs find", "readings", "worth taking")  # fmt: skip
    for heading in headings:
        table.add_column(heading)
    for one in needs:
        cell = " ".join([one.experiment, *one.labels.values()])
        row = (
            cell,
            "as stated" if one.quantity is None else metric(one.quantity).short,
            str(one.comparisons),
            _percent(one.spread_percent),
            _percent(one.paired_spread_percent),
            _count(one.runs, one),
            "n/a" if one.pilot_runs is None else _count(one.runs_cautious, one),
            _percent(one.found_percent),
            "n/a" if one.samples is None else str(one.samples),
            "n/a" if one.samples_advised is None else str(one.samples_advised),
        )
        table.add_row(*(Text(piece) for piece in row))
    print_table(console, table)
    for reason in dict.fromkeys(one.reason for one in needs if one.reason is not None):
        console.print(f"n/a: {reason}")


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3g} %"


def _count(value: int | None, one: Needs) -> str:
    return str(value) if value is not None else "n/a" if one.reason is not None else "over 1000"
