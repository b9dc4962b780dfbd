"""A topology of guests that forward: bridge in, N guests, bridge out, between two ports of a tester.

    tester --p0====[switch: bridge in ]--in0 guest 1 out0--[ bridge out]====p1-- tester
                            |           in0 guest 2 out0       |
                            +---------- ...           ---------+

It is the set-up of Batalla et al. without a hardware tester. The tester is a namespace with two ports; the switch is
another one, with a Linux bridge on either side, or Open vSwitch. Every flow carries the hardware address of its
guest, so that the bridge in front separates the guests; every guest routes what is for its own address of
198.19.0.0/16 (kept for such tests by RFC 2544) to the tester's second port. Addresses and neighbours are static.

What a guest *is* stands behind `Guests`: something with network namespaces that `ip -n` can reach: namespaces of their
own, or those of containers, which are given a name by `ip netns attach`.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from vtare.platforms import network
from vtare.platforms.network import NetworkError, Step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from vtare.platforms.docker import DockerInstance, DockerPlatform
    from vtare.platforms.lxc import LxcInstance, LxcPlatform

SWITCHES: Final = ("linux", "ovs")
#: Guests that one topology may have: each has the last byte of its addresses of its own.
MOST_GUESTS: Final = 250
TX_PORT, RX_PORT = "p0", "p1"
_IN, _OUT = "in0", "out0"
_BRIDGE_IN, _BRIDGE_OUT = "brin", "brout"
_ETHERNET_AND_FCS_BYTE: Final = 18
_READY_S: Final = 10.0
_PRIORITY: Final = 10


class Guests(Protocol):
    """A kind of guest: makes network namespaces that forward once they are set up."""

    @property
    def name(self) -> str:
        """The platform's level in plans."""
        ...

    def missing(self) -> str | None:
        """Why this machine cannot give such guests, or None where it can."""
        ...

    def start(self, names: Sequence[str]) -> None:
        """Start guests whose network namespaces bear these names (`ip -n NAME` reaches them).

        Raises OSError, NetworkError or MachineCannot where that fails; `stop` then removes what was made.
        """
        ...

    def stop(self) -> None:
        """End every guest. May be called twice, and after a failed `start`."""
        ...


class NamespaceGuests:
    """Guests that are network namespaces."""

    name: Final = "netns"

    def __init__(self) -> None:
        """Prepare; nothing is made yet."""
        self._made: list[str] = []

    def missing(self) -> str | None:
        """Why this machine has no namespaces, or None."""
        return network.missing_tools()

    def start(self, names: Sequence[str]) -> None:
        """Make the namespaces.

        Raises:
            NetworkError: a step failed.
        """
        for name in names:
            self._made.append(name)
            network.carry_out(network.make_namespace(name))

    def stop(self) -> None:
        """Remove the namespaces."""
        made, self._made = self._made, []
        network.remove_namespaces(made)


class ContainerGuests:
    """Guests that are containers: they start with no network device but the loopback one."""

    def __init__(self, platform: DockerPlatform | LxcPlatform) -> None:
        """Prepare; nothing is started yet."""
        self._platform = platform
        self.name: Final = platform.name

    def missing(self) -> str | None:
        """Why this machine has no such containers, or None."""
        return self._platform.missing()

    def start(self, names: Sequence[str]) -> None:
        """Start the containers and give their network namespaces these names.

        Raises:
            MachineCannot, PlatformFailed, NetworkError: a container could not be started.
        """
        started: Sequence[DockerInstance | LxcInstance] = self._platform.start(len(names))
        for name, instance in zip(names, started, strict=True):
            network.carry_out(network.adopt(name, instance.pid))

    def stop(self) -> None:
        """End the containers."""
        self._platform.stop()


def guest_address(index: int) -> str:
    """The address of the flow through the guest with this index, from 0: it lies behind the guest."""
    return f"198.19.0.{index + 1}"


def guest_mac(index: int, side: int) -> str:
    """The hardware address of a guest's interface: side 1 faces the bridge in, side 2 the bridge out."""
    return f"02:76:c6:{side:02x}:00:{index + 1:02x}"


def tester_mac(port: int) -> str:
    """The hardware address of the tester's port 0 or 1."""
    return f"02:76:c6:00:00:{port + 1:02x}"


def switch_here() -> str:
    """The switch that this machine has: Open vSwitch where its control program is there and answers, else Linux's."""
    if shutil.which("ovs-vsctl") is not None:
        with suppress(NetworkError):
            network.run_tool(("ovs-vsctl", "--timeout=3", "show"))
            return "ovs"
    return "linux"


class ForwardingRoom:
    """Tester, switch and guests. As a context manager it makes them and removes them on every way out."""

    def __init__(
        self,
        owner: str,
        guests: int,
        *,
        kind: Guests | None = None,
        switch: str | None = None,
        frame_byte: int = 1518,
        cpu: int | None = None,
    ) -> None:
        """Plan the topology; nothing is made yet.

        `owner` begins every name (`network.own_prefix`); `frame_byte` is the largest frame with its check sequence;
        `cpu` is where frames are taken from the tester's port: another one than the tester sends from, else both take
        turns and no load is more than the device can bear.

        Raises:
            NetworkError: more guests than there are addresses for, or none.
        """
        if not 1 <= guests <= MOST_GUESTS:
            raise NetworkError(f"guests: found {guests}, wanted from 1 to {MOST_GUESTS}")
        self.owner = owner
        self.tester = f"{owner}-g"
        self.fabric = f"{owner}-s"
        self.guests = tuple(f"{owner}-d{index}" for index in range(guests))
        self.kind: Guests = kind if kind is not None else NamespaceGuests()
        self.switch = switch if switch is not None else switch_here()
        self.mtu_byte = max(network.USUAL_MTU_BYTE, frame_byte - _ETHERNET_AND_FCS_BYTE)
        self.cpu = cpu
        # The kernel's thread for this device carries its name; so it is told apart from those of other campaigns.
        # Open vSwitch works in the namespace of its daemon, where there may be other devices.
        self._own = _base36(os.getpid() % 36**3)
        self._ingress, self._egress = f"t{self._own}", f"u{self._own}"
        self._thread: int | None = None

    def missing(self) -> str | None:
        """Why this machine cannot make the topology, or None where it can."""
        reason = network.missing_tools()
        if reason is None and shutil.which("ethtool") is None:
            reason = "the program 'ethtool' is missing; install ethtool"
        if reason is None and self.switch == "ovs" and switch_here() != "ovs":
            reason = "Open vSwitch is not here, or its daemon does not run; install openvswitch-switch and start it"
        return reason if reason is not None else self.kind.missing()

    @property
    def flows(self) -> list[str]:
        """The flow of each guest, as `vtare throughput --flow` takes it."""
        return [f"{guest_mac(index, 1)}/{guest_address(index)}" for index in range(len(self.guests))]

    def steps(self) -> list[Step]:
        """Every command that makes tester and switch, in order; guests follow by `guest_steps`."""
        found = network.make_namespace(self.tester)
        if self.switch == "linux":
            found += network.make_namespace(self.fabric)
        else:
            # A name for the namespace that the daemon works in: this process's own.
            found.append(Step(("ip", "netns", "attach", self.fabric, str(os.getpid()))))
        for bridge in (_BRIDGE_IN, _BRIDGE_OUT):
            found += self._bridge(bridge)
        for port, (name, inner, bridge) in enumerate(
            ((TX_PORT, self._ingress, _BRIDGE_IN), (RX_PORT, self._egress, _BRIDGE_OUT))
        ):
            found += self._cable((self.tester, name, tester_mac(port)), inner)
            found += self._plug(inner, bridge)
        # Frames that a program sends reach the other end of a veth only where that takes them by NAPI; and frames of
        # sockets take that way only from a port that promises no large packets.
        tune = (("tester", TX_PORT, "tso", "off"), ("fabric", self._ingress, "gro", "on"))
        for place, device, feature, state in tune:
            namespace = self.tester if place == "tester" else self.fabric
            found.append(Step(("ip", "netns", "exec", namespace, "ethtool", "-K", device, feature, state)))
        return found

    def guest_steps(self, index: int) -> list[Step]:
        """The commands that attach one guest, whose namespace exists, and let it forward."""
        guest = self.guests[index]
        settings = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"]
        found = [Step(("ip", "netns", "exec", guest, "sysctl", "-q", "-e", "-w", *settings))]
        for side, device, bridge, network_address in (
            (1, _IN, _BRIDGE_IN, f"198.18.1.{index + 1}/16"),
            (2, _OUT, _BRIDGE_OUT, f"198.19.1.{index + 1}/16"),
        ):
            port = self._port(side, index)
            found += self._cable((guest, device, guest_mac(index, side)), port)
            found.append(Step(("ip", "-n", guest, "addr", "add", network_address, "dev", device)))
            found += self._plug(port, bridge)
        neighbour = ("neigh", "replace", guest_address(index), "lladdr", tester_mac(1), "dev", _OUT)
        found.append(Step(("ip", "-n", guest, *neighbour, "nud", "permanent")))
        return found

    def make(self) -> None:
        """Make the topology and wait until it carries frames. What a failed attempt has made is removed again.

        Raises:
            NetworkError: a step failed.
        """
        try:
            network.carry_out(self.steps())
            self.kind.start(self.guests)
            for index in range(len(self.guests)):
                network.carry_out(self.guest_steps(index))
            devices = [(self.tester, TX_PORT), (self.tester, RX_PORT), (self.fabric, self._ingress)]
            devices += [(guest, device) for guest in self.guests for device in (_IN, _OUT)]
            devices += [(self.fabric, self._port(side, index)) for side in (1, 2) for index in range(len(self.guests))]
            network.wait_forwarding(devices)
            if self.cpu is not None:
                self._give_cpu(self.cpu)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove everything. May be called twice."""
        try:
            self.kind.stop()
        finally:
            if self.switch == "ovs" and shutil.which("ovs-vsctl") is not None:
                for bridge in (_BRIDGE_IN, _BRIDGE_OUT):
                    with suppress(NetworkError):
                        words = ("ovs-vsctl", "--timeout=5", "--if-exists", "del-br", self._bridge_name(bridge))
                        network.run_tool(words)
            network.remove_namespaces([*self.guests, self.tester, self.fabric])

    def facts(self) -> dict[str, Any]:
        """The document `vtare.topology/1` of the room: what stands between the two ports."""
        return {
            "schema": "vtare.topology/1",
            "switch": self.switch,
            "guests": len(self.guests),
            "platform": self.kind.name,
            "frames_taken_on_cpu": self.cpu,
            "taken_by_thread": self._thread is not None,
            "ports": {
                name: network.interface_facts(namespace, device)
                for name, namespace, device in (
                    ("sends", self.tester, TX_PORT),
                    ("receives", self.tester, RX_PORT),
                    ("in front", self.fabric, self._ingress),
                )
            },
        }

    def __enter__(self) -> Self:
        """Make the topology and return it."""
        self.make()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove it."""
        self.remove()

    def _cable(self, outer: tuple[str, str, str], inner: str) -> list[Step]:
        """Join a device (namespace, name, hardware address) with one of the switch."""
        namespace, name, address = outer
        peer = ("type", "veth", "peer", "name", inner, "netns", self.fabric)
        add = Step(("ip", "link", "add", name, "netns", namespace, "address", address, *peer))
        ends = ((namespace, name), (self.fabric, inner))
        ups = [Step(("ip", "-n", place, "link", "set", device, "up")) for place, device in ends]
        return [add, *network.set_mtu(ends, self.mtu_byte), *ups]

    def _bridge(self, bridge: str) -> list[Step]:
        if self.switch == "linux":
            kind = ("type", "bridge", "stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
            return [
                Step(("ip", "-n", self.fabric, "link", "add", bridge, *kind)),
                *network.set_mtu([(self.fabric, bridge)], self.mtu_byte),
                Step(("ip", "-n", self.fabric, "link", "set", bridge, "up")),
            ]
        return [Step(("ovs-vsctl", "--timeout=5", "add-br", self._bridge_name(bridge)))]

    def _plug(self, port: str, bridge: str) -> list[Step]:
        if self.switch == "linux":
            return [Step(("ip", "-n", self.fabric, "link", "set", port, "master", bridge))]
        return [Step(("ovs-vsctl", "--timeout=5", "add-port", self._bridge_name(bridge), port))]

    def _bridge_name(self, bridge: str) -> str:
        return bridge if self.switch == "linux" else f"{bridge}{self._own}"

    def _port(self, side: int, index: int) -> str:
        """The switch's port in front of one side of a guest."""
        return f"{'i' if side == 1 else 'o'}{self._own}{index}"

    def _give_cpu(self, cpu: int) -> None:
        """Have a thread of the kernel, on this CPU, take frames from the tester's port.

        Where the kernel has no such threads, frames are taken where they are sent; then the tester's own rate falls,
        its trials are void, and the answer is censored: nothing is hidden.
        """
        switch_on = f"echo 1 > /sys/class/net/{self._ingress}/threaded"
        with suppress(NetworkError):
            network.run_tool(("ip", "netns", "exec", self.fabric, "sh", "-c", switch_on))
            self._thread = _wait_thread(f"napi/{self._ingress}-")
        if self._thread is not None:
            with suppress(OSError):
                os.sched_setaffinity(self._thread, {cpu})
                # A device's softirqs wait for no program; nor does this thread.
                os.sched_setscheduler(self._thread, os.SCHED_FIFO, os.sched_param(_PRIORITY))


def _wait_thread(name: str) -> int | None:
    """The number of the kernel's thread whose name begins so; None where none appears."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if (entry / "comm").read_text(encoding="utf-8").startswith(name):
                        return int(entry.name)
        time.sleep(0.02)
    return None


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(digits[number // 36**place % 36] for place in (2, 1, 0))


__all__ = ["MOST_GUESTS", "SWITCHES", "ForwardingRoom", "Guests", "NamespaceGuests", "switch_here"]
