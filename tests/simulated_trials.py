"""Programs that are simulated, in place of those that `vtare trials` runs, and comparisons of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vtare.ab.commands import Command
from vtare.ab.compare import SUITE_ALPHA, Asked, Compared, compare
from vtare.ab.figures import COUNTED, Figure, Reader
from vtare.ab.readings import Reading
from vtare.ab.suite import OPEN, Budget, beside_each_other
from vtare.ab.trials import MachineTime, Measured, Trials

MACHINE = {"kernel": "6.1.0", "cpu_model": "simulated", "cpus_allowed": [0, 1], "hypervisor": None, "container": None}
A, B = Command(("a",), "a"), Command(("b",), "b")
Noise = Callable[[np.random.Generator], float]


def none(rng: np.random.Generator) -> float:
    return 0.0


def measured(wall_ns: float, **more: Any) -> Measured:
    """A run that took so long, with what else is given."""
    figures = {
        "begin_ns": 0, "wall_ns": round(wall_ns), "user_ns": round(0.9 * wall_ns), "system_ns": 0,
        "most_resident_byte": 50_000_000, "minor_faults": 100, "major_faults": 0, "voluntary_switches": 1,
        "involuntary_switches": 2, "least_byte": 10_000_000,
    }  # fmt: skip
    return Measured(**{**figures, **more})


class SimulatedTrials(Trials):
    """Programs that take 100 ms, `slower` times as long for B, with a noise of their own and one of the machine."""

    def __init__(self, slower: float, own: Noise, machine: Noise, seed: int) -> None:
        self.slower = slower
        self.own = own
        self.shared = machine
        self.rng = np.random.default_rng(seed)
        self.now = 0.0

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        drift = self.shared(self.rng)
        runs = []
        for command in commands:
            wall = 1e8 * (self.slower if command is B else 1.0) * np.exp(drift + self.own(self.rng))
            runs.append(measured(wall, begin_ns=round(self.now)))
        self.now += max(run.wall_ns for run in runs)
        return runs, MachineTime(0, None, None, None, 1)


class SimulatedSuite(SimulatedTrials):
    """Programs that print `count` benchmarks; the first one is `slower` times as long for B.

    `machine` meets all benchmarks of a run, `own` each alone, the last `noisy` of them five times as much. All of them
    take 1 s; those that VTARE_OPEN leaves out take no time.
    """

    def __init__(self, count: int, slower: float, own: Noise, machine: Noise, seed: int, noisy: int = 0) -> None:
        super().__init__(slower, own, machine, seed)
        self.noisy = noisy
        self.names = [f"benchmark/{at}" for at in range(count)]

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        runs = []
        for command in commands:
            drift = self.shared(self.rng)
            readings = {}
            chosen = re.compile(next((word for word in command.words if word.startswith(OPEN)), "=").partition("=")[2])
            for at, name in enumerate(self.names):
                if not chosen.search(name):
                    continue
                slower = self.slower if command.text == B.text and at == 0 else 1.0
                times = 5 if at >= len(self.names) - self.noisy else 1
                value = 1000.0 * (at + 1) * slower * float(np.exp(drift + times * self.own(self.rng)))
                readings[name] = Reading(name, (value,), "ns", more_is_better=False)
            took = 1e9 * len(readings) / len(self.names)
            runs.append(measured(took, begin_ns=round(self.now), readings=readings))
            self.now += took
        return runs, MachineTime(0, None, None, None, 1)

    def figures(self) -> list[Figure]:
        """All benchmarks."""
        reader = Reader([])
        reader._first = "a", dict(self.run([A])[0][0].readings)
        return reader.figures()


def compared_suite(
    count: int, slower: float, own: Noise, machine: Noise = none, seed: int = 1, *,
    form: str = "", noisy: int = 0, **asked: Any,
) -> Compared:  # fmt: skip
    """A suite, compared as `vtare ab --suite FORM` does."""
    trials, rng = SimulatedSuite(count, slower, own, machine, seed, noisy), np.random.default_rng(seed)
    first = trials.run((A, B))[0]
    figures, budget = trials.figures(), Budget(form)
    budget.keep([figure.name for figure in figures], rng)
    figures = beside_each_other(figures, first[0], budget.references)
    return compare(
        trials, (A, B), figures,
        Asked(**{"most_pairs": 100, "most_s": 1e9, "alpha": SUITE_ALPHA, "design": "interleaved", **asked}),
        rng=rng, first=first, judged=len(figures), budget=budget,
    )  # fmt: skip


def quiet(rng: np.random.Generator) -> float:
    return float(rng.normal(scale=0.01))


def noise_of(rng: np.random.Generator, *, spread: float) -> float:
    return float(rng.normal(scale=spread))


def bursts(rng: np.random.Generator) -> float:
    return float(rng.exponential(0.3)) if rng.random() < 0.3 else float(rng.normal(scale=0.02))


def compared(slower: float, own: Noise, machine: Noise = none, seed: int = 1, **asked: Any) -> Compared:
    trials = SimulatedTrials(slower, own, machine, seed)
    return compare(
        trials, (A, B), COUNTED, Asked(**{"most_pairs": 400, "margin": 0.02, **asked}), rng=np.random.default_rng(seed)
    )
