"""What a campaign of this size can find, and what more of it would: figures of the rule itself, from the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from vtare import stats
from vtare.number_text import significant
from vtare.plan.cells import counterpart
from vtare.report.layout import key_text
from vtare.sentences import caveats as caveat_wording
from vtare.sentences import limits as wording
from vtare.sentences.words import plural
from vtare.stats import MOST_RUNS
from vtare.summary.contrasts import ComparisonRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.summary import Summary

_CHANCE: Final = 0.8
_LISTED: Final = 3
STAR: Final = "*"
"""What marks a tail of too few independent readings."""
#: The level at which a trend over blocks is named, over all comparisons.
_TREND: Final = 0.05


def inconclusive(summary: Summary) -> tuple[str, str] | None:
    """How many comparisons are inconclusive, and what would settle them: in a few words, and in full.

    `3 of 4 comparisons are inconclusive; to decide them, a new campaign of about 12 to 40 blocks is needed (80 % power
    for 5 %)`. None where there are none, or none could be tested.
    """
    rows = [row for row in summary.comparisons if row.p_value is not None]
    left = [row for row in rows if row.verdict is stats.Verdict.INCONCLUSIVE]
    if not left:
        return None
    margin = summary.plan.analysis.margin_percent
    return wording.inconclusive(len(left), len(summary.comparisons), margin, _needed(summary, left))


def _needed(summary: Summary, left: list[ComparisonRow]) -> str:
    """How large a new campaign decides these comparisons: from the one that needs least to the one that needs most.

    A new one: whoever adds blocks to this one and looks again finds a difference that is none in 9 to 10 %.
    """
    known = sorted(row.runs_needed for row in left if row.runs_needed is not None)
    power = wording.power(_CHANCE, summary.plan.analysis.margin_percent)
    if not known:
        return wording.never_decided(len(left), MOST_RUNS, power)
    least, most = (_rounded_up(count) for count in (known[0], known[-1]))
    return wording.decided_by(len(known), len(left), f"{least}" if least == most else f"{least} to {most}", power)


def _rounded_up(count: int) -> int:
    """A number of blocks with two digits: the spread that it is made of is not known better."""
    scale = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // scale) * scale


def power_caveats(summary: Summary) -> list[str]:
    """What difference a campaign of this size finds, by the rule itself and in the largest family of comparisons."""
    made = [row for row in summary.comparisons if row.p_value is not None]
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
    count = plural(runs, "block" if paired else "run")
    if shift is None:
        return [caveat_wording.nothing_found(count, size, _CHANCE)]
    return [caveat_wording.difference_found(count, size, significant(shift), of, _CHANCE)]


def unfinished(summary: Summary) -> list[str]:
    """What intervals are worth while a campaign runs: they are made for one look, at its end."""
    return [caveat_wording.unfinished(summary.pending_runs)] if summary.pending_runs else []


def sensitive(summary: Summary) -> list[str]:
    """Verdicts that one run decides, blocks that follow each other, and cells whose runs are of two kinds."""
    sentences = []
    compared = summary.comparisons
    fragile = [row for row in compared if row.fragile]
    if fragile:
        named = list(dict.fromkeys(row.decided_by for row in fragile if row.decided_by))
        others = max(0, len(named) - _LISTED)
        sentences.append(caveat_wording.fragile(len(fragile), named[:_LISTED], others))
    sentences += _in_order(compared)
    return sentences + _two_kinds(summary, compared)[: 2 * _LISTED]


def dependent_tails(summary: Summary) -> list[str]:
    """Cells whose tails stand on fewer independent readings than such a quantile needs."""
    sentences = []
    for name, column, probability in (("p99", "p99", 0.99), ("p99.9", "p999", 0.999)):
        needed = stats.least_n(probability)
        few = summary.cells.filter(pl.col(column).is_not_null() & (pl.col("n_eff") < needed))
        if few.height:
            sentences.append(caveat_wording.dependent_tail(name, STAR, few.height, needed))
    return sentences


def _in_order(compared: Sequence[ComparisonRow]) -> list[str]:
    """Comparisons whose blocks follow each other, with what was done about it and what to do."""
    tested = [row for row in compared if row.p_memory is not None]
    seen = [row for row in tested if row.block_memory is not None]
    sentences = []
    if seen:
        most = max(row.block_memory or 0.0 for row in seen)
        sentences.append(caveat_wording.memory(len(seen), len(tested), significant(most, 2)))
    drifting = [row for row in tested if row.p_trend is not None and row.p_trend <= _TREND / len(tested)]
    if drifting:
        sentences.append(caveat_wording.trend(len(drifting), len(tested)))
    return sentences


def _two_kinds(summary: Summary, compared: Sequence[ComparisonRow]) -> list[str]:
    """The cells whose runs are of two kinds, each once, however many comparisons it stands in."""
    experiments = {one.name: one for one in summary.plan.experiments}
    by_cell: dict[tuple[str, ...], str] = {}
    for row in compared:
        for level, modes in ((row.level, row.modes), (row.baseline, row.modes_baseline)):
            labels = counterpart(experiments[row.experiment], row.labels, row.factor, level)
            if modes is not None and labels is not None:
                name = cell_name(summary, row.experiment, labels)
                by_cell.setdefault((name, row.quantity), caveat_wording.two_kinds(name, modes))
    return list(by_cell.values())


def cell_name(summary: Summary, experiment: str, labels: Mapping[str, str]) -> str:
    """A cell by its experiment and its levels of what varies there: `sleeps, load idle, method usleep`."""
    cells = summary.cells.filter(pl.col("experiment") == experiment)
    varying = [key for key in labels if key in cells.columns and cells.get_column(key).n_unique() > 1]
    return ", ".join([experiment, *(key_text(summary.level_of, key, labels[key]) for key in varying)])


def mark(row: ComparisonRow) -> str:
    """What follows a verdict that a single run decides: ` (decided by block 3)`; empty where none does."""
    if not row.fragile:
        return ""
    return f" (decided by {row.decided_by})" if row.decided_by else " (decided by single runs)"


def tip(row: ComparisonRow) -> str:
    """What the tip of a verdict adds to its reason: the ratio by ranks, memory of blocks, runs of two kinds."""
    pieces = []
    if row.block_memory is not None:
        pieces.append(
            f"blocks follow each other (memory {significant(row.block_memory, 2)}): the interval allows for it"
        )
    if row.ratio_rank is not None:
        pieces.append(f"by ranks {significant(row.ratio_rank)}")
    pieces += [modes for modes in (row.modes, row.modes_baseline) if modes is not None]
    return "".join(f"; {piece}" for piece in pieces)
