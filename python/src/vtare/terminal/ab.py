"""A comparison of commands, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from vtare.ab.verdict import change_range, known_beside, letter, noise, sentence, word
from vtare.plots.quantity import quantity_of
from vtare.terminal.tables import duration, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from vtare.ab.compare import Compared, Finding

_ENDED = {
    "known": "stopped because that is known",
    "time": "stopped by --max-time",
    "pairs": "stopped by --pairs",
    "interrupted": "interrupted",
}


def show_compared(console: Console, found: Compared, *, self_test: bool) -> None:
    """Print the answer, what it rests on, a row for each command and figure, and the noise beside it."""
    for finding in found.primary:
        console.print(sentence(found, finding))
    if (beside := known_beside(found)) is not None:
        console.print(beside)
    if self_test:
        console.print("Both are the same command: what is shown above is the floor of this machine, not a difference.")
    n = len(found.pairs)
    design = found.chosen.design + (f" on CPUs {_list(found.chosen.cpus)}" if found.chosen.cpus else "")
    console.print(
        f"{n} {'pairs' if found.chosen.design != 'sequential' else 'runs each'} in {duration(found.elapsed_s)}, "
        f"{_ENDED[found.stopped]}; design: {design}, {found.chosen.why}"
    )
    table = Table()
    for heading in ("figure", "command", "median", f"change against {letter(0)} (interval)", "verdict"):
        table.add_column(heading)
    shown: set[str] = set()
    for finding in (*found.primary, *found.others):
        if finding.figure.name not in shown:
            shown.add(finding.figure.name)
            table.add_row(
                *(Text(text) for text in (finding.figure.name, letter(0), _median(found, finding, 0), "", ""))
            )
        table.add_row(*(Text(text) for text in _row(found, finding)))
    print_table(console, table)
    for k, command in enumerate(found.commands):
        console.print(f"{letter(k)}: {command.text}")
    taken = noise(found)
    if taken["others_cpus_median"] is not None:
        steal = taken["steal_cpus_median"]
        admitted = "does not state what it took" if steal is None else f"states that it took {steal:.2f}"
        console.print(
            f"beside the pairs: other programs took {taken['others_cpus_median']:.2f} CPUs (median; at most "
            f"{taken['others_cpus_most']:.2f}), the hypervisor {admitted}"
        )


def _row(found: Compared, finding: Finding) -> tuple[str, ...]:
    change = finding.reason or ""
    if finding.ratio is not None:
        change = f"{100 * (finding.ratio - 1):+.1f} %"
        if finding.low is not None and finding.high is not None:
            change += f" ({change_range(finding.low, finding.high)})"
    return "", letter(finding.command), _median(found, finding, finding.command), change, word(finding)


def _median(found: Compared, finding: Finding, command: int) -> str:
    values = [value for pair in found.pairs if (value := finding.figure.read(pair.runs[command])) is not None]
    if not values:
        return ""
    value = float(np.median(values))
    return quantity_of(f"value{finding.figure.unit}").text(value)


def _list(cpus: tuple[int, ...]) -> str:
    return ", ".join(str(cpu) for cpu in cpus)
