"""What stands with figures and tables of a report: how each figure is read, and what a section is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.sentences.words import are, listing, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

# Figures of every instrument.

ONE_AXIS: Final = "All panels share one axis."
OWN_AXES: Final = "Each panel has its own axis."
CAPPED_SHARES: Final = (
    "Where a time limit ended runs early, the share of the readings asked for that was completed stands beside the "
    "name: the median is that of these readings."
)
TAILS: Final = (
    "P(X > x) of all readings of all runs, log-log: how often a reading is worse than x. Dashed: the mean. A curve "
    "that runs far to the right of its mean has a heavy tail."
)
BOXES: Final = (
    "One box per run: quartiles, median (dark), whiskers to the smallest and largest reading, p99 as a dot where a run "
    "has at least 299 readings. Boxes of one row that disagree mean that runs differ."
)
VIOLINS: Final = (
    "All readings of a cell: width by the root of their share, so that rare ones are still seen. Thin line: the "
    "quartiles, dark line: the median. All panels share one axis."
)
RAW_READINGS: Final = (
    "Readings of one run per cell, the one whose median is nearest to the cell's, in the order they were taken; the "
    "bold line is the median."
)
CPU_TIME: Final = "Median over runs. 100 % keeps one CPU busy all the while."
DRIFT: Final = (
    "The idle control cell opens, centres and closes each block. Line: median of all control medians. Band: 3 times "
    "the typical half interquartile range of a control run, never less than 3 clock quanta. A block with a point "
    "outside is flagged."
)
EFFECT_SQUARES: Final = (
    "One square for each comparison: the geometric mean of the runs' figures over that at the baseline level; the "
    "table below names the figure of a run. Tint: how far from 1, on a log scale."
)
PERCENTILES: Final = (
    "Medians over runs of each run's median, p99 and p99.9. Lines that part to the right: the factor moves the tail "
    "more than the middle. All panels share one axis."
)
TAU_B: Final = (
    "Kendall's tau-b of a figure of each run with being at a level, over all other factors. The tint is tau-b over the "
    "most it can reach there, about the root of 2 p (1 - p) for a level of share p: a level that one run in four has "
    "cannot pass 0.61. Cliff's delta stands beside it in the table."
)


def medians(what: str, levels: str) -> str:
    return (
        f"Marker: median over runs of each run's {what}. Bar: its {levels} interval over runs (a hollow marker has "
        "none: fewer than 3 runs; an arrow: it goes on). Ticks: single runs."
    )


def tail_ratios(alpha: float) -> str:
    return (
        "Each run's p99 and p99.9 against those of the runs at the baseline: ratio of geometric means, by the rule of "
        f"all comparisons. Filled: the adjusted p is at most {alpha:g}. Band: the margin of equivalence."
    )


def not_drawn_below_0(share: str) -> str:
    return f"Up to {share} of a cell's readings are 0 or below and not drawn."


def some_cells(shown: int, cells: int, step: int) -> str:
    return f"Shown are {shown} of {cells} cells, every {step}th in the plan's order."


def more_rows(count: int) -> str:
    return f"{plural(count, 'row')} more in the table."


def more_series(count: int) -> str:
    return f"{plural(count, 'series', 'series')} more in the table."


def more_comparisons(count: int) -> str:
    return f"{plural(count, 'comparison')} more in the table."


def interactions(headings: Sequence[str]) -> str:
    return (
        f"{'; '.join(headings)}. Medians of cells, where there are further factors their geometric mean. On the log "
        "axis parallel lines mean: the one factor has the same ratio at every level of the other. The test (ANOVA-type "
        "statistic of run figures, on logarithms) shows whether lines that are not parallel may be chance."
    )


def interactions_of_rates(headings: Sequence[str]) -> str:
    return (
        f"{'; '.join(headings)}. Medians of cells, where there are further factors their geometric mean. Lines that go "
        "up or down by the same factor mean: the one factor has the same ratio at every level of the other. The test "
        "(ANOVA-type statistic of run figures, on logarithms) shows whether other lines may be chance."
    )


def outliers(readings: int, worst: str, share: str) -> str:
    return (
        f"{plural(readings, 'reading')} with a robust z beyond 3.5 inside their own cell, by cell; most in {worst} "
        f"({share} of its readings). They are counted and never deleted."
    )


def shift_function(comparisons: int, level: str) -> str:
    held = "the comparison" if comparisons == 1 else f"all {comparisons} comparisons of the table"
    return (
        "Each quantile of a run's readings against that of the runs at the baseline: ratio of geometric means inside "
        f"blocks. Bars: one band, which holds all quantiles of {held} at once with {level}. Filled: the band leaves "
        "out 1 there. A shift that grows to the right is one of the tail."
    )


def not_drawn(comparisons: int, why: str) -> str:
    return f"Not drawn: {plural(comparisons, 'comparison')} ({why})."


def over_time(unit: str) -> str:
    return (
        f"Points: one for each {unit}. Lines: the median between two changes. Dashed: where the level changed "
        "(E-divisive means on ranks; of 1,000 points at most one alarms falsely)."
    )


# Figures of one instrument.

HOLLOW_THROUGHPUT: Final = "Hollow: a lower bound; the generator, or the greatest load asked for, ended the search."
OVER_JAIN: Final = (
    "A line for each frame size, a marker for each number of strongly loaded guests; J is that of the frames really "
    "sent. Bars: intervals over runs."
)
OVER_FRAME: Final = "Median latency of all frames at the throughput that was found for the cell; median over runs."
OVER_LOAD: Final = (
    "Median latency of all frames at the throughput, at shares of it, and at loads that all cells share; medians over "
    "runs of load and latency. Bars: from the least run to the greatest. Latency at a load above what a guest can bear "
    "is that of full queues."
)
OVER_BITS: Final = (
    "The same latencies over bits of frames with check sequence: by spread of the load for each frame size, and by "
    "frame size for each spread."
)
LAYER_SHARES: Final = (
    "Each bar is a whole round trip; at the right its median over runs. The layer at the sender is the time between "
    "the program and its host's network, both ways: its median over runs over that of the round trip. The rest is "
    "divided as the medians of its pieces are."
)
PIECES: Final = (
    "Bars: medians over runs of each run's median piece, from paired differences packet by packet: between program and "
    "capture point at the sender, from there to the responder's capture point and back, between that and the "
    "responder's program, inside the responder. Dark tick and figure: median round-trip time, which medians of pieces "
    "need not add up to."
)
HOLLOW_ESTIMATE: Final = "Hollow: a lower bound (at least that rate), or a window that was disturbed."
AGAINST_TRUTH: Final = (
    "Each marker is an estimate over the true mean of its own window (capacity less the cross traffic that came in "
    "it), its bar its own interval; on the line it is right. Methods stand beside each other. A triangle at the upper "
    "edge lies beyond."
)
ERRORS: Final = (
    "Error of each estimate in percent of the truth of its window; all runs of a cell together. Box: quartiles, dark "
    "line: median, whiskers: least and greatest, dots: estimates. All panels share one axis."
)
COURSE: Final = (
    "One run of each cell. Dark line: the truth. Markers: estimates, in the middle of the window that they are the "
    "mean of, bars: their intervals. A triangle at the upper edge lies beyond."
)
COST_OF_ESTIMATES: Final = (
    "A marker for each cell: median bytes that an estimate puts on the path, soundings included, and median absolute "
    "error. Better is lower and further left."
)
OCCUPIED: Final = "Probe bytes of an estimate over its time, as a share of the true capacity; medians."
ESTIMATE_TIMES: Final = "From the first step of an estimate to its answer: median over runs of each run's median."


def over_truth(levels: str) -> str:
    return (
        f"At 100 % the estimate is right. Marker: median over runs of each run's median; bar: its {levels} interval "
        "over runs (hollow: fewer than 3 runs); ticks: single runs. Lower bounds are no errors: they are counted "
        "beside the name and not drawn."
    )


def at_levels(where: str) -> str:
    return f"At {where}."


def cells_in_other_figures(count: int) -> str:
    return f"{plural(count, 'cell')} more in the other figures."


def mesh(blocks: int, figure: str) -> str:
    return (
        f"Median over {plural(blocks, 'block')} of each pair's {figure}, the two hosts of a pair. Hosts that see the "
        "others alike stand beside each other, with a line between two clusters. A frame marks a pair that is far from "
        "those of its kind in block after block. The tint is the ratio to the median of all pairs."
    )


def one_way_mesh(blocks: int, figure: str) -> str:
    return (
        f"Median over {plural(blocks, 'block')} of each pair's {figure}, from the host of the row to that of the "
        "column. Hosts that see the others alike stand beside each other, with a line between two clusters. A frame "
        "marks a pair that is far from those of its kind in block after block. The tint is the ratio to the median of "
        "all pairs."
    )


# This machine among published ones.

AMONG_TIMERS: Final = (
    "Grey: median and half interquartile range as printed in Kirova 2019, Table 1. Bold: this machine, the cost of a "
    "read in a tight loop, with its {level} interval."
)
AMONG_SLEEPS: Final = (
    "Grey: median and half interquartile range as printed in Kirova 2019, Table 2, whose sleep target is not printed. "
    "Bold: this machine with its {level} interval."
)
AMONG_COUNTERS: Final = (
    "Grey: the 16 configurations of Lampe 2013, Table 1. Bold: this machine, raw wall time as in the paper."
)


def placed_at(levels: Sequence[str]) -> str:
    return f"This machine's figures: {', '.join(levels)}."


# Sections and their tables.

CELLS: Final = "Medians over runs of each run's figure."
FACTOR_TESTS: Final = "Does the factor matter at all at this place? The test answers whether, the ratio above how much."
EFFECTS: Final = "Effect first: each row sets a cell beside the one that differs from it in a single factor."
NO_CONTROL_CELL: Final = "The plan has no control cell: a change of the machine between blocks would not be seen."
NO_CONTROL_RUN: Final = "No block could be flagged: there is no control run."
NO_BLOCK_FLAGGED: Final = (
    "No block is flagged: the control cell stayed within its limit in every block that was measured."
)
NO_RUN_ABSENT: Final = "No run failed or was skipped."
LAYERS: Final = (
    "Ratios with their intervals. Worse, better, higher and lower: the adjusted p is at most the plan's alpha, all "
    "comparisons of a family taken together; equivalent: the interval lies inside the margin; all else is inconclusive."
)
SHARE_LOST: Final = (
    "Cells are compared by the share of the time that the thread lost; below it stand the lengths of the gaps."
)
VARIATION: Final = (
    "Cells are compared by the coefficient of variation (CV) of the run time, as published: each language and machine "
    "finds its own speed first, so that an argument takes about the same time everywhere."
)
PLAN_IN_STORE: Final = "Its text is in `plan.toml` of the store."


def held_fixed(parameters: str) -> str:
    return f"Held fixed: {parameters}."


def read_cost(steps: str) -> str:
    return (
        "The read cost is the time of a tight loop of reads over their number; all that shows single readings (tails, "
        f"boxes, raw readings, quantiles) is the difference between one reading and the next, which moves in {steps} "
        "but keeps every disturbance."
    )


def emulated_layers(platforms: Sequence[str]) -> str:
    return f"{listing(platforms)} {are(len(platforms))} emulated in software (TCG), not virtualized."


def verdicts(comparisons: int, counts: Sequence[str]) -> str:
    return f"Of {plural(comparisons, 'comparison')}: {', '.join(counts)}."


def equivalent(count: int, margin_percent: float) -> str:
    return f"{count} equivalent (within {margin_percent:g} %)"


def flagged(blocks: Sequence[int]) -> str:
    if len(blocks) == 1:
        return f"Flagged: block {blocks[0]}. Its runs are kept in every figure."
    return f"Flagged: blocks {listing(map(str, blocks))}. Their runs are kept in every figure."


def pending(runs: int) -> str:
    return f"{plural(runs, 'run')} of the plan not yet made: make them with `vtare resume`."


def seed_of_plan(seed: int, *, drawn: bool) -> str:
    when = " (drawn when the campaign began: the plan names none)" if drawn else ""
    return f"Seed {seed}{when}. The plan this store was made from:"
