"""The state of each run of a campaign, in one word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.campaign.journal import not_needed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.campaign.journal import Entry, Stopped
    from vtare.design import Run

STATUSES: Final = ("done", "failed", "skipped", "pending", "not_needed")


def run_status(run: Run, entries: Mapping[str, Entry], stopped: Stopped | None) -> str:
    """One word of STATUSES for a run."""
    if run.run_id in entries:
        return str(entries[run.run_id].status)
    return "not_needed" if not_needed(run, entries, stopped) else "pending"
