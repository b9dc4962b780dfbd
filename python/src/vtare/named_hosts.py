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
from vtare.platforms import Layer, kinds_with, network

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from vtare.platforms import Platform
    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Server

SENDER, RESPONDER, ROUTER, TESTER = ROLES = ("sender", "responder", "router", "tester")
THIS_MACHINE: Final = "host"
HOST_KEYS: Final = ("platform", "address", "interface")
ROUTER_KEYS: Final = ("inward", "outward")


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A host as a plan names it: a platform, and what its own routes would not show, or show otherwise.

    `address` is the one for measurements, `interface` the device to capture on; of a router, packets to the responder
    come in at `inward` and leave at `outward`.
    """

    platform: str
    address: str | None = None
    interface: str | None = None
    inward: str | None = None
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
        self._left.pop_all().close()

    def site(self, side: str) -> Site | None:
        """None: no instances are made behind them."""

    def server(self, side: str, binary: Path) -> Server:
        """The host of a role; it has the binary already."""
        return self._servers[side]

    def facts(self) -> dict[str, Any]:
        """How the plan names them, and their devices."""
        devices = {
            role: network.device_facts(device, server.run)
            for role, server in self._servers.items()
            if (device := server.capture_interface()) is not None
        }
        return {"hosts": {role: asdict(spec) for role, spec in self._specs.items()}, "devices": devices}

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
