"""What a campaign reports while it runs. Nothing is printed during a run, only between runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vtare.campaign.execute import Outcome
    from vtare.design import Run


@dataclass(frozen=True, slots=True)
class Forecast:
    """How far a campaign is. `left_s` is the expected rest, corrected by how long finished runs really took."""

    finished: int
    total: int
    left_s: float


class Progress(Protocol):
    """Receives what happens. An implementation must return quickly and must not start threads that tick."""

    def started(self, forecast: Forecast) -> None:
        """The campaign begins or goes on."""
        ...

    def run_started(self, run: Run, forecast: Forecast) -> None:
        """One run is about to start."""
        ...

    def run_ended(self, run: Run, outcome: Outcome, forecast: Forecast) -> None:
        """One run has ended, in whatever way."""
        ...

    def ended(self) -> None:
        """Nothing more will come. Called on every way out."""
        ...


class Silent:
    """Reports nothing."""

    def started(self, forecast: Forecast) -> None:
        """Report nothing."""

    def run_started(self, run: Run, forecast: Forecast) -> None:
        """Report nothing."""

    def run_ended(self, run: Run, outcome: Outcome, forecast: Forecast) -> None:
        """Report nothing."""

    def ended(self) -> None:
        """Report nothing."""
