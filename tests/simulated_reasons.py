"""A platform on which each event costs a planted time more, as `vtare costs` and the runs of a command show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vtare.ab.commands import Command
from vtare.ab.trials import MachineTime, Measured, OutOfTime
from vtare.weigh.runner import RefusedThere
from vtare.weigh.why import Explanation, Kinds, explain

COUNTS = {"system call": 10_000.0, "file open": 200.0, "program start": 1.0, "packet": 0.0}
#: Starting a program also opens files and makes calls: its own cost is what these do not explain.
PER_TURN: dict[str, Kinds] = {
    "system call": {"system call": 1.0},
    "file open": {"system call": 1.0, "file open": 1.0},
    "program start": {"system call": 40.0, "file open": 3.0, "program start": 1.0},
}
HOST = {"system call": 200.0, "file open": 2_000.0, "program start": 600_000.0}
#: What one of each costs more, in ns.
MORE = {"system call": 5_000.0, "file open": 100_000.0, "program start": 3e6}
EXPLAINED = sum(COUNTS[kind] * more for kind, more in MORE.items())


def rounds_of(rng: np.random.Generator, *, rounds: int = 8, noise: float = 0.02) -> list[tuple[Kinds, Kinds]]:
    """Small programs on the host and on a platform where each event costs `MORE`."""

    def noisy(value: float) -> float:
        return value * float(np.exp(rng.normal(0, noise)))

    inside = {kind: HOST[kind] + sum(n * MORE[other] for other, n in does.items()) for kind, does in PER_TURN.items()}
    return [
        ({kind: noisy(ns) for kind, ns in HOST.items()}, {kind: noisy(ns) for kind, ns in inside.items()})
        for _ in range(rounds)
    ]


def explained(platform: str, *, rest: float = 1e7, seed: int = 1, noise: float = 0.02) -> Explanation:
    """A platform on which the counts explain all but `rest`."""
    rng = np.random.default_rng(seed)
    longer = (EXPLAINED + rest) * np.exp(rng.normal(0, noise, 40))
    return explain(platform, COUNTS, PER_TURN, rounds_of(rng, noise=noise), longer.tolist(), {})


class Small:
    """What measures: runs of 100 ms on the host, and what `vtare costs` prints; `slower` is the factor of gvisor."""

    def __init__(
        self,
        *,
        counted: dict[str, float] | str = COUNTS,
        refuses: Sequence[str] = (),
        refuses_counting: bool = False,
        rounds: int = 99,
    ) -> None:
        """Take what is counted, what does not run, and how many rounds the time allows."""
        self.until = 0.0
        self._counted = counted
        self._refuses = refuses
        self._refuses_counting = refuses_counting
        self._left = rounds * 2
        self._rng = np.random.default_rng(3)

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        """Run one."""
        (command,) = commands
        wall = (1e8 + (EXPLAINED if command.text == "gvisor" else 0.0)) * float(np.exp(self._rng.normal(0, 0.01)))
        return [Measured(0, wall, wall / 2, 0.0)], MachineTime(None, None, None, None, int(wall))

    def counted(self, name: str) -> dict[str, float] | str:
        """Count."""
        return self._counted

    def costs(self, name: str, *, count: bool = False) -> dict[str, Any]:
        """Print what small programs took."""
        if count and not self._refuses_counting:
            return {"counts": PER_TURN, "missing": {}}
        if name in self._refuses:
            raise RefusedThere(name, "no such call")
        self._left -= 1
        if self._left < 0:
            raise OutOfTime
        ((host, own),) = rounds_of(self._rng, rounds=1)
        return {"costs": {kind: [ns] for kind, ns in (host if name == "host" else own).items()}, "missing": {}}
