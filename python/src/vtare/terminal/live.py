"""`vtare status --live`: a campaign followed from outside, by its journal alone: a read a second."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from vtare.campaign.status import STATUSES
from vtare.sentences.words import duration
from vtare.terminal.progress import bar, run_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import Console, RenderableType

    from vtare.campaign.status import State

#: Between two looks.
_EVERY_S: Final = 1.0
#: Failed and skipped runs that are shown.
_MOST_SHOWN: Final = 5


def follow(console: Console, store: Path, read: Callable[[], State]) -> None:
    """Show the state that `read` gives, again and again, until no run is pending or Ctrl-C comes."""
    from rich.live import Live

    began, first = time.monotonic(), Counter(map((state := read()).word, state.runs))["pending"]
    with Live(console=console, auto_refresh=False) as shown:
        while True:
            pending = sum(1 for run in state.runs if state.word(run) == "pending")
            made, passed = first - pending, time.monotonic() - began
            left = pending * passed / made if made else None
            shown.update(view(store, state, left), refresh=True)
            if pending == 0:
                return
            try:
                time.sleep(_EVERY_S)
                state = read()
            except KeyboardInterrupt:
                return


def view(store: Path, state: State, left_s: float | None) -> RenderableType:
    """One picture: the bar, each experiment's runs by status, and the latest runs that failed or were skipped."""
    words = {run.run_id: state.word(run) for run in state.runs}
    ended = sum(1 for word in words.values() if word != "pending")
    left = "" if left_s is None else f" {duration(left_s)} left"
    head = f"{state.plan.name} in {store} [{bar(ended, len(words))}] {100 * ended // max(len(words), 1)} %{left}"
    table = Table(box=None, pad_edge=False)
    table.add_column("experiment")
    for word in STATUSES:
        table.add_column(word.replace("_", " "), justify="right")
    for name in dict.fromkeys(run.experiment for run in state.runs):
        counts = Counter(words[run.run_id] for run in state.runs if run.experiment == name)
        table.add_row(Text(name), *(str(counts[word]) for word in STATUSES))
    wrong = [run for run in state.runs if words[run.run_id] in ("failed", "skipped")][-_MOST_SHOWN:]
    lines = [Text(f"{words[run.run_id]}: {run_words(run)}: {state.entries[run.run_id].reason}") for run in wrong]
    return Group(Text(head), table, *lines)
