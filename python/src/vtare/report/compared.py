"""Two sides of campaigns against each other: the sentences of every form, and the page to send."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Final

from vtare.instruments import metric
from vtare.number_text import ratio_range_text, ratio_text
from vtare.quantity_text import quantity_of
from vtare.report.frame import lab_version
from vtare.report.page import HtmlPage, render
from vtare.report.parts import Code, Column, Notes, Section, Table, Text, in_words
from vtare.report.text import Shown, words
from vtare.sentences import comparison as wording
from vtare.sentences import titles
from vtare.stats import Merit, Unclear, Verdict, write_p
from vtare.summary.between import to_decide
from vtare.summary.campaigns import MOST_CAMPAIGNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vtare.summary.between import Between, BetweenRow, LoneCell

#: Which cells come first.
_ORDER: Final = (
    *Merit, Verdict.HIGHER, Verdict.LOWER, Verdict.INCONCLUSIVE, Verdict.EQUIVALENT, Verdict.REFUSED,
)  # fmt: skip


def answer_of(found: Between) -> str:
    """How many cells got worse or better, in a sentence."""
    if found.refused is not None:
        return f"{wording.NO_VERDICT} {wording.LARGEST_DIFFERENCES}"
    counts = Counter(word_of(row) for row in found.cells)
    words = dict.fromkeys(map(word_of, sorted(found.cells, key=by_change)))
    listed = [f"{counts[word]} {word}" for word in words]
    return wording.cells(len(found.cells), listed, found.analysis.margin_percent)


def word_of(row: BetweenRow) -> str:
    """The verdict of a cell in the words of the answer."""
    open_word = str(Unclear.NO_CLEAR_DIFFERENCE)
    return open_word if row.verdict is Verdict.INCONCLUSIVE else row.change or str(row.verdict)


def by_change(row: BetweenRow) -> tuple[int, float]:
    """Sorts cells: what got worse, then better, each by the size of the change."""
    known = row.ratio is not None and row.ratio > 0
    return _ORDER.index(row.change or str(row.verdict)), -abs(math.log(row.ratio)) if known and row.ratio else 0.0


def reasons_of(found: Between) -> list[str]:
    """Why cells have no verdict, and how many campaigns would give those without one theirs."""
    lines = sorted({row.reason for row in found.cells if row.verdict is Verdict.REFUSED and row.reason is not None})
    inconclusive = [row for row in found.cells if row.verdict is Verdict.INCONCLUSIVE]
    lines += sorted({row.reason for row in inconclusive if row.reason is not None and row.campaigns_needed is None})
    needs = to_decide(found.cells, found.analysis)
    if needs is not None:
        lines.append(needs)
    beyond = sum(row.ratio is not None and row.campaigns_needed is None and row.reason is None for row in inconclusive)
    if beyond:
        lines.append(wording.never_decided(beyond, MOST_CAMPAIGNS))
    return lines


def rule_of(found: Between) -> str:
    """What the intervals stand on, in a sentence."""
    if found.refused is not None:
        return wording.WITHIN_CAMPAIGNS
    if found.paired:
        return wording.IN_PAIRS
    return wording.WELCH if found.alternated else f"{wording.WELCH} {wording.NOT_ALTERNATED}"


def fixed_levels(rows: Iterable[BetweenRow | LoneCell]) -> dict[str, frozenset[str]]:
    """What is the same in all cells of an experiment, by the experiment: no row needs to repeat it."""
    levels: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        for key, label in row.labels.items():
            levels.setdefault(row.experiment, {}).setdefault(key, set()).add(label)
    return {name: frozenset(key for key, labels in keys.items() if len(labels) == 1) for name, keys in levels.items()}


def where_of(row: BetweenRow | LoneCell, fixed: Mapping[str, frozenset[str]]) -> str:
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


def ratio_of(row: BetweenRow) -> str:
    """The ratio and its interval over campaigns; over the runs where there is one campaign on either side."""
    if row.ratio_bound is not None and row.verdict.is_different:
        return f"{row.ratio_side} {ratio_text(row.ratio_bound)}"
    if row.ratio is None:
        return "n/a"
    is_of_runs = row.method_of_comparison == Verdict.REFUSED
    low, high = (row.within_low, row.within_high) if is_of_runs else (row.judged_low, row.judged_high)
    span = "" if low is None or high is None else f" ({ratio_range_text(low, high)})"
    return f"{ratio_text(row.ratio)}{span}"


def p_of(row: BetweenRow) -> str:
    """The p-value, adjusted for the family."""
    return "n/a" if row.p_adjusted is None else write_p(row.p_adjusted)


def cell_row(row: BetweenRow, fixed: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """A cell, both figures, ratio, p-value, verdict and how many campaigns and runs."""
    before, after = ("n/a" if value is None else figure_text(row.quantity, value) for value in (row.before, row.after))
    verdict = row.verdict if row.change is None else f"{row.verdict} ({row.change})"
    counts = f"{row.n_campaigns_before} / {row.n_campaigns} ({row.n_runs_before} / {row.n_runs})"
    return where_of(row, fixed), before, after, ratio_of(row), p_of(row), verdict, counts


def commands_of(found: Between) -> list[str]:
    """The commands that make a verdict possible: both campaigns again, alternately."""
    (before, *_), (after, *_) = found.before, found.after
    lines, both = [], []
    for side, store in (("before", before), ("after", after)):
        again = shlex.quote(str(store.with_name(f"{store.name}-2")))
        both.append(f"--{side} {again}")
        lines.append(f"vtare run {shlex.quote(str(store / 'plan.toml'))} --store {again}")
    return [*lines, f"vtare compare {shlex.quote(str(before))} {shlex.quote(str(after))} {' '.join(both)}"]


def compared_page(found: Between) -> str:
    """The comparison as one HTML document that fetches nothing: the answer, a row for each cell, what else changed."""
    fixed = fixed_levels((*found.cells, *found.only_before, *found.only_after))
    rows = sorted((*found.cells, *(row for row in found.tails if row.verdict.is_different)), key=by_change)
    sides = " + ".join(map(str, found.before)), " + ".join(map(str, found.after))
    sections = [Section("cells", "Every cell", (_table(rows, fixed),))]
    if found.changed:
        columns = in_words("fact", "before", "after")
        facts = tuple(tuple(map(words, (fact.what, fact.before, fact.after))) for fact in found.changed)
        sections.append(Section("facts", "What else changed", (Table("facts", "Facts that differ", columns, facts),)))
    notes = [*reasons_of(found), rule_of(found)]
    notes += [f"Left out, before: {reason}" for reason in found.left_out_before]
    notes += [f"Left out, after: {reason}" for reason in found.left_out_after]
    notes += [f"Only before: {where_of(cell, fixed)}" for cell in found.only_before]
    notes += [f"Only after: {where_of(cell, fixed)}" for cell in found.only_after]
    sections.append(Section("method", "What the verdicts rest on", (Notes(tuple((note,) for note in notes)),)))
    if found.refused is not None:
        code = Code("\n".join(commands_of(found)))
        sections.append(Section("next", "How to get a verdict", (Text(wording.RUN_EACH_AGAIN), code)))
    return render(
        HtmlPage(
            title=f"{sides[1]} against {sides[0]}",
            origin="vtare compare",
            about=f"{sides[1]} against {sides[0]}",
            question=titles.BETWEEN_CAMPAIGNS,
            sentences=[(answer_of(found),)],
            sections=sections,
            footer=[f"vtare {lab_version()}"],
        )
    )


def _table(rows: Sequence[BetweenRow], fixed: Mapping[str, frozenset[str]]) -> Table:
    columns = (
        Column("cell", "cell", numeric=False),
        Column("before", "before", numeric=False),
        Column("after", "after", numeric=False),
        Column("ratio", "after / before", numeric=False, about="the interval is over campaigns, else over runs"),
        Column("p", "p", numeric=False, about="adjusted for the family"),
        Column("verdict", "verdict", numeric=False),
        Column("campaigns", "campaigns (runs)", numeric=False, about="before / after"),
    )
    made = []
    for number, row in enumerate(rows):
        tail = "" if row.tail is None else f", {row.figure}"
        where, before, after, ratio, p, verdict, counts = cell_row(row, fixed)
        shown = [words(piece, number) for piece in (f"{where}{tail}", before, after, ratio, p)]
        made.append((*shown, Shown(verdict, verdict, number, row.change or str(row.verdict)), words(counts, number)))
    return Table("cells", "Cells, the largest changes first", columns, tuple(made), choice=True)
