"""A run between two hosts: responder, capture points, the path's helpers, and where the load runs.

The sender measures towards a responder of the lab's own. Each run starts its instances anew and its responder with
them; the key both share lives as long as one run, in that run's private directory. What a run of `avb` has besides
(bottleneck, cross traffic and its sink) is in `vtare.campaign.path_helpers`.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from vtare.campaign.background import BesideServers, Neighbours, PlainProcesses, neighbours
from vtare.campaign.children import Helper, RunFailed, beginning, blame_helpers, end, has_line, wait_ready
from vtare.campaign.host_clocks import HostClocks
from vtare.campaign.path_helpers import PathHelpers, path_of
from vtare.campaign.setup import AROUND_S, RunSetup, Setup, close_quietly
from vtare.campaign.store import KEY_NAME
from vtare.campaign.surroundings import Surroundings
from vtare.errors import BadInput
from vtare.overhead.files import read_capture
from vtare.plan.factors import CAPTURE, CAPTURE_OFF, CAPTURE_ON, ICMP
from vtare.plan.readers import SAME
from vtare.platforms import kind_of, kinds_with, open_platform, platform_class, remove_leftovers
from vtare.platforms.protocol import DEFAULT_RESOURCES, Instance, Platform, Resources
from vtare.process import ending_text
from vtare.topology.instance_factors import NO_BACKGROUND, Background, background_of, resources_of
from vtare.topology.links import RoutedHosts, TwoHosts
from vtare.topology.named_hosts import RESPONDER, ROUTER, SENDER, SOURCE, TESTER, NamedHosts, Pinned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vtare.campaign.files import Files
    from vtare.campaign.stop import StopRequest
    from vtare.design import Run
    from vtare.plan.model import Experiment, Program
    from vtare.platforms.protocol import Server
    from vtare.topology.named_hosts import HostSpec
    from vtare.topology.path import PathSpec
    from vtare.topology.protocol import Hosts

PORT: Final = 8462
#: A far end that gives no sign of being ready gets this time.
_UNSIGNED_S: Final = 1.0
#: The longest capture that another machine may hand over: 100 million packets.
_MOST_CAPTURE_BYTE: Final = 4 << 30
SIDES: Final = (SENDER, RESPONDER)


def capture_name(side: str) -> str:
    """The file that the capture point of one side leaves in a run's directory."""
    return f"capture-{side}.parquet"


@dataclass(frozen=True, slots=True)
class Roles:
    """What a run's factors state about the two hosts; the defaults are those of a plan that has no such factor.

    `capture` is `off`, `on`, or the hook to capture with; `cpu` and `spin` are the responder's; `path` is what lies
    between the two hosts of an `avb` experiment, None for the plain link of the others. `program` estimates in place of
    vtare, with a far end of its own in place of the responder. `one_peer`: the instrument has one far end, and not a
    list of them.
    """

    sender: str = "host"
    responder: str = "host"
    capture: str = CAPTURE_OFF
    load_side: str = "sender"
    spin: bool = False
    cpu: int | None = None
    path: PathSpec | None = None
    resources: Resources = DEFAULT_RESOURCES
    background: Background = NO_BACKGROUND
    program: Program | None = None
    one_peer: bool = False

    @classmethod
    def of(cls, run: Run, experiment: Experiment) -> Self:
        """Read the roles from a run's factors."""
        values = values_of(run, experiment)
        sender = values.get("platform", "host")
        responder = values.get("responder_platform", "host")
        return cls(
            sender=sender,
            responder=sender if responder == SAME else responder,
            capture=values.get(CAPTURE, CAPTURE_OFF),
            load_side=values.get("load_side", "sender"),
            spin=values.get("responder", "blocking") == "spinning",
            cpu=values.get("responder_cpu", None),
            path=path_of(run, experiment) if experiment.record.hosts == "routed" else None,
            one_peer=experiment.record.hosts == "routed",
            resources=resources_of(values),
            background=background_of(values),
            program=experiment.program(run.parameters),
        )

    def resources_at(self, side: str) -> Resources:
        """What the instance of one side is given: the responder as much as the sender where both are of one kind."""
        return self.resources if side == "sender" or self.responder == self.sender else DEFAULT_RESOURCES

    @property
    def background_platform(self) -> str:
        """The platform of the instances in the background."""
        return self.background.beside(self.sender if self.background.side == "sender" else self.responder)

    @property
    def captured(self) -> bool:
        """Whether packets are captured on both host sides."""
        return self.capture != CAPTURE_OFF


def values_of(run: Run, experiment: Experiment) -> dict[str, Any]:
    """What the levels of a run's factors mean, by factor."""
    return {factor: experiment.factor(factor).level(label).value for factor, label in run.factors.items()}


class TwoHostSetup(Setup[Roles]):
    """The two hosts of one campaign, made when first needed and removed at its end."""

    def __init__(
        self,
        binary: Path,
        owner: str,
        settings: Mapping[str, Mapping[str, str | int]] | None = None,
        named: Mapping[str, HostSpec] | None = None,
    ) -> None:
        """Prepare; nothing is made yet. `owner` begins every name; `settings` are the plan's of each platform.

        `named` are the machines that the plan names by role, in place of namespaces of this one.
        """
        self._binary = binary
        self._owner = owner
        self._settings = settings or {}
        self._named = {role: spec for role, spec in (named or {}).items() if role != TESTER}
        self._hosts: Hosts | None = None
        self._wiring: tuple[int, bool] | None = None

    def missing(self, wanted: Roles) -> str | None:
        """Why this machine cannot give two hosts with these roles, or None where it can."""
        roles = wanted
        if self._named:
            return NamedHosts(self._named, self._platform).missing()
        for side, name in zip(SIDES, (roles.sender, roles.responder), strict=True):
            reason = None if roles.program is None else self._lacks_programs(name, roles.program)
            reason = reason or self._platform(name).missing(roles.resources_at(side))
            if reason is not None:
                return f"platform {name} ({side}): {reason}"
        if roles.background.instances:
            name = roles.background_platform
            reason = self._platform(name).missing(_background_resources(roles))
            if reason is not None:
                return f"platform {name} (background): {reason}"
        reason = TwoHosts.missing() if roles.path is None else RoutedHosts.missing()
        return None if reason is None else f"two hosts on one machine: {reason}"

    def wanted(self, run: Run, experiment: Experiment | None) -> Roles:
        """See `Setup.wanted`."""
        if experiment is None:
            raise ValueError("a control run is on one host")
        roles = Roles.of(run, experiment)
        if self._named:
            at = {side: self._named[side].platform for side in SIDES}
            roles = replace(roles, sender=at[SENDER], responder=at[RESPONDER])
        return roles

    @contextmanager
    def entered(self, wanted: Roles, directory: Path) -> Iterator[TwoHostRun]:
        """Start the instances of one run and end them after it. See `Setup.entered`."""
        roles = wanted
        hosts = self._hosts_for(roles.path)
        servers = {side: hosts.server(side, self._binary) for side in SIDES}
        instances: dict[str, Instance] = {}
        with ExitStack() as stack:
            for side, name in zip(SIDES, (roles.sender, roles.responder), strict=True):
                if self._named:
                    cpus = roles.resources.pinned
                    instances[side] = servers[side] if cpus is None else Pinned(servers[side], cpus)
                    continue
                platform = self._platform(name)
                stack.callback(platform.stop)
                (instances[side],) = platform.start(1, hosts.site(side), roles.resources_at(side))
            beside = stack.enter_context(self._neighbours(roles, hosts, servers))
            helpers = None
            if roles.path is not None:
                helpers = PathHelpers(self._binary, hosts, roles.path)
            yield TwoHostRun(roles, instances, servers, hosts, helpers, beside, self._clocks(roles, hosts, instances))

    def _lacks_programs(self, name: str, program: Program) -> str | None:
        """Why a program of the plan cannot run in an instance of this platform; None where it can."""
        furnished = kinds_with(lambda kind: kind.FURNISHED)
        if kind_of(name, self._settings.get(name)) not in furnished:
            return (
                f"method program:{program.name}: its instances hold vtare's static binary alone; "
                f"{', '.join(furnished)} have the programs of their machine"
            )
        absent = [words[0] for words in (program.command, program.far_end) if words and shutil.which(words[0]) is None]
        return f"method program:{program.name}: the program '{absent[0]}' is missing" if absent else None

    def _platform(self, name: str) -> Platform:
        return open_platform(name, binary=self._binary, owner=self._owner, settings=self._settings.get(name))

    @contextmanager
    def _neighbours(self, roles: Roles, hosts: Hosts, servers: Mapping[str, Server]) -> Iterator[Neighbours | None]:
        """The instances in the background of one run; None where there are none."""
        if not roles.background.instances:
            yield None
            return
        side = roles.background.side
        # What they send goes to the other server itself.
        (sink,) = (server for other, server in servers.items() if other != side)
        beside = BesideServers(sink=sink, files=servers[side])
        platform = PlainProcesses(servers[side]) if self._named else self._platform(roles.background_platform)
        with neighbours(roles.background, platform, hosts.site(side), beside, _background_resources(roles)) as made:
            yield made

    def _hosts_for(self, path: PathSpec | None) -> Hosts:
        """The two hosts, made where those of the run before are of another kind."""
        wiring = None if path is None or self._named else (path.mtu_byte, path.bottleneck != "link")
        if self._hosts is not None and self._wiring != wiring:
            close_quietly(self.close)
        hosts: Hosts | None = self._hosts
        if hosts is None:
            # What a killed campaign left may still spin on a CPU of this machine.
            remove_leftovers(elsewhere=False)
            if self._named:
                hosts = NamedHosts(self._named, self._platform)
            elif wiring is None:
                hosts = TwoHosts(self._owner)
            else:
                hosts = RoutedHosts(self._owner, mtu_byte=wiring[0], bridged=wiring[1])
            hosts.make()
            self._hosts, self._wiring = hosts, wiring
        return hosts

    def _clocks(self, roles: Roles, hosts: Hosts, instances: Mapping[str, Instance]) -> HostClocks:
        """The clocks that stamp something of a run: of the machines that the plan names, or of a guest and its host."""
        path = roles.path
        if self._named:
            # Nothing joins the two ends of `vtare link` while it does not run, and no account is left behind it.
            through_link = path is not None and path.bottleneck == "link"
            named = SIDES if path is None else (SENDER, ROUTER) if through_link else (*SIDES, ROUTER)
            return HostClocks({role: hosts.server(role, self._binary) for role in named})
        kind = platform_class(roles.sender, self._settings.get(roles.sender))
        if path is None or kind is None or not kind.BOOTS:
            return HostClocks({})
        # All but the sender is on this machine. It reaches the guest at its own bridge, whatever the path is.
        here = hosts.server(SENDER, self._binary)
        clocks = {SENDER: instances[SENDER], ROUTER: here}
        return HostClocks(clocks, {RESPONDER: ROUTER, SOURCE: ROUTER}, sender_answers=True)

    def lost(self) -> bool:
        """See `Setup.lost`."""
        return self._hosts is not None and self._hosts.lost

    def close(self) -> None:
        """Remove the two hosts. May be called twice."""
        hosts, self._hosts = self._hosts, None
        if hosts is not None:
            hosts.remove()


def _background_resources(roles: Roles) -> Resources:
    """Instances of the platform that measures are given what that one is, but for its CPUs and what the plan states."""
    own = replace(roles.resources, pinned=None) if roles.background_platform == roles.sender else DEFAULT_RESOURCES
    return roles.background.given(own)


class TwoHostRun(RunSetup):
    """The instances of one run and what they do beside the measurement."""

    def __init__(
        self,
        roles: Roles,
        instances: Mapping[str, Instance],
        servers: Mapping[str, Server],
        hosts: Hosts,
        path_helpers: PathHelpers | None = None,
        beside: Neighbours | None = None,
        clocks: HostClocks | None = None,
    ) -> None:
        """Take over started instances and their servers, by side, and those in the background."""
        super().__init__(instances["sender"], instances[roles.load_side], beside, servers[roles.load_side])
        self.roles = roles
        self._instances = instances
        self._servers = servers
        self._hosts = hosts
        self._path_helpers = path_helpers
        self._clocks = clocks or HostClocks({})

    def begins(self, longest_s: float) -> None:
        """See `RunSetup.begins`."""
        self._hosts.keep(longest_s + AROUND_S)

    def parameters(self, planned: Mapping[str, Any], directory: Path) -> dict[str, Any]:
        """What the plan states, with the far end and the key that the lab provides."""
        address = self._instances["responder"].address
        if planned.get("mode") == ICMP:
            return {**planned, "peer": [address]}
        if self.roles.program is not None:
            return {**planned, "peer": f"{address}:{PORT}"}
        resolved = {**planned, "peer": [f"{address}:{PORT}"], "key_file": str(directory / KEY_NAME)}
        if self.roles.one_peer:
            return {**resolved, "peer": f"{address}:{PORT}"}
        # A large send for many packets passes a capture point as one packet. Nor without captures: else cells that
        # differ in `capture` would differ in the way they send, too.
        resolved.setdefault("gso", False)
        return resolved

    @contextmanager
    def at_work(self, directory: Path, files: Files, stop: StopRequest) -> Iterator[tuple[Helper, ...]]:
        """Start responder and captures, and end them: in order after the run, on any other way out as they stand.

        Raises:
            RunFailed: one of them could not start, or ended badly.
            Interrupted: a stop was requested while they started.
        """
        helpers: list[Helper] = []
        key = directory / KEY_NAME
        document = json.loads((directory / "run.json").read_text())
        resolved = document["parameters"]
        icmp = resolved.get("mode") == ICMP
        try:
            _write_key(key)
            # While nothing else is sent: packets that wait bound a clock less narrowly.
            self._clocks.start(directory, key, helpers, stop)
            self._clocks.compare(directory, key, stop)
            clocks = len(helpers)
            # Clocks are compared over the path as it is.
            if self.roles.path is not None:
                self._hosts.shape(self.roles.path)
            surroundings = Surroundings()
            if self.roles.program is not None:
                self._start_far_end(self.roles.program, directory, helpers, stop)
            elif not icmp:
                helpers.append(self._responder(directory, gso=bool(resolved.get("gso", True))))
                wait_ready(helpers[-1], lambda: b"\n" in beginning(directory / "responder.json"), stop)
            if self.roles.captured:
                for side in SIDES:
                    helpers.append(self._capture(side, directory, icmp=icmp))
                    log = helpers[-1].log
                    wait_ready(helpers[-1], lambda log=log: has_line(log, b"ready"), stop)  # type: ignore[misc]
            if self._path_helpers is not None:
                self._path_helpers.start(directory, helpers, stop, seed=int(document["seed"]))
            files.write(directory / "topology.json", json.dumps(self._facts(), indent=2).encode())
            yield tuple(helpers)
            blame_helpers(helpers)
            # Captures first: what the responder does at its end is no part of the run.
            _end_all(helpers[clocks:], stop)
            self._hosts.unshape()
            self._clocks.compare(directory, key, stop)
            self._clocks.write(directory, files)
            _end_all(helpers[:clocks], stop)
            for side in SIDES if self.roles.captured else ():
                self._servers[side].fetch(directory, {capture_name(side): _MOST_CAPTURE_BYTE})
            if self._path_helpers is not None:
                self._path_helpers.fetch(directory)
            if self.roles.path is not None and self._hosts.HERE:
                files.write(directory / "surroundings.json", json.dumps(surroundings.seen(), indent=2).encode())
        finally:
            for helper in helpers:
                if helper.child.returncode is None:
                    end(helper.child, stop)
            key.unlink(missing_ok=True)
            close_quietly(self._hosts.unshape)

    def check(self, directory: Path) -> None:
        """Check what captures and the path's helpers left.

        Raises:
            RunFailed: a file is missing or damaged.
        """
        if self._path_helpers is not None:
            self._path_helpers.check(directory)
        for side in SIDES if self.roles.captured else ():
            try:
                read_capture(directory / capture_name(side))
            except BadInput as error:
                raise RunFailed(str(error)) from error

    def _responder(self, directory: Path, *, gso: bool) -> Helper:
        instance, log = self._instances["responder"], directory / "responder.log"
        arguments = ["serve", "--listen", f"{instance.address}:{PORT}", "--json"]
        arguments += ["--key-file", str(directory / KEY_NAME)]
        arguments += [] if gso else ["--no-gso"]
        arguments += ["--spin"] if self.roles.spin else []
        arguments += ["--cpu", str(self.roles.cpu)] if self.roles.cpu is not None else []
        child = instance.start(arguments, directory=directory, stdout=directory / "responder.json", stderr=log)
        return Helper("responder", child, log)

    def _start_far_end(self, program: Program, directory: Path, helpers: list[Helper], stop: StopRequest) -> None:
        """Start what the plan's program needs on the other host, and wait until it is ready."""
        if not program.far_end:
            return
        instance, log = self._instances["responder"], directory / "far-end.log"
        words = [word.replace("{peer}", str(instance.address)) for word in program.far_end]
        arguments = ["exec", "--plain", "--with-parent", "--", *words]
        child = instance.start(arguments, directory=directory, stdout=log, stderr=log)
        helpers.append(Helper(f"far end of {program.name}", child, log, ended_well=None))
        sign, began = program.ready, time.monotonic()
        if sign is not None:
            wait_ready(helpers[-1], lambda: sign.encode() in beginning(log), stop)
        else:
            wait_ready(helpers[-1], lambda: time.monotonic() > began + _UNSIGNED_S, stop)

    def _capture(self, side: str, directory: Path, *, icmp: bool) -> Helper:
        interface = self._instances[side].capture_interface()
        if interface is None:
            raise RunFailed(f"the {side}'s platform names no host-side interface to capture on", status="skipped")
        log = directory / f"capture-{side}.log"
        arguments = ["capture", interface, "--out", str(directory / capture_name(side))]
        arguments += ["--hook", self.roles.capture] if self.roles.capture != CAPTURE_ON else []
        arguments += ["--icmp"] if icmp else []
        child = self._servers[side].start(arguments, directory=directory, stdout=log, stderr=log)
        return Helper(f"capture at the {side}", child, log)

    def _facts(self) -> dict[str, Any]:
        """The document `vtare.topology/1` of a run: who stood where, and the devices between them."""
        facts: dict[str, Any] = {"schema": "vtare.topology/1", "link": self._hosts.facts()}
        if self.roles.path is not None:
            facts["path"] = self.roles.path.document()
        for side in SIDES:
            instance = self._instances[side]
            facts[side] = {
                "resources": asdict(self.roles.resources_at(side)),
                "platform": self.roles.sender if side == "sender" else self.roles.responder,
                "instance": instance.name,
                "address": instance.address,
                "capture_interface": instance.capture_interface(),
                "host_side": dict(self._servers[side].facts()),
                **instance.facts(),
            }
        return facts


def _end_all(helpers: Sequence[Helper], stop: StopRequest) -> None:
    """End helpers, the last first.

    Raises:
        RunFailed: one ended badly.
    """
    for helper in reversed(helpers):
        code = end(helper.child, stop)
        if helper.ended_well is not None and code not in helper.ended_well:
            raise RunFailed(f"the {helper.name} ended with {ending_text(code)}", code, log=helper.log)


def _write_key(path: Path) -> None:
    """Write a fresh key, readable by its owner only from the first moment on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{secrets.token_hex(32)}\n")
