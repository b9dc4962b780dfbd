"""What an instrument is to the lab: one frozen record, from which plans, campaigns and reports take all they need.

Records hold data and small functions. They are read by every command, so their modules import nothing that takes time;
a figure of a run that needs more names its function by path (`later`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from vtare.quantities import stem_of, symbol_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import polars as pl

    from vtare.stats.verdicts import Better

Hosts = Literal["one", "two", "routed", "ports"]
"""What the lab sets up around a run that names no far end of its own: nothing; a responder on another host; the same
behind a router with a bottleneck, whose truth the lab knows; guests that forward between two ports."""


@dataclass(frozen=True, slots=True)
class Metric:
    """All that the lab states of one figure of a run: tables, axes and docs/reference/metrics.md take it from here.

    `name` is its column, and its suffix states the unit (`rtt_ns`); `unit` does where a name has none. `short` is what
    it is called where there is little room, `words` in a sentence (both: the name without its unit), `axis` on an axis.
    `better` is the change that is an improvement, None where neither is. `over_runs` is what a cell shows of its runs:
    their median or their sum. `interval` adds the ends of the median's interval over runs to the cell.
    `by_level` sets the figure against the levels of factors, beside the main one. `share_of` are the columns that a
    cell's share, in percent, is made of, part and whole: it is that of the medians which stand beside it.

    In a table `heading` is its heading (else `short`), `about` explains it, `missing` is why a cell may have none;
    `narrow` ones have room on a printed page, `always` ones stand there without any figure too. `signed`: a change is
    written with its sign. `asked_by` is the parameter without which no run has it, `needs` how many independent
    readings a run must amount to. `of_readings`: it counts in the unit of the instrument's readings.
    """

    name: str
    short: str = ""
    words: str = ""
    axis: str = ""
    unit: str | None = None
    better: Better | None = None
    over_runs: Literal["median", "sum"] = "median"
    interval: bool = False
    by_level: bool = False
    share_of: tuple[str, str] | None = None
    heading: str = ""
    about: str = ""
    missing: str = "no finished run"
    narrow: bool = True
    always: bool = False
    signed: bool = False
    asked_by: str | None = None
    needs: int | None = None
    of_readings: bool = False

    @property
    def symbol(self) -> str | None:
        """The unit that values are counted in: `ns`, `bit/s`, `packet/s`, `B`, `%`; `1` for a fraction, else None."""
        return self.unit if self.unit is not None else symbol_of(self.name)

    @property
    def is_count(self) -> bool:
        """Whether it counts whole things."""
        return self.over_runs == "sum" or self.unit == COUNT

    def end(self, which: Literal["low", "high"]) -> str:
        """The column that holds one end of the interval: `read_cost_low_ns` of `read_cost_ns`."""
        return end_column(self.name, which)

    @property
    def interval_name(self) -> str:
        """The column that shows the interval: `read_cost_interval_ns` of `read_cost_ns`."""
        return end_column(self.name, "interval")


COUNT: Final = "count"
"""The unit of a figure that counts whole things and is no sum over runs."""


def end_column(name: str, which: Literal["low", "high", "interval"]) -> str:
    """The column of an interval's end, or of both: the word stands before the unit where the name has one.

    >>> end_column("read_cost_ns", "low"), end_column("cv", "high")
    ('read_cost_low_ns', 'cv_high')
    """
    stem = stem_of(name)
    return f"{stem}_{which}{name.removeprefix(stem)}"


@dataclass(frozen=True, slots=True)
class Value:
    """What a row of samples holds: `column` over `divisor`, `weight` the column of how many readings had it (None: 1).

    With `gaps_within` the value is the difference to the row before of the same levels of these columns. `at_least` is
    the column that is true, or holds the reason, where the value is a lower bound.
    """

    column: str
    divisor: float = 1.0
    weight: str | None = None
    gaps_within: tuple[str, ...] = ()
    at_least: str | None = None


@dataclass(frozen=True, slots=True)
class Exceed:
    """Readings above a threshold. In ns: `parameter` of the run holds it, else it is `default_ns` (None: no threshold).

    `overlapping`: readings overlap in time, so that the series lasts as long as the run and not as their sum.
    """

    default_ns: float | None = None
    parameter: str | None = None
    overlapping: bool = False


@dataclass(frozen=True, slots=True)
class LatencyPair:
    """Two figures of the same run, at the greatest and at the least load that a parameter asks for (shares, 0 to 1)."""

    parameter: str
    factor: str
    most: str
    least: str
    quantity: str
    name: str


#: What to do about a machine that was not idle.
QUIET: Final = "find what else uses the CPUs (`vtare check`), then run the plan again"


@dataclass(frozen=True, slots=True)
class Flaw:
    """Readings that a reader must know of before any figure: how many columns of a cell count, `of` how many.

    `counts` and `of` are summed; without `of` the column is a share. `words` complete "80 % of the", `remedy` is what
    to do. `made_by_load`: a load that the plan makes causes it, and is then what the plan asks about. Where estimates
    state the reason in the column `reason`, `by_reason` has words and remedy for it.
    """

    counts: tuple[str, ...]
    of: tuple[str, ...]
    words: str
    remedy: str
    made_by_load: bool = False
    reason: str | None = None
    by_reason: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a level was reached: metrics with what was achieved of `factor`, as a figure and as a share.

    `limits` are metrics that count what kept it from being reached, with what that means.
    """

    factor: str
    achieved: str
    share: str
    limits: Mapping[str, str] = field(default_factory=dict)


class StatedParameter(Protocol):
    """What the binary states of a parameter."""

    @property
    def default(self) -> Any:
        """The value where a plan sets none."""

    @property
    def choices(self) -> Sequence[str]:
        """Every value of a list that is left open."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """What a run asks for: `parameters` that the plan sets, as the binary takes them, and `factors`' levels.

    `known` has what the binary states of every parameter. `crowded`: there are more busy threads than CPUs.
    """

    parameters: Mapping[str, Any]
    factors: Mapping[str, str]
    known: Mapping[str, StatedParameter]
    crowded: bool = False

    def value(self, name: str) -> Any:
        """A parameter: the plan's, else the binary's default."""
        return self.parameters.get(name, self.known[name].default)

    def count(self, name: str) -> int:
        """How many parts a list asks for; all that there can be where it is open, one where the lab names it."""
        value = self.value(name)
        return max(1, len(self.known[name].choices if value is None else value))

    @property
    def limit_s(self) -> float:
        """The time limit of a run, s; infinite where it has none."""
        seconds = self.value("seconds")
        return float("inf") if seconds is None else float(seconds)


class PartRows(NamedTuple):
    """One part of one run: its rows with `value` and `weight`, its cell in the footer, the samples file, the footer.

    `rows` are those of the settled run, as for the median and all other figures of readings; `whole` has the warm-up
    too, for counts of the whole run.
    """

    rows: pl.DataFrame
    cell: Mapping[str, Any]
    path: Path
    footer: Mapping[str, Any]
    whole: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """One instrument of the binary, `vtare NAME`.

    What a run is: `quantity` (the column of the summaries, a metric), `value` (how rows of samples give it),
    `parts` (columns of the samples that one run measures several levels of), `metrics` (its figures), `figures`
    (what computes those that `value` alone does not give). `in_order`: readings follow each other in time. `timed`:
    readings are times that can be late. `asks`: the question that its main figure answers. `until`: the column of
    the time that each reading was to last (a sleep's target).

    What a campaign needs: `hosts`, `one_way` (figures are of the way to the far end alone, so that a mesh measures each
    pair both ways), `expected_s` (how long a run takes, s), `most_rows` (bound of its samples' rows), `program` (the
    language of a program that the lab builds for the run, None where it needs none), `control` (the parameters of a
    control cell).

    What a comparison and a report need: `compared` (a metric that cells are compared by in place of the median, where
    all their runs have it), `shown_by_compared` (cells are shown by it too; it has an interval), `compared_parts`
    (parts worth comparing with each other), `series` (keys that become the rows of figures: the first that varies
    where there are several), `layer_figures` (metrics that show a layer's cost beside the main one), `tail_figures`
    (columns of a run that are set against loads like a tail), `mesh_figures` (those of a mesh's pairs beside the main
    one), `latency_pair`, `exceed`. `estimates`: readings are estimates that have a truth. `flaws`: what may be wrong
    with them. `reached`: the level that a run may fall short of.
    """

    name: str
    quantity: str
    value: Value
    parts: tuple[str, ...]
    expected_s: Callable[[PlannedRun], float]
    most_rows: Callable[[PlannedRun, float], float]
    metrics: tuple[Metric, ...]
    figures: Callable[[PartRows], Mapping[str, Any]] | None = None
    in_order: bool = False
    timed: bool = False
    asks: str = "How much, typically?"
    until: str | None = None
    hosts: Hosts = "one"
    one_way: bool = False
    program: Callable[[Mapping[str, Any]], str | None] | None = None
    control: Mapping[str, Any] | None = None
    compared: str | None = None
    shown_by_compared: bool = False
    compared_parts: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    layer_figures: tuple[str, ...] = ()
    tail_figures: tuple[str, ...] = ()
    mesh_figures: tuple[str, ...] = ()
    latency_pair: LatencyPair | None = None
    exceed: Exceed | None = None
    estimates: bool = False
    flaws: tuple[Flaw, ...] = ()
    reached: Reached | None = None

    def metric(self, name: str) -> Metric | None:
        """Its own record of a figure: two instruments may have figures of one name."""
        return next((metric for metric in self.metrics if metric.name == name), None)


def later(place: str) -> Callable[[PartRows], Mapping[str, Any]]:
    """The function at `MODULE:NAME`, imported when it is first called: what computes figures imports numpy."""
    module, _, name = place.partition(":")

    def call(part: PartRows) -> Mapping[str, Any]:
        figures: Mapping[str, Any] = getattr(import_module(module), name)(part)
        return figures

    return call
