"""How far a campaign is: the state of each run in one word, read without the libraries that read Parquet."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vtare import __version__
from vtare.campaign.journal import Entry, Journal, Stopped, not_needed
from vtare.campaign.store import read_plan_text, read_store
from vtare.design import plan_hash, read_head, runs_of
from vtare.plan.files import parse_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Set
    from pathlib import Path

    from vtare.design import Run
    from vtare.plan.model import Plan

STATUSES: Final = ("done", "failed", "skipped", "pending", "not_needed")


@dataclass(frozen=True, slots=True)
class State:
    """A campaign's plan, its runs by block, and what its journal holds of them."""

    plan: Plan
    runs: tuple[Run, ...]
    seed: int
    entries: dict[str, Entry]
    stopped: Stopped | None

    def word(self, run: Run) -> str:
        """One word of STATUSES for a run."""
        return run_status(run, self.entries, self.stopped)

    @property
    def listed(self) -> str:
        """How many runs have each word: `70 done, 2 failed`."""
        words = Counter(map(self.word, self.runs))
        return ", ".join(f"{words[word]} {word.replace('_', ' ')}" for word in STATUSES if words[word])


def read_state(store: Path) -> State:
    """Return a campaign's progress, without locking its store.

    Raises:
        BadInput: the path is no store, its parts do not belong together, or the journal is damaged.
    """
    text = read_plan_text(store)
    with Journal(store / "journal.sqlite", read_only=True) as journal:
        entries, stopped = journal.entries(), journal.stopped()
    plan, runs, seed = _of_plan(store, text, entries.keys()) or read_store(store)
    return State(plan, runs, seed, entries, stopped)


def _of_plan(store: Path, text: str, made: Set[str]) -> tuple[Plan, tuple[Run, ...], int] | None:
    """The runs as the plan states them, those of a block in its order; None where another design was made of it.

    Reading the design itself takes longer than all else. It is as the plan states where this version wrote it, of this
    plan, with as many runs, and where those that were made are among them.
    """
    head = read_head(store / "design.parquet")
    if head is None or (head.program, head.plan_sha256) != (__version__, plan_hash(text)):
        return None
    plan = parse_plan(text, source=store / "plan.toml")
    runs = runs_of(plan)
    same = len(runs) == head.rows and made <= {run.run_id for run in runs}
    return (plan, runs, head.seed) if same else None


def run_status(run: Run, entries: Mapping[str, Entry], stopped: Stopped | None) -> str:
    """One word of STATUSES for a run."""
    if run.run_id in entries:
        return str(entries[run.run_id].status)
    return "not_needed" if not_needed(run, entries, stopped) else "pending"
