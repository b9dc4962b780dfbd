"""How far a campaign is, between runs: a bar on a terminal, else lines of the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rich.text import Text

from vtare.sentences.words import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from vtare.campaign.execute import RunOutcome
    from vtare.campaign.progress import Forecast
    from vtare.design import Run

_LOG = logging.getLogger(__name__)
#: Signs of the bar.
_BAR: Final = 24


def run_words(run: Run) -> str:
    """Name a run for people: `sleep, load cpu, method spin`."""
    name = run.experiment if run.control is None else f"control ({run.control})"
    return ", ".join([name, *(f"{factor} {level}" for factor, level in run.factors.items())])


def bar(finished: int, total: int) -> str:
    """How far it is, in signs."""
    done = round(_BAR * finished / max(total, 1))
    return f"{'=' * (done - 1)}{'>' if done else ''}{' ' * (_BAR - done)}"


class TerminalProgress:
    """A progress bar with the remaining time, drawn between runs only: a ticking bar would disturb what is measured."""

    def __init__(self, console: Console) -> None:
        """Draw on this console, which is a terminal."""
        from rich.progress import Progress, TextColumn

        self._bar = Progress(
            # As the binary's: crates/vtare/src/progress.rs.
            TextColumn(
                "{task.description} [{task.fields[bar]}] {task.percentage:>3.0f} % {task.fields[left]} left",
                markup=False,
            ),
            console=console,
            auto_refresh=False,
            transient=True,
        )
        self._console = console
        self._task: TaskID | None = None

    def started(self, forecast: Forecast) -> None:
        """Show the bar."""
        self._task = self._bar.add_task(
            "",
            total=forecast.total,
            completed=forecast.finished,
            bar=bar(forecast.finished, forecast.total),
            left=duration(forecast.left_s),
        )
        self._bar.start()

    def run_started(self, run: Run, forecast: Forecast) -> None:
        """Show what runs now."""
        self._update(forecast, f"block {run.block}: {run_words(run)}")

    def run_ended(self, run: Run, outcome: RunOutcome, forecast: Forecast) -> None:
        """Move the bar; state so where a run failed or was skipped."""
        if outcome.status != "done":
            self._console.print(Text(f"{outcome.status}: {run_words(run)}: {outcome.reason}"))
        self._update(forecast, "")

    def ended(self) -> None:
        """Take the bar away."""
        self._bar.stop()

    def _update(self, forecast: Forecast, what: str) -> None:
        if self._task is not None:
            self._bar.update(
                self._task,
                completed=forecast.finished,
                total=forecast.total,
                description=f"{forecast.finished}/{forecast.total} {what}".rstrip(),
                bar=bar(forecast.finished, forecast.total),
                left=duration(forecast.left_s),
            )
            self._bar.refresh()


class PlainProgress:
    """Lines of the log, for a pipe or a file."""

    def started(self, forecast: Forecast) -> None:
        """Log how much there is to do."""
        left = forecast.total - forecast.finished
        _LOG.debug("%d of %d runs to make, about %s", left, forecast.total, duration(forecast.left_s))

    def run_started(self, run: Run, forecast: Forecast) -> None:
        """Log nothing: the line comes when the run has ended."""

    def run_ended(self, run: Run, outcome: RunOutcome, forecast: Forecast) -> None:
        """Log how the run ended."""
        why = "" if outcome.reason is None else f": {outcome.reason}"
        how = f"{outcome.status} in {outcome.elapsed_s:.1f} s: {run_words(run)}{why}"
        _LOG.debug("%d/%d %s (%s left)", forecast.finished, forecast.total, how, duration(forecast.left_s))

    def ended(self) -> None:
        """Log nothing."""
