"""How many instances of a server fit on a platform until p99 exceeds a limit: doubled, then bisected."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from vtare.ab.trials import OutOfTime
from vtare.kernel_files import kernel_text
from vtare.sentences import weigh as wording
from vtare.weigh.runner import RefusedThere

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtare.weigh.server import ServerRunner

MOST_INSTANCES: Final = 64
MOST_PER_S: Final = 100.0
"""Requests per second that each instance gets at most."""
_MEMORY_SHARE: Final = 0.8
"""Of the memory that is available, what instances may take."""
_TRIES: Final = 2
"""Measurements that must exceed the limit: another program may have stalled one."""

EndWord = Literal["p99", "most", "memory", "time", "failed"]


@dataclass(frozen=True, slots=True)
class Filled:
    """A number of instances at once and their p99 in ns; None: too few replies came for one."""

    instances: int
    p99_ns: float | None


@dataclass(frozen=True, slots=True)
class Fit:
    """How many kept the limit (0: not even one), and the least that did not, where one is known.

    `ended` by *p99* it is known to one instance.
    """

    platform: str
    fits: int
    breaks: int | None
    ended: EndWord
    levels: tuple[Filled, ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Density:
    """What fits on each platform; `limit_ns` is of p99, with this many requests per second to each instance."""

    limit_ns: float
    per_s: float
    fits: tuple[Fit, ...]


def next_level(fits: int, breaks: int | None) -> int | None:
    """How many to try next; None where the number is known.

    >>> next_level(0, None), next_level(4, None), next_level(64, None), next_level(4, 8), next_level(6, 7)
    (1, 8, None, 6, None)
    """
    if breaks is None:
        return None if fits >= MOST_INSTANCES else min(max(1, 2 * fits), MOST_INSTANCES)
    middle = (fits + breaks) // 2
    return middle if middle > fits else None


def search(
    platform: str,
    limit_ns: float,
    p99_of: Callable[[int], tuple[float | None, float]],
    *,
    available: Callable[[], float],
    until: float,
    now: Callable[[], float] = time.monotonic,
) -> Fit:
    """Try numbers of instances.

    `p99_of` gives their p99 and the memory that is available while they run, in bytes; `available` gives that of now.
    """
    fits, each_byte, each_s = 0, 0.0, 0.0
    breaks: int | None = None
    levels: list[Filled] = []

    def result(ended: EndWord, reason: str | None = None) -> Fit:
        return Fit(platform, fits, breaks, ended, tuple(levels), reason)

    while (wanted := next_level(fits, breaks)) is not None:
        before, begin = available(), now()
        if wanted * each_byte > _MEMORY_SHARE * before:
            return result("memory")
        if begin + wanted * each_s > until:
            return result("time")
        try:
            p99, during = p99_of(wanted)
        except OutOfTime:
            return result("time")
        except RefusedThere as error:
            return result("failed", error.reason)
        levels.append(Filled(wanted, p99))
        each_byte, each_s = max(each_byte, (before - during) / wanted), (now() - begin) / wanted
        if p99 is not None and p99 <= limit_ns:
            fits = wanted
        elif [level.instances for level in levels].count(wanted) == _TRIES:
            breaks = wanted
    return result("most" if breaks is None else "p99")


def density(
    served: ServerRunner, names: Sequence[str], limit_s: float, *, until: float, show: Callable[[str], None]
) -> Density:
    """Search on each platform in turn, each with its share of what is left of the time."""
    per_s = min(MOST_PER_S, served.per_s)
    fits: list[Fit] = []
    for at, name in enumerate(names):
        now = time.monotonic()
        served.until = now + (until - now) / (len(names) - at)

        def p99_of(instances: int, name: str = name) -> tuple[float | None, float]:
            show(wording.filling(name, instances))
            return served.p99_of(name, instances, per_s, available_byte)

        fits.append(search(name, 1e9 * limit_s, p99_of, available=available_byte, until=served.until))
    return Density(1e9 * limit_s, per_s, tuple(fits))


def available_byte() -> float:
    """The memory that programs may take without swapping; infinite where the kernel does not show it."""
    for line in (kernel_text("proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return 1024.0 * int(line.split()[1])
    return float("inf")
