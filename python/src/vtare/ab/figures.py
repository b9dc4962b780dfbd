"""What is compared of a command: what the system counted, or figures that it prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.ab.trials import Measured


@dataclass(frozen=True, slots=True)
class Figure:
    """One: its name, its unit (as the ending of a name), how it is read of one run (None where it was not counted)."""

    name: str
    unit: str
    read: Callable[[Measured], float | None]
    more_is_better: bool = False

    def hidden(self, runs: Sequence[Measured]) -> str | None:
        """Why the figure of these runs cannot be seen; None where it can."""
        least = max((run.least_byte or 0 for run in runs), default=0)
        if self.unit != "_byte" or any((self.read(run) or 0) > 1.2 * least for run in runs):
            return None
        return "less than the program that starts them holds itself"

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


def read_figure(text: str, *, more_is_better: bool) -> Figure:
    """Return the figure of `NAME=REGEX`, `NAME=json:PATH` or `NAME=FORMAT` (one of `FORMATS`).

    >>> figure = read_figure("rate=([0-9.]+) MB/s", more_is_better=True)
    >>> figure.name, figure.worse
    ('rate', 'lower')

    Raises:
        BadInput: it is none of these.
    """
    name, equals, how = text.partition("=")
    if not equals or not name.strip() or not how:
        raise BadInput(f"--metric: found '{text}', expected NAME=REGEX, NAME=json:PATH or NAME=FORMAT ({_formats()})")
    if how in FORMATS:
        extract = FORMATS[how]
    elif how.startswith("json:"):
        extract = _path(how.removeprefix("json:"))
    else:
        extract = _pattern(how)

    def read(run: Measured) -> float:
        assert run.printed is not None
        return _number(name, run.printed, extract)

    return Figure(name.strip(), "", read, more_is_better=more_is_better)


def _number(name: str, printed: str, extract: Callable[[str], float | None]) -> float:
    try:
        value = extract(printed)
    except (ValueError, KeyError, IndexError, TypeError):
        value = None
    if value is None:
        shown = printed.strip()[-200:] or "nothing"
        raise BadInput(f"--metric {name}: found no number for it in what a command printed, expected one: {shown}")
    return value


def _pattern(text: str) -> Callable[[str], float | None]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise BadInput(f"--metric: found '{text}', which is no regular expression: {error}") from error

    def extract(printed: str) -> float | None:
        matches = list(pattern.finditer(printed))
        if not matches:
            return None
        part = re.search(_NUMBER, matches[-1].group(1) if pattern.groups else matches[-1].group(0))
        return None if part is None else float(part.group(0).replace("_", ""))

    return extract


def _path(text: str) -> Callable[[str], float | None]:
    steps = [step for step in re.split(r"[.\[\]]+", text) if step]
    if not steps:
        raise BadInput(f"--metric: found 'json:{text}', expected a path such as json:results[0].mean")
    return lambda printed: _followed(json.loads(printed), steps)


def _followed(value: Any, steps: Sequence[str]) -> float | None:
    for step in steps:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _pyperf(printed: str) -> float | None:
    runs = json.loads(printed)["benchmarks"][0]["runs"]
    return _mean([value for run in runs for value in run.get("values", ())])


def _google_benchmark(printed: str) -> float | None:
    rows = [row for row in json.loads(printed)["benchmarks"] if row.get("run_type", "iteration") == "iteration"]
    return _mean([row["real_time"] for row in rows])


#: What well-known benchmark programs print as JSON: the mean of their (first) benchmark, in their own unit.
FORMATS: Final[dict[str, Callable[[str], float | None]]] = {
    "pyperf": _pyperf,
    "hyperfine": lambda printed: float(json.loads(printed)["results"][0]["mean"]),
    "jmh": lambda printed: float(json.loads(printed)[0]["primaryMetric"]["score"]),
    "google-benchmark": _google_benchmark,
    "criterion": lambda printed: float(json.loads(printed)["mean"]["point_estimate"]),
}


def _formats() -> str:
    return ", ".join(FORMATS)
