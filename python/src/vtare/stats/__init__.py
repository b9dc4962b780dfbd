"""Statistics: arrays in, frozen results out. What each figure means is stated in its docstring, with its source.

`Values` are one sample: a sequence or an array of shape (n,). Any other array has its shape in its docstring.
Nothing here knows of plans, stores or plots, and nothing draws random numbers but from the `rng` it is given.
"""

from __future__ import annotations

from vtare.stats._arrays import Estimate, Sorted, in_order
from vtare.stats.anytime import AnytimeInterval, anytime_ratio, confidence_sequence
from vtare.stats.association import LevelAssociation, associate_levels, tau_bound
from vtare.stats.autocorrelation import Autocorrelation, autocorrelation
from vtare.stats.bounds import Known, Side, decided_side, middle
from vtare.stats.changes import ChangePoint, change_points, newest_change
from vtare.stats.clock_step import common_step, hidden_by_step, seen_step, step_of_runs, tied_step
from vtare.stats.comparison import (
    LEAST_BLOCKS,
    LEAST_RUNS,
    Comparison,
    IntervalEnds,
    Judgement,
    SelfTest,
    coarse_step,
    common_blocks,
    compare_runs,
    ends_at,
    equivalence_p,
    judge,
    least_p_of_runs,
    refusal,
    self_test,
    share_of,
    step_beyond_margin,
)
from vtare.stats.dependence import Dependence, dependence
from vtare.stats.distribution import Ccdf, ccdf
from vtare.stats.effect import CliffsDelta, Resampled, RunPool, cliffs_delta, resample
from vtare.stats.interactions import InteractionTest, interaction_tests
from vtare.stats.location import half_iqr, least_n, mad_raw, median, quantile
from vtare.stats.mesh import MeshStructure, OddPair, Split, mesh_structure
from vtare.stats.outliers import RobustZ, ScenarioOutliers, outliers_by_scenario, robust_z, shares
from vtare.stats.planning import (
    MOST_RUNS,
    SamplesPerRun,
    Stop,
    detectable_shift_sd,
    least_number,
    power,
    power_of_t,
    runs_needed,
    runs_per_cell,
    samples_per_run,
    simulated_rank_power,
    stop,
)
from vtare.stats.posthoc import PairTest, dunn, nemenyi_friedman, tukey_on_ranks
from vtare.stats.pvalues import Adjustment, PValue, adjust, alphas_left, write_p
from vtare.stats.quantile_shift import LEAST_PAIRS as LEAST_SHIFT_PAIRS
from vtare.stats.quantile_shift import QuantileShift, quantile_shift, shift_of_blocks
from vtare.stats.rank_tests import RankTest, friedman, kendall_tau_b, kruskal_wallis
from vtare.stats.ratio_of_means import MeanRatio, ratio_of_means
from vtare.stats.sensitivity import Influence, Modes, RankEstimate, find_modes, hodges_lehmann, influence
from vtare.stats.sequential import Looks, PairedShift, least_pairs, paired_shift, walsh_averages
from vtare.stats.steady import LONG_SERIES, Warmup, mser5, settle
from vtare.stats.step_slack import NO_SLACK, StepSlack, step_slack
from vtare.stats.t_rule import MeanDifference, paired_t, t_p, t_quantile, welch_t
from vtare.stats.tally import Adder, Tally, merge, tally
from vtare.stats.variation import (
    Fairness,
    Interval,
    Variation,
    coefficient_of_variation,
    jain_index,
    median_interval,
)
from vtare.stats.verdicts import LIMIT_WORDS, WORDS, Better, Merit, Speed, Unclear, Verdict

__all__ = [
    "LEAST_BLOCKS",
    "LEAST_RUNS",
    "LEAST_SHIFT_PAIRS",
    "LIMIT_WORDS",
    "LONG_SERIES",
    "MOST_RUNS",
    "NO_SLACK",
    "WORDS",
    "Adder",
    "Adjustment",
    "AnytimeInterval",
    "Autocorrelation",
    "Better",
    "Ccdf",
    "ChangePoint",
    "CliffsDelta",
    "Comparison",
    "Dependence",
    "Estimate",
    "Fairness",
    "Influence",
    "InteractionTest",
    "Interval",
    "IntervalEnds",
    "Judgement",
    "Known",
    "LevelAssociation",
    "Looks",
    "MeanDifference",
    "MeanRatio",
    "Merit",
    "MeshStructure",
    "Modes",
    "OddPair",
    "PValue",
    "PairTest",
    "PairedShift",
    "QuantileShift",
    "RankEstimate",
    "RankTest",
    "Resampled",
    "RobustZ",
    "RunPool",
    "SamplesPerRun",
    "ScenarioOutliers",
    "SelfTest",
    "Side",
    "Sorted",
    "Speed",
    "Split",
    "StepSlack",
    "Stop",
    "Tally",
    "Unclear",
    "Variation",
    "Verdict",
    "Warmup",
    "adjust",
    "alphas_left",
    "anytime_ratio",
    "associate_levels",
    "autocorrelation",
    "ccdf",
    "change_points",
    "cliffs_delta",
    "coarse_step",
    "coefficient_of_variation",
    "common_blocks",
    "common_step",
    "compare_runs",
    "confidence_sequence",
    "decided_side",
    "dependence",
    "detectable_shift_sd",
    "dunn",
    "ends_at",
    "equivalence_p",
    "find_modes",
    "friedman",
    "half_iqr",
    "hidden_by_step",
    "hodges_lehmann",
    "in_order",
    "influence",
    "interaction_tests",
    "jain_index",
    "judge",
    "kendall_tau_b",
    "kruskal_wallis",
    "least_n",
    "least_number",
    "least_p_of_runs",
    "least_pairs",
    "mad_raw",
    "median",
    "median_interval",
    "merge",
    "mesh_structure",
    "middle",
    "mser5",
    "nemenyi_friedman",
    "newest_change",
    "outliers_by_scenario",
    "paired_shift",
    "paired_t",
    "power",
    "power_of_t",
    "quantile",
    "quantile_shift",
    "ratio_of_means",
    "refusal",
    "resample",
    "robust_z",
    "runs_needed",
    "runs_per_cell",
    "samples_per_run",
    "seen_step",
    "self_test",
    "settle",
    "share_of",
    "shares",
    "shift_of_blocks",
    "simulated_rank_power",
    "step_beyond_margin",
    "step_of_runs",
    "step_slack",
    "stop",
    "t_p",
    "t_quantile",
    "tally",
    "tau_bound",
    "tied_step",
    "tukey_on_ranks",
    "walsh_averages",
    "welch_t",
    "write_p",
]
