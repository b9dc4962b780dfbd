"""A run on one host: one instance of a platform, kept for the runs after it that want the same one."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vtare.campaign.background import BesideServers, neighbours
from vtare.campaign.programs import CounterPrograms, room_for
from vtare.campaign.setup import AROUND_S, RunSetup, Setup, close_quietly
from vtare.campaign.two_hosts import values_of
from vtare.platforms import kind_of, open_platform
from vtare.platforms.protocol import DEFAULT_RESOURCES, Instance, Platform, Resources
from vtare.topology.instance_factors import FILE_SERVICE, IDLE, Background, background_of, resources_of
from vtare.topology.links import TwoHosts
from vtare.topology.named_hosts import SENDER, TESTER, THIS_MACHINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vtare.campaign.background import Neighbours
    from vtare.campaign.children import Helper
    from vtare.campaign.files import Files
    from vtare.campaign.stop import StopRequest
    from vtare.design import Run
    from vtare.plan.model import Experiment
    from vtare.platforms.protocol import Server, Settings
    from vtare.topology.named_hosts import HostSpec


@dataclass(frozen=True, slots=True)
class OneHostPlacement:
    """What a run's factors state of its one instance, and of those in the background."""

    run: Run
    platform: str
    resources: Resources
    background: Background
    #: Whether a load needs a server beside it, and a network card towards that.
    served: bool = False


class OneHostSetup(Setup[OneHostPlacement]):
    """The one instance of a campaign that is alive outside a topology: another would take from what is measured."""

    def __init__(
        self,
        binary: Path,
        owner: str,
        settings: Mapping[str, Settings] | None = None,
        hosts: Mapping[str, HostSpec] | None = None,
    ) -> None:
        """Prepare; nothing is started yet. `owner` begins every name; `settings` are the plan's of each platform.

        Of the `hosts` that the plan names, the tester has what is between two ports, the sender everything else.
        """
        self._binary = binary
        self._hosts = hosts or {}
        self._owner = owner
        self._settings = settings or {}
        self._programs = CounterPrograms(binary)
        self._of: tuple[str, Resources, bool] | None = None
        self._network: TwoHosts | None = None
        self._platform: Platform | None = None
        self._instance: Instance | None = None

    def wanted(self, run: Run, experiment: Experiment | None) -> OneHostPlacement:
        """See `Setup.wanted`. A control run has nothing in the background."""
        values = {} if experiment is None else values_of(run, experiment)
        between_ports = experiment is not None and experiment.record.hosts == "ports"
        home = self._hosts.get(TESTER if between_ports else SENDER)
        name = values.get("platform", THIS_MACHINE if home is None else home.platform)
        resources = room_for(run, kind_of(name, self._settings.get(name)), resources_of(values))
        background = background_of(values)
        served = values.get("load", IDLE).kind == FILE_SERVICE or background.served
        return OneHostPlacement(run, name, resources, background, served)

    def missing(self, wanted: OneHostPlacement) -> str | None:
        """See `Setup.missing`."""
        name, background = wanted.platform, wanted.background
        reason = self._open(name).missing(wanted.resources)
        if reason is None and background.instances:
            reason = self._open(background.beside(name)).missing(background.given(DEFAULT_RESOURCES))
        if reason is not None:
            return f"platform {name}: {reason}"
        reason = TwoHosts.missing() if wanted.served else None
        return None if reason is None else f"a network for the load {FILE_SERVICE}: {reason}"

    @contextmanager
    def entered(self, wanted: OneHostPlacement, directory: Path) -> Iterator[RunSetup]:
        """See `Setup.entered`."""
        name = wanted.platform
        with ExitStack() as stack:
            kind = kind_of(name, self._settings.get(name))
            memory_byte = wanted.resources.memory_byte
            run = stack.enter_context(self._programs.beside(wanted.run, name, kind, directory, memory_byte))
            instance = self._started(name, wanted.resources, served=wanted.served)
            server = None if self._network is None else self._network.server(SENDER, self._binary)
            beside = None
            if wanted.background.instances:
                other = self._open(wanted.background.beside(name))
                site = self._network.site(SENDER) if self._network and wanted.background.served else None
                servers = BesideServers(files=server)
                given = wanted.background.given(DEFAULT_RESOURCES)
                beside = stack.enter_context(neighbours(wanted.background, other, site, servers, given))
            yield OneHostRun(instance, beside, run.parameters, wanted, server)

    def lost(self) -> bool:
        """See `Setup.lost`."""
        return self._instance is not None and self._instance.lost

    def close(self) -> None:
        """End the instance, where there is one."""
        platform, self._platform, self._instance = self._platform, None, None
        network, self._network = self._network, None
        try:
            if platform is not None:
                platform.stop()
        finally:
            if network is not None:
                network.remove()

    def _started(self, name: str, resources: Resources, *, served: bool) -> Instance:
        """The instance of this platform with these resources, started where it is not the one that is alive."""
        if self._instance is None or self._of != (name, resources, served):
            close_quietly(self.close)
            self._platform = self._open(name)
            try:
                if served:
                    # The server stands where that of a sender does; the other end of the link is nobody's.
                    self._network = TwoHosts(self._owner)
                    self._network.make()
                site = None if self._network is None else self._network.site(SENDER)
                self._instance = self._platform.start(1, site, resources)[0]
            except BaseException:
                self.close()
                raise
            self._of = (name, resources, served)
        return self._instance

    def _open(self, name: str) -> Platform:
        return open_platform(name, binary=self._binary, owner=self._owner, settings=self._settings.get(name))


class OneHostRun(RunSetup):
    """One run on one host."""

    def __init__(
        self,
        instance: Instance,
        beside: Neighbours | None,
        parameters: Mapping[str, Any],
        wanted: OneHostPlacement,
        file_server: Server | None = None,
    ) -> None:
        """Measure in this instance; `parameters` are the run's, with the program that the lab provides."""
        super().__init__(instance, instance, beside, file_server)
        self._parameters = parameters
        self._wanted = wanted

    def begins(self, longest_s: float) -> None:
        """See `RunSetup.begins`."""
        self.sender.keep(longest_s + AROUND_S)

    def parameters(self, planned: Mapping[str, Any], directory: Path) -> dict[str, Any]:
        """See `RunSetup.parameters`."""
        return dict(self._parameters)

    @contextmanager
    def at_work(self, directory: Path, files: Files, stop: StopRequest) -> Iterator[tuple[Helper, ...]]:
        """Write the document `vtare.platform/1`, where the instance is not the host itself."""
        if self._wanted.platform != THIS_MACHINE:
            facts = {
                "schema": "vtare.platform/1",
                "platform": self._wanted.platform,
                "resources": asdict(self._wanted.resources),
                "instance": self.sender.name,
                **self.sender.facts(),
            }
            files.write(directory / "platform.json", json.dumps(facts, indent=2).encode())
        yield ()
