"""How runs are paired: at the same time on CPUs of their own (duet), in turn (interleaved), or all of one first.

What hits the machine while a pair runs hits both, and cancels in their ratio. A duet shares every moment, at the price
of two programs that disturb each other; programs in turn share seconds only. Which of them knows more in the same time
is measured: pairs of either, the spread of their log ratios, times what a pair takes.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

import numpy as np

from vtare.ab.trials import OutOfTime
from vtare.errors import BadInput
from vtare.sentences import ab as wording

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtare.ab.commands import Command
    from vtare.ab.figures import Figure
    from vtare.ab.trials import MachineTime, Measured

DesignWord = Literal["duet", "interleaved", "sequential"]
DESIGNS: Final[tuple[DesignWord, ...]] = ("duet", "interleaved", "sequential")
PILOT_PAIRS: Final = 4
"""Pairs of each design before the choice; those of the chosen one count."""
_LEAST_PILOT_PAIRS: Final = 2
_SEVERAL_THREADS: Final = 1.2
"""CPU time over wall time from which a program has more than one thread: on one CPU it would be another program."""


class Runner(Protocol):
    """What runs commands: the program `vtare trials`, or functions of this process."""

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        """Run commands at once, each on its CPUs (all where None), and return what each took, in their order."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One run of each command, in the order of the commands; `order` is that in which they ran, or of their CPUs.

    Runs that are no pair, but groups compared with each other, have no order.
    """

    runs: tuple[Measured, ...]
    order: tuple[int, ...]
    beside: tuple[MachineTime, ...]

    @property
    def span_ns(self) -> float:
        """From the first start to the last end."""
        return max(run.end_ns for run in self.runs) - min(run.begin_ns for run in self.runs)

    def log_ratio(self, figure: Figure, command: int) -> float | None:
        """The logarithm of a command's figure over that of the first command; None where one is not above 0."""
        first, own = figure.read(self.runs[0]), figure.read(self.runs[command])
        return None if first is None or own is None or first <= 0 or own <= 0 else math.log(own / first)

    @property
    def is_void(self) -> bool:
        """Whether a time is not that of a program's work: it left processes behind, or was stopped meanwhile."""
        return any(run.left_behind or run.stopped_ns for run in self.runs)

    @property
    def was_stopped(self) -> bool:
        """Whether a program was stopped meanwhile, or this machine was."""
        return any(run.stopped_ns for run in self.runs)

    @property
    def others_cpus(self) -> float | None:
        """CPUs that other programs took on the mean; None where the system does not report it."""
        busy = self._share("busy_ns")
        own = sum(run.cpu_ns for run in self.runs)
        return None if busy is None else max(0.0, busy - own / sum(it.span_ns for it in self.beside))

    @property
    def steal_cpus(self) -> float | None:
        """CPUs that the hypervisor took, as far as it reports it; None where the system does not."""
        return self._share("steal_ns")

    @property
    def gaps(self) -> float | None:
        """The share of their time for which the programs were ready to run but had no CPU; None where not known."""
        waited = [run.waited_ns for run in self.runs]
        known = [value for value in waited if value is not None]
        return sum(known) / sum(run.wall_ns for run in self.runs) if len(known) == len(waited) else None

    @property
    def cpu_pressure(self) -> float | None:
        """The share of the time in which some program waited for a CPU; None where the system does not report it."""
        return self._share("cpu_pressure_ns")

    @property
    def io_pressure(self) -> float | None:
        """The same for input and output."""
        return self._share("io_pressure_ns")

    @property
    def quota_cpus(self) -> float | None:
        """CPUs that a CPU quota of the control group withheld; None where the system does not report it."""
        return self._share("quota_ns")

    def _share(self, counter: str) -> float | None:
        values = [getattr(it, counter) for it in self.beside]
        return None if not values or None in values else sum(values) / sum(it.span_ns for it in self.beside)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The design, why it was chosen, and the CPUs of a duet."""

    design: DesignWord
    why: str
    cpus: tuple[int, ...] = ()


UNTRIED: Final = Chosen("interleaved", wording.NO_TIME_FOR_A_DUET)


@dataclass(frozen=True, slots=True)
class Tried:
    """Pairs that were run for the choice of a design."""

    pairs: dict[DesignWord, list[Pair]] = field(default_factory=lambda: {"duet": [], "interleaved": []})


class Orders:
    """Orders drawn at random, each on its own: no rhythm of the machine can follow them."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        """Begin; `n` is the number of commands."""
        self._n = n
        self._rng = rng

    def next(self) -> tuple[int, ...]:
        """The order of the next pair."""
        return tuple(int(k) for k in self._rng.permutation(self._n))


def run_pair(trials: Runner, commands: Sequence[Command], chosen: Chosen, order: Sequence[int]) -> Pair:
    """Run each command once: at the same time, or one after the other."""
    runs: list[Measured | None] = [None] * len(commands)
    if chosen.design == "duet":
        measured, beside = trials.run([commands[k] for k in order], [[cpu] for cpu in chosen.cpus])
        for k, run in zip(order, measured, strict=True):
            runs[k] = run
        all_beside = [beside]
    else:
        all_beside = []
        for k in order:
            (runs[k],), beside = trials.run([commands[k]])
            all_beside.append(beside)
    return Pair(tuple(run for run in runs if run is not None), tuple(order), tuple(all_beside))


def warm_up(trials: Runner, commands: Sequence[Command], show: Callable[[str], None]) -> list[Measured]:
    """Run each command once.

    Raises:
        BadInput: a command leaves processes behind: what they do is in none of its figures; or the time is over.
    """
    show("warming up")
    try:
        runs = [trials.run([command])[0][0] for command in commands]
    except OutOfTime:
        raise BadInput(wording.NO_TIME) from None
    for command, run in zip(commands, runs, strict=True):
        if run.left_behind:
            raise BadInput(wording.still_running(command.text, run.left_behind))
    return runs


def choose(
    trials: Runner,
    commands: Sequence[Command],
    figure: Figure,
    orders: Orders,
    tried: Tried,
    *,
    first: Sequence[Measured],
    wanted: DesignWord | None,
    until: float,
    show: Callable[[str], None],
) -> Chosen:
    """Return the design: the one that was asked for, or the one that knows more in the same time.

    `first` are the runs that warmed up. At `until` (`time.monotonic`) no further pair is run for the choice. The pairs
    are added to `tried` as they come.
    """
    if wanted in ("interleaved", "sequential"):
        return Chosen(wanted, wording.ASKED_FOR)
    cpus, refused = _cpus(len(commands), first)
    if cpus is None:
        return Chosen("interleaved", wording.no_duet(refused))
    # As long as the runs that warmed up take, the fewest pairs of both designs.
    walls_s = [run.wall_ns / 1e9 for run in first]
    if wanted is None and time.monotonic() + _LEAST_PILOT_PAIRS * (max(walls_s) + sum(walls_s)) > until:
        return UNTRIED
    duet, interleaved = Chosen("duet", wording.ASKED_FOR, cpus), Chosen("interleaved", "")
    if wanted == "duet":
        return duet
    pairs = tried.pairs
    for k in range(PILOT_PAIRS):
        if time.monotonic() >= until:
            break
        show(f"choosing a design: {k + 1} of {PILOT_PAIRS}")
        for chosen in (duet, interleaved):
            pair = run_pair(trials, commands, chosen, orders.next())
            if not pair.is_void:
                pairs[chosen.design].append(pair)
    if min(map(len, pairs.values())) < _LEAST_PILOT_PAIRS:
        return UNTRIED
    costs = {str(name): _cost(some, figure) for name, some in pairs.items()}
    if costs["duet"] == costs["interleaved"]:
        return Chosen("interleaved", wording.DUET_NO_BETTER)
    better = min(costs, key=lambda name: costs[name])
    worse = max(costs, key=lambda name: costs[name])
    why = wording.costs_more(worse, costs[worse] / costs[better] if costs[better] > 0 else None)
    return Chosen("duet", why, cpus) if better == "duet" else Chosen("interleaved", why)


def _cost(pairs: Sequence[Pair], figure: Figure) -> float:
    """Seconds for a unit of information: the greatest variance of log ratios, times what a pair takes.

    Their sizes alone count: a choice by their signs would choose pairs that agree, which the test must not know.
    """
    variances = [float(np.var(np.abs(log_ratios(figure, k, pairs)))) for k in range(1, len(pairs[0].runs))]
    return max(variances) * float(np.mean([pair.span_ns for pair in pairs])) / 1e9


def log_ratios(figure: Figure, command: int, pairs: Sequence[Pair]) -> list[float]:
    """The log ratio of each pair.

    Raises:
        BadInput: a value has no ratio.
    """
    ratios = [pair.log_ratio(figure, command) for pair in pairs]
    known = [value for value in ratios if value is not None]
    if len(known) < len(ratios):
        why = figure.hidden([run for pair in pairs for run in (pair.runs[0], pair.runs[command])])
        raise BadInput(f"{figure.name}: {why or wording.NOT_ABOVE_0}")
    return known


def _cpus(n: int, first: Sequence[Measured]) -> tuple[tuple[int, ...] | None, str]:
    """CPUs of different cores for a duet; None where there is none, with the reason."""
    if any(run.cpu_ns > _SEVERAL_THREADS * run.wall_ns for run in first):
        return None, wording.SEVERAL_THREADS
    seen: set[str] = set()
    cpus = []
    for cpu in sorted(os.sched_getaffinity(0)):
        core = _core(cpu)
        if core not in seen:
            seen.add(core)
            cpus.append(cpu)
    if len(cpus) < n:
        return None, wording.too_few_cores(len(cpus), n)
    # The first CPU serves the machine's interrupts.
    return tuple(cpus[-n:]), ""


def _core(cpu: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)
