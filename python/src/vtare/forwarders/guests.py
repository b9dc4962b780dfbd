"""What stands between the bridges: network namespaces, those of containers, or machines under QEMU."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from vtare.platforms import DEFAULT_RESOURCES, Need, PlatformFailed, Resources, network
from vtare.platforms.guest.words import Card
from vtare.platforms.network import Step
from vtare.platforms.qemu import QemuInstance, QemuPlatform, Stand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.forwarders.seats import Leg, Seat
    from vtare.platforms.child import ProcessChild
    from vtare.platforms.docker import DockerInstance, DockerPlatform
    from vtare.platforms.lxc import LxcInstance, LxcPlatform


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

    def start(self, seats: Sequence[Seat], fabric: str, mtu_byte: int) -> None:
        """Start a guest at each seat; the switch's namespace `fabric` is there.

        Raises OSError, NetworkError, PlatformFailed or MachineCannot where that fails; `stop` then removes what was
        made.
        """
        ...

    def attach(self, seat: Seat, fabric: str, mtu_byte: int) -> list[Step]:
        """Steps that bring both ports in front of a started guest into `fabric`, up, and have it forward."""
        ...

    def devices(self, seat: Seat) -> list[tuple[str, str]]:
        """Devices of an attached guest that must carry frames, as namespace and name."""
        ...

    def watched(self) -> list[tuple[str, ProcessChild, Path]]:
        """Processes with which guests end: name, process, and where it says why."""
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
    """What is the same for all guests whose kernel is the host's: `ip -n` reaches them under the name of their seat."""

    def attach(self, seat: Seat, fabric: str, mtu_byte: int) -> list[Step]:
        """See `Guests.attach`."""
        settings = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"]
        found = [Step(("ip", "netns", "exec", seat.name, "sysctl", "-q", "-e", "-w", *settings))]
        for leg in seat.legs:
            found += cable((seat.name, leg.device, leg.mac), fabric, leg.port, mtu_byte)
            found.append(Step(("ip", "-n", seat.name, "addr", "add", leg.address, "dev", leg.device)))
            for address, mac in leg.neighbours:
                neighbour = ("neigh", "replace", address, "lladdr", mac, "dev", leg.device)
                found.append(Step(("ip", "-n", seat.name, *neighbour, "nud", "permanent")))
        return found

    def devices(self, seat: Seat) -> list[tuple[str, str]]:
        """See `Guests.devices`."""
        return [(seat.name, leg.device) for leg in seat.legs]

    def watched(self) -> list[tuple[str, ProcessChild, Path]]:
        """None: the host's kernel forwards."""
        return []

    def keep_off(self, cpu: int) -> None:
        """Do nothing: `guest_cpu` says where the kernel forwards."""

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

    def start(self, seats: Sequence[Seat], fabric: str, mtu_byte: int) -> None:
        """Make the namespaces.

        Raises:
            NetworkError: a step failed.
        """
        for seat in seats:
            self._made.append(seat.name)
            network.carry_out(network.make_namespace(seat.name))

    def stop(self) -> None:
        """Remove the namespaces."""
        made, self._made = self._made, []
        network.remove_namespaces(made)


class ContainerGuests(_InNamespaces):
    """Guests that are containers: they start with no network device but the loopback one."""

    def __init__(self, platform: DockerPlatform | LxcPlatform, resources: Resources = DEFAULT_RESOURCES) -> None:
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

    def start(self, seats: Sequence[Seat], fabric: str, mtu_byte: int) -> None:
        """Start the containers and give their network namespaces the names of the seats.

        Raises:
            MachineCannot, PlatformFailed, NetworkError: a container could not be started.
        """
        started: Sequence[DockerInstance | LxcInstance] = self._platform.start(len(seats), resources=self._resources)
        for seat, instance in zip(seats, started, strict=True):
            network.carry_out(network.adopt(seat.name, instance.pid))

    def stop(self) -> None:
        """End the containers."""
        self._platform.stop()


class QemuGuests:
    """Guests that are machines under QEMU, each with a kernel of its own that forwards between its two cards.

    The taps are QEMU's own: they end with it, also in the namespace of the machine, where Open vSwitch has its ports.
    """

    name: Final = "qemu"

    def __init__(self, platform: QemuPlatform, resources: Resources = DEFAULT_RESOURCES) -> None:
        """Prepare; nothing is started yet."""
        self._platform = platform
        self._resources = resources
        self._started: list[QemuInstance] = []

    def missing(self) -> str | None:
        """Why this machine cannot run such guests, or None. The first call may boot a guest to try KVM."""
        return network.missing_tools() or self._platform.missing(self._resources)

    def need(self) -> Need:
        """What one guest takes."""
        return self._platform.need(self._resources)

    def start(self, seats: Sequence[Seat], fabric: str, mtu_byte: int) -> None:
        """Boot the guests. Their kernels have addresses and neighbours, and forward, before they are ready.

        Raises:
            MachineCannot, PlatformFailed: one did not come up.
        """
        nic = self._resources.nic or "virtio"

        def card(leg: Leg) -> Card:
            return Card(nic, leg.port, leg.mac, leg.address, mtu_byte, leg.neighbours, self._platform.queue)

        stands = [
            Stand(seat.name, cards=tuple(card(leg) for leg in seat.legs), namespace=fabric, forwards=True)
            for seat in seats
        ]
        self._started = self._platform.boot(stands, self._resources)

    def attach(self, seat: Seat, fabric: str, mtu_byte: int) -> list[Step]:
        """See `Guests.attach`."""
        found = network.set_mtu([(fabric, leg.port) for leg in seat.legs], mtu_byte)
        return [*found, *(Step(("ip", "-n", fabric, "link", "set", leg.port, "up")) for leg in seat.legs)]

    def devices(self, seat: Seat) -> list[tuple[str, str]]:
        """None that the host sees."""
        return []

    def watched(self) -> list[tuple[str, ProcessChild, Path]]:
        """QEMU's processes."""
        return [(f"guest {instance.name}", instance.emulator, instance.directory / "log") for instance in self._started]

    def keep_off(self, cpu: int) -> None:
        """Have QEMU's threads run on other CPUs, but for vCPUs that the plan pins itself."""
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


def cable(outer: tuple[str, str, str], fabric: str, port: str, mtu_byte: int) -> list[Step]:
    """Steps that join a device, as namespace, name and hardware address, with a port-to-be of the switch."""
    namespace, name, mac = outer
    ends = ((namespace, name), (fabric, port))
    ups = [Step(("ip", "-n", place, "link", "set", device, "up")) for place, device in ends]
    return [*network.pair(*ends, mtu_byte, mac=mac), *ups]
