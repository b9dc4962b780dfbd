"""Who works in a `throughput` run: the tester's ports, the guests between them, and where the load runs.

The room (`vtare.forwarders`) is made when a run first needs it and kept for the runs after it that want the same one.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from vtare.campaign.children import Helper, RunFailed, blame_helpers
from vtare.campaign.room import require_room
from vtare.errors import MachineCannot
from vtare.forwarders import (
    RX_PORT,
    TX_PORT,
    ContainerGuests,
    ForwardingRoom,
    Guests,
    NamespaceGuests,
    QemuGuests,
)
from vtare.guests import resources_of
from vtare.plan import DEFAULT_GUESTS
from vtare.platforms import DEFAULT_RESOURCES, PlatformFailed, Resources, remove_leftovers
from vtare.platforms.docker import DockerPlatform
from vtare.platforms.host import HostInstance
from vtare.platforms.lxc import LxcPlatform
from vtare.platforms.netns import NetnsInstance
from vtare.platforms.qemu import QemuPlatform

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vtare.campaign.files import Files
    from vtare.campaign.stop import StopRequest
    from vtare.design import Run
    from vtare.plan import Experiment
    from vtare.platforms import Instance
    from vtare.platforms.protocol import Settings

_DEFAULT_FRAMES: Final = (1518,)


def guests_of(
    platform: str,
    binary: Path,
    owner: str,
    *,
    resources: Resources = DEFAULT_RESOURCES,
    settings: Settings | None = None,
) -> Guests | None:
    """The guests that a platform's level stands for; None where this version cannot have it forward.

    `settings` are those of the plan's table `[platforms.NAME]`, whose `kind` is the kind where the name is not one.

    Raises:
        BadInput: the settings cannot be used.
    """
    given = dict(settings or {})
    match str(given.pop("kind", platform)):
        case "netns":
            return NamespaceGuests(resources)
        case "docker":
            return ContainerGuests(DockerPlatform(binary, owner, given), resources)
        case "lxc":
            return ContainerGuests(LxcPlatform(binary, owner, given), resources)
        case "qemu":
            return QemuGuests(QemuPlatform(binary, owner, given), resources)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Place:
    """The room of a run: what the guests are, how many, what joins them, the largest frame, the CPUs of either part.

    `cpu` takes frames to the guests, `tester_cpu` is the tester's.
    """

    platform: str = "netns"
    guests: int = DEFAULT_GUESTS
    switch: str | None = None
    frame_byte: int = max(_DEFAULT_FRAMES)
    cpu: int | None = None
    tester_cpu: int | None = None
    resources: Resources = DEFAULT_RESOURCES

    @classmethod
    def of(cls, run: Run, experiment: Experiment) -> Self:
        """Read the room from a run's factors and parameters."""
        values = {factor: experiment.factor(factor).level(label).value for factor, label in run.factors.items()}
        tester_cpu = run.parameters.get("cpu")
        return cls(
            platform=values.get("platform", "netns"),
            guests=values.get("guests", DEFAULT_GUESTS),
            switch=values.get("switch"),
            frame_byte=max(run.parameters.get("frame_byte") or _DEFAULT_FRAMES),
            cpu=values.get("guest_cpu", _other_cpu(tester_cpu)),
            tester_cpu=tester_cpu,
            resources=resources_of(values),
        )


def _other_cpu(cpu: int | None) -> int | None:
    """A CPU other than the tester's; None where the tester has none of its own, or there is no other."""
    others = sorted(os.sched_getaffinity(0) - {cpu})
    return None if cpu is None or not others else others[-1]


class Rooms:
    """The room of one campaign, made when first needed and removed at its end."""

    def __init__(self, binary: Path, owner: str, settings: Mapping[str, Settings] | None = None) -> None:
        """Prepare; nothing is made yet. `owner` begins every name; `settings` are the plan's of each platform."""
        self._binary = binary
        self._owner = owner
        self._settings = settings or {}
        self._place: Place | None = None
        self._room: ForwardingRoom | None = None

    def missing(self, place: Place) -> str | None:
        """Why this machine cannot make such a room, or None where it can."""
        kind = self._kind(place)
        if kind is None:
            return f"platform {place.platform}: this version of vtare cannot have it forward yet"
        reason = self._plan(place, kind).missing()
        return None if reason is None else f"guests that forward: {reason}"

    @contextmanager
    def crew(self, place: Place) -> Iterator[GuestCrew]:
        """Have the room ready for one run.

        Raises:
            MachineCannot: there are no such guests, or no room for so many.
            NetworkError, PlatformFailed: the room could not be made.
        """
        yield GuestCrew(self._binary, self._room_for(place), place)

    def clear(self) -> None:
        """Remove the room. May be called twice."""
        room, self._room, self._place = self._room, None, None
        if room is not None:
            room.remove()

    def _room_for(self, place: Place) -> ForwardingRoom:
        if self._room is not None and self._place == place:
            return self._room
        self.clear()
        kind = self._kind(place)
        if kind is None:
            raise MachineCannot(f"platform {place.platform} cannot forward")
        # What a killed campaign left may still take frames.
        remove_leftovers(elsewhere=False)
        require_room(f"{place.guests} guests of {place.platform} that forward", kind.need() * place.guests)
        room = self._plan(place, kind)
        room.make()
        self._room, self._place = room, place
        return room

    def _kind(self, place: Place) -> Guests | None:
        settings = self._settings.get(place.platform)
        return guests_of(place.platform, self._binary, self._owner, resources=place.resources, settings=settings)

    def _plan(self, place: Place, kind: Guests) -> ForwardingRoom:
        return ForwardingRoom(
            self._owner,
            place.guests,
            kind=kind,
            switch=place.switch,
            frame_byte=place.frame_byte,
            cpu=place.cpu,
            tester_cpu=place.tester_cpu,
        )


class GuestCrew:
    """What one run has beside the measurement: the room; a load runs on the host of the guests."""

    def __init__(self, binary: Path, room: ForwardingRoom, place: Place) -> None:
        """Work in this room, which is made."""
        self._room = room
        self._place = place
        self._tester = NetnsInstance(binary, room.tester, None, 0)
        self._host = HostInstance(binary)
        self._gone: str | None = None

    @property
    def sender(self) -> Instance:
        """The instance that measures: both ports are its own."""
        return self._tester

    @property
    def loaded(self) -> Instance:
        """The instance in which the load runs."""
        return self._host

    def parameters(self, planned: Mapping[str, Any], directory: Path) -> dict[str, Any]:
        """What the plan says, with the ports and flows that the lab provides, and the processes that forward."""
        device = {"device_pid": self._room.processes} if self._room.processes else {}
        return {**planned, "tx_port": TX_PORT, "rx_port": RX_PORT, "flow": self._room.flows, **device}

    @contextmanager
    def at_work(self, directory: Path, files: Files, stop: StopRequest) -> Iterator[tuple[Helper, ...]]:
        """Write down what stands between the ports. Where guests are processes, the run ends with the first of them.

        Raises:
            RunFailed: a guest has ended.
        """
        facts = {**self._room.facts(), "resources": asdict(self._place.resources)}
        files.write(directory / "topology.json", json.dumps(facts, indent=2).encode())
        helpers = tuple(Helper(*watched) for watched in self._room.kind.watched())
        blame_helpers(helpers)
        yield helpers

    def check(self, directory: Path) -> None:
        """See that every guest has lived to the end of the run: one that hangs forwards nothing, and says nothing.

        Raises:
            RunFailed: one has not.
        """
        reason = self.gone()
        if reason is not None:
            raise RunFailed(reason)

    def gone(self) -> str | None:
        """Which guest died or hangs, in words; None where all live."""
        # Asked once: a guest that hangs is waited for.
        if self._gone is None:
            try:
                self._room.kind.check()
            except PlatformFailed as error:
                self._gone = str(error)
        return self._gone


__all__ = ["GuestCrew", "Place", "Rooms"]
