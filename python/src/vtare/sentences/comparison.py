"""What `vtare compare` states of two sides of campaigns, and of figures over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.sentences.words import are, listing, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

# Two cells of a campaign.

#: How the reason begins where two cells are not compared at all.
NOT_COMPARED: Final = "not compared"
#: What makes a level one that is reached.
ASK_FOR_LESS: Final = "ask for a level that this machine reaches"
#: What makes a value of a bound.
RAISE_LIMIT: Final = "raise the limit that the runs ended at"
NO_RUN_HAS_IT: Final = "no run has this figure on one side"


def at_level(reason: str, level: str) -> str:
    return f"{reason} at {level}"


def not_compared(reasons: Sequence[str], *, bounds: bool) -> str:
    return f"{NOT_COMPARED}: {', '.join(reasons)}; {RAISE_LIMIT if bounds else ASK_FOR_LESS}"


def bounds_decide(not_compared: str, side: str) -> str:
    known = not_compared.removeprefix(f"{NOT_COMPARED}: ").removesuffix(f"; {RAISE_LIMIT}")
    return f"{known}: the ratio is known {side}, which decides the order"


def bounds_leave_open(not_compared: str) -> str:
    return f"{not_compared}; the bounds do not decide the order"


def below_half_step(reason: str | None) -> str:
    return f"{reason} (the baseline's median is below half a clock step)"


def block(number: object) -> str:
    return f"block {number}"


def run_of(number: object, *, at_baseline: bool) -> str:
    return f"the run of block {number}{' at the baseline' if at_baseline else ''}"


def two_kinds(blocks: Sequence[str], ratio: float) -> str:
    return f"runs of two kinds: those of blocks {', '.join(blocks)} are {ratio:.3g} times the others"


def too_short_for_tail(tail: str, needed: int, longest: int) -> str:
    return f"{tail} needs {needed} readings in a run, the longest has {longest}"


# Two sides of campaigns.

NO_VERDICT: Final = "No verdict yet: one campaign per side is not enough."
LARGEST_DIFFERENCES: Final = "Largest differences:"
RUN_BOTH_AGAIN: Final = "run both campaigns again, alternately, and compare all of them"
RUN_EACH_AGAIN: Final = "Run each again, alternately, and compare all of them:"
WITHIN_CAMPAIGNS: Final = "The intervals cover the spread between runs of these campaigns, not that between campaigns."
IN_PAIRS: Final = "The campaigns alternate and are compared in pairs; families span all experiments."
WELCH: Final = "Welch's t on one figure a campaign; families span all experiments."
NOT_ALTERNATED: Final = (
    "The campaigns of the two sides do not alternate: a slow drift of the machine looks like a change."
)
SEE_VERBOSE: Final = "More: -v"


def cells(count: int, words: Sequence[str], margin_percent: float) -> str:
    return f"{count} cells: {', '.join(words)} (after / before, margin {margin_percent:g} %)."


def all_cells(after: str, before: str, count: int, words: Sequence[str], margin_percent: float, level: float) -> str:
    return (
        f"{after} against {before}: {count} cells: {', '.join(words)} (margin {margin_percent:g} %, intervals "
        f"{level:g} %)"
    )


def cells_and_tails(words: Sequence[str]) -> str:
    return f"Of cells and tails: {', '.join(words)}."


def new_campaigns(count: str, chance: float, margin_percent: float) -> str:
    return f"about {count} new campaigns a side are needed ({100 * chance:g} % power for {margin_percent:g} %)"


def to_decide(inconclusive: int, needed: str) -> str:
    return f"To decide {inconclusive} of the inconclusive cells, {needed}."


def never_decided(count: int, most: int) -> str:
    return f"{count} inconclusive: it would take more than {most} campaigns a side"


def changed(what: str, before: str, after: str) -> str:
    return f"changed: {what}: {before} -> {after}"


def unusable(runs: int) -> str:
    return f"{plural(runs, 'run')} could not be used: see -v"


def see_verbose(more: Sequence[str]) -> str:
    return f"More: -v ({', '.join(more)})"


def more_cells(count: int) -> str:
    return f"{plural(count, 'more cell')}"


def lone_cells(count: int) -> str:
    return f"{plural(count, 'cell')} on one side only"


# Figures over time.

NEWEST: Final = "Newest change"
NEWEST_WORSE: Final = "Newest change for the worse"


def facts_changed(facts: Sequence[str]) -> str:
    return f"; changed there: {', '.join(facts)}" if facts else ""


def change(figure: str, levels: str, since: str, facts: str) -> str:
    return f"{figure}: {levels} since {since}{facts}"


def newest_change(newest: str, figure: str, before: str, after: str, share: str, since: str, facts: str) -> str:
    return f"{newest}: {figure}, from {before} to {after}{share} since {since}{facts}."


def below_margin(change: str, margin: float) -> str:
    return f"{change} (below the margin of {100 * margin:g} %)"


def not_followed(bound: str) -> str:
    return f"not followed, known only as a bound: {bound}"


def too_few_points(least: int, points: int, unit: str) -> str:
    return f"Not known yet: a change needs {least} {unit}s, {points} {are(points)} there."


def none_changed(figures: int, points: int, unit: str) -> str:
    return f"No: none of {figures} figures changed its level in {points} {unit}s."


def some_worse(worse: int, figures: int, others: Sequence[str]) -> str:
    return f"Yes: by its last change {', '.join([f'{worse} of {figures} figures {are(worse)} worse', *others])}."


def none_worse(figures: int, others: Sequence[str]) -> str:
    return f"No: by its last change {', '.join([f'none of {figures} figures is worse', *others])}."


def outcomes(paper: str, claims: int, counts: Sequence[int]) -> str:
    """The counts: claims that reproduce, reproduce in part, do not, and cannot be decided."""
    words = (
        ("reproduces", "reproduce"),
        ("reproduces in part", "reproduce in part"),
        ("does not", "do not"),
        ("cannot be decided", "cannot be decided"),
    )
    listed = [
        f"{count} {one if count == 1 else many}" for count, (one, many) in zip(counts, words, strict=True) if count
    ]
    return f"Of {plural(claims, 'claim')} of {paper}, {listing(listed)}."
