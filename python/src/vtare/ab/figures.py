"""What is compared of a command: what the system counted, or figures that it prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from vtare import stats
from vtare.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.ab.trials import Measured


@dataclass(frozen=True, slots=True)
class Figure:
    """One: its name, its unit (as the ending of a name), how it is read of one run (None where it was not counted).

    `readings` are those of a run whose `quantile` it is, where it is one.
    """

    name: str
    unit: str
    read: Callable[[Measured], float | None]
    more_is_better: bool = False
    readings: Callable[[Measured], Sequence[float]] | None = None
    quantile: float = 0.5

    def hidden(self, runs: Sequence[Measured]) -> str | None:
        """Why the figure of these runs cannot be seen; None where it can."""
        if self.readings is not None and any(self.read(run) is None for run in runs):
            fewest = min(len(self.readings(run)) for run in runs)
            return f"needs {stats.least_n(self.quantile)} readings a run, found {fewest}"
        least = max((run.least_byte or 0 for run in runs), default=0)
        if self.unit != "_byte" or all((self.read(run) or 0) > 1.2 * least for run in runs):
            return None
        # What one side holds at most is no value that the other could be compared with.
        return f"not measurable below {1.2 * least / 1e6:.3g} MB"

    @property
    def worse(self) -> str:
        """What a command is that is worse by this figure."""
        return "slower" if self.name in ("wall time", "CPU time") else "lower" if self.more_is_better else "higher"

    @property
    def better(self) -> str:
        """What a command is that is better by this figure."""
        return "faster" if self.name in ("wall time", "CPU time") else "higher" if self.more_is_better else "lower"


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


#: What the system counts, in the order in which it is shown.
COUNTED: Final = (
    Figure("wall time", "_ns", lambda run: run.wall_ns),
    Figure("CPU time", "_ns", lambda run: run.cpu_ns),
    Figure("peak memory", "_byte", lambda run: run.most_resident_byte),
    Figure("page faults", "", lambda run: _sum(run.minor_faults, run.major_faults)),
    Figure("context switches", "", lambda run: _sum(run.voluntary_switches, run.involuntary_switches)),
)


def judged_first(name: str | None, printed: Sequence[Figure]) -> list[Figure]:
    """All figures, with the one that is judged in front: `name`, else the first that is printed, else wall time.

    >>> [figure.name for figure in judged_first("cpu", [])][:2]
    ['CPU time', 'wall time']

    Raises:
        BadInput: none has this name.
    """
    figures = [*printed, *COUNTED]
    if name is None:
        return figures
    found = [figure for figure in figures if name.lower() in (figure.name.lower(), figure.name.lower().split()[0])]
    if not found:
        raise BadInput(f"--judge: found '{name}', expected one of {', '.join(figure.name for figure in figures)}")
    return [found[0], *(figure for figure in figures if figure is not found[0])]


_NUMBER: Final = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


def read_figures(text: str, *, more_is_better: bool) -> list[Figure]:
    """Return the figure of `NAME=REGEX`, `NAME=json:PATH` or `NAME=FORMAT` (one of `FORMATS`).

    `NAME=all:REGEX` and a path with `[*]` take every number as a reading: three figures, median, p90 and p99 of a run.

    >>> (figure,) = read_figures("rate=([0-9.]+) MB/s", more_is_better=True)
    >>> figure.name, figure.worse
    ('rate', 'lower')
    >>> [figure.name for figure in read_figures("rtt=all:rtt ([0-9]+)", more_is_better=False)]
    ['rtt median', 'rtt p90', 'rtt p99']

    Raises:
        BadInput: it is none of these.
    """
    name, equals, how = text.partition("=")
    name = name.strip()
    if not equals or not name or not how:
        raise BadInput(
            f"--metric: found '{text}', expected NAME=REGEX, NAME=all:REGEX, NAME=json:PATH or NAME=FORMAT "
            f"({', '.join(FORMATS)})"
        )
    if how.startswith("all:"):
        extract = _pattern(how.removeprefix("all:"))
    elif how.startswith("json:"):
        extract = _path(how.removeprefix("json:"))
    else:
        extract = FORMATS.get(how) or _pattern(how)

    @cache
    def readings_of(printed: str) -> list[float]:
        return _numbers(name, printed, extract)

    def readings(run: Measured) -> list[float]:
        assert run.printed is not None
        return readings_of(run.printed)

    if how.startswith("all:") or "[*]" in how:
        return [
            Figure(f"{name} {label}", "", partial(_quantile, readings, p), more_is_better, readings, p)
            for label, p in _TAILS.items()
        ]
    return [Figure(name, "", lambda run: next(reversed(readings(run)), None), more_is_better)]


_TAILS: Final = {"median": 0.5, "p90": 0.9, "p99": 0.99}


def _quantile(readings: Callable[[Measured], Sequence[float]], probability: float, run: Measured) -> float | None:
    return stats.quantile(readings(run), probability).value


def _numbers(name: str, printed: str, extract: Callable[[str], Sequence[float]]) -> list[float]:
    try:
        return list(extract(printed))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        shown = printed.strip()[-200:] or "nothing"
        raise BadInput(
            f"--metric {name}: found no number for it in what a command printed, expected one: {shown}"
        ) from error


def _pattern(text: str) -> Callable[[str], list[float]]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise BadInput(f"--metric: found '{text}', which is no regular expression: {error}") from error

    def extract(printed: str) -> list[float]:
        parts = [
            re.search(_NUMBER, match.group(1) if pattern.groups else match.group(0))
            for match in pattern.finditer(printed)
        ]
        found = [float(part.group(0).replace("_", "")) for part in parts if part is not None]
        if not found:
            raise ValueError("no match")
        return found

    return extract


def _path(text: str) -> Callable[[str], list[float]]:
    steps = [step for step in re.split(r"[.\[\]]+", text) if step]
    if not steps:
        raise BadInput(f"--metric: found 'json:{text}', expected a path such as json:results[0].mean")
    return lambda printed: _followed(json.loads(printed), steps)


def _followed(value: Any, steps: Sequence[str]) -> list[float]:
    """The numbers at the end of a path; `*` takes every item. null is what the program could not measure: no number."""
    for at, step in enumerate(steps):
        if step == "*":
            return [number for item in value for number in _followed(item, steps[at + 1 :])]
        value = value[int(step)] if isinstance(value, list) else value[step]
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("no number")
    return [float(value)]


def _pyperf(document: Any) -> list[float]:
    return [value for run in document["benchmarks"][0]["runs"] for value in run.get("values", ())]


def _google_benchmark(document: Any) -> list[float]:
    rows = document["benchmarks"]
    name = rows[0].get("run_name", rows[0].get("name"))
    same = [row for row in rows if row.get("run_name", row.get("name")) == name]
    return [row["real_time"] for row in same if row.get("run_type", "iteration") == "iteration"]


def _criterion(document: Any) -> list[float]:
    """`estimates.json` has a mean, `sample.json` what each sample took and of how many iterations it is."""
    if "mean" in document:
        return [document["mean"]["point_estimate"]]
    return [time / times for time, times in zip(document["times"], document["iters"], strict=True)]


def _mean_of(values: Callable[[Any], Sequence[float]]) -> Callable[[str], list[float]]:
    return lambda printed: [fmean(values(json.loads(printed)))]


#: What well-known benchmark programs write as JSON: the mean of their first benchmark, in their own unit.
FORMATS: Final[dict[str, Callable[[str], list[float]]]] = {
    "pyperf": _mean_of(_pyperf),
    "hyperfine": _mean_of(lambda document: [document["results"][0]["mean"]]),
    "jmh": _mean_of(lambda document: [document[0]["primaryMetric"]["score"]]),
    "google-benchmark": _mean_of(_google_benchmark),
    "criterion": _mean_of(_criterion),
}
