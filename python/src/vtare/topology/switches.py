"""What joins guests and tester: Linux bridges in a namespace of their own, or Open vSwitch where its daemon works."""

from __future__ import annotations

import os
from typing import Any, Final, Protocol

from vtare.platforms import network, openvswitch
from vtare.platforms.lacks import programs
from vtare.platforms.network import Step
from vtare.topology.guest_slots import BRIDGE_IN, BRIDGE_OUT

_BRIDGES: Final = (BRIDGE_IN, BRIDGE_OUT)


class Switch(Protocol):
    """Two bridges, `brin` and `brout`, in the namespace `bridge_namespace`."""

    @property
    def name(self) -> str:
        """Its level in plans."""
        ...

    def missing(self) -> str | None:
        """Why this machine has no such switch, or None."""
        ...

    def steps(self, bridge_namespace: str, mtu_byte: int) -> list[Step]:
        """Steps that make the namespace and the bridges in it."""
        ...

    def plug(self, bridge_namespace: str, port: str, bridge: str, mac: str) -> list[Step]:
        """Steps that make a device a port of a bridge, behind which is this hardware address."""
        ...

    def isolate(self, bridge_namespace: str, port: str, bridge: str, tester: str) -> list[Step]:
        """Steps that have frames from a guest's port go to the tester's port alone, never to another guest."""
        ...

    def remove(self) -> None:
        """Remove what does not end with the namespace. May be called twice."""
        ...

    def facts(self) -> dict[str, Any]:
        """What it is."""
        ...

    def processes(self) -> list[int]:
        """Processes that pass frames on in user mode."""
        ...


def switch_here() -> str:
    """The switch for a plan that names none: Open vSwitch where it works in this kernel, else Linux's.

    Its datapath in user mode is another device by far, and only for who asks for it.
    """
    return "ovs" if openvswitch.missing() is None and openvswitch.datapath() == "system" else "linux"


def open_switch(name: str, owner: str, mark: str) -> Switch:
    """The switch of this level; `owner` and `mark` separate its bridges from those of other campaigns."""
    return LinuxBridges() if name == "linux" else OpenVSwitch(owner, mark)


class LinuxBridges:
    """Bridges of the Linux kernel."""

    name: Final = "linux"

    def missing(self) -> str | None:
        """Why this machine has no such switch, or None."""
        return programs({"bridge": "iproute2"})

    def steps(self, bridge_namespace: str, mtu_byte: int) -> list[Step]:
        """See `Switch.steps`."""
        all_steps = network.make_namespace(bridge_namespace)
        for bridge in _BRIDGES:
            all_steps += [
                network.make_bridge(bridge_namespace, bridge),
                *network.set_mtu([(bridge_namespace, bridge)], mtu_byte),
                Step(("ip", "-n", bridge_namespace, "link", "set", bridge, "up")),
            ]
        return all_steps

    def plug(self, bridge_namespace: str, port: str, bridge: str, mac: str) -> list[Step]:
        """See `Switch.plug`."""
        # Guests answer nothing, so that a bridge would never learn where they are, and give every frame to all.
        return [
            Step(("ip", "-n", bridge_namespace, "link", "set", port, "master", bridge)),
            Step(("bridge", "-n", bridge_namespace, "fdb", "replace", mac, "dev", port, "master", "static")),
        ]

    def isolate(self, bridge_namespace: str, port: str, bridge: str, tester: str) -> list[Step]:
        """See `Switch.isolate`: a bridge passes no frame between two isolated ports, and the tester's is none."""
        return [Step(("bridge", "-n", bridge_namespace, "link", "set", "dev", port, "isolated", "on"))]

    def remove(self) -> None:
        """Do nothing: bridges end with their namespace."""

    def facts(self) -> dict[str, Any]:
        """What it is."""
        return {"switch": self.name}

    def processes(self) -> list[int]:
        """None: the kernel passes frames on."""
        return []


class OpenVSwitch:
    """Bridges of Open vSwitch, which stand in the namespace of its daemon: taken to be this process's own."""

    name: Final = "ovs"

    def __init__(self, owner: str, mark: str) -> None:
        """Plan the bridges; nothing is made yet."""
        self._owner = owner
        self._names = {bridge: f"{bridge}{mark}" for bridge in _BRIDGES}

    def missing(self) -> str | None:
        """Why this machine has no such switch, or None."""
        return openvswitch.missing()

    def steps(self, bridge_namespace: str, mtu_byte: int) -> list[Step]:
        """See `Switch.steps`. Bridges take their MTU from their ports."""
        named = Step(("ip", "netns", "attach", bridge_namespace, str(os.getpid())))
        return [named, *(openvswitch.add_bridge(name, self._owner) for name in self._names.values())]

    def plug(self, bridge_namespace: str, port: str, bridge: str, mac: str) -> list[Step]:
        """See `Switch.plug`."""
        return openvswitch.plug(port, self._names[bridge], mac)

    def isolate(self, bridge_namespace: str, port: str, bridge: str, tester: str) -> list[Step]:
        """See `Switch.isolate`."""
        return [openvswitch.isolate(port, self._names[bridge], tester)]

    def remove(self) -> None:
        """Remove the bridges."""
        openvswitch.remove(self._names.values())

    def facts(self) -> dict[str, Any]:
        """What it is, and where it passes frames on."""
        return {"switch": self.name, "datapath": openvswitch.datapath(), "version": openvswitch.version()}

    def processes(self) -> list[int]:
        """The daemon, where frames pass through it."""
        daemon = openvswitch.daemon() if openvswitch.datapath() == "netdev" else None
        return [] if daemon is None else [daemon]
