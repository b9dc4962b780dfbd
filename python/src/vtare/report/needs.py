"""What a campaign of this size can find, and what more of it would: figures of the rule itself, from the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare import stats
from vtare.plots.format import significant
from vtare.report import text
from vtare.report.layout import level_text
from vtare.summary.contrasts import ComparisonRow
from vtare.summary.rows import rows_of
from vtare.summary.verdicts import INCONCLUSIVE, word_of

if TYPE_CHECKING:
    from vtare.summary import Summary

_CHANCE: Final = 0.8
_LISTED: Final = 3


def inconclusive(summary: Summary) -> tuple[str, str] | None:
    """How many comparisons are inconclusive, and what would settle them: in a few words, and in full.

    `3 of 4 comparisons are inconclusive; 9 more blocks would find a change of 5 % with a probability of 80 %`. None
    where there are none, or none could be tested.
    """
    rows = [row for row in rows_of(ComparisonRow, summary.comparisons) if row.p_value is not None]
    left = [row for row in rows if word_of(row) == INCONCLUSIVE]
    if not left:
        return None
    total = text.plural(summary.comparisons.height, "comparison")
    short = f"{len(left)} of {total} {'is' if len(left) == 1 else 'are'} inconclusive"
    more = _more(summary, left)
    return f"{short}{f'; {more}' if more else ''}", (
        f"{short}: neither shown to be higher or lower, all comparisons of a factor taken together, nor to lie inside "
        f"the margin of {summary.plan.analysis.margin_percent:g} %{f'; {more}' if more else ''}."
    )


def _more(summary: Summary, left: list[ComparisonRow]) -> str:
    """How many more blocks would find a difference as large as the margin in these comparisons."""
    known = [more for row in left if (more := _missing_blocks(row)) is not None]
    margin, chance = f"a change of {summary.plan.analysis.margin_percent:g} %", f"a probability of {100 * _CHANCE:g} %"
    if not known:
        return f"no number of blocks up to 1000 would find {margin} with {chance}"
    if max(known) == 0:
        return f"this number of blocks finds {margin} with {chance}"
    words = f"{text.plural(max(known), 'more block')} would find {margin} with {chance}"
    if len(known) < len(left):
        words += f" in {len(known)} of them"
    return words


def _missing_blocks(row: ComparisonRow) -> int | None:
    """How many runs more than the smaller side has it takes; None where no number up to 1000 would do."""
    if row.runs_needed is None:
        return None
    made = row.n_blocks if row.n_blocks is not None else min(row.n_runs, row.n_runs_baseline)
    return max(0, row.runs_needed - made)


def power_caveats(summary: Summary) -> list[str]:
    """What difference a campaign of this size finds, by the rule itself and in the largest family of comparisons."""
    made = [row for row in rows_of(ComparisonRow, summary.comparisons) if row.p_value is not None]
    if not made:
        return []
    largest = max(made, key=lambda row: row.family_size or 0)
    size = largest.family_size or 0
    blocks = [row.n_blocks for row in made if row.family == largest.family and row.n_blocks is not None]
    paired = largest.n_blocks is not None
    runs = min(blocks) if paired else min(row.n_runs for row in made if row.family == largest.family)
    shift = stats.detectable_shift_sd(
        runs, alpha=summary.plan.analysis.alpha, comparisons=size, wanted_power=_CHANCE, paired=paired
    )
    of = "the differences inside blocks" if paired else "runs"
    count = text.plural(runs, "block" if paired else "run")
    family = text.plural(size, "comparison")
    if shift is None:
        return [f"With {count} and {family} in a family no difference is found with {100 * _CHANCE:g} %."]
    return [
        f"With {count} and {family} in a family a difference of {significant(shift)} standard deviations of {of} is "
        f"found with {100 * _CHANCE:g} %; smaller ones are mostly inconclusive. `vtare plan STORE --power` computes "
        "how many blocks another campaign needs."
    ]


def unfinished(summary: Summary) -> list[str]:
    """What intervals are worth while a campaign runs: they are made for one look, at its end."""
    if not summary.pending_runs:
        return []
    return [
        f"{text.plural(summary.pending_runs, 'run')} of the plan not made yet: intervals and p-values hold at the "
        "planned end, not where they are read after each block and the first difference ends the campaign "
        "(docs/statistics.md). The column 'at every look' holds then, too; or stop on precision ([stop] in the plan)."
    ]


def sensitive(summary: Summary) -> list[str]:
    """Verdicts that one run decides, and cells whose runs are of two kinds."""
    found = []
    compared = rows_of(ComparisonRow, summary.comparisons)
    fragile = [row for row in compared if row.fragile]
    if fragile:
        named = list(dict.fromkeys(row.decided_by for row in fragile if row.decided_by))
        shown = text.listing(named[:_LISTED])
        more = f" and {len(named) - _LISTED} others" if len(named) > _LISTED else ""
        which = f" (without {shown}{more})" if named else ""
        verb = "changes" if len(fragile) == 1 else "change"
        found.append(
            f"{text.plural(len(fragile), 'verdict')} {verb} when a single run or block is left out{which}: marked in "
            "the table of comparisons, with the ratio by ranks in the tip."
        )
    modes = dict.fromkeys(
        f"{row.experiment}, {level_text(summary.numbers, row.factor, level)}: {modes}"
        for row in compared
        for modes, level in ((row.modes, row.level), (row.modes_baseline, row.baseline))
        if modes is not None
    )
    return found + [f"{one}." for one in list(modes)[: 2 * _LISTED]]


def mark(row: ComparisonRow) -> str:
    """What follows a verdict that a single run decides: ` (decided by block 3)`; empty where none does."""
    if not row.fragile:
        return ""
    return f" (decided by {row.decided_by})" if row.decided_by else " (decided by single runs)"


def tip(row: ComparisonRow) -> str:
    """What the tip of a verdict adds to its reason: the ratio by ranks, runs of two kinds."""
    pieces = []
    if row.ratio_rank is not None:
        pieces.append(f"by ranks {significant(row.ratio_rank)}")
    pieces += [modes for modes in (row.modes, row.modes_baseline) if modes is not None]
    return "".join(f"; {piece}" for piece in pieces)


__all__ = ["inconclusive", "mark", "power_caveats", "sensitive", "tip", "unfinished"]
