"""What a campaign reports while it runs. Nothing is printed during a run, only between runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vtare.design import expected_run_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.campaign.execute import RunOutcome
    from vtare.design import Run
    from vtare.plan.model import Plan


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

    def run_ended(self, run: Run, outcome: RunOutcome, forecast: Forecast) -> None:
        """One run has ended, in whatever way."""
        ...

    def ended(self) -> None:
        """Nothing more will come. Called on every way out."""
        ...


class NoProgress:
    """Reports nothing."""

    def started(self, forecast: Forecast) -> None:
        """Report nothing."""

    def run_started(self, run: Run, forecast: Forecast) -> None:
        """Report nothing."""

    def run_ended(self, run: Run, outcome: RunOutcome, forecast: Forecast) -> None:
        """Report nothing."""

    def ended(self) -> None:
        """Report nothing."""


class Pace:
    """Forecasts the rest of a campaign from the estimates and from how finished runs compared with theirs."""

    def __init__(self, plan: Plan) -> None:
        """Nothing is known yet of how long runs of this plan take here."""
        self._plan = plan
        self._todo: dict[str, float] = {}
        self._total = 0
        self._expected_s = 0.0
        self._taken_s = 0.0

    def begin(self, todo: Sequence[Run], total: int) -> None:
        """These runs of `total` are still to be made."""
        self._todo = {run.run_id: expected_run_s(run, self._plan) for run in todo}
        self._total = total

    def ended(self, run: Run, outcome: RunOutcome) -> None:
        """One of them has ended."""
        self._expected_s += self._todo.pop(run.run_id)
        self._taken_s += outcome.elapsed_s

    def forecast(self, at_once: int = 1) -> Forecast:
        """How far the campaign is, where `at_once` runs are made at a time."""
        # Two runs' worth of trust in the estimate keeps the first forecasts from jumping.
        prior = 2.0 * sum(self._todo.values()) / max(1, len(self._todo))
        factor = (self._taken_s + prior) / (self._expected_s + prior) if self._expected_s + prior > 0 else 1.0
        return Forecast(self._total - len(self._todo), self._total, factor * sum(self._todo.values()) / at_once)
