"""Who had which host from when to when, from the events that a store's journal keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.campaign.journal import HostEvent
    from vtare.records.fleets import SimulatedHostDocument

#: How many overlaps are listed: one is too many already.
_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class HostUse:
    """What became of one host. Times are in s; `holder` is the run that has it at the end of the log, None where none.

    `free_s` is the time in which it answered and no run had it, `silent_s` that in which it did not answer.
    """

    host: str
    runs: int
    busy_s: float
    free_s: float
    silent_s: float
    lost: int
    holder: str | None

    def document(self) -> SimulatedHostDocument:
        """As in JSON."""
        return {
            "host": self.host,
            "runs": self.runs,
            "busy_share": self.busy_share,
            "free_share": self.free_share,
            "lost": self.lost,
        }

    @property
    def busy_share(self) -> float | None:
        """The share of the logged time in which a run had it; None where no time was logged."""
        return self._share(self.busy_s)

    @property
    def free_share(self) -> float | None:
        """The share of the logged time in which another run could have had it."""
        return self._share(self.free_s)

    def _share(self, part_s: float) -> float | None:
        total_s = self.busy_s + self.free_s + self.silent_s
        return part_s / total_s if total_s > 0.0 else None


def use_of(events: Sequence[HostEvent], until_s: float | None = None) -> tuple[HostUse, ...]:
    """How each host was used, from the first event to `until_s`, or to the last one."""
    if not events:
        return ()
    begin_s = events[0].at_s
    end_s = max(begin_s, events[-1].at_s if until_s is None else until_s)
    return tuple(
        _one(host, [event for event in events if event.host == host], begin_s, end_s)
        for host in sorted({event.host for event in events})
    )


def _one(host: str, events: Sequence[HostEvent], begin_s: float, end_s: float) -> HostUse:
    spent = {"busy": 0.0, "free": 0.0, "silent": 0.0}
    state, since_s, holder, answers = "silent", begin_s, None, False
    for event in events:
        spent[state] += event.at_s - since_s
        since_s = event.at_s
        match event.kind:
            case "taken":
                holder = event.run_id
            case "released":
                holder = None
            case "lost":
                answers = False
            case "answered":
                answers = True
        state = "busy" if holder is not None else "free" if answers else "silent"
    spent[state] += end_s - since_s
    kinds = [event.kind for event in events]
    return HostUse(
        host, kinds.count("taken"), spent["busy"], spent["free"], spent["silent"], kinds.count("lost"), holder
    )


def overlaps(events: Sequence[HostEvent]) -> list[str]:
    """Where a run took a host that another had, or gave back one that it had not, in words. Empty where all is well."""
    holders: dict[str, str] = {}
    overlapping = []
    for event in events:
        holder = holders.get(event.host)
        if event.kind == "taken":
            if holder is not None:
                overlapping.append(f"{event.host} at {event.at_s:.3f} s: run {event.run_id} took it from run {holder}")
            holders[event.host] = str(event.run_id)
        elif event.kind == "released":
            if holder != event.run_id:
                overlapping.append(
                    f"{event.host} at {event.at_s:.3f} s: run {event.run_id} gave it back, {holder} had it"
                )
            holders.pop(event.host, None)
    return overlapping[:_LISTED]
