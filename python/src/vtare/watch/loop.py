"""The process that waits between rounds: it sleeps until the next is due, and loads nothing that it does not need."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from vtare.errors import CampaignStopped, Interrupted, VtareError
from vtare.platforms.child import start_child, wait_readable
from vtare.sentences import watch as wording
from vtare.series.model import magnitude
from vtare.series.sentences import standstill

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.campaign.stop import StopRequest

_LOG = logging.getLogger(__name__)
#: The end of a round's process, and a busy machine, take less.
_STALLED_S: Final = 2.0


class Clock(Protocol):
    """Time for the loop, in s, that goes on while the machine is suspended; and the wait for it."""

    def now_s(self) -> float:
        """The time."""

    def wait_until(self, due_s: float) -> bool:
        """Sleep until then; True where a stop was requested."""


class SystemClock:
    """The machine's own time. It wakes for a stop request and for the deadline, never in between."""

    def __init__(self, stop: StopRequest) -> None:
        """Watch a stop request."""
        self._stop = stop

    def now_s(self) -> float:
        """See `Clock`."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wait_until(self, due_s: float) -> bool:
        """See `Clock`. After a suspension it wakes late by no more than what was left before it."""
        while not self._stop.requested and (left_s := due_s - self.now_s()) > 0:
            wait_readable([self._stop.fd], time.monotonic() + left_s)
        return self._stop.requested


@dataclass(slots=True)
class RoundCount:
    """Rounds of this session, and alerts."""

    measured: int = 0
    failed: int = 0
    alerts: int = 0


class Observer(Protocol):
    """What is shown of rounds as they end (`vtare.watch.metrics`)."""

    def measured(self, document: dict[str, Any], alerts: list[dict[str, Any]]) -> None:
        """A round is done."""

    def failed(self) -> None:
        """A round could not be made."""


def watch(
    measure: Callable[[], dict[str, Any]],
    clock: Clock,
    *,
    every_s: float,
    first_s: float = 0.0,
    rounds: int | None = None,
    margin: float = 0.05,
    observer: Observer | None = None,
    send: Callable[[list[dict[str, Any]]], None] | None = None,
) -> RoundCount:
    """Measure a round every `every_s` s, the first in `first_s` s, until `rounds` are over; return how they ended.

    A round that fails is reported and costs itself alone. One that takes longer than `every_s` is followed by the next
    that is due; none is made up for. Changes of at least `margin` (a share) are alerts: logged, and given to `send`,
    which is called after each round and must not block.

    Raises:
        Interrupted: a stop was requested.
    """
    tally = RoundCount()
    bounds: set[str] = set()
    due_s = clock.now_s() + first_s
    while rounds is None or tally.measured + tally.failed < rounds:
        if clock.wait_until(due_s):
            raise Interrupted(f"interrupted after {tally.measured} rounds; all are kept")
        _name_standstill(due_s, clock.now_s(), wording.LATE_ROUND)
        alerts: list[dict[str, Any]] = []
        try:
            document = measure()
        except Interrupted:
            raise
        except (VtareError, OSError) as error:
            tally.failed += 1
            _LOG.warning(f"round skipped: {error}")
            if observer is not None:
                observer.failed()
        else:
            tally.measured += 1
            for one in document.get("standstills", ()):
                _LOG.warning(f"round {document['number']}: {one['text']}")
            _name_standstill(document.get("ended_boot_s"), clock.now_s(), wording.AFTER_ROUND)
            alerts = [one for one in document["changes"] if magnitude(one["before"], one["after"]) >= margin]
            tally.alerts += len(alerts)
            for alert in alerts:
                _LOG.warning(f"alert: {alert['text']}")
            # Once each: what is not followed can show no change.
            for bound in document["bounds"]:
                if bound not in bounds:
                    _LOG.warning(f"not followed, known only as a bound: {bound}; raise the limit that its runs end at")
            bounds |= {*document["bounds"]}
            if observer is not None:
                observer.measured(document, alerts)
        if send is not None:
            send(alerts)
        due_s += every_s * max(1.0, (clock.now_s() - due_s) // every_s + 1.0)
    return tally


def _name_standstill(from_s: float | None, now_s: float, why: str) -> None:
    """Name a time in which this process did not go on although it had nothing to wait for."""
    if from_s is not None and now_s - from_s >= _STALLED_S:
        _LOG.warning(standstill(wording.THIS_WATCH, time.time() - (now_s - from_s), now_s - from_s, why))


def round_process(store: Path, binary: Path, stop: StopRequest) -> dict[str, Any]:
    """Make a round as a process of its own and return its document.

    Raises:
        Interrupted: a stop was requested.
        CampaignStopped: it could not be made.
    """
    # Its output is kept in memory: the disk may be full.
    files = [os.memfd_create(f"vtare-{name}", os.MFD_CLOEXEC) for name in ("out", "err")]
    try:
        places = [Path(f"/proc/{os.getpid()}/fd/{one}") for one in files]
        words = [sys.executable, "-m", "vtare.watch.round", str(store), str(binary)]
        child = start_child(words, directory=store, stdout=places[0], stderr=places[1])
        code = child.wait(None, stop_fd=stop.fd)
        if code is None or stop.requested:
            child.terminate()
            raise Interrupted("interrupted; the running round was dropped, all finished ones are kept")
        out, err = (place.read_text(encoding="utf-8", errors="replace").strip() for place in places)
        if code != 0:
            raise CampaignStopped(err.splitlines()[-1] if err else f"the round ended with exit code {code}")
        for line in err.splitlines():
            _LOG.info(line)
        document: dict[str, Any] = json.loads(out)
        return document
    finally:
        for one in files:
            os.close(one)
