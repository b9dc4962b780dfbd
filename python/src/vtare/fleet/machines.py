"""What carries out the decisions of a scheduler: real machines or simulated ones, and what they report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vtare.fleet.scheduler import HostAnswered, Lost, Silent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.campaign.execute import RunOutcome
    from vtare.design import Run
    from vtare.fleet.scheduler import Start


@dataclass(frozen=True, slots=True)
class Made:
    """An attempt has ended by itself; where it is done, its files are in the directory that it was given."""

    run_id: str
    attempt: int
    outcome: RunOutcome


Report = Made | Lost | HostAnswered | Silent


class Machines(Protocol):
    """The hosts of a fleet and the way to them. Only `wait` waits."""

    def now_s(self) -> float:
        """The time by which leases are counted."""
        ...

    def probe(self, host: str, at_s: float) -> None:
        """Find out at `at_s` whether a host answers, and end what an earlier run has left on it: that is reported."""
        ...

    def start(self, start: Start, run: Run, directory: Path) -> None:
        """Start an attempt, whose files go to `directory`, which exists."""
        ...

    def abandon(self, run_id: str, attempt: int) -> None:
        """End an attempt from which nothing came; nothing more is expected of it."""
        ...

    def wait(self, until_s: float | None) -> Sequence[Report]:
        """Return what was reported, once something was; nothing at `until_s`, or where a stop was requested."""
        ...

    def close(self) -> None:
        """End all attempts and leave the hosts. May be called twice."""
        ...
