"""The hosts that a plan names by role (`[hosts]`), in place of namespaces of this machine (`vtare.topology.links`).

A host is a machine over SSH, one that a platform makes and that is reached over SSH, or this one. The network between
them is there already: what a plan does not state of it is asked of the machines' own routes.
"""

from __future__ import annotations

import json
import re
import socket
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from vtare.errors import MachineCannot, PlatformFailed
from vtare.platforms import kinds_with, network
from vtare.platforms.base import Layer
from vtare.platforms.intake import printable
from vtare.topology.link_counter import BEHIND_THE_LINK, CAME, CROSS, LEFT, LINK_COUNTER, CountingPlace
from vtare.topology.path import steps_of
from vtare.topology.protocol import Hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.child import Child
    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Platform, Server
    from vtare.topology.path import PathSpec

SENDER, RESPONDER, ROUTER, TESTER = ROLES = ("sender", "responder", "router", "tester")
#: Where cross traffic comes from and goes to, beside the roles.
SOURCE, SINK = "source", "sink"
THIS_MACHINE: Final = "host"
#: What a host of a fleet may be called.
HOST_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
#: What the kernel itself puts on a device.
_USUAL_QUEUES: Final = ("noqueue", "mq", "fq", "fq_codel", "pfifo", "pfifo_fast")
HOST_KEYS: Final = ("platform", "address", "interface")
ROUTER_KEYS: Final = ("inward", "outward")


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A host as a plan names it: a platform, and what its own routes would not show, or show otherwise.

    `address` is the one for measurements, `interface` the device to capture on, `inward` and `outward` those of a
    router towards the sender and the responder.
    """

    platform: str
    address: str | None = None
    interface: str | None = None
    inward: str | None = None
    outward: str | None = None


def host_kinds() -> tuple[str, ...]:
    """The kinds of platform whose instances can be hosts: this machine, and those that have programs of their own."""
    return (THIS_MACHINE, *kinds_with(lambda kind: kind.FURNISHED and kind.LAYER is Layer.MACHINE))


class NamedHosts(Hosts):
    """The hosts of one campaign: connected when first needed, left at its end."""

    HERE = False

    def __init__(self, specs: Mapping[str, HostSpec], open_one: Callable[[str], Platform]) -> None:
        """Plan them; nothing is connected yet. `open_one` opens a platform by its name in the plan."""
        self._specs = specs
        self._open_one = open_one
        self._servers: dict[str, Server] = {}
        #: What undoes the path on each machine; empty while it is as its owners have it.
        self._undone: list[tuple[Server, list[tuple[str, ...]]]] = []
        self._left = ExitStack()

    def missing(self) -> str | None:
        """Why this machine cannot reach hosts of these kinds, or None where it can."""
        for role, spec in self._specs.items():
            reason = self._open_one(spec.platform).missing()
            if reason is not None:
                return f"platform {spec.platform} ({role}): {reason}"
        return None

    def _make(self) -> None:
        """Connect to each of them."""
        for role, spec in self._specs.items():
            self._servers[role] = self._server(spec)
        self._look_up_interfaces()

    def remove(self) -> None:
        """Leave them. May be called twice."""
        self._servers.clear()
        self._undone.clear()
        self._left.pop_all().close()

    def site(self, side: str) -> Site | None:
        """None: no instances are made behind them."""

    def server(self, side: str, binary: Path) -> Server:
        """The host of a role; it has the binary already. Cross traffic goes from the sender to the responder."""
        return self._servers[{SOURCE: SENDER, SINK: RESPONDER}.get(side, side)]

    def keep(self, seconds: float) -> None:
        """See `Hosts.keep`."""
        for server in self._servers.values():
            server.keep(seconds)

    @property
    def lost(self) -> bool:
        """Whether a connection to one of them was lost."""
        return any(server.lost for server in self._servers.values())

    @property
    def inward(self) -> str:
        """The router's device towards the sender."""
        return self._specs[ROUTER].inward or self._routers_device(SENDER, "inward")

    @property
    def outward(self) -> str:
        """The router's device towards the responder."""
        return self._specs[ROUTER].outward or self._routers_device(RESPONDER, "outward")

    def counted(self, binary: Path) -> list[CountingPlace]:
        """Where what comes to the bottleneck and leaves it is counted: behind it only the responder can."""
        ends = [str(self._servers[role].address) for role in (SENDER, RESPONDER)]
        # Other traffic of the router and the responder, such as the lab's own, does not pass the link.
        between = {} if any(":" in address for address in ends) else {"between": ends}
        came = {"device": self.inward, **between}
        left = {"device": self._device(RESPONDER), **between}
        return [
            CountingPlace(self._servers[ROUTER], LINK_COUNTER, {CAME: came, CROSS: came}),
            CountingPlace(self._servers[RESPONDER], BEHIND_THE_LINK, {LEFT: left}),
        ]

    def shape(self, path: PathSpec) -> None:
        """Give the path its capacity, delay, loss and MTU; each machine undoes that at the end, however it comes.

        A queue of the owner's must stay. See `Hosts.shape`.
        """
        egress = (self._servers[ROUTER], self.outward)
        ends = [(self._servers[role], self._device(role)) for role in (SENDER, RESPONDER)]
        if self.inward == self.outward:
            raise MachineCannot(
                f"{egress[0].name}: {self.outward} leads to the sender and to the responder, so that both ways would "
                "share one queue: use a router with a device for each, or other ones by `inward` and `outward`"
            )
        queues = [egress, *ends] if path.delay_ns or path.loss_fraction else [egress]
        if path.bottleneck == "link":
            queues = []
        for server, device in queues:
            _refuse_queue(server, device)
        undone = {id(server): (server, list[tuple[str, ...]]()) for server, _ in (egress, *ends)}
        for server, device in queues:
            undone[id(server)][1].append(("tc", "qdisc", "del", "dev", device, "root"))
        changed = []
        for server, device in (egress, (egress[0], self.inward), *ends) if path.mtu_stated else ():
            if (mtu := _mtu_byte(server, device)) != path.mtu_byte:
                undone[id(server)][1].append(("ip", "link", "set", "dev", device, "mtu", str(mtu)))
                changed.append((server, device))
        self._undone = [(server, commands) for server, commands in undone.values() if commands]
        for server, commands in self._undone:
            server.undo_with(commands)
        for server, device in changed:
            server.run(("ip", "link", "set", "dev", device, "mtu", str(path.mtu_byte)))
        for (server, _), steps in zip((egress, *ends), steps_of(path, egress[1], ends[0][1], ends[1][1]), strict=True):
            for step in steps:
                server.run(step.words)

    def unshape(self) -> None:
        """See `Hosts.unshape`."""
        undone, self._undone = self._undone, []
        for server, commands in undone:
            for words in commands:
                # A queue that was never made cannot be removed.
                with suppress(network.NetworkError):
                    server.run(words)
            server.undo_with(())

    def facts(self) -> dict[str, Any]:
        """How the plan names them, their devices, and the queue of a path."""
        devices = {
            role: network.device_facts(device, server.run)
            for role, server in self._servers.items()
            if (device := server.capture_interface()) is not None
        }
        known: dict[str, Any] = {
            "hosts": {role: asdict(spec) for role, spec in self._specs.items()},
            "devices": devices,
        }
        if self._undone:
            router = self._servers[ROUTER]
            known["shapers"] = {self.outward: router.run(("tc", "qdisc", "show", "dev", self.outward))}
        return known

    def _device(self, role: str) -> str:
        """The device of one end towards the router."""
        return str(self._servers[role].capture_interface())

    def _routers_device(self, role: str, key: str) -> str:
        return device_towards(str(self._servers[role].address), self._servers[ROUTER], key)

    def _server(self, spec: HostSpec) -> Server:
        platform = self._open_one(spec.platform)
        self._left.callback(platform.stop)
        # Every kind in `host_kinds` starts servers.
        (server,) = cast("Sequence[Server]", platform.start(1))
        server.stands_at(_resolved(spec.address or str(server.address)), spec.interface)
        return server

    def _look_up_interfaces(self) -> None:
        """Capture where the route to the other side goes, where the plan names no device."""
        for role, other in ((SENDER, RESPONDER), (RESPONDER, SENDER)):
            if role in self._servers and other in self._servers and self._specs[role].interface is None:
                server = self._servers[role]
                server.stands_at(str(server.address), device_towards(str(self._servers[other].address), server))


class Pinned:
    """The instance that a server is, whose programs stay on some of its CPUs: what measures, answers and loads."""

    def __init__(self, server: Server, cpus: Sequence[int]) -> None:
        """Start them with `taskset`, which every machine with util-linux has."""
        self._server = server
        self._before = ("taskset", "--cpu-list", ",".join(map(str, cpus)))
        self.name = server.name

    @property
    def address(self) -> str | None:
        """See `Instance.address`."""
        return self._server.address

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """See `Instance.start`."""
        return self._server.start(arguments, directory=directory, stdout=stdout, stderr=stderr, before=self._before)

    @property
    def lost(self) -> bool:
        """See `Instance.lost`."""
        return self._server.lost

    def keep(self, seconds: float) -> None:
        """See `Instance.keep`."""
        self._server.keep(seconds)

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """See `Instance.fetch`."""
        self._server.fetch(directory, expected)

    def facts(self) -> Mapping[str, object]:
        """See `Instance.facts`."""
        return self._server.facts()

    def capture_interface(self) -> str | None:
        """See `Instance.capture_interface`."""
        return self._server.capture_interface()


def _refuse_queue(server: Server, device: str) -> None:
    """Refuse to replace a queue that the machine's owner has put on a device."""
    shown = server.run(("tc", "qdisc", "show", "dev", device, "root")).split()
    if len(shown) > 1 and shown[1] not in _USUAL_QUEUES:
        raise MachineCannot(
            f"{server.name}: {device} has a queue of its own ({shown[1]}), which the path's would replace; remove it "
            f"(`tc qdisc del dev {device} root`), or name another device in [hosts]"
        )


def _shown(server: Server, *words: str) -> dict[str, Any]:
    """The one entry that iproute2 shows of a machine's network.

    Raises:
        NetworkError: it refuses.
        PlatformFailed: the answer is not whole.
    """
    text = server.run(("ip", "-j", *words))
    try:
        (entry,) = json.loads(text)
        return dict(entry)
    except (ValueError, TypeError) as error:
        raise PlatformFailed(
            f"{server.name}: `ip -j {' '.join(words)}` answered {printable(text[:80])!r}, not a list of one "
            "entry; run `vtare resume`"
        ) from error


def _mtu_byte(server: Server, device: str) -> int:
    """The longest packet of a device."""
    return int(_shown(server, "link", "show", "dev", device)["mtu"])


def device_towards(address: str, server: Server, key: str = "interface") -> str:
    """The device through which a server sends to an address; `key` is the one of [hosts] that names it otherwise."""
    try:
        return str(_shown(server, "route", "get", address)["dev"])
    except (network.NetworkError, KeyError) as error:
        raise MachineCannot(
            f"{server.name}: no route to {address} is known ({error}); name the device with `{key}` in [hosts]"
        ) from error


def _resolved(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)[0][4][0])
    except OSError as error:
        raise MachineCannot(f"{host}: {error}; name its `address` in [hosts]") from error
