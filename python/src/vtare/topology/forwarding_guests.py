"""What is between the bridges: network namespaces, those of containers, or machines under QEMU or Xen."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from vtare.errors import PlatformFailed
from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Forwards
from vtare.platforms.guest.cards import Card, GuestAttachment
from vtare.platforms.lacks import together
from vtare.platforms.network import Step
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, Resources
from vtare.platforms.qemu import QemuPlatform
from vtare.platforms.xen import XenPlatform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.platforms.child import ProcessChild
    from vtare.platforms.guest.instance import GuestInstance
    from vtare.topology.guest_slots import GuestInterface, GuestSlot


class Guests(Protocol):
    """A kind of guest: each has two interfaces, forwards between them, and asks nobody for hardware addresses."""

    @property
    def name(self) -> str:
        """The platform's level in plans."""
        ...

    def missing(self) -> str | None:
        """Why this machine cannot give such guests, or None where it can."""
        ...

    def need(self) -> Need:
        """What one guest takes of this machine."""
        ...

    def start(self, slots: Sequence[GuestSlot], bridge_namespace: str, mtu_byte: int) -> None:
        """Start a guest at each slot; the switch's namespace `bridge_namespace` is there.

        Raises OSError, NetworkError, PlatformFailed or MachineCannot where that fails; `stop` then removes what was
        made.
        """
        ...

    def attach(self, slot: GuestSlot, bridge_namespace: str, mtu_byte: int) -> list[Step]:
        """Steps that bring both ports in front of a started guest into `bridge_namespace`, up, and have it forward."""
        ...

    def devices(self, slot: GuestSlot) -> list[tuple[str, str]]:
        """Devices of an attached guest that must carry frames, as namespace and name."""
        ...

    def watched(self) -> list[tuple[str, ProcessChild, Path]]:
        """Processes with which guests end: name, process, and where it states why."""
        ...

    def keep_off(self, cpu: int) -> None:
        """Leave this CPU to the tester, where guests are processes and there is another one."""
        ...

    def check(self) -> None:
        """See that every guest still lives.

        Raises:
            PlatformFailed: one does not.
        """
        ...

    def facts(self) -> dict[str, Any]:
        """What guests are made of; nothing where that is the host's kernel alone."""
        ...

    def stop(self) -> None:
        """End every guest. May be called twice, and after a failed `start`."""
        ...


class _InNamespaces:
    """What is the same for all guests whose kernel is the host's: `ip -n` reaches them under the name of their slot."""

    def attach(self, slot: GuestSlot, bridge_namespace: str, mtu_byte: int) -> list[Step]:
        """See `Guests.attach`."""
        settings = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"]
        steps = [Step(("ip", "netns", "exec", slot.name, "sysctl", "-q", "-e", "-w", *settings))]
        for interface in slot.interfaces:
            steps += cable((slot.name, interface.device, interface.mac), bridge_namespace, interface.port, mtu_byte)
            steps.append(Step(("ip", "-n", slot.name, "addr", "add", interface.address, "dev", interface.device)))
            for address, mac in interface.neighbours:
                neighbour = ("neigh", "replace", address, "lladdr", mac, "dev", interface.device)
                steps.append(Step(("ip", "-n", slot.name, *neighbour, "nud", "permanent")))
        return steps

    def devices(self, slot: GuestSlot) -> list[tuple[str, str]]:
        """See `Guests.devices`."""
        return [(slot.name, interface.device) for interface in slot.interfaces]

    def watched(self) -> list[tuple[str, ProcessChild, Path]]:
        """None: the host's kernel forwards."""
        return []

    def keep_off(self, cpu: int) -> None:
        """Do nothing: `guest_cpu` states where the kernel forwards."""

    def check(self) -> None:
        """Do nothing: there is no guest that could die by itself."""

    def facts(self) -> dict[str, Any]:
        """Nothing."""
        return {}


class NamespaceGuests(_InNamespaces):
    """Guests that are network namespaces."""

    name: Final = "netns"

    def __init__(self, resources: Resources = DEFAULT_RESOURCES) -> None:
        """Prepare; nothing is made yet."""
        self._resources = resources
        self._made: list[str] = []

    def missing(self) -> str | None:
        """Why this machine has no namespaces, or None."""
        reason = self._resources.beyond(frozenset())
        return network.missing_tools() if reason is None else f"a namespace {reason}"

    def need(self) -> Need:
        """What one namespace takes: measured at 0.5 MiB."""
        return Need(memory_byte=1 << 20)

    def start(self, slots: Sequence[GuestSlot], bridge_namespace: str, mtu_byte: int) -> None:
        """Make the namespaces.

        Raises:
            NetworkError: a step failed.
        """
        for slot in slots:
            self._made.append(slot.name)
            network.carry_out(network.make_namespace(slot.name))

    def stop(self) -> None:
        """Remove the namespaces."""
        made, self._made = self._made, []
        network.remove_namespaces(made)


class ContainerGuests(_InNamespaces):
    """Guests that are containers: they start with no network device but the loopback one."""

    def __init__(self, platform: BasePlatform[Any], resources: Resources = DEFAULT_RESOURCES) -> None:
        """Prepare; nothing is started yet."""
        self._platform = platform
        self._resources = resources
        self.name: Final = platform.name

    def missing(self) -> str | None:
        """Why this machine has no such containers, or None."""
        return self._platform.missing(self._resources)

    def need(self) -> Need:
        """What one container takes."""
        return self._platform.need(self._resources)

    def start(self, slots: Sequence[GuestSlot], bridge_namespace: str, mtu_byte: int) -> None:
        """Start the containers and give their network namespaces the names of the slots.

        Raises:
            MachineCannot, PlatformFailed, NetworkError: a container could not be started.
        """
        started = self._platform.start(len(slots), resources=self._resources)
        for slot, instance in zip(slots, started, strict=True):
            network.carry_out(network.adopt(slot.name, instance.pid))

    def stop(self) -> None:
        """End the containers."""
        self._platform.stop()


class MachineGuests:
    """Guests that are machines under QEMU or Xen, each with a kernel of its own that forwards between its two cards.

    The host's ends of the cards end with them, also in the namespace of the bridges, where Open vSwitch has its ports.
    """

    def __init__(self, platform: QemuPlatform | XenPlatform, resources: Resources = DEFAULT_RESOURCES) -> None:
        """Prepare; nothing is started yet."""
        self._platform = platform
        self._resources = resources
        self._started: Sequence[GuestInstance[Any]] = []
        self.name: Final = platform.name

    def missing(self) -> str | None:
        """Why this machine cannot run such guests, or None. The first call may boot a guest to try KVM."""
        return together(network.missing_tools(), self._platform.missing(self._resources))

    def need(self) -> Need:
        """What one guest takes."""
        return self._platform.need(self._resources)

    def start(self, slots: Sequence[GuestSlot], bridge_namespace: str, mtu_byte: int) -> None:
        """Boot the guests. Their kernels have addresses and neighbours, and forward, before they are ready.

        Raises:
            MachineCannot, PlatformFailed: one did not come up.
        """
        nic = self._resources.nic or self._platform.CARD

        def card(interface: GuestInterface) -> Card:
            return Card(
                nic,
                interface.port,
                interface.mac,
                interface.address,
                mtu_byte,
                interface.neighbours,
                self._platform.queue,
            )

        attachments = [
            GuestAttachment(
                slot.name,
                cards=tuple(card(interface) for interface in slot.interfaces),
                namespace=bridge_namespace,
                forwards=True,
            )
            for slot in slots
        ]
        self._started = self._platform.boot(attachments, self._resources)

    def attach(self, slot: GuestSlot, bridge_namespace: str, mtu_byte: int) -> list[Step]:
        """See `Guests.attach`."""
        steps = network.set_mtu([(bridge_namespace, interface.port) for interface in slot.interfaces], mtu_byte)
        return [
            *steps,
            *(
                Step(("ip", "-n", bridge_namespace, "link", "set", interface.port, "up"))
                for interface in slot.interfaces
            ),
        ]

    def devices(self, slot: GuestSlot) -> list[tuple[str, str]]:
        """None that the host sees."""
        return []

    def watched(self) -> list[tuple[str, ProcessChild, Path]]:
        """QEMU's processes, or those of `xl`."""
        return [(f"guest {instance.name}", instance.emulator, instance.directory / "log") for instance in self._started]

    def keep_off(self, cpu: int) -> None:
        """Have the threads of what runs them run on other CPUs, but for vCPUs that the plan pins itself."""
        others = os.sched_getaffinity(0) - {cpu}
        if not others or self._resources.pinned is not None:
            return
        for instance in self._started:
            for thread in Path(f"/proc/{instance.emulator.pid}/task").iterdir():
                with suppress(OSError):
                    os.sched_setaffinity(int(thread.name), others)

    def check(self) -> None:
        """Ask every guest.

        Raises:
            PlatformFailed: one is gone or hangs.
        """
        for instance in self._started:
            if not instance.alive:
                raise PlatformFailed(f"guest {instance.name} is gone: {instance.last_words()}")
            instance.ask()

    def facts(self) -> dict[str, Any]:
        """What the guests are made of."""
        return {"guest": [instance.facts()["guest"] for instance in self._started]}

    def stop(self) -> None:
        """End the guests."""
        self._started = []
        self._platform.stop()


def forwarding_guests(platform: BasePlatform[Any], resources: Resources = DEFAULT_RESOURCES) -> Guests | None:
    """The guests that forward on this platform; None where its instances cannot."""
    match platform.forwards:
        case Forwards.NAMESPACE:
            return NamespaceGuests(resources)
        case Forwards.CONTAINER:
            return ContainerGuests(platform, resources)
        case Forwards.MACHINE if isinstance(platform, QemuPlatform | XenPlatform):
            return MachineGuests(platform, resources)
        case _:
            return None


def cable(outer: tuple[str, str, str], bridge_namespace: str, port: str, mtu_byte: int) -> list[Step]:
    """Steps that join a device, as namespace, name and hardware address, with a port-to-be of the switch."""
    namespace, name, mac = outer
    ends = ((namespace, name), (bridge_namespace, port))
    ups = [Step(("ip", "-n", place, "link", "set", device, "up")) for place, device in ends]
    return [*network.pair(*ends, mtu_byte, mac=mac), *ups]
