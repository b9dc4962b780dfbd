"""Topologies: the network between the hosts of an experiment.

`TwoHosts` puts a "sender server" and a "responder server" on one machine: two namespaces, each with a bridge behind
which instances are attached, and one link between the bridges. It is the two-server set-up of Oliveira et al. on one
machine; addresses and neighbours are static and IPv6 is off, so that nothing but the probes crosses the link.

      instance --port0--[br0  sender server]--up0 ===== up0--[responder server  br0]--port0-- instance

`RoutedHosts` puts a router between the two, on whose egress the bottleneck is, and beside the instances a source and a
sink of cross traffic, which share the way from the sender server to the responder server:

      source --port200--[sender server]--up0 === in0--[router]--out0 === up0--[responder server]--port200-- sink

The router joins its interfaces by a bridge with a kernel shaper on `out0`, or leaves them to `vtare link`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vtare.platforms import network
from vtare.platforms.host import HostInstance
from vtare.platforms.network import NetworkError, Site, Step
from vtare.topology.link_counter import CAME, CROSS, LEFT, LINK_COUNTER, CountingPlace
from vtare.topology.path import DEFAULT_MTU_BYTE, steps_of
from vtare.topology.protocol import Hosts

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.platforms.protocol import Server
    from vtare.topology.path import PathSpec


#: How tools are run on a server, and one of its devices.
Place = tuple[Callable[[Sequence[str]], str], str]
_UPLINK = "up0"
_INWARD, _OUTWARD = "in0", "out0"
#: The index of the source and the sink of cross traffic behind their servers: above that of any instance
#: (`guests.MOST_BACKGROUND`).
_CROSS = 200


class TwoHosts(Hosts):
    """Two servers and the link between them."""

    inward = outward = _UPLINK

    def __init__(self, owner: str, *, mtu_byte: int = DEFAULT_MTU_BYTE) -> None:
        """Plan the topology; nothing is made yet. `owner` begins every name (`owner.own_prefix`)."""
        # Instances of either side talk to the other server and to its first instance, no one else.
        ends = {number: (network.address(number, 0), network.address(number, 1)) for number in (1, 2)}
        self.sender = Site("sender server", f"{owner}-s", 1, ends[2], mtu_byte=mtu_byte)
        self.responder = Site("responder server", f"{owner}-r", 2, ends[1], mtu_byte=mtu_byte)

    @staticmethod
    def missing() -> str | None:
        """Why this machine cannot make the topology, or None where it can."""
        return network.missing_tools()

    def site(self, side: str) -> Site | None:
        """The site of the instances of a side, `sender` or `responder`."""
        return self.sender if side == "sender" else self.responder

    def server(self, side: str, binary: Path) -> Server:
        """The server of a side, where this `vtare` binary is started."""
        return HostInstance.at(binary, self.site(side))

    def steps(self) -> list[Step]:
        """Every command that makes the topology, in order."""
        sites = (self.sender, self.responder)
        all_steps = [step for site in sites for step in network.make_namespace(site.namespace)]
        all_steps += [network.make_bridge(site.namespace, site.bridge) for site in sites]
        all_steps += self._between()
        for site in sites:
            all_steps.append(Step(("ip", "-n", site.namespace, "link", "set", _UPLINK, "master", site.bridge, "up")))
            all_steps += network.set_mtu([(site.namespace, site.bridge)], site.mtu_byte)
            all_steps += network.give_address(site.namespace, site.bridge, site.address, site.prefix_length, site.peers)
        return all_steps

    def _between(self) -> list[Step]:
        """What joins the two uplinks."""
        return network.pair((self.sender.namespace, _UPLINK), (self.responder.namespace, _UPLINK), self.sender.mtu_byte)

    def _carriers(self) -> list[tuple[str, str]]:
        """Every device that must carry packets before the topology is ready."""
        return [(site.namespace, device) for site in (self.sender, self.responder) for device in (_UPLINK, site.bridge)]

    def shape(self, path: PathSpec) -> None:
        """Refuse: a plain link has no bottleneck."""
        raise NetworkError("a plain link between two hosts takes no shape: use `RoutedHosts`")

    def counted(self, binary: Path) -> list[CountingPlace]:
        """Nowhere: a plain link has no bottleneck."""
        return []

    def _make(self) -> None:
        network.carry_out(self.steps())
        network.wait_forwarding(self._carriers())

    def remove(self) -> None:
        """Remove both servers with all that stands behind them. May be called twice."""
        behind = [site.namespace for site in (self.sender, self.responder)]
        own = [name for name in network.namespaces() if any(name.startswith(f"{one}-") for one in behind)]
        network.remove_namespaces([*own, *behind, *self._beside()])

    def _beside(self) -> list[str]:
        """Namespaces of the topology that are no server."""
        return []

    def facts(self) -> dict[str, Any]:
        """What the link between the servers is made of."""
        return {site.name: network.interface_facts(site.namespace, _UPLINK) for site in (self.sender, self.responder)}


class RoutedHosts(TwoHosts):
    """Two servers with a router between them, whose egress towards the responder is the bottleneck.

    `bridged` states whether the router joins its interfaces itself, for a kernel shaper; `shape` puts one there.
    """

    inward, outward = _INWARD, _OUTWARD

    def __init__(self, owner: str, *, mtu_byte: int = DEFAULT_MTU_BYTE, bridged: bool = True) -> None:
        """Plan the topology; nothing is made yet."""
        super().__init__(owner, mtu_byte=mtu_byte)
        self.router = f"{owner}-t"
        self.bridged = bridged
        # The source and the sink of cross traffic are neighbours of each other and of no one else.
        ends = {number: (network.address(number, _CROSS + 1),) for number in (1, 2)}
        self._source = replace(self.sender, peers=ends[2])
        self._sink = replace(self.responder, peers=ends[1])

    @staticmethod
    def missing() -> str | None:
        """Why this machine cannot make the topology, or None where it can."""
        return network.missing_tools({"tc": "iproute2"})

    def server(self, side: str, binary: Path) -> Server:
        """The server of a side; the router, and where cross traffic comes from (`source`) and goes to (`sink`)."""
        if side == "router":
            return HostInstance(binary, self.router)
        if side in ("source", "sink"):
            site = self._source if side == "source" else self._sink
            return HostInstance(binary, site.instance_namespace(_CROSS), site.instance_address(_CROSS))
        return super().server(side, binary)

    def counted(self, binary: Path) -> list[CountingPlace]:
        """Where what comes to the bottleneck and leaves it is counted: one program sees all namespaces."""
        came = {"namespace": self.router, "device": self.inward}
        left = {"namespace": self.responder.namespace, "device": _UPLINK}
        return [CountingPlace(HostInstance(binary), LINK_COUNTER, {CAME: came, CROSS: came, LEFT: left})]

    def steps(self) -> list[Step]:
        """Every command that makes the topology, in order, without what shapes it."""
        return [
            *network.make_namespace(self.router),
            *super().steps(),
            *network.attach(self._source, _CROSS),
            *network.attach(self._sink, _CROSS),
        ]

    def shape(self, path: PathSpec) -> None:
        """See `Hosts.shape`."""
        shape(path, *((partial(_run_in, namespace), device) for namespace, device in self._shaped()))

    def facts(self) -> dict[str, Any]:
        """What the path between the servers is made of, with the shapers as the kernel reports them."""
        devices = {"router in": (self.router, _INWARD), "router out": (self.router, _OUTWARD)}
        known = super().facts() | {name: network.interface_facts(*place) for name, place in devices.items()}
        with suppress(NetworkError):
            known["shapers"] = {
                f"{device} in {namespace}": _run_in(namespace, ("tc", "qdisc", "show", "dev", device))
                for namespace, device in self._shaped()
            }
        return known

    def _shaped(self) -> tuple[tuple[str, str], ...]:
        """Where the bottleneck is, and where packets leave for the router, forward and back."""
        return ((self.router, _OUTWARD), (self.sender.namespace, _UPLINK), (self.responder.namespace, _UPLINK))

    def _between(self) -> list[Step]:
        mtu = self.sender.mtu_byte
        steps = network.pair((self.sender.namespace, _UPLINK), (self.router, _INWARD), mtu)
        steps += network.pair((self.router, _OUTWARD), (self.responder.namespace, _UPLINK), mtu)
        if not self.bridged:
            ups = (Step(("ip", "-n", self.router, "link", "set", device, "up")) for device in (_INWARD, _OUTWARD))
            return [*steps, *ups]
        steps.append(network.make_bridge(self.router, "br0"))
        for device in (_INWARD, _OUTWARD):
            steps.append(Step(("ip", "-n", self.router, "link", "set", device, "master", "br0", "up")))
        return [*steps, Step(("ip", "-n", self.router, "link", "set", "br0", "up"))]

    def _carriers(self) -> list[tuple[str, str]]:
        ports = [(self._source.namespace, self._source.port(_CROSS)), (self._sink.namespace, self._sink.port(_CROSS))]
        return [*super()._carriers(), *ports, (self.router, _INWARD), (self.router, _OUTWARD)]

    def _beside(self) -> list[str]:
        return [self.router]


def _run_in(namespace: str, words: Sequence[str]) -> str:
    return network.run_tool(("ip", "netns", "exec", namespace, *words))


def shape(path: PathSpec, egress: Place, forward: Place, back: Place) -> None:
    """Give a path its capacity at the router's egress, and delay and loss where packets leave for the router.

    What was there before is replaced.

    Raises:
        NetworkError: a step failed; NetworkRefused where a kernel has no such shaper.
    """
    places = (egress, forward, back)
    for run, device in places:
        # A device without a shaper of its own has nothing to remove.
        with suppress(NetworkError):
            run(("tc", "qdisc", "del", "dev", device, "root"))
    for (run, _), steps in zip(places, steps_of(path, *(device for _, device in places)), strict=True):
        for step in steps:
            run(step.words)
