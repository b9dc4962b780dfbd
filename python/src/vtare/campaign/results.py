"""What becomes of a run that has ended, and of a campaign: results are kept whole or not at all."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vtare.campaign.journal import Entry, Stopped, not_needed
from vtare.errors import CampaignStopped, MachineCannot, VtareError, refusal_of
from vtare.stored.manifest import MANIFEST, manifest_of

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.campaign.execute import RunOutcome
    from vtare.campaign.journal import HostEvent
    from vtare.campaign.store import Store, Tidied
    from vtare.design import Run

_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_DISK_FULL_TEXT: Final = ("No space left on device", "Disk quota exceeded")
#: Asked after a block (its number) with all runs so far in the store: why to stop now, or None to go on.
Precise = Callable[[int], str | None]


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """How a campaign ended: runs of the whole store by status, and what this session removed and took.

    `adopted` whole runs were missing in the journal; `set_aside` damaged ones were made again.
    `stopped` states how it stopped by its plan's rule; `not_needed` runs of later blocks were then not made.
    """

    total: int
    done: int
    failed: int
    skipped: int
    removed_leftovers: int
    elapsed_s: float
    not_needed: int = 0
    stopped: Stopped | None = None
    adopted: int = 0
    set_aside: int = 0


def left(store: Store, only: frozenset[str] | None = None) -> tuple[list[Run], set[int]]:
    """The runs that are still to be made, in the design's order, and the blocks that have begun.

    With `only`, those that have one of these statuses alone.
    """
    entries, stopped = store.journal.entries(), store.journal.stopped()
    # What was skipped is tried again: what was missing may be there now, and is looked for before a run starts.
    statuses = [(run, entries[run.run_id].status if run.run_id in entries else None) for run in store.runs]
    todo = [
        run
        for run, status in statuses
        if status != "done" and (only is None or status in only) and (stopped is None or run.block <= stopped.block)
    ]
    return todo, {run.block for run, status in statuses if status is not None}


def enough(store: Store, precise: Precise | None, block: int) -> bool:
    """Whether the plan's rule states to stop after this block; kept in the journal then."""
    first = store.plan.first_look
    if first is None or precise is None or block < first:
        return False
    reason = precise(block)
    if reason is None:
        return False
    store.journal.stop(Stopped(block, reason))
    return True


def keep(store: Store, run: Run, outcome: RunOutcome, temporary: Path, events: Sequence[HostEvent] = ()) -> None:
    """Bring a run that has ended to the disk: its directory where it is done, then the journal's row with `events`.

    Raises:
        OSError: the directory cannot be written.
        CampaignStopped: there is no space left.
    """
    if outcome.status == "done":
        store.files.write(temporary / MANIFEST, manifest_of(temporary))
        store.files.sync_tree(temporary)
        store.files.publish(temporary, store.directory(run.run_id))
    elif _failed_here(outcome) and any(text in (outcome.log_tail or "") for text in _DISK_FULL_TEXT):
        # Every further run would fail the same way.
        raise OSError(errno.ENOSPC, _DISK_FULL_TEXT[0])
    store.journal.record(
        Entry(run.run_id, outcome.status, outcome.exit_code, outcome.reason, outcome.log_tail, outcome.elapsed_s),
        events,
    )


def _failed_here(outcome: RunOutcome) -> bool:
    """Whether a run failed whose program wrote to the disk of the store."""
    return outcome.status == "failed" and not outcome.away


def explained(error: OSError, store: Store, binary: Path) -> VtareError:
    """Why a campaign cannot go on, and the way out."""
    refused = refusal_of(error)
    if isinstance(refused, MachineCannot):
        return MachineCannot(f"{refused}; then `vtare resume {store.path}`")
    resume = f"`vtare resume {store.path}` goes on; finished runs are kept"
    if error.errno in _DISK_FULL:
        return CampaignStopped(f"{store.path}: the disk is full ({error.strerror}); free some space, then {resume}")
    if not binary.exists():
        return CampaignStopped(
            f"{binary}: the vtare binary is gone; bring it back or name one with --binary, then {resume}"
        )
    where = f"{error.filename}: " if error.filename else ""
    return CampaignStopped(f"{where or f'{store.path}: '}{error.strerror or error}; fix that, then {resume}")


def result_of(store: Store, found: Tidied, elapsed_s: float) -> CampaignResult:
    """How a campaign stands, after a session that took `elapsed_s`."""
    entries = store.journal.entries()
    statuses = [entries[run.run_id].status for run in store.runs if run.run_id in entries]
    stopped = store.journal.stopped()
    return CampaignResult(
        total=len(store.runs),
        done=statuses.count("done"),
        failed=statuses.count("failed"),
        skipped=statuses.count("skipped"),
        removed_leftovers=found.removed,
        elapsed_s=elapsed_s,
        not_needed=sum(not_needed(run, entries, stopped) for run in store.runs),
        stopped=stopped,
        adopted=len(found.adopted),
        set_aside=len(found.set_aside),
    )
