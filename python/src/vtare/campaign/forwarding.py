"""A run through guests that forward: the tester's ports, the guests between them, and where the load runs.

The topology (`vtare.topology.forwarding`) is made when a run first needs it, and kept for the next that wants the same.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from vtare.campaign.capacity import require_capacity
from vtare.campaign.children import Helper, RunFailed, blame_helpers
from vtare.campaign.setup import RunSetup, Setup, close_quietly
from vtare.errors import MachineCannot, PlatformFailed
from vtare.plan.factors import DEFAULT_GUESTS
from vtare.platforms import open_platform, remove_leftovers
from vtare.platforms.host import HostInstance
from vtare.platforms.netns import NetnsInstance
from vtare.platforms.protocol import DEFAULT_RESOURCES, Resources
from vtare.topology.forwarding import ForwardingTopology
from vtare.topology.forwarding_guests import Guests, forwarding_guests
from vtare.topology.guest_slots import RX_PORT, TX_PORT
from vtare.topology.instance_factors import resources_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vtare.campaign.files import Files
    from vtare.campaign.stop import StopRequest
    from vtare.design import Run
    from vtare.plan.model import Experiment
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
    opened = open_platform(platform, binary=binary, owner=owner, settings=settings)
    return forwarding_guests(opened, resources)


@dataclass(frozen=True, slots=True)
class ForwardingPlacement:
    """The topology of a run: kind and number of guests, what joins them, the largest frame, the CPUs of either part.

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
        """Read the topology from a run's factors and parameters."""
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


class ForwardingSetup(Setup[ForwardingPlacement]):
    """The topology of guests of one campaign, made when first needed and removed at its end."""

    def __init__(self, binary: Path, owner: str, settings: Mapping[str, Settings] | None = None) -> None:
        """Prepare; nothing is made yet. `owner` begins every name; `settings` are the plan's of each platform."""
        self._binary = binary
        self._owner = owner
        self._settings = settings or {}
        self._placement: ForwardingPlacement | None = None
        self._topology: ForwardingTopology | None = None

    def wanted(self, run: Run, experiment: Experiment | None) -> ForwardingPlacement:
        """See `Setup.wanted`."""
        if experiment is None:
            raise ValueError("a control run is on one host")
        return ForwardingPlacement.of(run, experiment)

    def missing(self, wanted: ForwardingPlacement) -> str | None:
        """Why this machine cannot make such a topology, or None where it can."""
        kind = self._kind(wanted)
        if kind is None:
            return f"platform {wanted.platform}: this version of vtare cannot have it forward yet"
        reason = self._plan(wanted, kind).missing()
        return None if reason is None else f"guests that forward: {reason}"

    @contextmanager
    def entered(self, wanted: ForwardingPlacement, directory: Path) -> Iterator[ForwardingRun]:
        """Have the topology ready for one run. See `Setup.entered`."""
        yield ForwardingRun(self._binary, self._topology_for(wanted), wanted)

    def close(self) -> None:
        """Remove the topology. May be called twice."""
        topology, self._topology, self._placement = self._topology, None, None
        if topology is not None:
            topology.remove()

    def _topology_for(self, placement: ForwardingPlacement) -> ForwardingTopology:
        if self._topology is not None and self._placement == placement:
            return self._topology
        close_quietly(self.close)
        kind = self._kind(placement)
        if kind is None:
            raise MachineCannot(f"platform {placement.platform} cannot forward")
        # What a killed campaign left may still take frames.
        remove_leftovers(elsewhere=False)
        require_capacity(
            f"{placement.guests} guests of {placement.platform} that forward", kind.need() * placement.guests
        )
        topology = self._plan(placement, kind)
        topology.make()
        self._topology, self._placement = topology, placement
        return topology

    def _kind(self, placement: ForwardingPlacement) -> Guests | None:
        settings = self._settings.get(placement.platform)
        return guests_of(
            placement.platform, self._binary, self._owner, resources=placement.resources, settings=settings
        )

    def _plan(self, placement: ForwardingPlacement, kind: Guests) -> ForwardingTopology:
        return ForwardingTopology(
            self._owner,
            placement.guests,
            kind=kind,
            switch=placement.switch,
            frame_byte=placement.frame_byte,
            cpu=placement.cpu,
            tester_cpu=placement.tester_cpu,
        )


class ForwardingRun(RunSetup):
    """What one run has beside the measurement: the topology; a load runs on the host of the guests."""

    def __init__(self, binary: Path, topology: ForwardingTopology, placement: ForwardingPlacement) -> None:
        """Work in this topology, which is made. The tester measures: both ports are its own."""
        super().__init__(NetnsInstance(binary, topology.tester, None, 0), HostInstance(binary))
        self._topology = topology
        self._placement = placement
        self._gone: str | None = None

    def parameters(self, planned: Mapping[str, Any], directory: Path) -> dict[str, Any]:
        """What the plan states, with the ports and flows that the lab provides, and the processes that forward."""
        device = {"device_pid": self._topology.processes} if self._topology.processes else {}
        return {**planned, "tx_port": TX_PORT, "rx_port": RX_PORT, "flow": self._topology.flows, **device}

    @contextmanager
    def at_work(self, directory: Path, files: Files, stop: StopRequest) -> Iterator[tuple[Helper, ...]]:
        """Write down what stands between the ports. Where guests are processes, the run ends with the first of them.

        Raises:
            RunFailed: a guest has ended.
        """
        facts = {**self._topology.facts(), "resources": asdict(self._placement.resources)}
        files.write(directory / "topology.json", json.dumps(facts, indent=2).encode())
        helpers = tuple(Helper(*watched) for watched in self._topology.kind.watched())
        blame_helpers(helpers)
        yield helpers

    def check(self, directory: Path) -> None:
        """See that every guest has lived to the end of the run: one that hangs forwards nothing, and states nothing.

        Raises:
            RunFailed: one has not.
        """
        reason = self.cause()
        if reason is not None:
            raise RunFailed(reason)

    def cause(self) -> str | None:
        """Which guest died or hangs, in words; None where all live."""
        # Asked once: a guest that hangs is waited for.
        if self._gone is None:
            try:
                self._topology.kind.check()
            except PlatformFailed as error:
                self._gone = str(error)
        return self._gone
