"""What a plan holds, once it is checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from vtare.instruments import instrument as record_of
from vtare.instruments.model import Instrument
from vtare.plan.factors import PORT_PARAMETERS, can_forward, has_far_end
from vtare.plan.level import Level
from vtare.plan.mesh import Mesh
from vtare.topology.named_hosts import HostSpec

#: Blocks that are made in any case before a campaign may stop (statistics.md).
LEAST_BLOCKS_TO_STOP: Final = 10


#: Which combinations of levels are measured: every one, or those that differ from the baseline in one factor at most.
CELLS: Final = ("all", "one-at-a-time")

#: The method of Kirova et al. 2019, whose table a report may have beside its own.
TUKEY_ON_RANKS: Final = "tukey-on-ranks"
#: What is in front of the name of such a program in the levels of `method`.
PROGRAM_PREFIX: Final = "program:"


@dataclass(frozen=True, slots=True)
class Program:
    """A program that estimates available bandwidth: the table `[programs.NAME]`, the level `program:NAME` of `method`.

    `command` runs once for each estimate; `pattern` finds the value, which is in `unit`, in what it prints. `far_end`
    runs on the other host meanwhile, empty where there is none, and is ready when it has printed `ready`.
    """

    name: str
    command: tuple[str, ...]
    pattern: str
    unit: str
    far_end: tuple[str, ...] = ()
    ready: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the instrument that stand for it, beside `method`."""
        return {"command": list(self.command), "pattern": self.pattern, "unit": self.unit}


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor: its levels in the plan's order and the level the others are compared with."""

    name: str
    levels: tuple[Level, ...]
    baseline: str

    def level(self, label: str) -> Level:
        """Return the level with this label. Raises KeyError where there is none."""
        for level in self.levels:
            if level.label == label:
                return level
        raise KeyError(label)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One `[[experiment]]` table.

    `parameters` are resolved (units gone) and hold only what the plan sets. `exceed_ns` is the threshold of
    `exceed_per_s`; `run_timeout_s` ends a run that hangs; both may be None for the default. `cells` is one of
    `CELLS`. A factor of `nested` applies only with these levels of others; `excluded` are levels that do not go
    together (`vtare.plan.cells`). `programs` and `hosts` are the plan's; `meshed`: it runs between
    pairs of a fleet's hosts.
    """

    name: str
    instrument: str
    title: str
    parameters: dict[str, Any]
    factors: tuple[Factor, ...]
    exceed_ns: float | None = None
    run_timeout_s: float | None = None
    cells: str = "all"
    nested: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    excluded: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    programs: Mapping[str, Program] = field(default_factory=dict)
    hosts: Mapping[str, HostSpec] = field(default_factory=dict)
    meshed: bool = False

    def program(self, parameters: Mapping[str, Any]) -> Program | None:
        """The plan's program that estimates with these parameters; None where vtare itself does."""
        method = str(parameters.get("method", ""))
        return self.programs[method.removeprefix(PROGRAM_PREFIX)] if method.startswith(PROGRAM_PREFIX) else None

    @property
    def record(self) -> Instrument:
        """The record of its instrument."""
        return record_of(self.instrument)

    @property
    def routed(self) -> bool:
        """Whether a router is between its two hosts, where the lab makes a path."""
        return self.record.hosts == "routed" and self.two_hosts and not self.meshed

    @property
    def two_hosts(self) -> bool:
        """Whether the lab provides the far end: that of an instrument that needs one, where the plan names no peer."""
        named = {*self.parameters, *(factor.name for factor in self.factors)}
        return has_far_end(self.record.hosts) and "peer" not in named

    @property
    def through_guests(self) -> bool:
        """Whether the lab provides ports and guests: an experiment between two ports that names none of its own."""
        named = {*self.parameters, *(factor.name for factor in self.factors)}
        return can_forward(self.record.hosts) and not named & PORT_PARAMETERS

    def factor(self, name: str) -> Factor:
        """Return one factor by name. Raises KeyError where the experiment has no such factor."""
        for factor in self.factors:
            if factor.name == name:
                return factor
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Control:
    """The idle control cell on the bare host that opens, centres and closes each block (statistics.md)."""

    instrument: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Analysis:
    """How cells are compared: `alpha`, and the margin inside which two medians count as equivalent.

    `also` is a method whose table stands beside.
    """

    alpha: float = 0.05
    margin_percent: float = 5.0
    also: str | None = None

    @property
    def margin_ratio(self) -> float:
        """The margin as a ratio: 5 % is 1.05, so medians between 1/1.05 and 1.05 of each other are equivalent."""
        return 1.0 + self.margin_percent / 100.0


@dataclass(frozen=True, slots=True)
class StopRule:
    """When a campaign may stop before its last block: once every comparison is precise. `Plan.blocks` is the maximum.

    `precision_percent` is wanted of the half-width of each ratio's interval: 5 % is log(1.05) on the log scale.
    With `experiment`, only its comparisons count: it alone has up to `more_blocks` after the plan's blocks, for
    `seconds` at most.
    """

    precision_percent: float
    least_blocks: int = LEAST_BLOCKS_TO_STOP
    experiment: str | None = None
    more_blocks: int = 0
    seconds: float = math.inf


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked plan. `source` is the file it came from, `text` its exact bytes as text.

    `hosts` are the machines that the plan names by role; without them all is on this one. `whole_plots` are factors
    that are randomised apart: runs with the same levels of them stand together in a block. `mesh`: every pair of a
    fleet's hosts is measured.
    """

    name: str
    question: str
    blocks: int
    seed: int | None
    settle_s: float
    control: Control | None
    analysis: Analysis
    stop: StopRule | None
    experiments: tuple[Experiment, ...]
    source: Path
    platforms: dict[str, dict[str, str | int]]
    text: str = field(repr=False)
    hosts: Mapping[str, HostSpec] = field(default_factory=dict)
    whole_plots: tuple[str, ...] = ()
    mesh: Mesh | None = None

    def experiment(self, name: str) -> Experiment:
        """Return one experiment by name. Raises KeyError where there is none."""
        for experiment in self.experiments:
            if experiment.name == name:
                return experiment
        raise KeyError(name)

    def blocks_of(self, experiment: str) -> int:
        """The most blocks that hold this experiment."""
        return self.blocks + (self.stop.more_blocks if self.stop and self.stop.experiment == experiment else 0)

    @property
    def first_look(self) -> int | None:
        """The block after which the stopping rule is asked first; None without a rule."""
        if self.stop is None:
            return None
        return self.stop.least_blocks if self.stop.experiment is None else self.blocks

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Every factor of every experiment, once, in order of first use."""
        return tuple(self.labels)

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """The labels of every factor's levels, each once, in the order of the plan."""
        by_factor: dict[str, dict[str, None]] = {}
        for experiment in self.experiments:
            for factor in experiment.factors:
                by_factor.setdefault(factor.name, {}).update({level.label: None for level in factor.levels})
        return {name: tuple(labels) for name, labels in by_factor.items()}
