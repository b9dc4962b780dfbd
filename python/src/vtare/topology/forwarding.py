"""A topology of guests that forward: bridge in, N guests, bridge out, between two ports of a tester.

    tester --p0====[switch: bridge in ]--in0 guest 1 out0--[ bridge out]====p1-- tester
                            |           in0 guest 2 out0       |
                            +---------- ...           ---------+

It is the set-up of Batalla et al. without a hardware tester. The tester is a namespace with two ports; the switch is
another one, with a Linux bridge on either side, or Open vSwitch. Every flow carries the hardware address of its
guest, so that the bridge in front separates the guests; every guest routes what is for its own address of
198.19.0.0/16 (kept for such tests by RFC 2544) to the tester's second port. Addresses and neighbours are static, and
the bridges know which address is behind which port: nobody else gets a frame, and nobody has to learn.

What a guest *is* is behind `Guests` (`forwarding_guests`): network namespaces, those of containers, or machines under
QEMU; what joins them behind `Switch` (`switches`).
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from vtare.errors import bad_value
from vtare.platforms import network
from vtare.platforms.lacks import together
from vtare.platforms.network import NetworkError, Step
from vtare.topology.forwarding_guests import Guests, NamespaceGuests, cable
from vtare.topology.guest_slots import (
    BRIDGE_IN,
    BRIDGE_OUT,
    MOST_GUESTS,
    RX_PORT,
    TX_PORT,
    guest_address,
    guest_mac,
    guest_slot,
    tester_mac,
)
from vtare.topology.protocol import Topology
from vtare.topology.switches import open_switch, switch_here

_ETHERNET_AND_FCS_BYTE: Final = 18
_READY_S: Final = 10.0
_PRIORITY: Final = 10


class ForwardingTopology(Topology):
    """Tester, switch and guests."""

    def __init__(
        self,
        owner: str,
        guests: int,
        *,
        kind: Guests | None = None,
        switch: str | None = None,
        frame_byte: int = 1518,
        cpu: int | None = None,
        tester_cpu: int | None = None,
    ) -> None:
        """Plan the topology; nothing is made yet.

        `owner` begins every name (`owner.own_prefix`); `frame_byte` is the largest frame with its check sequence;
        `cpu` is where frames are taken from the tester's port: another one than the tester sends from (`tester_cpu`),
        else both take turns and no load is more than the device can bear.

        Raises:
            NetworkError: more guests than there are addresses for, or none.
        """
        if not 1 <= guests <= MOST_GUESTS:
            raise NetworkError(f"guests {bad_value(guests, f'1 to {MOST_GUESTS}')}")
        self.owner = owner
        self.tester = f"{owner}-g"
        # Another name than those of `links`: one plan may have both topologies.
        self.bridge_namespace = f"{owner}-f"
        self.kind: Guests = kind if kind is not None else NamespaceGuests()
        self.switch = switch if switch is not None else switch_here()
        self.mtu_byte = max(network.USUAL_MTU_BYTE, frame_byte - _ETHERNET_AND_FCS_BYTE)
        self.cpu = cpu
        self.tester_cpu = tester_cpu
        # The kernel's thread for this device carries its name; which separates it from those of other campaigns.
        # Open vSwitch works in the namespace of its daemon, where there may be other devices.
        own = _base36(os.getpid() % 36**3)
        self.slots = tuple(guest_slot(owner, own, index) for index in range(guests))
        self.guests = tuple(slot.name for slot in self.slots)
        self._switch = open_switch(self.switch, owner, own)
        self._ingress, self._egress = f"t{own}", f"u{own}"
        self._thread: int | None = None

    def missing(self) -> str | None:
        """Why this machine cannot make the topology, or None where it can."""
        return together(network.missing_tools({"ethtool": "ethtool"}), self._switch.missing(), self.kind.missing())

    @property
    def flows(self) -> list[str]:
        """The flow of each guest, as `vtare throughput --flow` takes it."""
        return [f"{guest_mac(index, 1)}/{guest_address(index)}" for index in range(len(self.guests))]

    def steps(self) -> list[Step]:
        """Every command that makes tester and switch, in order; guests follow by `guest_steps`."""
        all_steps = [*network.make_namespace(self.tester), *self._switch.steps(self.bridge_namespace, self.mtu_byte)]
        for number, (name, port, bridge) in enumerate(
            ((TX_PORT, self._ingress, BRIDGE_IN), (RX_PORT, self._egress, BRIDGE_OUT))
        ):
            all_steps += cable((self.tester, name, tester_mac(number)), self.bridge_namespace, port, self.mtu_byte)
            all_steps += self._switch.plug(self.bridge_namespace, port, bridge, tester_mac(number))
        # Frames that a program sends reach the other end of a veth only where that takes them by NAPI; and frames of
        # sockets take that way only from a port that promises no large packets.
        tune = (("tester", TX_PORT, "tso", "off"), ("bridge_namespace", self._ingress, "gro", "on"))
        for place, device, feature, state in tune:
            namespace = self.tester if place == "tester" else self.bridge_namespace
            all_steps.append(Step(("ip", "netns", "exec", namespace, "ethtool", "-K", device, feature, state)))
        return all_steps

    def guest_steps(self, index: int) -> list[Step]:
        """The commands that attach one guest, which is started, to the switch."""
        steps = self.kind.attach(self.slots[index], self.bridge_namespace, self.mtu_byte)
        for interface in self.slots[index].interfaces:
            steps += self._switch.plug(self.bridge_namespace, interface.port, interface.bridge, interface.mac)
            tester = self._ingress if interface.bridge == BRIDGE_IN else self._egress
            steps += self._switch.isolate(self.bridge_namespace, interface.port, interface.bridge, tester)
        return steps

    def _make(self) -> None:
        """Make the topology and wait until it carries frames."""
        network.carry_out(self.steps())
        self.kind.start(self.slots, self.bridge_namespace, self.mtu_byte)
        for index in range(len(self.slots)):
            network.carry_out(self.guest_steps(index))
        devices = [(self.tester, TX_PORT), (self.tester, RX_PORT), (self.bridge_namespace, self._ingress)]
        devices += [device for slot in self.slots for device in self.kind.devices(slot)]
        devices += [(self.bridge_namespace, interface.port) for slot in self.slots for interface in slot.interfaces]
        network.wait_forwarding(devices)
        if self.tester_cpu is not None:
            self.kind.keep_off(self.tester_cpu)
        if self.cpu is not None:
            self._give_cpu(self.cpu)

    def remove(self) -> None:
        """Remove everything. May be called twice."""
        try:
            self.kind.stop()
        finally:
            self._switch.remove()
            network.remove_namespaces([*self.guests, self.tester, self.bridge_namespace])

    @property
    def processes(self) -> list[int]:
        """Processes that are part of what is tested: what they do is no other program's work."""
        return [*(child.pid for _, child, _ in self.kind.watched()), *self._switch.processes()]

    def facts(self) -> dict[str, Any]:
        """The document `vtare.topology/1` of the topology: what is between the two ports."""
        return {
            "schema": "vtare.topology/1",
            **self._switch.facts(),
            "guests": len(self.guests),
            "platform": self.kind.name,
            **self.kind.facts(),
            "frames_taken_on_cpu": self.cpu,
            "taken_by_thread": self._thread is not None,
            "ports": {
                name: network.interface_facts(namespace, device)
                for name, namespace, device in (
                    ("sends", self.tester, TX_PORT),
                    ("receives", self.tester, RX_PORT),
                    ("in front", self.bridge_namespace, self._ingress),
                )
            },
        }

    def _give_cpu(self, cpu: int) -> None:
        """Have a thread of the kernel, on this CPU, take frames from the tester's port.

        Where the kernel has no such threads, frames are taken where they are sent; then the tester's own rate falls,
        its trials are void, and the answer is censored: nothing is hidden.
        """
        switch_on = f"echo 1 > /sys/class/net/{self._ingress}/threaded"
        with suppress(NetworkError):
            network.run_tool(("ip", "netns", "exec", self.bridge_namespace, "sh", "-c", switch_on))
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
