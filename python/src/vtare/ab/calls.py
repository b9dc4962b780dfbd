"""Two functions of this process against each other: for scripts, and for tests that hold a speed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vtare.ab.commands import Command
from vtare.ab.compare import Asked, Compared, compare
from vtare.ab.figures import COUNTED
from vtare.ab.trials import MachineTime, Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LEAST_S: Final = 0.002
"""A run calls its function until this time is over: the clock and the loop are nothing beside it."""


class Calls:
    """Runs functions in turn: two at once would wait for one another's interpreter."""

    def __init__(self, functions: Sequence[Callable[[], Any]]) -> None:
        """Take the functions and find out how often a run calls each."""
        self.commands = tuple(
            Command((str(k),), getattr(function, "__qualname__", repr(function)))
            for k, function in enumerate(functions)
        )
        self._functions = {command: function for command, function in zip(self.commands, functions, strict=True)}
        self._times = {command: self._needed(function) for command, function in self._functions.items()}

    @staticmethod
    def _needed(function: Callable[[], Any]) -> int:
        times = 1
        while True:
            begin = time.perf_counter_ns()
            for _ in range(times):
                function()
            took_s = (time.perf_counter_ns() - begin) / 1e9
            if took_s >= _LEAST_S:
                return times
            times = max(2 * times, int(1.2 * times * _LEAST_S / max(took_s, 1e-9)))

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        """Call the function of each command as often as a run does; what one call took is the figure."""
        runs = []
        for command in commands:
            function, times = self._functions[command], self._times[command]
            cpu, begin = time.process_time_ns(), time.perf_counter_ns()
            for _ in range(times):
                function()
            wall, cpu = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
            runs.append(Measured(begin_ns=begin, wall_ns=wall / times, user_ns=cpu / times, system_ns=0))
        return runs, MachineTime(None, None, None, None, 1)


def compare_calls(
    first: Callable[[], Any],
    second: Callable[[], Any],
    *more: Callable[[], Any],
    margin: float = 0.02,
    most_s: float = 60.0,
    seed: int | None = None,
) -> Compared:
    """Compare functions without arguments, in turn, until the answer is known; times are those of one call, ns.

    `margin` is the share that does not matter, `most_s` the seconds that it may take. The answer's `primary` has a
    finding for each function but the first, with its verdict and interval.

    >>> found = compare_calls(lambda: sum(range(3000)), lambda: sum(range(6000)), margin=0.2)
    >>> found.primary[0].word
    'slower'
    """
    calls = Calls((first, second, *more))
    asked = Asked(margin=margin, most_s=most_s, design="interleaved")
    return compare(calls, calls.commands, COUNTED[:2], asked, rng=np.random.default_rng(seed))
