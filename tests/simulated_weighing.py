"""Runs of a command on platforms with a planted factor each, and what `vtare weigh` makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from simulated_trials import MACHINE

from vtare.ab.commands import Command
from vtare.ab.compare import Asked, compare
from vtare.ab.readings import Reading
from vtare.ab.trials import MachineTime, Measured
from vtare.weigh.runner import FIGURES, MEMORY, OUTSIDE, START, STOP, WHOLE
from vtare.weigh.verdict import PlatformLimit, WeighedOutcome
from vtare.weigh.weighing import Weighed

COMMAND = Command(("job",), "job")


class Planted:
    """Runs of 100 ms, times the factor of the platform, with 1 % of noise; the start is in ms."""

    def __init__(self, factors: dict[str, float], noise: float = 0.01, peak: int = 9_000_000, seed: int = 1) -> None:
        """Take the factors of wall time by platform, and the noise of all figures."""
        self.factors = factors
        self._noise = noise
        self._peak = peak
        self._rng = np.random.default_rng(seed)

    def _noisy(self) -> float:
        return float(np.exp(self._rng.normal(0, self._noise)))

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        """Run one."""
        (command,) = commands
        wall = 1e8 * self.factors[command.text] * self._noisy()
        start = 1e6 * len(command.text)
        took = {START: start, WHOLE: start + wall + 1e6, STOP: 1e6, OUTSIDE: 5e6, MEMORY: 1e6 * len(command.text)}
        readings = {name: Reading(name, (value,)) for name, value in took.items()}
        run = Measured(
            begin_ns=0, wall_ns=wall, user_ns=wall / 2, system_ns=0, most_resident_byte=self._peak,
            least_byte=3_000_000, readings=readings,
        )  # fmt: skip
        return [run], MachineTime(None, None, None, None, int(wall))


def weighed(factors: dict[str, float], *, rounds: int = 60, noise: float = 0.01, peak: int = 9_000_000) -> Weighed:
    """What weigh makes of platforms with these factors."""
    commands = [Command((name,), name) for name in factors]
    asked = Asked(design="interleaved", most_pairs=rounds)
    compared = compare(Planted(factors, noise, peak), commands, FIGURES, asked, rng=np.random.default_rng(2))
    return Weighed(compared, {}, {}, frozenset())


def outcome_of(
    result: Weighed, limits: Sequence[PlatformLimit] = (), command: Command = COMMAND, burst: int | None = None
) -> WeighedOutcome:
    """What came of it, as screens and documents take it."""
    return WeighedOutcome(result, command, 1, limits, MACHINE, burst)
