"""Two stores against each other, for the terminal."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from vtare.instruments import metric
from vtare.plots.format import ratio_range_text, ratio_text
from vtare.plots.quantity import quantity_of
from vtare.stats import Merit, Verdict, write_p
from vtare.summary.between import to_decide
from vtare.summary.campaigns import MOST_CAMPAIGNS
from vtare.terminal.tables import print_lines, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from vtare.plan.level import Level
    from vtare.summary.between import Between, BetweenRow, LoneCell


#: Cells that a screen has room for, beside what is printed of them all.
_MOST_CELLS: Final = 15
_MOST_FACTS: Final = 3
#: Which cells come first.
_ORDER: Final = (
    *Merit, Verdict.HIGHER, Verdict.LOWER, Verdict.INCONCLUSIVE, Verdict.EQUIVALENT, Verdict.REFUSED,
)  # fmt: skip


def show_between(console: Console, found: Between, *, verbose: bool = False) -> None:
    """Print what changed: the answer, the facts that differ, a line for each cell, and how to learn more."""
    if verbose:
        _show_all(console, found)
        return
    console.print(_answer(found))
    for fact in found.changed[:_MOST_FACTS]:
        console.print(f"changed: {fact.what}: {fact.before} -> {fact.after}")
    left_out = len(found.left_out_before) + len(found.left_out_after)
    if left_out:
        console.print(f"{left_out} runs could not be used: see -v")
    fixed = _fixed((*found.cells, *found.only_before, *found.only_after))
    rows = sorted((*found.cells, *(row for row in found.tails if row.verdict.is_different)), key=_by_change)
    print_lines(console, [_line(row, fixed, found.level_of) for row in rows[:_MOST_CELLS]], drop=(1,))
    more = [f"{len(rows) - _MOST_CELLS} more cells"] if len(rows) > _MOST_CELLS else []
    alone = len(found.only_before) + len(found.only_after)
    more += [f"{alone} cells on one side only"] if alone else []
    if found.refused is None:
        console.print(to_decide(found.cells, found.analysis) or _rule(found))
    else:
        _show_next(console, found)
    console.print(f"More: -v ({', '.join(more)})" if more else "More: -v")


def _answer(found: Between) -> str:
    """How many cells got worse or better, in a sentence."""
    if found.refused is not None:
        return "No verdict yet: one campaign per side is not enough. Largest differences:"
    counts = Counter(_word(row) for row in found.cells)
    words = dict.fromkeys(map(_word, sorted(found.cells, key=_by_change)))
    listed = ", ".join(f"{counts[word]} {word}" for word in words)
    return f"{len(found.cells)} cells: {listed} (after / before, margin {found.analysis.margin_percent:g} %)."


def _word(row: BetweenRow) -> str:
    return "no clear difference" if row.verdict is Verdict.INCONCLUSIVE else row.change or str(row.verdict)


def _by_change(row: BetweenRow) -> tuple[int, float]:
    known = row.ratio is not None and row.ratio > 0
    return _ORDER.index(row.change or str(row.verdict)), -abs(math.log(row.ratio)) if known and row.ratio else 0.0


def _line(
    row: BetweenRow, fixed: Mapping[str, frozenset[str]], level_of: Mapping[str, Mapping[str, Level]]
) -> tuple[str, ...]:
    before, after = ("n/a" if value is None else figure_text(row.quantity, value) for value in (row.before, row.after))
    tail = "" if row.tail is None else f", {'p99.9' if row.tail == 'p999' else row.tail}"
    word = "" if row.verdict is Verdict.REFUSED and row.ratio is not None else _word(row)
    varying = [(key, label) for key, label in row.labels.items() if key not in fixed.get(row.experiment, frozenset())]
    # A word names its factor, a number does not.
    levels = [label if level_of[key][label].number is None else f"{key} {label}" for key, label in varying]
    return f"{', '.join([row.experiment, *levels])}{tail}", f"{before} -> {after}", _ratio(row), word


def _show_next(console: Console, found: Between) -> None:
    """The commands that make a verdict possible: both campaigns again, alternately."""
    (before, *_), (after, *_) = found.before, found.after
    console.print("Run each again, alternately, and compare all of them:")
    both = []
    for side, store in (("before", before), ("after", after)):
        again = shlex.quote(str(store.with_name(f"{store.name}-2")))
        both.append(f"--{side} {again}")
        console.print(f"  vtare run {shlex.quote(str(store / 'plan.toml'))} --store {again}")
    console.print(f"  vtare compare {shlex.quote(str(before))} {shlex.quote(str(after))} {' '.join(both)}")


def _show_all(console: Console, found: Between) -> None:
    """Print a line of counts, the facts that differ, a row for each cell with its p-value, the tails that changed."""
    counts = Counter(row.verdict for row in found.cells)
    listed = ", ".join(f"{counts[word]} {word}" for word in Verdict if counts[word])
    level = 100 * (1 - found.analysis.alpha)
    after, before = (" + ".join(str(store) for store in side) for side in (found.after, found.before))
    console.print(
        f"{after} against {before}: {len(found.cells)} cells: {listed} "
        f"(margin {found.analysis.margin_percent:g} %, intervals {level:g} %)"
    )
    for fact in found.changed:
        console.print(f"changed: {fact.what}: {fact.before} -> {fact.after}")
    for name, reasons in (("before", found.left_out_before), ("after", found.left_out_after)):
        for reason in reasons:
            console.print(f"left out ({name}): {reason}")
    fixed = _fixed((*found.cells, *found.only_before, *found.only_after))
    table = Table()
    over = "runs" if found.refused is not None else "campaigns"
    for heading in ("cell", "before", "after", f"after / before (over {over})", "p", "verdict", "campaigns (runs)"):
        table.add_column(heading)
    for row in found.cells:
        table.add_row(*(Text(piece) for piece in _cell_row(row, fixed)))
    print_table(console, table)
    for row in found.tails:
        if row.verdict.is_different:
            change = "" if row.change is None else f", {row.change}"
            tail = "p99.9" if row.tail == "p999" else row.tail
            p = _p(row)
            console.print(f"{row.verdict}{change}: {tail} of {_where(row, fixed)}: {_ratio(row)}, p {p}")
    for words, cells in (("only before", found.only_before), ("only after", found.only_after)):
        for cell in cells:
            console.print(f"{words}: {_where(cell, fixed)}")
    for reason in _reasons(found):
        console.print(reason)
    console.print(_rule(found))


def _reasons(found: Between) -> list[str]:
    """Why cells have no verdict, and how many campaigns would give those without one theirs."""
    lines = sorted({row.reason for row in found.cells if row.verdict is Verdict.REFUSED and row.reason is not None})
    inconclusive = [row for row in found.cells if row.verdict is Verdict.INCONCLUSIVE]
    lines += sorted({row.reason for row in inconclusive if row.reason is not None and row.campaigns_needed is None})
    needs = to_decide(found.cells, found.analysis)
    if needs is not None:
        lines.append(needs)
    beyond = sum(row.ratio is not None and row.campaigns_needed is None and row.reason is None for row in inconclusive)
    if beyond:
        lines.append(f"{beyond} inconclusive: it would take more than {MOST_CAMPAIGNS} campaigns a side")
    return lines


def _rule(found: Between) -> str:
    """What the intervals stand on, in a sentence."""
    if found.refused is not None:
        return "The intervals cover the spread between runs of these campaigns, not that between campaigns."
    if found.paired:
        return "The campaigns alternate and are compared in pairs; families span all experiments."
    families = "Welch's t on one figure a campaign; families span all experiments."
    if found.alternated:
        return families
    return (
        f"{families} The campaigns of the two sides do not alternate: a slow drift of the machine looks like a change."
    )


def _fixed(rows: Iterable[BetweenRow | LoneCell]) -> dict[str, frozenset[str]]:
    """What is the same in all cells of an experiment, by the experiment: no row needs to repeat it."""
    levels: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        for key, label in row.labels.items():
            levels.setdefault(row.experiment, {}).setdefault(key, set()).add(label)
    return {name: frozenset(key for key, found in keys.items() if len(found) == 1) for name, keys in levels.items()}


def _where(row: BetweenRow | LoneCell, fixed: Mapping[str, frozenset[str]]) -> str:
    """A cell in words: `300-mbit, cross 150 Mbit/s, method yaz`."""
    name = row.experiment
    varying = {key: label for key, label in row.labels.items() if key not in fixed.get(name, frozenset())}
    return ", ".join([name, *(f"{key} {label}" for key, label in varying.items())])


def figure_text(quantity: str, value: float) -> str:
    """One side's figure in the unit of its quantity, a share with its name: `78.2 us`, `CV 1.23 %`, `error 4.2 %`."""
    written = quantity_of(quantity)
    # A share means nothing without what it is of.
    named = f"{metric(quantity).short} " if written.symbol in ("1", "%") else ""
    return f"{named}{written.text(value)}"


def _ratio(row: BetweenRow) -> str:
    """The ratio and its interval over campaigns; over the runs where there is one campaign on either side."""
    if row.ratio_bound is not None and row.verdict.is_different:
        return f"{row.ratio_side} {ratio_text(row.ratio_bound)}"
    if row.ratio is None:
        return "n/a"
    is_of_runs = row.method_of_comparison == Verdict.REFUSED
    low, high = (row.within_low, row.within_high) if is_of_runs else (row.ratio_low, row.ratio_high)
    span = "" if low is None or high is None else f" ({ratio_range_text(low, high)})"
    return f"{ratio_text(row.ratio)}{span}"


def _p(row: BetweenRow) -> str:
    return "n/a" if row.p_adjusted is None else write_p(row.p_adjusted)


def _cell_row(row: BetweenRow, fixed: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    before, after = ("n/a" if value is None else figure_text(row.quantity, value) for value in (row.before, row.after))
    verdict = row.verdict if row.change is None else f"{row.verdict} ({row.change})"
    counts = f"{row.n_campaigns_before} / {row.n_campaigns} ({row.n_runs_before} / {row.n_runs})"
    return _where(row, fixed), before, after, _ratio(row), _p(row), verdict, counts
