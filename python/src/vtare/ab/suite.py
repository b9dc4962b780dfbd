"""Benchmarks of a suite beside each other: what meets all of a run is told apart from what meets one.

A suite that reads the variable VTARE_OPEN runs only what is still open, and some others as references.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from vtare.ab.commands import Command
from vtare.ab.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vtare.ab.trials import Measured

TYPICAL: Final = "the typical benchmark"
LEAST: Final = 5
"""Benchmarks without which the typical one is none."""
OPEN: Final = "VTARE_OPEN"
"""The variable that names the benchmarks to run, in the form that the suite's own filter reads."""
_REFERENCES: Final = 12
"""Benchmarks that go on after their answer: their median varies by a third of what one benchmark does."""
_LONGEST: Final = 100_000
"""Characters of the variable: the kernel passes on 128 KiB at most."""
#: Filters that take a regular expression, with the part of a name that they compare; each may choose too many.
_NAMED: Final = {
    "criterion": re.compile(r".*"),
    "go": re.compile(r"\bBenchmark[^/ ]*"),
    "google-benchmark": re.compile(r"[^ ]+"),
    "jmh": re.compile(r"[^ ]+"),
    "pytest-benchmark": re.compile(r"(?:^|::)(\w+)(?=\[|$)"),
}


class Budget:
    """Spends the time of a suite on the benchmarks whose answer is open."""

    def __init__(self, form: str) -> None:
        """Begin with all benchmarks of a suite whose output has this form; other forms have no filter."""
        self._form = form
        self._chosen = form in _NAMED
        self._expression = self._everything = "" if form in ("criterion", "pytest-benchmark") else "."
        #: What always runs.
        self.references: frozenset[str] = frozenset()

    def keep(self, names: Sequence[str], rng: np.random.Generator) -> None:
        """Draw the benchmarks that go on whatever is known of them: by chance, so that they stand for all."""
        few = rng.choice(len(names), min(_REFERENCES, len(names)), replace=False)
        self.references = frozenset(names[at] for at in few)

    def choose(self, open_: Collection[str]) -> None:
        """Run these from now on, and the references."""
        if self._chosen and self.references:
            self._expression = self._filter(sorted(self.references | set(open_)))

    def end(self) -> None:
        """Run everything again, where the filter did not do what it was expected to."""
        self._chosen, self._expression = False, self._everything

    @property
    def is_narrow(self) -> bool:
        """Whether not everything runs."""
        return self._expression != self._everything

    def commands(self, commands: Sequence[Command]) -> list[Command]:
        """The commands with the variable set."""
        if self._form not in _NAMED:
            return list(commands)
        return [Command(("env", f"{OPEN}={self._expression}", *one.words), one.text) for one in commands]

    def _filter(self, names: Sequence[str]) -> str:
        """The expression; everything where a name has no part to compare."""
        matches = [_NAMED[self._form].search(name) for name in names]
        parts = [match[match.lastindex or 0] for match in matches if match and match[0]]
        if len(parts) < len(names):
            return self._everything
        if self._form == "pytest-benchmark":
            text = " or ".join(dict.fromkeys(parts))
        else:
            # Names are data of programs: what is more than a letter to a filter or a shell is any sign.
            text = "|".join(re.sub(r"[^\w/:=,-]", ".", part, flags=re.ASCII) for part in dict.fromkeys(parts))
            text = f"^({text})" if self._form == "google-benchmark" else f"^({text})$"
        return text if len(text) <= _LONGEST else self._everything


def beside_each_other(
    figures: Sequence[Figure], first: Measured, references: Collection[str] = frozenset()
) -> list[Figure]:
    """Return what to judge: the typical benchmark of a suite, then each benchmark divided by it.

    Fewer than `LEAST` benchmarks are returned unchanged.
    A busy neighbour slows all benchmarks of a run by about the same share: the median of these shares, each against the
    run `first`, is the figure of the typical benchmark, by which every other is divided. A change that makes most
    benchmarks slower is one of the typical benchmark. `settle` has to follow the last run. Of a run that lacks some
    benchmarks, the `references` are the typical one: what is still open is no fair choice.
    """
    at_first = [(figure, value) for figure in figures if (value := figure.read(first)) is not None and value > 0]
    if len(at_first) < LEAST:
        return list(figures)
    typical = _Typical(at_first, references)
    return [
        Figure(TYPICAL, "", typical, more_is_better=False),
        *(replace(figure, read=partial(_over, figure, typical)) for figure in figures),
    ]


def settle(figures: Sequence[Figure]) -> None:
    """Count the typical benchmark in its middle run instead of the first, so that the others are shown in their size.

    No ratio changes by it.
    """
    for figure in figures:
        if isinstance(figure.read, _Typical):
            figure.read.settle()


class _Typical:
    """How many times as long as in the first run the benchmarks of a run took: the median of them."""

    def __init__(self, at_first: Sequence[tuple[Figure, float]], references: Collection[str]) -> None:
        self._at_first = at_first
        self._references = references
        # By identity: a run is asked for by each benchmark, at each look.
        self._known: dict[int, tuple[Measured, float | None]] = {}
        self._middle = 1.0

    def __call__(self, run: Measured) -> float | None:
        if id(run) not in self._known:
            self._known[id(run)] = run, self._median(run)
        value = self._known[id(run)][1]
        return None if value is None else value / self._middle

    def settle(self) -> None:
        """Divide by the middle one of all runs so far."""
        self._middle = float(np.median([value for _, value in self._known.values() if value is not None] or [1.0]))

    def _median(self, run: Measured) -> float | None:
        values = [(figure, before, figure.read(run)) for figure, before in self._at_first]
        is_whole = all(value is not None for _, _, value in values)
        logs = [
            math.log(value / before) * (-1.0 if figure.more_is_better else 1.0)
            for figure, before, value in values
            if value is not None and value > 0 and (is_whole or not self._references or figure.name in self._references)
        ]
        return math.exp(float(np.median(logs))) if logs else None


def _over(figure: Figure, typical: _Typical, run: Measured) -> float | None:
    value, shared = figure.read(run), typical(run)
    if value is None or shared is None:
        return None
    return value * shared if figure.more_is_better else value / shared
