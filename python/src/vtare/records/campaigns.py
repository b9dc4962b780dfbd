"""Documents of plans, campaigns, their stores and their reports."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from vtare.records.answer import Answered


class StoppedBy(TypedDict):
    """The rule by which a campaign ended early."""

    block: Annotated[int, "the last block that counts"]
    reason: str


class CampaignDocument(TypedDict):
    """`vtare run` and `vtare resume`."""

    schema: Literal["vtare.campaign/1"]
    answer: Answered
    store: str
    total: Annotated[int, "runs of the plan"]
    done: int
    failed: int
    skipped: int
    not_needed: Annotated[int, "runs after the block at which the plan's rule stopped the campaign"]
    stopped: Annotated[StoppedBy | None, "null where no stopping rule ended the campaign"]
    adopted: Annotated[int, "runs that were whole already"]
    set_aside: Annotated[int, "runs that were damaged"]
    elapsed_s: float
    report: Annotated[str | None, "the page; null where no run was measured"]


class OpenRun(TypedDict):
    """A run that is neither done nor not needed."""

    run_id: str
    experiment: str
    factors: Annotated[dict[str, str], "the label of each factor's level"]
    block: int
    status: Annotated[str, "failed, skipped or pending"]
    reason: str | None


class Status(TypedDict):
    """`vtare status`."""

    schema: Literal["vtare.status/1"]
    answer: Answered
    store: str
    plan: str
    seed: int
    total: Annotated[int, "runs of the plan"]
    done: int
    failed: int
    skipped: int
    pending: int
    not_needed: int
    stopped: Annotated[StoppedBy | None, "null where no stopping rule ended the campaign"]
    runs: list[OpenRun]


class VerificationDocument(TypedDict):
    """`vtare verify`."""

    schema: Literal["vtare.verify/1"]
    answer: Answered
    store: str
    plan: str
    sound: Annotated[bool, "nothing was found that has to be put right"]
    repaired: bool
    total: Annotated[int, "runs of the plan"]
    whole: Annotated[int, "runs whose files are as they were written"]
    damaged: Annotated[dict[str, str], "the reason for each damaged run"]
    not_in_journal: Annotated[list[str], "whole runs that the journal does not have"]
    missing: Annotated[list[str], "runs that the journal has as done and the store has not"]
    leftovers: Annotated[int, "files left by killed runs"]
    strangers: Annotated[list[str], "files of no run"]
    journal: Annotated[str | None, "what is wrong with the journal"]
    checked_byte: int
    elapsed_s: float


class Clean(TypedDict):
    """`vtare clean`."""

    schema: Literal["vtare.clean/1"]
    removed: list[str]
    kept: Annotated[dict[str, str | None], "the reason for each thing that could not be removed"]


class ShippedPlan(TypedDict):
    """A plan that comes with vtare."""

    name: str
    question: str


class Plans(TypedDict):
    """`vtare plan list`."""

    schema: Literal["vtare.plans/1"]
    plans: list[ShippedPlan]


class MeshOfPlan(TypedDict):
    """The mesh of a plan."""

    hosts: list[str]
    pairs_at_a_time: Annotated[int | None, "null: as many as there are hosts for"]
    pairs: int
    rounds_of_a_block: int
    expected_s: Annotated[float, "with the rounds one after the other on the hosts"]


class StopRuleDocument(TypedDict):
    """When a campaign may stop early."""

    precision_percent: float
    least_blocks: int
    experiment: Annotated[str | None, "the one that is repeated until its ratios are known"]
    more_blocks: int
    seconds: Annotated[float | None, "the time after which it ends"]


class PlannedHost(TypedDict):
    """A host of `--on`."""

    host: str
    roles: list[str]
    answers: Annotated[bool | None, "null where it was not asked"]
    reason: Annotated[str | None, "why it cannot be used"]


class PlannedExperiment(TypedDict):
    """An experiment of a plan."""

    name: str
    instrument: str
    parameters: dict[str, Any]
    factors: Annotated[dict[str, list[str]], "the labels of each factor's levels"]
    nested: dict[str, dict[str, Any]]
    exclude: list[dict[str, Any]]
    cells: int
    runs: int
    expected_s: float
    most_byte: Annotated[int, "what its samples may take"]


class Missing(TypedDict):
    """What runs of a plan need and this machine lacks."""

    reason: str
    runs: int
    first: Annotated[str, "run_id of the first"]
    command: Annotated[str | None, "what gets it"]


class PlanCheck(TypedDict):
    """`vtare plan show PLAN` and `vtare plan check PLAN`."""

    schema: Literal["vtare.plan-check/1"]
    answer: Answered
    plan: str
    question: str
    seed: Annotated[int | None, "null: drawn when the campaign starts"]
    blocks: int
    whole_plots: Annotated[list[str], "factors that change between whole plots only"]
    mesh: MeshOfPlan | None
    stop: StopRuleDocument | None
    runs: int
    expected_s: Annotated[float, "time that the campaign takes on one machine"]
    most_byte: Annotated[int, "what all samples may take"]
    hosts: Annotated[dict[str, Any], "the host of each role, as in the plan"]
    fleet: list[PlannedHost]
    experiments: list[PlannedExperiment]
    missing: Annotated[list[Missing] | None, "null where nobody has looked"]


class NeedsOfCell(TypedDict):
    """How many runs one figure of one cell needs."""

    experiment: str
    levels: Annotated[dict[str, str], "the label of each factor's level"]
    quantity: Annotated[str | None, "the figure; null where a spread was stated"]
    comparisons: Annotated[int, "comparisons that share the error rate"]
    pilot_runs: int | None
    spread_percent: Annotated[float | None, "standard deviation over runs"]
    paired_spread_percent: Annotated[float | None, "standard deviation of differences inside blocks"]
    spread_upper_percent: Annotated[float | None, "80 % upper limit of the spread that counts"]
    runs: Annotated[int | None, "runs that find the shift with the wanted power"]
    runs_cautious: Annotated[int | None, "the same, allowing for what the pilot leaves open"]
    found_percent: Annotated[float | None, "the shift that the plan's own blocks find"]
    samples: Annotated[int | None, "taken in a run of the pilot"]
    samples_advised: Annotated[int | None, "samples that are worth their time"]
    reason: Annotated[str | None, "why something is not known"]


class Power(TypedDict):
    """`vtare plan power`."""

    schema: Literal["vtare.power/1"]
    answer: Answered
    plan: str
    pilot: str | None
    shift_percent: Annotated[float, "the change to find"]
    power: Annotated[float, "the probability of finding it"]
    alpha: float
    blocks: int
    cells: list[NeedsOfCell]


class ReportColumn(TypedDict):
    """A column of a table."""

    name: str
    label: str
    numeric: bool
    about: str


class ReportCell(TypedDict):
    """A cell of a table."""

    value: Annotated[float | str | None, "a number in the unit of the column's name, or words; null where missing"]
    text: Annotated[str, "what the page shows, with the reason where the value is missing"]


class ReportTable(TypedDict):
    """A table of a report."""

    id: str
    caption: str
    columns: list[ReportColumn]
    rows: Annotated[list[dict[str, ReportCell]], "a value for each column"]


class ReportFact(TypedDict):
    """A fact that a report states."""

    of: str
    name: str
    value: str
    about: str


class ReportSection(TypedDict):
    """A section of a report."""

    id: str
    title: str
    about: str
    notes: list[str]
    tables: list[ReportTable]
    facts: list[ReportFact]


class Report(TypedDict):
    """`vtare report --format json`."""

    schema: Literal["vtare.report/1"]
    plan: str
    question: str
    seed: int
    answer: Annotated[list[str], "the answer in sentences"]
    certainty: str
    limits: list[str]
    sections: list[ReportSection]
    method: list[str]
    caveats: list[str]
    versions: list[str]


class Plot(TypedDict):
    """`vtare report --format svg`, `png` or `csv` with `--json`."""

    schema: Literal["vtare.plot/1"]
    figures: Annotated[list[str], "the files"]
    left_out: Annotated[list[str], "why runs were left out"]


class Live(TypedDict):
    """What the page of a campaign at work asks for."""

    schema: Literal["vtare.live/1"]
    page: Annotated[int, "number of the page"]
    building: Annotated[bool, "a newer page is being made"]
    error: str | None
    total: int | None
    done: int
    failed: int
    skipped: int
    pending: int
    not_needed: int
