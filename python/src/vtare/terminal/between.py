"""Two stores against each other, for the terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from vtare.report.compared import (
    answer_of,
    by_change,
    cell_row,
    commands_of,
    figure_text,
    fixed_levels,
    p_of,
    ratio_of,
    reasons_of,
    rule_of,
    where_of,
    word_of,
)
from vtare.sentences import comparison as wording
from vtare.stats import Verdict
from vtare.summary.between import to_decide
from vtare.terminal.tables import print_lines, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from vtare.plan.level import Level
    from vtare.summary.between import Between, BetweenRow

#: Cells that a screen has room for, beside what is printed of them all.
_MOST_CELLS: Final = 15
_MOST_FACTS: Final = 3


def show_between(console: Console, found: Between, *, verbose: bool = False) -> None:
    """Print what changed: the answer, the facts that differ, a line for each cell, and how to learn more."""
    if verbose:
        _show_all(console, found)
        return
    console.print(answer_of(found))
    for fact in found.changed[:_MOST_FACTS]:
        console.print(wording.changed(fact.what, fact.before, fact.after))
    left_out = len(found.left_out_before) + len(found.left_out_after)
    if left_out:
        console.print(wording.unusable(left_out))
    fixed = fixed_levels((*found.cells, *found.only_before, *found.only_after))
    rows = sorted((*found.cells, *(row for row in found.tails if row.verdict.is_different)), key=by_change)
    named = len({row.experiment for row in rows}) > 1
    print_lines(console, [_line(row, fixed, found.level_of, named) for row in rows[:_MOST_CELLS]], drop=(1,))
    more = [wording.more_cells(len(rows) - _MOST_CELLS)] if len(rows) > _MOST_CELLS else []
    alone = len(found.only_before) + len(found.only_after)
    more += [wording.lone_cells(alone)] if alone else []
    if found.refused is None:
        console.print(to_decide(found.cells, found.analysis) or rule_of(found))
    else:
        console.print(wording.RUN_EACH_AGAIN)
        for line in commands_of(found):
            console.print(f"  {line}", soft_wrap=True)
    console.print(wording.see_verbose(more) if more else wording.SEE_VERBOSE)


def _line(
    row: BetweenRow, fixed: Mapping[str, frozenset[str]], level_of: Mapping[str, Mapping[str, Level]], named: bool
) -> tuple[str, ...]:
    before, after = ("n/a" if value is None else figure_text(row.quantity, value) for value in (row.before, row.after))
    tail = "" if row.tail is None else f", {row.figure}"
    word = "" if row.verdict is Verdict.REFUSED and row.ratio is not None else word_of(row)
    varying = [(key, label) for key, label in row.labels.items() if key not in fixed.get(row.experiment, frozenset())]
    # A word or a unit names its factor, a bare number does not.
    levels = [f"{key} {label}" if level_of[key][label].is_bare else label for key, label in varying]
    where = [row.experiment, *levels] if named or not levels else levels
    return f"{', '.join(where)}{tail}", f"{before} -> {after}", ratio_of(row), word


def _show_all(console: Console, found: Between) -> None:
    """Print a line of counts, the facts that differ, a row for each cell with its p-value, the tails that changed."""
    counts = Counter(row.verdict for row in found.cells)
    listed = [f"{counts[word]} {word}" for word in Verdict if counts[word]]
    after, before = (" + ".join(str(store) for store in side) for side in (found.after, found.before))
    margin, level = found.analysis.margin_percent, 100 * (1 - found.analysis.alpha)
    console.print(wording.all_cells(after, before, len(found.cells), listed, margin, level))
    for fact in found.changed:
        console.print(wording.changed(fact.what, fact.before, fact.after))
    for name, reasons in (("before", found.left_out_before), ("after", found.left_out_after)):
        for reason in reasons:
            console.print(f"left out ({name}): {reason}")
    fixed = fixed_levels((*found.cells, *found.only_before, *found.only_after))
    table = Table()
    over = "runs" if found.refused is not None else "campaigns"
    for heading in ("cell", "before", "after", f"after / before (over {over})", "p", "verdict", "campaigns (runs)"):
        table.add_column(heading)
    for row in found.cells:
        table.add_row(*(Text(piece) for piece in cell_row(row, fixed)))
    print_table(console, table)
    for row in found.tails:
        if row.verdict.is_different:
            change = "" if row.change is None else f", {row.change}"
            p = p_of(row)
            console.print(f"{row.verdict}{change}: {row.figure} of {where_of(row, fixed)}: {ratio_of(row)}, p {p}")
    for words, cells in (("only before", found.only_before), ("only after", found.only_after)):
        for cell in cells:
            console.print(f"{words}: {where_of(cell, fixed)}")
    for reason in reasons_of(found):
        console.print(reason)
    console.print(rule_of(found))
