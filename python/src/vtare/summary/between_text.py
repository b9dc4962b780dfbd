"""Two stores against each other, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from vtare.campaign.console import print_table
from vtare.plots.format import (
    packet_rate_text,
    percent_points,
    rate_text,
    ratio_range_text,
    ratio_text,
    time_text,
)
from vtare.stats import write_p
from vtare.summary.contrasts import COMPARISON_COLUMNS

if TYPE_CHECKING:
    from rich.console import Console

    from vtare.summary.between import Between

_COLUMNS: Final = (
    *COMPARISON_COLUMNS, "before", "after", "change", "experiment", "tail", "refused",
)  # fmt: skip


def show_between(console: Console, found: Between) -> None:
    """Print what changed: a line of counts, the facts that differ, a row for each cell, the tails that changed."""
    counts = Counter(row["verdict"] for row in found.cells)
    listed = ", ".join(
        f"{counts[word]} {'differ' if word == 'differs' and counts[word] > 1 else word}"
        for word in ("differs", "equivalent", "undecided")
        if counts[word]
    )
    level = 100 * (1 - found.analysis.alpha)
    console.print(
        f"{found.after} against {found.before}: {len(found.cells)} cells: {listed} "
        f"(margin {found.analysis.margin_percent:g} %, intervals {level:g} %)"
    )
    for fact in found.changed:
        console.print(f"changed: {fact['what']}: {fact['before']} -> {fact['after']}")
    for name, reasons in (("before", found.left_out_before), ("after", found.left_out_after)):
        for reason in reasons:
            console.print(f"left out ({name}): {reason}")
    fixed = _fixed((*found.cells, *found.only_before, *found.only_after))
    table = Table()
    for heading in ("cell", "before", "after", "after / before", "p", "verdict", "runs"):
        table.add_column(heading)
    for row in found.cells:
        table.add_row(*(Text(piece) for piece in _cell_row(row, fixed)))
    print_table(console, table)
    for row in found.tails:
        if row["change"] is not None:
            times = "" if row["ratio"] is None else f" {ratio_text(row['ratio'])}"
            tail = "p99.9" if row["tail"] == "p999" else row["tail"]
            console.print(
                f"{row['change']}: {tail} of {_where(row, fixed)}:{times}, "
                f"p {write_p(row['p_adjusted'])} by {row['inference']}"
            )
    for words, cells in (("only before", found.only_before), ("only after", found.only_after)):
        for labels in cells:
            console.print(f"{words}: {_where(labels, fixed)}")
    for reason in dict.fromkeys(row["reason"] for row in found.cells if row["inference"] == "refused"):
        console.print(reason)
    console.print("The campaigns shared no blocks: whatever else changed between them is in these ratios, too.")


def _labels(row: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in row.items() if key not in _COLUMNS and value is not None}


def _fixed(rows: Iterable[Mapping[str, Any]]) -> dict[str, frozenset[str]]:
    """What is the same in all cells of an experiment, by the experiment: saying it in every row would say nothing."""
    levels: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        for key, label in _labels(row).items():
            levels.setdefault(str(row["experiment"]), {}).setdefault(key, set()).add(label)
    return {name: frozenset(key for key, found in keys.items() if len(found) == 1) for name, keys in levels.items()}


def _where(row: Mapping[str, Any], fixed: Mapping[str, frozenset[str]]) -> str:
    """A cell in words: `300-mbit, cross 150 Mbit/s, method yaz`."""
    name = str(row["experiment"])
    varying = {key: label for key, label in _labels(row).items() if key not in fixed.get(name, frozenset())}
    return ", ".join([name, *(f"{key} {label}" for key, label in varying.items())])


def figure_text(row: Mapping[str, Any], name: str) -> str:
    """A median in the unit that the name of its quantity states."""
    quantity = str(row["quantity"])
    if quantity.endswith("error_percent"):
        return f"error {percent_points(row[name], signed=False)}"
    if quantity.endswith("_packet_per_s"):
        return packet_rate_text(row[name])
    return rate_text(row[name]) if quantity.endswith("_bit_per_s") else time_text(row[name])


def _cell_row(row: Mapping[str, Any], fixed: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    before, after = ("n/a" if row[name] is None else figure_text(row, name) for name in ("before", "after"))
    ratio = "n/a" if row["ratio"] is None else ratio_text(row["ratio"])
    if row["ratio_low"] is not None and row["ratio_high"] is not None:
        ratio += f" ({ratio_range_text(row['ratio_low'], row['ratio_high'])})"
    p = "n/a" if row["p_adjusted"] is None else write_p(row["p_adjusted"])
    verdict = row["verdict"] if row["change"] is None else f"{row['verdict']}: {row['change']}"
    return _where(row, fixed), before, after, ratio, p, verdict, f"{row['n_runs_baseline']} / {row['n_runs']}"
