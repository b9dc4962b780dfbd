"""Who works in a `throughput` run: the tester's ports, the guests between them, and where the load runs.

The room (`vtare.forwarders`) is made when a run first needs it and kept for the runs after it that want the same one.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from vtare.errors import MachineCannot
from vtare.forwarders import RX_PORT, TX_PORT, ContainerGuests, ForwardingRoom, Guests, NamespaceGuests
from vtare.plan import DEFAULT_GUESTS
from vtare.platforms import remove_leftovers
from vtare.platforms.docker import DockerPlatform
from vtare.platforms.host import HostInstance
from vtare.platforms.lxc import LxcPlatform
from vtare.platforms.netns import NetnsInstance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vtare.campaign.children import Helper
    from vtare.campaign.files import Files
    from vtare.campaign.stop import StopRequest
    from vtare.design import Run
    from vtare.plan import Experiment
    from vtare.platforms import Instance

_DEFAULT_FRAMES: Final = (1518,)


def guests_of(platform: str, binary: Path, owner: str) -> Guests | None:
    """The guests that a platform's level stands for; None where this version cannot have it forward."""
    match platform:
        case "netns":
            return NamespaceGuests()
        case "docker":
            return ContainerGuests(DockerPlatform(binary, owner))
        case "lxc":
            return ContainerGuests(LxcPlatform(binary, owner))
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Place:
    """The room of a run: what the guests are, how many, what joins them, the largest frame, the CPU that takes it."""

    platform: str = "netns"
    guests: int = DEFAULT_GUESTS
    switch: str | None = None
    frame_byte: int = max(_DEFAULT_FRAMES)
    cpu: int | None = None

    @classmethod
    def of(cls, run: Run, experiment: Experiment) -> Self:
        """Read the room from a run's factors and parameters."""

        def value(factor: str, default: Any) -> Any:
            label = run.factors.get(factor)
            return default if label is None else experiment.factor(factor).level(label).value

        return cls(
            platform=value("platform", "netns"),
            guests=value("guests", DEFAULT_GUESTS),
            switch=value("switch", None),
            frame_byte=max(run.parameters.get("frame_byte") or _DEFAULT_FRAMES),
            cpu=value("guest_cpu", _other_cpu(run.parameters.get("cpu"))),
        )


def _other_cpu(cpu: int | None) -> int | None:
    """A CPU other than the tester's; None where the tester has none of its own, or there is no other."""
    others = sorted(os.sched_getaffinity(0) - {cpu})
    return None if cpu is None or not others else others[-1]


class Rooms:
    """The room of one campaign, made when first needed and removed at its end."""

    def __init__(self, binary: Path, owner: str) -> None:
        """Prepare; nothing is made yet. `owner` begins the name of everything that is made."""
        self._binary = binary
        self._owner = owner
        self._place: Place | None = None
        self._room: ForwardingRoom | None = None

    def missing(self, place: Place) -> str | None:
        """Why this machine cannot make such a room, or None where it can."""
        kind = guests_of(place.platform, self._binary, self._owner)
        if kind is None:
            return f"platform {place.platform}: this version of vtare cannot have it forward yet"
        reason = self._plan(place, kind).missing()
        return None if reason is None else f"guests that forward: {reason}"

    @contextmanager
    def crew(self, place: Place) -> Iterator[GuestCrew]:
        """Have the room ready for one run.

        Raises:
            MachineCannot: there are no such guests.
            NetworkError: the room could not be made.
        """
        yield GuestCrew(self._binary, self._room_for(place))

    def clear(self) -> None:
        """Remove the room. May be called twice."""
        room, self._room, self._place = self._room, None, None
        if room is not None:
            room.remove()

    def _room_for(self, place: Place) -> ForwardingRoom:
        if self._room is not None and self._place == place:
            return self._room
        self.clear()
        kind = guests_of(place.platform, self._binary, self._owner)
        if kind is None:
            raise MachineCannot(f"platform {place.platform} cannot forward")
        # What a killed campaign left may still take frames.
        remove_leftovers()
        room = self._plan(place, kind)
        room.make()
        self._room, self._place = room, place
        return room

    def _plan(self, place: Place, kind: Guests) -> ForwardingRoom:
        return ForwardingRoom(
            self._owner, place.guests, kind=kind, switch=place.switch, frame_byte=place.frame_byte, cpu=place.cpu
        )


class GuestCrew:
    """What one run has beside the measurement: the room; a load runs on the host of the guests."""

    def __init__(self, binary: Path, room: ForwardingRoom) -> None:
        """Work in this room, which is made."""
        self._room = room
        self._tester = NetnsInstance(binary, room.tester, None, 0)
        self._host = HostInstance(binary)

    @property
    def sender(self) -> Instance:
        """The instance that measures: both ports are its own."""
        return self._tester

    @property
    def loaded(self) -> Instance:
        """The instance in which the load runs."""
        return self._host

    def parameters(self, planned: Mapping[str, Any], directory: Path) -> dict[str, Any]:
        """What the plan says, with the ports and flows that the lab provides."""
        return {**planned, "tx_port": TX_PORT, "rx_port": RX_PORT, "flow": self._room.flows}

    @contextmanager
    def at_work(self, directory: Path, files: Files, stop: StopRequest) -> Iterator[tuple[Helper, ...]]:
        """Write down what stands between the ports; nothing has to be started for a run."""
        files.write(directory / "topology.json", json.dumps(self._room.facts(), indent=2).encode())
        yield ()

    def check(self, directory: Path) -> None:
        """Nothing is left by a run but its samples."""


__all__ = ["GuestCrew", "Place", "Rooms"]
