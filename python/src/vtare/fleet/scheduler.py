"""Which run gets which hosts, and when: a state machine without I/O or clock. Events in, decisions out.

All hosts of a run are taken together or none is, and a host has one run at a time. Runs of one block are started in the
design's order; one whose hosts are busy does not delay those behind it. A host is used once it has answered a probe:
one that was lost is probed again and again, and a run that it had is tried once more in its block, then given up.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: A lost host is probed again after this time.
PROBE_AGAIN_S: Final = 30.0
#: Runs wait so long for a host that does not answer; then those that no other host can have are given up.
PATIENCE_S: Final = 120.0
#: How often a run is started whose hosts are lost: once, and once more.
MOST_ATTEMPTS: Final = 2

#: The roles of a run, each with the hosts that can have it.
Needs = tuple[tuple[str, frozenset[str]], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One run that is to be made: what it needs, and the longest that it may hold its hosts."""

    run_id: str
    needs: Needs
    longest_s: float


@dataclass(frozen=True, slots=True)
class Queued:
    """Event: these runs are to be made now, in this order."""

    requests: Sequence[Request]


@dataclass(frozen=True, slots=True)
class Ended:
    """Event: a run has ended by itself, done or not; its hosts are free."""

    run_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Event: a run has ended because hosts of it, or the way to them, were lost. The other hosts of it are free."""

    run_id: str
    attempt: int
    hosts: frozenset[str]


@dataclass(frozen=True, slots=True)
class HostAnswered:
    """Event: a probed host answers, and nothing of an earlier run is left on it."""

    host: str


@dataclass(frozen=True, slots=True)
class Silent:
    """Event: a probed host does not answer, with the reason; `held`: it does, but another campaign has it."""

    host: str
    reason: str
    held: bool = False


@dataclass(frozen=True, slots=True)
class Passed:
    """Event: time has passed, to the scheduler's `deadline_s`."""


Event = Queued | Ended | Lost | HostAnswered | Silent | Passed


@dataclass(frozen=True, slots=True)
class Start:
    """Decision: start this run on these hosts, by role. They are its own until `until_s`."""

    run_id: str
    attempt: int
    hosts: Mapping[str, str]
    until_s: float

    @property
    def held(self) -> tuple[str, ...]:
        """The hosts that it has, in the order in which they are taken."""
        return tuple(sorted(self.hosts.values()))


@dataclass(frozen=True, slots=True)
class Abandon:
    """Decision: nothing came of this attempt in time; its `hosts` are lost, what it still brings does not count."""

    run_id: str
    attempt: int
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Decision: this run is not made now. `tried`: its hosts were lost each time; else no host can have it."""

    run_id: str
    reason: str
    tried: bool


@dataclass(frozen=True, slots=True)
class Probe:
    """Decision: ask this host whether it answers, at `at_s` or later."""

    host: str
    at_s: float


Decision = Start | Abandon | GiveUp | Probe


@dataclass(slots=True)
class _Waiting:
    request: Request
    position: int
    attempts: int = 0
    lost: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Host:
    """`run_id` is that of the run that has it; `silent_since_s` is None while it answers."""

    silent_since_s: float | None
    run_id: str | None = None
    reason: str = "it has not answered yet"
    held: bool = False

    @property
    def patience_until_s(self) -> float | None:
        """Until when runs wait for it; None where it answers, or another campaign has it."""
        return None if self.silent_since_s is None or self.held else self.silent_since_s + PATIENCE_S


class Scheduler:
    """The state of a fleet. `seed` decides which of several free hosts a run gets."""

    def __init__(self, hosts: Iterable[str], seed: int) -> None:
        """Know these hosts; none is used before it has answered. `begin` states the probes that are to be made."""
        self._hosts = {host: _Host(0.0) for host in sorted(hosts)}
        self._seed = seed
        #: Waiting runs by what they need: of those that need the same, only the first can be the next.
        self._queues: dict[Needs, deque[_Waiting]] = {}
        self._running: dict[str, tuple[_Waiting, Start]] = {}
        self._positions = 0
        self._now_s = 0.0
        self._dropping = False

    def begin(self, now_s: float) -> list[Decision]:
        """The first decisions: every host is probed."""
        self._now_s = now_s
        for host in self._hosts.values():
            host.silent_since_s = now_s
        return [Probe(name, now_s) for name in self._hosts]

    @property
    def busy(self) -> bool:
        """Whether any run is waiting or running."""
        return bool(self._running or self._queues)

    @property
    def deadline_s(self) -> float | None:
        """When to report `Passed`: a run has had its hosts for too long, or a host was silent for too long."""
        leases = [start.until_s for _, start in self._running.values()]
        silent = [
            until_s
            for host in (self._hosts.values() if self._queues else ())
            if (until_s := host.patience_until_s) is not None and until_s > self._now_s
        ]
        return min((*leases, *silent), default=None)

    def lease(self, run_id: str, attempt: int) -> Start | None:
        """What a running attempt has; None where it has ended, or was abandoned."""
        running = self._running.get(run_id)
        return running[1] if running is not None and running[1].attempt == attempt else None

    def drop_waiting(self) -> None:
        """Start no further run: a stop was requested."""
        self._queues.clear()
        self._dropping = True

    def handle(self, event: Event, now_s: float) -> list[Decision]:
        """Take in what happened at `now_s`, and decide. What an abandoned attempt reports changes nothing."""
        self._now_s = now_s
        decisions: list[Decision] = []
        match event:
            case Queued(requests):
                for request in requests:
                    self._positions += 1
                    self._wait(_Waiting(request, self._positions))
            case Ended(run_id, attempt):
                if self.lease(run_id, attempt) is not None:
                    self._release(run_id)
            case Lost(run_id, attempt, hosts):
                if self.lease(run_id, attempt) is not None:
                    decisions += self._lose(run_id, hosts, now_s)
            case HostAnswered(name):
                self._hosts[name].silent_since_s = None
                self._hosts[name].held = False
            case Silent(name, reason, held):
                host = self._hosts[name]
                if host.held and not held:
                    host.silent_since_s = now_s
                host.reason, host.held = reason, held
                decisions.append(Probe(name, now_s + PROBE_AGAIN_S))
            case Passed():
                for run_id, (_, start) in list(self._running.items()):
                    if start.until_s <= now_s:
                        decisions.append(Abandon(run_id, start.attempt, start.held))
                        decisions += self._lose(run_id, frozenset(start.held), now_s)
        return decisions + self._starts(now_s) + self._hopeless(now_s)

    def _wait(self, waiting: _Waiting) -> None:
        if self._dropping:
            return
        queue = self._queues.setdefault(waiting.request.needs, deque())
        if queue and queue[0].position > waiting.position:
            queue.appendleft(waiting)
        else:
            queue.append(waiting)

    def _release(self, run_id: str) -> _Waiting:
        waiting, start = self._running.pop(run_id)
        for name in start.held:
            self._hosts[name].run_id = None
        return waiting

    def _lose(self, run_id: str, hosts: frozenset[str], now_s: float) -> list[Decision]:
        """End an attempt whose hosts were lost: probe them, and try the run again or give it up."""
        waiting = self._release(run_id)
        decisions: list[Decision] = []
        for name in sorted(hosts):
            self._hosts[name].silent_since_s = now_s
            self._hosts[name].reason = "it was lost in a run"
            decisions.append(Probe(name, now_s))
        waiting.lost += [" and ".join(sorted(hosts))]
        if waiting.attempts < MOST_ATTEMPTS:
            self._wait(waiting)
        else:
            reason = f"hosts were lost in {waiting.attempts} attempts: {', then '.join(waiting.lost)}"
            decisions.append(GiveUp(run_id, reason, tried=True))
        return decisions

    def _starts(self, now_s: float) -> list[Decision]:
        """Start each run that can be, in the order of the design."""
        free = {name for name, host in self._hosts.items() if host.silent_since_s is None and host.run_id is None}
        heads = [(queue[0].position, needs) for needs, queue in self._queues.items()] if free else []
        heapq.heapify(heads)
        decisions: list[Decision] = []
        while heads and free:
            _, needs = heapq.heappop(heads)
            queue = self._queues[needs]
            hosts = self._assigned(queue[0], free)
            if hosts is None:
                continue
            waiting = queue.popleft()
            waiting.attempts += 1
            request = waiting.request
            start = Start(request.run_id, waiting.attempts, hosts, now_s + request.longest_s)
            self._running[request.run_id] = (waiting, start)
            for name in start.held:
                self._hosts[name].run_id = request.run_id
            free.difference_update(start.held)
            decisions.append(start)
            if queue:
                heapq.heappush(heads, (queue[0].position, needs))
            else:
                del self._queues[needs]
        return decisions

    def _assigned(self, waiting: _Waiting, free: set[str]) -> dict[str, str] | None:
        """A host for each role out of those that are free; None where there is none for one of them.

        Which of several is drawn by a hash of seed, run, attempt and host: no cell of a plan prefers a host.
        """

        def drawn(name: str) -> bytes:
            text = f"{self._seed}:{waiting.request.run_id}:{waiting.attempts}:{name}"
            return hashlib.sha256(text.encode()).digest()

        ranked = [(role, sorted(allowed & free, key=drawn)) for role, allowed in waiting.request.needs]
        return assigned(ranked)

    def _hopeless(self, now_s: float) -> list[Decision]:
        """Give up the waiting runs that no host can have which answers, or may still do so."""
        hoped = {
            name for name, host in self._hosts.items() if (until_s := host.patience_until_s) is None or now_s < until_s
        }
        if len(hoped) == len(self._hosts):
            return []
        decisions: list[Decision] = []
        for needs in list(self._queues):
            if assigned([(role, sorted(allowed & hoped)) for role, allowed in needs]) is None:
                gone = sorted(name for name in frozenset().union(*(allowed for _, allowed in needs)) - hoped)
                reasons = "; ".join(f"{name}: {self._hosts[name].reason}" for name in gone)
                reason = f"too few hosts answer that can be {', '.join(role for role, _ in needs)} ({reasons})"
                queue = self._queues.pop(needs)
                decisions += [GiveUp(waiting.request.run_id, reason, tried=False) for waiting in queue]
        return decisions


def assigned(ranked: Sequence[tuple[str, Sequence[str]]], taken: frozenset[str] = frozenset()) -> dict[str, str] | None:
    """A host of its own for each role, the first choices first; None where that cannot be."""
    if not ranked:
        return {}
    (role, choices), *others = ranked
    for name in choices:
        if name not in taken:
            rest = assigned(others, taken | {name})
            if rest is not None:
                return {role: name, **rest}
    return None
