"""Where a measured machine stands among the published platforms.

The papers measured other hardware, kernels and run lengths: a standing gives the order of magnitude a reader may
expect, it is no test. Only like is placed beside like: a read of the CPU counter beside the paper's "TSC",
`clock_gettime` beside its "System Call" (which on those hosts was served without entering the kernel), a kernel sleep
beside "uSleep", a sleep that ends in a spin beside "HPTSleep".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from vtare.papers.published import LAMPE_CV_QUANTUM, published_document

TIMER_FUNCTIONS: Final = {
    "rdtsc": "TSC",
    "rdtscp": "TSC",
    "lfence_rdtsc": "TSC",
    "vtare": "TSC",
    "vtare_ordered": "TSC",
    "clock_monotonic": "System Call",
    "gettimeofday": "System Call",
}
"""Which published function a source is placed beside; a real system call and the coarse clock have no counterpart."""

SLEEP_FUNCTIONS: Final = {
    "usleep": "uSleep",
    "clock_nanosleep": "uSleep",
    "two_phase": "HPTSleep",
    "adaptive": "HPTSleep",
    "spin": "HPTSleep",
}
"""Which published function a sleep method is placed beside."""

LOADS: Final = {"idle": "idle", "cpu": "cpu", "io": "io_network", "nbd": "io_network"}
"""Which published load a load of the lab is placed beside."""


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """One published platform: its median and half its interquartile range, both in ns."""

    platform: str
    median_ns: float
    half_iqr_ns: float | None


@dataclass(frozen=True, slots=True)
class Standing:
    """A measured median beside the published ones of the same function and load.

    `low_ns` and `high_ns` are the ends of the measured interval, None where it could not be estimated. `below` counts
    the published medians that the measured one undercuts; with an interval, the whole interval has to.
    """

    what: str
    function: str
    load: str
    median_ns: float
    low_ns: float | None
    high_ns: float | None
    published: tuple[PublishedFigure, ...]
    below: int
    above: int
    source: str

    @property
    def rank_text(self) -> str:
        """The standing in words: `below 4 of the 5 published medians, above 1`."""
        total = len(self.published)
        if self.below == total:
            return f"below all {total} published medians"
        if self.above == total:
            return f"above all {total} published medians"
        between = total - self.below - self.above
        text = f"below {self.below} and above {self.above} of the {total} published medians"
        return f"{text}; {between} inside its interval" if between else text


@dataclass(frozen=True, slots=True)
class CvStanding:
    """A measured coefficient of variation beside the published ones at the same argument."""

    argument: int
    cv: float
    published: tuple[tuple[str, float], ...]
    below: int
    source: str


def load_kind(load: str) -> str | None:
    """The kind of a load level (`cpu 50` is `cpu`), or None where the papers have no such load."""
    kind = load.split()[0] if load.split() else ""
    return kind if kind in LOADS else None


def place_timer_cost(
    source: str, load: str, median_ns: float, low_ns: float | None = None, high_ns: float | None = None
) -> Standing | None:
    """Where the cost of one read stands in Kirova 2019, Table 1; None where the table has no such function or load."""
    return _place("timer_cost", TIMER_FUNCTIONS.get(source), source, load, (median_ns, low_ns, high_ns))


def place_sleep_miss(
    method: str, load: str, median_ns: float, low_ns: float | None = None, high_ns: float | None = None
) -> Standing | None:
    """Where the miss of a sleep stands in Kirova 2019, Table 2; None where the table has no such function or load.

    The paper does not print the target of its sleeps.
    """
    return _place("sleep_miss", SLEEP_FUNCTIONS.get(method), method, load, (median_ns, low_ns, high_ns))


def _place(
    table: str, function: str | None, what: str, load: str, figure: tuple[float, float | None, float | None]
) -> Standing | None:
    kind = load_kind(load)
    if function is None or kind is None:
        return None
    rows: list[dict[str, Any]] = [
        row
        for row in published_document()[table]
        if row["function"] == function and row["load"] == LOADS[kind] and row["median_ns"] is not None
    ]
    if not rows:
        return None
    median, low, high = figure
    top, bottom = (median if high is None else high), (median if low is None else low)
    return Standing(
        what=what,
        function=function,
        load=load,
        median_ns=median,
        low_ns=low,
        high_ns=high,
        published=tuple(PublishedFigure(row["platform"], row["median_ns"], row["half_iqr_ns"]) for row in rows),
        below=sum(top < row["median_ns"] for row in rows),
        above=sum(bottom > row["median_ns"] for row in rows),
        source=rows[0]["source"],
    )


def lampe_name(row: dict[str, Any]) -> str:
    """A short name of one of Lampe's configurations: `5 VM ESXi low C`."""
    software = "" if row["virtualization_software"] == "none" else f" {row['virtualization_software']}"
    return f"{row['config_id']} {row['machine_type']}{software} {row['host_utilization']} {row['programming_language']}"


def place_counter_cv(argument: int, cv: float) -> CvStanding | None:
    """Where a coefficient of variation stands in Lampe 2013, Table 1; None where the table has no such argument.

    A published value printed as 0.0000 counts as half of the last printed decimal.
    """
    rows = [row for row in published_document()["counter_cv"] if row["argument"] == argument and row["cv"] is not None]
    if not rows:
        return None
    published = tuple((lampe_name(row), max(float(row["cv"]), LAMPE_CV_QUANTUM / 2)) for row in rows)
    return CvStanding(
        argument=argument,
        cv=cv,
        published=published,
        below=sum(cv < value for _, value in published),
        source=rows[0]["source"],
    )


def lampe_lines() -> tuple[tuple[str, tuple[int, ...], tuple[float, ...]], ...]:
    """Each of Lampe's configurations as name, arguments and coefficients in the order of the arguments."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in published_document()["counter_cv"]:
        if row["cv"] is not None:
            lines.setdefault(lampe_name(row), []).append((row["argument"], float(row["cv"])))
    return tuple(
        (name, tuple(a for a, _ in sorted(points)), tuple(cv for _, cv in sorted(points)))
        for name, points in lines.items()
    )
