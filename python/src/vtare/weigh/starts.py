"""What it takes to enter an instance that runs, and to start many at once: on each platform in turn, beside the host.

On the host there is nothing to enter: a program is started as ever.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from vtare.ab.commands import Command
from vtare.ab.compare import Asked, Compared, compare
from vtare.ab.readings import Reading
from vtare.ab.trials import MachineTime, Measured, OutOfTime
from vtare.sentences import weigh as wording
from vtare.weigh.runner import RefusedThere, reading_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from vtare.weigh.runner import WeighRunner

EXEC: Final = "exec"
BURST: Final = "burst"
HOST: Final = "host"
_ROUNDS: Final = 12
_EXEC_SHARE: Final = 0.5
"""The share of the time for both that entering may take."""


class _Times:
    """Measures one time on the platform that a command names. See `Runner`."""

    def __init__(self, figure: str, measure: Callable[[str], float]) -> None:
        """Take what measures, in ns."""
        self._figure = figure
        self._measure = measure

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        """Measure once."""
        ((name,),) = (command.words for command in commands)
        begin = time.monotonic_ns()
        took = self._measure(name)
        whole = time.monotonic_ns() - begin
        run = Measured(begin, whole, 0, 0, readings={self._figure: Reading(self._figure, (took,), "ns")})
        return [run], MachineTime(None, None, None, None, whole)


@dataclass(frozen=True, slots=True)
class Started:
    """What came of it: comparisons by their figures, and a line for each platform that is left out of one."""

    compared: dict[str, Compared] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return any(one.stopped == "interrupted" for one in self.compared.values())


def starts(
    runner: WeighRunner, names: Sequence[str], asked: Asked, *, burst: int | None, begin: float,
    rng: np.random.Generator, show: Callable[[str], None],
) -> Started:  # fmt: skip
    """Compare entering an instance, and `burst` starts at once, with the host, for the time that `asked` allows."""
    started = Started()
    asked = replace(asked, limits=(), asks_margin=True, most_pairs=min(asked.most_pairs or _ROUNDS, _ROUNDS))

    def compare_in(figure: str, names: Sequence[str], measure: Callable[[str], float], most_s: float) -> None:
        runner.until = begin + most_s
        times = _Times(figure, measure)
        first: dict[str, Measured] = {}
        for name in names:
            show(wording.starting(name, figure))
            try:
                first[name] = times.run([Command((name,), name)])[0][0]
            except (RefusedThere, OutOfTime) as error:
                reason = error.reason if isinstance(error, RefusedThere) else wording.NO_TIME
                started.notes.append(wording.no_start(name, figure, reason))
        while figure not in started.compared and len(first) > 1 and HOST in first:
            commands = [Command((name,), name) for name in first]
            try:
                started.compared[figure] = compare(
                    times, commands, [reading_figure(figure)], replace(asked, most_s=most_s),
                    rng=rng, show=show, first=list(first.values()), begin=begin,
                )  # fmt: skip
            except RefusedThere as error:
                started.notes.append(wording.no_start(error.name, figure, error.reason))
                del first[error.name]

    with ExitStack() as stack:
        tools: dict[str, int] = {}
        left_s = asked.most_s - (time.monotonic() - begin)
        runner.until = begin + asked.most_s
        for name in names:
            show(wording.starting(name, EXEC))
            try:
                tools[name] = stack.enter_context(runner.instance(name))
            except RefusedThere as error:
                started.notes.append(wording.no_start(name, EXEC, error.reason))
        most_s = asked.most_s - (0.0 if burst is None else (1 - _EXEC_SHARE) * left_s)
        compare_in(EXEC, list(tools), lambda name: runner.enter(name, tools[name]), most_s)
    if burst is not None and not started.is_interrupted:
        compare_in(BURST, names, lambda name: runner.burst(name, burst), asked.most_s)
    return started
