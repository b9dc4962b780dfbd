"""The hosts that a plan names by role (`[hosts]`), in place of namespaces of this machine (`vtare.links`).

A host is a machine over SSH, one that a platform makes and that is reached over SSH, or this one. The network between
them is there already: what a plan does not state of it is asked of the machines' own routes.
"""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from vtare.errors import MachineCannot
from vtare.links import shape
from vtare.platforms import Layer, kinds_with, network

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from vtare.path import PathSpec
    from vtare.platforms import Platform
    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Server

SENDER, RESPONDER, ROUTER, TESTER = ROLES = ("sender", "responder", "router", "tester")
#: Where cross traffic comes from and goes to, beside the roles.
SOURCE, SINK = "source", "sink"
THIS_MACHINE: Final = "host"
#: What the kernel itself puts on a device.
_USUAL_QUEUES: Final = ("noqueue", "mq", "fq", "fq_codel", "pfifo", "pfifo_fast")
HOST_KEYS: Final = ("platform", "address", "interface")
ROUTER_KEYS: Final = ("outward",)


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A host as a plan names it: a platform, and what its own routes would not show, or show otherwise.

    `address` is the one for measurements, `interface` the device to capture on, `outward` that of a router
    towards the responder.
    """

    platform: str
    address: str | None = None
    interface: str | None = None
    outward: str | None = None


def host_kinds() -> tuple[str, ...]:
    """The kinds of platform whose instances can be hosts: this machine, and those that have programs of their own."""
    return (THIS_MACHINE, *kinds_with(lambda kind: kind.FURNISHED and kind.LAYER is Layer.MACHINE))


class NamedHosts:
    """The hosts of one campaign: connected when first needed, left at its end. What `vtare.links.TwoHosts` is there."""

    def __init__(self, specs: Mapping[str, HostSpec], open_one: Callable[[str], Platform]) -> None:
        """Plan them; nothing is connected yet. `open_one` opens a platform by its name in the plan."""
        self._specs = specs
        self._open_one = open_one
        self._servers: dict[str, Server] = {}
        self._shaped = False
        self._left = ExitStack()

    def missing(self) -> str | None:
        """Why this machine cannot reach hosts of these kinds, or None where it can."""
        for role, spec in self._specs.items():
            reason = self._open_one(spec.platform).missing()
            if reason is not None:
                return f"platform {spec.platform} ({role}): {reason}"
        return None

    def make(self) -> None:
        """Connect to each of them.

        Raises:
            MachineCannot: one cannot be reached, or lets nobody in; the connections to the others have ended.
        """
        try:
            for role, spec in self._specs.items():
                self._servers[role] = self._server(spec)
            self._look_up_interfaces()
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Leave them. May be called twice."""
        self._servers.clear()
        self._shaped = False
        self._left.pop_all().close()

    def site(self, side: str) -> Site | None:
        """None: no instances are made behind them."""

    def server(self, side: str, binary: Path) -> Server:
        """The host of a role; it has the binary already. Cross traffic goes from the sender to the responder."""
        return self._servers[{SOURCE: SENDER, SINK: RESPONDER}.get(side, side)]

    @property
    def outward(self) -> str:
        """The router's device towards the responder."""
        router = self._servers[ROUTER]
        return self._specs[ROUTER].outward or device_towards(str(self._servers[RESPONDER].address), router)

    def shape(self, path: PathSpec) -> None:
        """Give the path its capacity, delay and loss, in place of what it had; each machine undoes that at the end.

        Raises:
            MachineCannot: a device has a queue of its owner's, which must stay.
            NetworkError: a step failed; NetworkRefused where a kernel has no such shaper.
        """
        shaped = [
            (self._servers[ROUTER], self.outward),
            *((self._servers[role], str(self._servers[role].capture_interface())) for role in (SENDER, RESPONDER)),
        ]
        if not self._shaped:
            for server, device in shaped[: 3 if path.delay_ns or path.loss_fraction else 1]:
                _refuse_queue(server, device)
        self._shaped = True
        for server, device in shaped:
            server.undo_with([("tc", "qdisc", "del", "dev", device, "root")])
        shape(path, *((server.run, device) for server, device in shaped))

    def facts(self) -> dict[str, Any]:
        """How the plan names them, and their devices."""
        devices = {
            role: network.device_facts(device, server.run)
            for role, server in self._servers.items()
            if (device := server.capture_interface()) is not None
        }
        found: dict[str, Any] = {
            "hosts": {role: asdict(spec) for role, spec in self._specs.items()},
            "devices": devices,
        }
        if self._shaped:
            router = self._servers[ROUTER]
            found["shapers"] = {self.outward: router.run(("tc", "qdisc", "show", "dev", self.outward))}
        return found

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


def _refuse_queue(server: Server, device: str) -> None:
    """Refuse to replace a queue that the machine's owner has put on a device."""
    shown = server.run(("tc", "qdisc", "show", "dev", device, "root")).split()
    if len(shown) > 1 and shown[1] not in _USUAL_QUEUES:
        raise MachineCannot(
            f"{server.name}: {device} has a queue of its own ({shown[1]}), which the path's would replace; remove it "
            f"(`tc qdisc del dev {device} root`), or name another device in [hosts]"
        )


def device_towards(address: str, server: Server) -> str:
    """The device through which a server sends to an address."""
    try:
        (route,) = json.loads(server.run(("ip", "-j", "route", "get", address)))
        return str(route["dev"])
    except (network.NetworkError, ValueError, KeyError) as error:
        raise MachineCannot(
            f"{server.name}: no route to {address} is known ({error}); name the device with `interface` in [hosts]"
        ) from error


def _resolved(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)[0][4][0])
    except OSError as error:
        raise MachineCannot(f"{host}: {error}; name its `address` in [hosts]") from error
