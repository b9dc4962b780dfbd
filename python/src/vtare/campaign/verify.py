"""Verify a store: every file of every finished run against its checksums, the journal against the runs; and repair."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtare.campaign.condition import Conditions, conditions
from vtare.campaign.journal import Journal
from vtare.campaign.store import TEMPORARY, Store, lock_store, read_for_check
from vtare.errors import BadInput
from vtare.records.answer import Answered, answered
from vtare.sentences import campaign as wording
from vtare.stored.paths import plain_text

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.campaign.store import Tidied
    from vtare.design import Run
    from vtare.records.campaigns import VerificationDocument as Verified


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check of a store found.

    `journal` is why the journal cannot be used, None where it can. `unlisted` are whole runs that it lacks, `missing`
    runs that it alone has. `leftovers` counts what killed runs left; `strangers` are what else lies in `runs/`.
    `repaired` states that all of it has been put right: damaged runs lie in STORE/damaged and are still to be made.
    """

    store: Path
    plan: str
    total: int
    conditions: Conditions
    journal: str | None
    unlisted: tuple[str, ...]
    missing: tuple[str, ...]
    leftovers: int
    strangers: tuple[str, ...]
    repaired: bool = False

    @property
    def sound(self) -> bool:
        """Whether nothing was found that has to be put right."""
        return not (self.journal or self.unlisted or self.missing or self.leftovers or self.conditions.damaged)

    def problems(self) -> list[str]:
        """A line for everything that was found."""
        listed = [] if self.journal is None else [f"journal: {self.journal}"]
        listed += [f"damaged: runs/{run_id}: {reason}" for run_id, reason in self.conditions.damaged.items()]
        listed += [f"missing: runs/{run_id}: the journal has it as done" for run_id in self.missing]
        if self.journal is None:
            listed += [f"not in the journal: runs/{run_id}" for run_id in self.unlisted]
        if self.leftovers:
            listed.append(f"left by killed runs: {self.leftovers} in runs/")
        return listed

    def answer(self) -> Answered:
        """Whether the store is sound, and the next step."""
        text = wording.all_whole(self.total) if self.sound else wording.DAMAGED
        if self.sound and (left := self.total - len(self.conditions.whole)):
            text = wording.finished_whole(left, self.total)
        advice = [] if self.sound else [(wording.REPAIR, f"vtare verify {self.store} --repair")]
        return answered([text], "sound" if self.sound else "damaged", limits=self.problems(), advice=advice)

    def document(self) -> Verified:
        """The document `vtare.verify/1`."""
        return {
            "schema": "vtare.verify/1",
            "answer": self.answer(),
            "store": str(self.store),
            "plan": self.plan,
            "sound": self.sound,
            "repaired": self.repaired,
            "total": self.total,
            "whole": len(self.conditions.whole),
            "damaged": self.conditions.damaged,
            "not_in_journal": list(self.unlisted),
            "missing": list(self.missing),
            "leftovers": self.leftovers,
            "strangers": list(self.strangers),
            "journal": self.journal,
            "checked_byte": self.conditions.byte,
            "elapsed_s": self.conditions.elapsed_s,
        }


def verify(path: Path, *, repair: bool = False) -> Verification:
    """Check every file of a store, and put right what can be where `repair` is asked for.

    Without `repair` nothing is changed. While a campaign works in the store, its running cell is no fault.

    Raises:
        BadInput: the path is no store; plan or design are damaged or do not belong together; a file may not be read;
            with `repair`: a campaign works in the store, or it cannot be written.
    """
    return _repair(path) if repair else _check(path)


def _check(path: Path) -> Verification:
    plan, runs = read_for_check(path)
    journal, done = None, set[str]()
    try:
        with Journal(path / "journal.sqlite", read_only=True) as opened:
            opened.check()
            entries = opened.entries()
            opened.stopped()
        done = {run_id for run_id, entry in entries.items() if entry.status == "done"}
    except BadInput as error:
        journal = str(error)
    try:
        os.close(lock_store(path, to_write=False))
        busy = False
    except BadInput:
        busy = True
    checked = _conditions(path, runs)
    names = sorted(os.listdir(path / "runs"))
    known = {run.run_id for run in runs}
    # A run is published before its row is written.
    unlisted = () if busy else tuple(run_id for run_id in checked.whole if run_id not in done)
    return Verification(
        store=path,
        plan=plan.name,
        total=len(runs),
        conditions=checked,
        journal=journal,
        unlisted=unlisted,
        missing=tuple(run.run_id for run in runs if run.run_id in done and run.run_id not in checked.reasons),
        leftovers=0 if busy else sum(name.startswith(TEMPORARY) for name in names),
        strangers=tuple(plain_text(n) for n in names if not n.startswith(TEMPORARY) and n not in known),
    )


def _conditions(path: Path, runs: tuple[Run, ...]) -> Conditions:
    try:
        return conditions(path, runs)
    except OSError as error:
        raise BadInput(
            f"{error.filename or path}: cannot be read: {error.strerror or error}; give yourself read access"
        ) from error


def _repair(path: Path) -> Verification:
    before = _check(path)
    with Store.repair(path) as store:
        tidied: Tidied = store.tidy()
    return Verification(
        store=path,
        plan=before.plan,
        total=before.total,
        conditions=tidied.conditions,
        journal=before.journal,
        unlisted=tidied.adopted,
        missing=tidied.missing,
        leftovers=tidied.removed,
        strangers=before.strangers,
        repaired=True,
    )
