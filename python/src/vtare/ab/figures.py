"""What is compared of a command: what the system counted, or figures that it prints."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from vtare import stats
from vtare.ab.formats import FORMATS, read_format
from vtare.ab.json_figures import path
from vtare.ab.readings import LOCALES, NoReading, Reading, unit_text
from vtare.ab.text_figures import pattern
from vtare.errors import BadInput
from vtare.stats import Better, Speed, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.ab.trials import Measured

Readings = dict[str, Reading]


@dataclass(frozen=True, slots=True)
class Figure:
    """One: its name, the symbol of its unit, how it is read of one run (None where it was not counted).

    `more_is_better` is None where nothing states which direction is better. `readings` are those of a run whose
    `quantile` it is, where it is one. `step` is how coarse the figure of a run is at least: the step of its printed
    digits, or the unit that it is counted in; None of an exact count, which no rounding has changed. `missing` is why a
    run has no value.
    """

    name: str
    unit: str
    read: Callable[[Measured], float | None]
    more_is_better: bool | None = False
    readings: Callable[[Measured], Sequence[float]] | None = None
    quantile: float = 0.5
    step: Callable[[Measured], float] | None = None
    missing: Callable[[Measured], str | None] | None = None

    def hidden(self, runs: Sequence[Measured]) -> str | None:
        """Why the figure of these runs cannot be seen; None where it can."""
        if self.readings is not None and any(self.read(run) is None for run in runs):
            fewest = min(len(self.readings(run)) for run in runs)
            return f"needs {stats.least_n(self.quantile)} readings a run, not {fewest}"
        if self.missing is not None and (why := next(filter(None, map(self.missing, runs)), None)) is not None:
            return why
        least = max((run.least_byte or 0 for run in runs), default=0)
        if self.name != PEAK or all((self.read(run) or 0) > 1.2 * least for run in runs):
            return None
        # What one side holds at most is no value that the other could be compared with.
        return f"not measurable below {1.2 * least / 1e6:.3g} MB"

    @property
    def better(self) -> Better | None:
        """Which direction is an improvement; None where nothing states it."""
        return None if self.more_is_better is None else "more" if self.more_is_better else "less"

    @property
    def is_duration(self) -> bool:
        """Whether it is the time of a command or of a server's replies, which people call slow or fast."""
        return self.name in ("wall time", "CPU time", "p50", "p99")

    def word(self, *, higher: bool) -> str:
        """What a command is whose figure is higher, or lower, than another's."""
        if self.is_duration:
            return str(Speed.SLOWER if higher else Speed.FASTER)
        return str(Verdict.HIGHER if higher else Verdict.LOWER)


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


PEAK: Final = "peak memory"


def _counted_ns(run: Measured) -> float:
    """Times are counted in nanoseconds."""
    return 1.0


#: What the system counts, in the order in which it is shown.
COUNTED: Final = (
    Figure("wall time", "ns", lambda run: run.wall_ns, step=_counted_ns),
    Figure("CPU time", "ns", lambda run: run.cpu_ns, step=_counted_ns),
    Figure(PEAK, "B", lambda run: run.most_resident_byte),
    Figure("page faults", "", lambda run: _sum(run.minor_faults, run.major_faults)),
    Figure("context switches", "", lambda run: _sum(run.voluntary_switches, run.involuntary_switches)),
)


_COUNTED_NAMES: Final = frozenset(figure.name for figure in COUNTED)


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
    wanted = name.lower()
    named = [figure for figure in figures if wanted == figure.name.lower()] or [
        figure
        for figure in figures
        if wanted == figure.name.lower().split()[0] or figure.name.lower().endswith(f" {wanted}")
    ]
    if not named:
        raise BadInput(f"--judge: there is no figure '{name}'. Choose one of {', '.join(one.name for one in figures)}")
    return [named[0], *(figure for figure in figures if figure is not named[0])]


@dataclass(frozen=True, slots=True)
class MetricOption:
    """One `--metric`: what reads the figures of a run from what it printed."""

    name: str
    read: Callable[[str], list[Reading]]
    has_tails: bool = False


_TAILS: Final = {"median": 0.5, "p90": 0.9, "p99": 0.99}


def read_metric(text: str, *, locale: str | None = None) -> MetricOption:
    """Return what reads `NAME=REGEX`, `NAME=json:PATH` or `NAME=FORMAT` (one of `FORMATS`).

    `NAME=all:REGEX` and a path with `[*]` take every number as a reading: three figures, median, p90 and p99 of a run.

    >>> (reading,) = read_metric("rate=([0-9.]+) MB/s").read("it took 12 turns, 7.5 MB/s")
    >>> reading.values, reading.unit, reading.more_is_better
    ((7500000.0,), 'B/s', True)

    Raises:
        BadInput: it is none of these.
    """
    name, equals, how = text.partition("=")
    name = name.strip()
    if not equals or not name or not how:
        raise BadInput(
            f"--metric: '{text}' names no figure. Write NAME=REGEX, NAME=all:REGEX, NAME=json:PATH or NAME=FORMAT "
            f"({', '.join(FORMATS)})"
        )
    if locale is not None and locale not in LOCALES:
        raise BadInput(f"--locale: '{locale}' is not known. Choose one of {', '.join(LOCALES)}")
    if how in FORMATS:
        return MetricOption(name, partial(_read_named, name, how))
    if how.startswith("json:"):
        read = path(how.removeprefix("json:"), name, locale=locale)
        tails = "[*]" in how
    else:
        _refuse_word(name, how)
        read = pattern(how.removeprefix("all:"), name, locale=locale)
        tails = how.startswith("all:")
    return MetricOption(name, partial(_read_all if tails else _read_last, read), tails)


def _read_all(read: Callable[[str], Reading], printed: str) -> list[Reading]:
    return [read(printed)]


def _read_last(read: Callable[[str], Reading], printed: str) -> list[Reading]:
    """The last match counts."""
    readings = read(printed)
    return [replace(readings, values=readings.values[-1:])]


def _read_named(name: str, how: str, printed: str, *, alone: bool = True) -> list[Reading]:
    try:
        readings = read_format(how, printed)
    except NoReading as error:
        raise NoReading(f"no figure in the format {how}: {error}") from error
    return [
        replace(one, name=name if alone and len(readings) == 1 else f"{name} {one.name}".lstrip()) for one in readings
    ]


def _refuse_word(name: str, how: str) -> None:
    """A plain word matches no number: it was meant as the name of a format."""
    if re.fullmatch(r"[A-Za-z][A-Za-z _-]*\d?", how) is None:
        return
    plain = how.lower().replace("_", "-")
    near = [name for name in FORMATS if name.startswith(plain)] or difflib.get_close_matches(plain, FORMATS, n=1)
    raise BadInput(
        f"--metric {name}: there is no format '{how}'."
        + (f" Did you mean '{near[0]}'?" if near else "")
        + f" Formats: {', '.join(FORMATS)}. A regular expression has a number in a group, such as 'took ([0-9.]+) ms'"
    )


def read_suite(how: str) -> MetricOption:
    """Return what reads all benchmarks of a suite: one of `FORMATS`, each benchmark by its own name.

    Raises:
        BadInput: it is none of them.
    """
    if how not in FORMATS:
        raise BadInput(f"--suite: '{how}' is not known. Choose one of {', '.join(FORMATS)}")
    return MetricOption("suite", partial(_read_suite, how))


def _read_suite(how: str, printed: str) -> list[Reading]:
    # A document of one benchmark may not name it.
    return [replace(one, name=one.name or how) for one in _read_named("", how, printed, alone=False)]


class Reader:
    """Reads the figures of every run, which must be the same ones in the same units.

    Of a `suite`, the ones that all commands have are compared: a change may add benchmarks, and take some away.
    """

    def __init__(self, metrics: Sequence[MetricOption], *, suite: MetricOption | None = None) -> None:
        """Begin without a run."""
        self._suite = suite
        self._metrics = (*([suite] if suite else []), *metrics)
        self._first: tuple[str, Readings] | None = None
        self._of_suite: dict[str, set[str]] = {}

    def read(self, printed: str, command: str) -> Readings:
        """Return the readings of a run of `command` by their names.

        Raises:
            BadInput: there are none, or other ones than in the first run.
        """
        readings: Readings = {}
        for metric in self._metrics:
            try:
                printed_readings = metric.read(printed)
            except NoReading as error:
                raise BadInput(f"--metric {metric.name}: {command}: {error}") from error
            if metric is self._suite:
                self._of_suite.setdefault(command, {one.name for one in printed_readings})
            for one in printed_readings:
                if one.name in readings or one.name in _COUNTED_NAMES:
                    raise BadInput(f"--metric {metric.name}: there are two figures '{one.name}'. Give one another name")
                readings[one.name] = one
        if self._first is None:
            self._first = command, readings
        else:
            _check_same(*self._first, command, readings, besides=self._known_of_suite)
        return readings

    @property
    def _known_of_suite(self) -> set[str]:
        return {name for names in self._of_suite.values() for name in names}

    def absent(self) -> list[str]:
        """The benchmarks of the suite that not all commands have."""
        every = self._of_suite.values()
        return sorted(name for name in self._known_of_suite if not all(name in names for names in every))

    def suite(self, figures: Sequence[Figure]) -> list[Figure]:
        """Those of the figures that are benchmarks of the suite."""
        return [figure for figure in figures if figure.name in self._known_of_suite]

    def figures(self, *, more_is_better: bool | None = None) -> list[Figure]:
        """Return the figures of the runs so far. `more_is_better` is of those whose unit does not state it."""
        if self._first is None:
            return []
        absent = set(self.absent())
        tails = {metric.name for metric in self._metrics if metric.has_tails}
        return [
            figure
            for one in self._first[1].values()
            if one.name not in absent
            for figure in _figures_of(one, more_is_better, has_tails=one.name in tails)
        ]


def _check_same(first: str, before: Readings, command: str, readings: Readings, *, besides: set[str]) -> None:
    for missing, whose, other in (
        (before.keys() - readings.keys() - besides, first, command),
        (readings.keys() - before.keys() - besides, command, first),
    ):
        if missing:
            names = ", ".join(f"'{name}'" for name in sorted(missing)[:5])
            raise BadInput(
                f"--metric: the benchmark {names} is in the output of {whose}, but not of {other}. Have both print the "
                "same ones"
            )
    for name, one in readings.items():
        if name in before and one.values and before[name].values and one.unit != before[name].unit:
            raise BadInput(
                f"--metric {name}: {first} printed it with {unit_text(before[name].unit)}, {command} with "
                f"{unit_text(one.unit)}. Have both print the same unit"
            )


def _figures_of(reading: Reading, more_is_better: bool | None, *, has_tails: bool) -> list[Figure]:
    direction = reading.more_is_better if reading.more_is_better is not None else more_is_better
    name = reading.name
    last = Figure(
        name, reading.unit, partial(_last, name), direction, step=partial(_step, name), missing=partial(_missing, name)
    )
    if not has_tails:
        return [last]
    values = partial(_values, name)
    return [
        replace(last, name=f"{name} {label}", read=partial(_quantile, values, p), readings=values, quantile=p)
        for label, p in _TAILS.items()
    ]


def _values(name: str, run: Measured) -> Sequence[float]:
    return run.readings[name].values if name in run.readings else ()


def _last(name: str, run: Measured) -> float | None:
    return next(reversed(_values(name, run)), None)


def _missing(name: str, run: Measured) -> str | None:
    reading = run.readings.get(name)
    return reading.missing if reading is not None and not reading.values else None


def _step(name: str, run: Measured) -> float:
    return run.readings[name].step if name in run.readings else 0.0


def _quantile(readings: Callable[[Measured], Sequence[float]], probability: float, run: Measured) -> float | None:
    return stats.quantile(readings(run), probability).value
