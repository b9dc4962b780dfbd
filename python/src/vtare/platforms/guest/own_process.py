"""Guests that are each one process of the lab's own: what is the same for user-mode Linux and for monitors.

A platform of this kind states how the process is started (`_boot`) and how its control channel is opened.
"""

from __future__ import annotations

import shutil
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Layer
from vtare.platforms.binary import digest
from vtare.platforms.guest import taps
from vtare.platforms.guest.cards import GuestAttachment, Network
from vtare.platforms.guest.instance import MEBIBYTE, READY_S, GuestInstance, settled_facts, start_in_turn
from vtare.platforms.guest.machine import RunningGuest, how, tail

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.platforms.child import ProcessChild
    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Resources

USUAL_MEMORY: Final = 128 * MEBIBYTE


class OwnGuest(RunningGuest):
    """A guest in a process of the lab's own: a subclass starts it as `_process`, its output in the file `_log`."""

    #: What the process is called in messages.
    PROGRAM: ClassVar[str]
    _process: ProcessChild

    def __init__(self, name: str, directory: Path, place: Network | None) -> None:
        """Take over a guest that is about to be started in its directory, which exists."""
        super().__init__(name, directory, place)
        self._log = directory / "log"

    @property
    def process(self) -> ProcessChild:
        """The process that ends with the guest."""
        return self._process

    def ended(self) -> str | None:
        """See `RunningGuest.ended`."""
        code = self._process.returncode
        return None if code is None else f"{self.PROGRAM} ended with {how(code)}"

    def end(self) -> None:
        """End the guest and remove its files. May be called twice."""
        self._process.kill()
        if self._agent is not None:
            self._agent.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def last_words(self) -> str:
        """How the process ended, and what it reported last."""
        self._process.wait(0.5)
        return "; ".join(part for part in (self.ended() or f"{self.PROGRAM} still runs", tail(self._log)) if part)


_Guest = TypeVar("_Guest", bound=OwnGuest)


class OwnGuestPlatform(BasePlatform[GuestInstance[_Guest]]):
    """Guests of one such kind, booted four at a time."""

    LAYER = Layer.MACHINE
    BOOTS = True
    #: They start few commands only: their own tests.
    TRIED_WITH_ALL = False
    #: The model of their network card, and how long they may take to be ready, s.
    CARD: ClassVar[str] = "virtio"
    READY_S: ClassVar[float] = READY_S

    def _make(self, index: int, site: Site | None, resources: Resources) -> GuestInstance[_Guest]:
        return self._make_all(range(index, index + 1), site, resources)[0]

    def _make_all(self, indices: range, site: Site | None, resources: Resources) -> Sequence[GuestInstance[_Guest]]:
        attachments = [
            GuestAttachment(f"{self._owner}-{index}")
            if site is None
            else GuestAttachment(site.instance_namespace(index), Network(site, index, self.CARD))
            for index in indices
        ]
        started = start_in_turn(
            attachments, lambda one: self._boot(one, resources), lambda guest: self._ready(guest, resources)
        )
        if site is not None:
            network.wait_forwarding([(site.namespace, site.port(index)) for index in indices])
        return started

    @abstractmethod
    def _boot(self, attachment: GuestAttachment, resources: Resources) -> _Guest:
        """Start a guest, and register what removes it. Raises GuestFailed where it cannot be started."""

    def _make_tap(self, attachment: GuestAttachment) -> None:
        """Make the tap of a guest that has a network, to be removed at the end."""
        place = attachment.network
        if place is not None:
            self._removals.callback(taps.remove_tap, place.site, place.index)
            network.carry_out(taps.tap_steps(place.site, place.index))

    def _ready(self, guest: _Guest, resources: Resources) -> GuestInstance[_Guest]:
        hello = guest.wait_ready(self.READY_S)
        inside = settled_facts(guest.agent, guest.name, None)
        facts: dict[str, Any] = {
            **self._about(resources),
            "memory_byte": resources.memory_byte or USUAL_MEMORY,
            "nic": None if guest.network is None else guest.network.nic,
            "kernel": inside.get("kernel"),
            "clock_source": inside.get("clock_source"),
            "agent": hello.get("version"),
            "binary_sha256": digest(self._binary),
        }
        return self._instance(guest, facts)

    @abstractmethod
    def _about(self, resources: Resources) -> dict[str, Any]:
        """Facts of this kind of guest."""

    def _instance(self, guest: _Guest, facts: dict[str, Any]) -> GuestInstance[_Guest]:
        return GuestInstance(guest, facts)
