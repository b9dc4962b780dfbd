"""What sections and figures of a report ask, as their titles."""

from __future__ import annotations

from typing import Final

DIFFERENCES: Final = "What differs, and by how much?"
CELLS: Final = "What are the figures of each cell?"
COMPARISONS: Final = "Which comparisons were made?"
VERDICTS: Final = "What differs from what?"
PLACEMENT: Final = "Where does this machine stand among published platforms?"
STEADINESS: Final = "Did the machine stay the same?"
METHOD: Final = "How was it measured?"
CAVEATS: Final = "What is to be kept in mind?"
LOADS: Final = "What background load was there?"
MACHINE: Final = "What was it measured on?"
PLAN: Final = "What was the plan?"
TAILS: Final = "How bad can it get?"
BOXES: Final = "Is it the same from run to run?"
VIOLINS: Final = "How are the readings distributed?"
RAW_READINGS: Final = "What do the raw readings look like?"
CPU_TIME: Final = "What does it cost in CPU time?"
DRIFT: Final = "How did the control cell change from block to block?"
EFFECTS: Final = "Where are the differences?"
TAIL_RATIOS: Final = "Do the tails differ?"
INTERACTIONS: Final = "Does one factor change what another does?"
LEVELS: Final = "Which factor levels correlate with which metric?"
OUTLIERS: Final = "Where are the outliers?"
LAYER_COSTS: Final = "What does the layer cost?"
LOAD_AND_TAILS: Final = "What does load do to the tails?"
MESH: Final = "Which hosts are alike, and which pair is odd?"
CHANGES_WHILE_MEASURED: Final = "Which figures changed while it was measured?"
CHANGE: Final = "How did it change?"
OTHER_CHANGES: Final = "How did the other figures change?"
UNCHANGED: Final = "Which figures kept their level?"
WORSE: Final = "Has this machine got worse?"
CHANGES: Final = "Which figures changed, and when?"
AMONG_PAPERS: Final = "How do these results compare with the published ones?"
BETWEEN_CAMPAIGNS: Final = "What changed between the campaigns?"
SHIFT: Final = "Which part of the distribution moves?"
OVER_TRUTH: Final = "How near the truth is an estimate?"
AGAINST_TRUTH: Final = "How near its truth is each estimate?"
ERRORS: Final = "How far off, by method?"
COURSE: Final = "How do estimates follow the truth?"
COST_OF_ESTIMATES: Final = "What does the answer cost the path?"
OCCUPIED: Final = "How much of the link is occupied meanwhile?"
ESTIMATE_TIMES: Final = "How long does an estimate take?"
LAYER_SHARES: Final = "How much of a round trip is the layer?"
PIECES: Final = "Where does the time go?"
OVER_JAIN: Final = "How much passes, however the load is spread?"
POOLED_RANKS: Final = "pairs of levels as Kirova et al. 2019 test them, other factors not taken out"
BITS_OVER_JAIN: Final = "How many bits pass, however the load is spread?"
LATENCY_OVER_JAIN: Final = "How does latency depend on the spread of the load?"
OVER_FRAME: Final = "How long does a frame take, by its size?"
OVER_LOAD: Final = "How does latency rise with load?"
OVER_BITS: Final = "How does latency rise with load in bits?"
COMMANDS: Final = "What was compared?"
PAIRS: Final = "What was measured in each pair?"
PAIR_CHANGES: Final = "What does each pair show, and what disturbed it?"
LIMITS: Final = "What cannot be concluded?"
CLAIMS: Final = "Which claims follow from the paper's own tables?"


def percentiles(factor: str) -> str:
    return f"Which percentiles does {factor} move?"


def mesh_of(figure: str) -> str:
    return f"And for {figure}?"


def evenness(experiment: str) -> str:
    return f"How evenly are the guests of {experiment} loaded?"


def absent_runs(what: str, runs: int) -> str:
    return f"Which runs {what}? ({runs})"
