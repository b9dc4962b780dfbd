"""Commands of `vtare ab` with a known truth: what they take is drawn, on machines that disturb each in its own way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from vtare.ab.commands import Command
from vtare.ab.compare import Asked, Compared, compare
from vtare.ab.figures import COUNTED
from vtare.ab.trials import MachineTime, Measured

A, B = Command(("a",), "a"), Command(("b",), "b")
_LENGTH_NS = 1e8


@dataclass
class Machine:
    """Runs one after the other. `slower` is B's factor, `noise` the standard deviation of a logarithm.

    Every `period`-th run is hit by `hit`; a share `rare` of B's runs is `rare_slower` times as long; times are read in
    steps of `step_ns`.
    """

    rng: np.random.Generator
    slower: float = 1.0
    noise: float = 0.01
    period: int | None = None
    hit: float = 1.0
    rare: float = 0.0
    rare_slower: float = 1.5
    step_ns: float = 1.0
    at: int = field(default=0, init=False)

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        """Draw what each command takes."""
        runs = []
        for command in commands:
            wall = _LENGTH_NS * float(np.exp(self.noise * self.rng.normal()))
            if command is B:
                wall *= self.slower * (self.rare_slower if self.rng.random() < self.rare else 1.0)
            if self.period is not None and self.at % self.period == 0:
                wall *= self.hit
            self.at += 1
            wall = max(self.step_ns, round(wall / self.step_ns) * self.step_ns)
            runs.append(Measured(begin_ns=self.at, wall_ns=wall, user_ns=wall, system_ns=0))
        return runs, MachineTime(None, None, None, None, 1)


def of_machine(machine: Machine, *, margin: float = 0.02, most_pairs: int = 200) -> Compared:
    """Compare A with B on it, in turn."""
    # A machine that is in the middle of its rhythm.
    machine.at = int(machine.rng.integers(0, machine.period or 1))
    asked = Asked(margin=margin, most_s=1e9, most_pairs=most_pairs, design="interleaved")
    return compare(machine, (A, B), COUNTED[:1], asked, rng=machine.rng)


@dataclass(frozen=True)
class Counts:
    """Of how many comparisons which verdict was given, and how often an interval holds the truth."""

    different: int
    equivalent: int
    covered: int
    mean_covered: int


def counted(
    draw: Callable[[], Machine],
    trials: int,
    *,
    typical: float,
    mean: float,
    margin: float = 0.02,
    most_pairs: int = 200,
) -> Counts:
    """Compare `trials` times. `typical` and `mean` are the true ratios of typical runs and of means."""
    different = equivalent = covered = mean_covered = 0
    for _ in range(trials):
        (found,) = of_machine(draw(), margin=margin, most_pairs=most_pairs).primary
        different += found.is_different
        equivalent += found.verdict == "equivalent"
        covered += found.low is not None and found.high is not None and found.low <= typical <= found.high
        mean_covered += (
            found.mean_low is not None and found.mean_high is not None and found.mean_low <= mean <= found.mean_high
        )
    return Counts(different, equivalent, covered, mean_covered)
