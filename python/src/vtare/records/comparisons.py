"""Documents that compare commands, campaigns or rounds."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from vtare.records.answer import Answered


class ComparedCommand(TypedDict):
    """One command."""

    name: Annotated[str, "A, B, ..."]
    text: str


class FigureOfRuns(TypedDict):
    """A figure of runs."""

    name: str
    unit: str | None
    more_is_better: Annotated[bool | None, "null where nothing states it"]


class FindingDocument(TypedDict):
    """A figure of one command against that of A. Ratios are of the command over A."""

    command: str
    against: str
    figure: str
    ratio: Annotated[float | None, "of typical runs: pseudo-median of the pairs"]
    ratio_low: float | None
    ratio_high: float | None
    mean_ratio: Annotated[float | None, "of the means of all runs"]
    mean_ratio_low: float | None
    mean_ratio_high: float | None
    step: Annotated[float, "the step in which the figure moves, in its unit"]
    level: Annotated[float, "of the interval, at all looks together"]
    verdict: str
    word: Annotated[str, "the verdict as people read it"]
    pairs: int
    more_pairs: Annotated[int | None, "pairs that are still needed; null where more do not help"]
    reason: Annotated[str | None, "why there is no verdict"]


class CountedRun(TypedDict):
    """One run of one command."""

    begin_ns: Annotated[int, "on CLOCK_MONOTONIC"]
    wall_ns: float
    user_ns: float
    system_ns: float
    most_resident_byte: int | None
    minor_faults: int | None
    major_faults: int | None
    voluntary_switches: int | None
    involuntary_switches: int | None
    least_byte: Annotated[int | None, "what the kernel counts for any program started here: less cannot be seen"]
    waited_ns: Annotated[int | None, "time for which its first thread was ready to run but had no CPU"]
    left_behind: Annotated[int, "processes that still ran when it ended"]
    stopped_ns: Annotated[int, "time in which it was stopped, alone or with this machine"]


class PairDocument(TypedDict):
    """Runs that are compared with each other, and what went on beside them."""

    order: Annotated[list[str], "in which the commands ran"]
    span_ns: float | None
    others_cpus: Annotated[float | None, "CPUs that other programs took"]
    steal_cpus: Annotated[float | None, "CPUs that the hypervisor took"]
    quota_cpus: Annotated[float | None, "CPUs that a quota withheld"]
    gaps: Annotated[float | None, "share of the time ready to run without a CPU"]
    cpu_pressure: Annotated[float | None, "share of the time in which programs waited for a CPU"]
    io_pressure: Annotated[float | None, "share of the time in which programs waited for input or output"]
    runs: Annotated[list[CountedRun], "by command"]
    figures: Annotated[dict[str, list[float | None]], "each figure, by command"]


class LimitDocument(TypedDict):
    """A limit of `--fail-if`."""

    text: str
    state: Annotated[str, "crossed, not crossed or open"]


class Ab(TypedDict):
    """`vtare ab`."""

    schema: Literal["vtare.ab/1"]
    answer: Answered
    machine: Annotated[dict[str, Any], "as in vtare.timer/1"]
    commands: list[ComparedCommand]
    design: Annotated[str, "duet, interleaved or sequential"]
    design_reason: str
    cpus: Annotated[list[int], "that the runs were pinned to"]
    margin_percent: Annotated[float, "smaller differences are ignored"]
    limits: Annotated[list[LimitDocument], "of --fail-if"]
    fine_margin_s: Annotated[float | None, "about how long an answer to 1 % would take"]
    alpha: float
    seed: int
    stopped: Annotated[str, "known, time, pairs or interrupted"]
    elapsed_s: float
    void_pairs: int
    figures: list[FigureOfRuns]
    findings: Annotated[list[FindingDocument], "of the figure that is judged"]
    other_findings: list[FindingDocument]
    noise: Annotated[dict[str, float | None], "what went on beside the pairs, median and most"]
    pairs: list[PairDocument]


class WeighedPlatform(TypedDict):
    """The host or another platform on which a command ran."""

    name: str
    start_by_difference: Annotated[
        bool, "its clock is another one: the start is the whole less the command's wall time"
    ]
    runs: Annotated[
        list[dict[str, float | None]],
        "wall time, CPU time, start, stop, whole and CPU time outside in ns, peak memory and memory in all in B; of a "
        "server p50, p99 and start in ns, rate in replies per second, memory in all in B; null: not known",
    ]
    starts: Annotated[
        dict[str, list[float | None]],
        "by figure, in ns: exec, from the call that enters a running instance (on the host: that starts a program) to "
        "the first instruction; burst, from the first call of many at once until the last had it",
    ]


class WeighedFinding(TypedDict):
    """One figure of one platform against the host."""

    platform: str
    figure: str
    unit: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    level: float
    verdict: str
    reason: str | None


class AmountDocument(TypedDict):
    """A time with its 95 % interval."""

    value: float
    low: float
    high: float


class CauseDocument(TypedDict):
    """One kind of event that a command asks of the kernel."""

    kind: str
    count: Annotated[float, "how often, on the host"]
    each_ns: Annotated[AmountDocument, "what one costs more than on the host"]
    all_ns: AmountDocument


class ReasonsOfPlatform(TypedDict):
    """Why one platform takes longer than the host. Unexplained: measured less explained."""

    name: str
    measured_ns: AmountDocument
    explained_ns: AmountDocument
    unexplained_ns: AmountDocument
    causes: Annotated[list[CauseDocument], "the largest first"]
    unpriced: Annotated[dict[str, str], "kinds whose cost is not known there, with the reason"]


class Reasons(TypedDict):
    """Why platforms take longer than the host."""

    counts: Annotated[dict[str, float] | None, "how often each kind of event happens; null: they cannot be counted"]
    missing: Annotated[dict[str, str], "why there is no explanation, by platform; the host's: for none"]
    platforms: list[ReasonsOfPlatform]


class CardPlatformDocument(TypedDict):
    """One platform on a card."""

    name: str
    costs_ns: Annotated[dict[str, AmountDocument], "by kind: what one costs more than on that machine's host"]
    missing: Annotated[dict[str, str], "kinds whose cost is not known there, with the reason"]


class CardDocument(TypedDict):
    """`vtare check --write FILE`: what the kernel's services cost on each platform of a machine."""

    schema: Literal["vtare.card/1"]
    version: Annotated[str, "that wrote it"]
    date: Annotated[str, "in UTC"]
    machine: Annotated[dict[str, Any], "as in vtare.timer/1"]
    platforms: list[CardPlatformDocument]
    absent: Annotated[dict[str, str], "platforms that are not on it, with the reason"]


class PredictionDocument(TypedDict):
    """What a command would take longer than on the host, on a platform of a card: counts here, times costs there."""

    name: str
    hostname: Annotated[str, "the machine of the card"]
    date: str
    version: str
    longer_ns: Annotated[AmountDocument, "its interval is that of the costs alone"]
    ratio: Annotated[float | None, "the predicted wall time over the host's"]
    causes: Annotated[list[CauseDocument], "the largest first"]
    unpriced: Annotated[dict[str, str], "kinds whose cost the card does not have, with the reason"]


class PredictedDocument(TypedDict):
    """What cards predict; nothing of it was measured."""

    host_ns: Annotated[float | None, "the host's median wall time"]
    reason: Annotated[str | None, "why there is no prediction"]
    platforms: list[PredictionDocument]


class ServerDocument(TypedDict):
    """The server that was weighed."""

    port: int
    request: Annotated[str | None, "with escapes; null: GET / by HTTP"]
    client: Annotated[str | None, "the command whose wall time was taken; null: vtare's own requests"]
    per_s: Annotated[float | None, "requests per second of p50 and p99"]
    connections: Annotated[int | None, "those of the rate"]


class DensityLevel(TypedDict):
    """Instances that ran at once."""

    instances: int
    p99_ns: Annotated[float | None, "null: too few replies came"]


class DensityOfPlatform(TypedDict):
    """How many instances fit on a platform."""

    name: str
    fits: Annotated[int, "the most that kept the limit; at least this many where nothing breaks it; 0: not even one"]
    breaks: Annotated[int | None, "the least that did not keep it; null: none was tried"]
    ended: Annotated[str, "p99: known to one instance; else what ended the search: most, memory, time or failed"]
    reason: str | None
    levels: list[DensityLevel]


class DensityDocument(TypedDict):
    """How many instances of a server fit until p99 exceeds a limit."""

    limit_ns: float
    per_s: Annotated[float, "requests per second to each instance"]
    platforms: list[DensityOfPlatform]


class Weighing(TypedDict):
    """`vtare weigh`."""

    schema: Literal["vtare.weigh/1"]
    answer: Answered
    command: str
    server: Annotated[ServerDocument | None, "null: the command is no server"]
    root: Annotated[
        str | None, "the image or directory whose files it ran on, on the host by chroot; null: this machine's files"
    ]
    seed: int
    machine: Annotated[dict[str, Any], "as in vtare.timer/1"]
    margin_percent: float | None
    stopped: Annotated[str | None, "known, time, pairs or interrupted; null where nothing was compared"]
    elapsed_s: float | None
    burst: Annotated[int | None, "starts at once; null: not asked for"]
    density: Annotated[DensityDocument | None, "null: not asked for"]
    rounds: int
    void_rounds: Annotated[int, "left out: the command left processes behind, or was stopped meanwhile"]
    ranking: Annotated[list[str], "the platforms by wall time (of a server: p50), the cheapest first, without the host"]
    platforms: list[WeighedPlatform]
    refused: Annotated[dict[str, str], "platforms on which the command does not run, with the reason"]
    absent: Annotated[dict[str, str], "platforms that do not work here, with the reason"]
    limits: Annotated[list[LimitDocument], "of --fail-if"]
    why: Annotated[Reasons | None, "null: no platform is shown to be slower, or the run was interrupted"]
    predicted: Annotated[PredictedDocument | None, "null: no --card"]
    findings: list[WeighedFinding]


class ChangedFact(TypedDict):
    """A fact that differs between two sides."""

    what: str
    before: str
    after: str


class LoneCellDocument(TypedDict):
    """A cell that one side alone has, with its levels by the names of their factors."""

    experiment: str


class ComparedCell(TypedDict):
    """One figure of one cell on both sides, with its levels by their factors. Ratios: after over before."""

    experiment: str
    quantity: Annotated[str, "the figure, with its unit"]
    n_campaigns: int
    n_campaigns_before: int
    n_runs: int
    n_runs_before: int
    after: float | None
    before: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    difference: Annotated[float | None, "instead of the ratio where a figure is not above 0"]
    difference_low: float | None
    difference_high: float | None
    judged_low: Annotated[float | None, "the verdict rests on it: adjusted as p is, but where equivalent"]
    judged_high: float | None
    judged_difference_low: float | None
    judged_difference_high: float | None
    judged_level: float | None
    within_low: Annotated[float | None, "over the runs of one campaign a side"]
    within_high: float | None
    method_of_comparison: Annotated[str, "welch, paired or refused"]
    p_value: float | None
    p_adjusted: float | None
    p_text: str | None
    family: Annotated[str, "comparisons that share the error rate"]
    family_size: int | None
    adjustment: Annotated[str, "holm or bh"]
    campaigns_needed: Annotated[int | None, "new ones a side that find a change as large as the margin"]
    margin_ratio: float | None
    verdict: str
    change: Annotated[str | None, "worse or better"]
    reason: Annotated[str | None, "why there is no verdict"]
    ratio_bound: Annotated[float | None, "where bounds decide the order"]
    ratio_side: Annotated[str | None, "at least or at most"]


class ComparedTail(ComparedCell):
    """A figure of a cell's tail on both sides."""

    tail: Annotated[str, "p99, p999 and so on"]


class Compare(TypedDict):
    """`vtare compare`."""

    schema: Literal["vtare.compare/2"]
    answer: Answered
    before: list[str]
    after: list[str]
    alpha: float
    margin_percent: float
    refused: Annotated[str | None, "why nothing is compared"]
    paired: Annotated[bool, "the campaigns alternate and were compared in pairs"]
    alternated: bool
    verdicts: Annotated[dict[str, int], "cells by verdict"]
    worse: int
    better: int
    changed: list[ChangedFact]
    cells: list[ComparedCell]
    tails: list[ComparedTail]
    only_before: list[LoneCellDocument]
    only_after: list[LoneCellDocument]
    left_out_before: list[str]
    left_out_after: list[str]


class OfSeries(TypedDict):
    """Which figure it is."""

    experiment: str
    labels: Annotated[dict[str, str], "the label of each factor's level"]
    figure: str
    quantity: str
    better: Annotated[str | None, "less, more or null"]


class FigureSeries(OfSeries):
    """One figure over time."""

    n: int
    at_unix_s: list[float]
    values: list[float]
    changes: int


class DifferingFact(TypedDict):
    """What differs of the machine around a change."""

    fact: str
    before: Any
    after: Any


class LevelChange(OfSeries):
    """A change of the level of a figure."""

    at: Annotated[int, "the first point of the new level"]
    at_unix_s: float
    found: Annotated[int, "the point that showed it"]
    found_unix_s: float
    before: float
    after: float
    ratio: float | None
    worse: Annotated[bool | None, "null where neither direction is better"]
    changed_facts: list[DifferingFact]


class SaidChange(LevelChange):
    """A change, in words too."""

    text: str


class JudgedChange(SaidChange):
    """A change, and whether it is as large as the margin."""

    alert: bool


class OverTimeDocument(TypedDict):
    """`vtare compare --over-time`."""

    schema: Literal["vtare.over_time/1"]
    answer: Answered
    store: str
    unit: Annotated[str, "what a point is: round or run"]
    margin_percent: float
    bounds: Annotated[list[str], "figures known as a bound only: they are not followed"]
    series: list[FigureSeries]
    changes: list[JudgedChange]


class Alert(SaidChange):
    """What a webhook of `vtare watch` gets."""

    schema: Literal["vtare.alert/1"]
    store: str
