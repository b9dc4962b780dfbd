"""The `qemu` platform: micro guests under QEMU, with KVM where a guest comes up under it, else emulated (TCG).

A guest boots the distribution's kernel with vtare's own binary as first process (docs/internals/guests.md); the lab
talks to it over a virtio port, so that its network card carries the measured packets alone. The card ends in a tap,
which is a port of the site's bridge: there the host captures. Libvirt runs the guests where it is there, else the lab
itself.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from vtare.errors import MachineCannot
from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Forwards, Layer
from vtare.platforms.guest import accelerator, disk, taps
from vtare.platforms.guest.cards import GuestAttachment, Network
from vtare.platforms.guest.image import image_for
from vtare.platforms.guest.instance import (
    GIVEN_MEMORY,
    LEAST_MEMORY,
    MEBIBYTE,
    READY_S,
    GuestInstance,
    settled_facts,
    start_in_turn,
)
from vtare.platforms.guest.kernel import FLAVOURS, find_kernel, flavour_for, missing_kernel
from vtare.platforms.guest.libvirt_machine import LibvirtMachine, Manager, found_manager, remove_domain
from vtare.platforms.guest.machine import GuestMachine
from vtare.platforms.guest.modules import EMULATED_NICS, QUEUE_DRIVERS, VIRTIO_DISK
from vtare.platforms.guest.qemu_command import PROGRAM, GuestSpec
from vtare.platforms.guest.qemu_machine import QemuMachine, missing_monitor
from vtare.platforms.lacks import programs, together
from vtare.platforms.owner import Leftover, owner_of, started_by, still_runs
from vtare.platforms.protocol import DEFAULT_RESOURCES, GUEST_RESOURCES, Need, Resources
from vtare.process import ToolFailed, run_tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vtare.platforms.guest.accelerator import Accelerator
    from vtare.platforms.guest.disk import Disk
    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Settings

_LOG = logging.getLogger(__name__)
#: QEMU's own, measured: 110 MiB beyond the guest's memory with 32 MiB of translated code.
_OWN_MEMORY: Final = 128 * MEBIBYTE
_OWN_THREADS: Final = 6
#: CPU time that an idle guest takes, measured emulated, rounded up: 0.4 to 0.8 % of a CPU.
_IDLE_CPUS: Final = 0.01
_SUFFIX: Final = "-qemu"
_VHOST: Final = Path("/dev/vhost-net")


class QemuInstance(GuestInstance[GuestMachine]):
    """One guest."""


class QemuPlatform(BasePlatform[QemuInstance]):
    """Micro guests under QEMU. Settings: `accelerator`, `machine`, `kernel`, `manager`, `queue` (of the card)."""

    name: Final = "qemu"
    #: The model of network card where none is asked for.
    CARD: Final = "virtio"
    LAYER = Layer.MACHINE
    BOOTS = True
    FORWARDS = Forwards.MACHINE
    #: Guests take a minute where they are emulated: tests/platforms/test_guests.py.
    TRIED_WITH_ALL = False
    WORDS = "a guest"
    OFFERED = GUEST_RESOURCES
    SETTINGS: ClassVar[Mapping[str, Sequence[str]]] = {
        "accelerator": ("auto", "kvm", "tcg"),
        "machine": ("q35", "pc"),
        "kernel": FLAVOURS,
        "queue": tuple(QUEUE_DRIVERS),
        "manager": ("auto", "libvirt", "qemu"),
    }

    def __init__(self, binary: Path, owner: str, settings: Settings | None = None) -> None:
        """Boot this binary. See `BasePlatform`."""
        super().__init__(binary, owner, settings)
        chosen = {key: str(value) for key, value in self._settings.items()}
        self._wanted = chosen.get("accelerator", "auto")
        self._type = chosen.get("machine", "q35")
        self._kernel = chosen.get("kernel")
        self._managed_by = chosen.get("manager", "auto")
        #: The queue discipline that guests give their cards; None for the kernel's own choice.
        self.queue = chosen.get("queue")

    def _missing(self, resources: Resources) -> str | None:
        """The first call may boot a guest to try KVM."""
        manager = self._manager()
        flavour = flavour_for(resources.nic, self._kernel)
        if resources.nic is not None and resources.nic not in EMULATED_NICS:
            return f"guests have no driver for the card '{resources.nic}': use one of {', '.join(EMULATED_NICS)}"
        least = LEAST_MEMORY[flavour]
        if resources.memory_byte is not None and resources.memory_byte < least:
            mebibytes = resources.memory_byte / MEBIBYTE
            return f"a guest of {mebibytes:.0f} MiB does not boot; give it {least // MEBIBYTE} MiB or more"
        if resources.pinned is not None:
            absent = sorted(set(resources.pinned) - os.sched_getaffinity(0))
            if absent:
                return f"CPU {absent[0]} to pin to is not there: use some of {sorted(os.sched_getaffinity(0))}"
        asked = self._managed_by == "libvirt" and manager.uri is None
        reason = together(
            programs({PROGRAM: "qemu-system-x86"}),
            f"libvirt was asked for, but {manager.reason}" if asked else None,
            missing_monitor() if resources.pinned is not None and manager.uri is None else None,
            missing_kernel(flavour),
            disk.missing(resources),
        )
        if reason is not None:
            return reason
        try:
            found_accelerator = self._accelerator(flavour)
        except MachineCannot as error:
            return str(error)
        if self._wanted == "kvm" and found_accelerator.name != "kvm":
            return f"KVM was asked for, but {found_accelerator.reason}"
        if resources.clock_source == "kvm-clock" and found_accelerator.name != "kvm":
            return f"the clock source kvm-clock is there under KVM only, and {found_accelerator.reason}"
        return None

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one guest takes: its memory and QEMU's own, a thread for each vCPU beside QEMU's own, and CPU time."""
        memory = resources.memory_byte or GIVEN_MEMORY[flavour_for(resources.nic, self._kernel)]
        processes = (resources.vcpus or 1) + _OWN_THREADS
        disk_byte = 0 if resources.disk_byte == 0 else disk.OWN_BYTE
        return Need(memory_byte=memory + _OWN_MEMORY, processes=processes, disk_byte=disk_byte, cpus=_IDLE_CPUS)

    def _make(self, index: int, site: Site | None, resources: Resources) -> QemuInstance:
        return self._make_all(range(index, index + 1), site, resources)[0]

    def _make_all(self, indices: range, site: Site | None, resources: Resources) -> Sequence[QemuInstance]:
        """Boot guests, four at a time."""
        nic = resources.nic or self.CARD
        if site is None:
            return self.boot([GuestAttachment(f"{self._owner}-q{index}") for index in indices], resources)
        started = self.boot(
            [
                GuestAttachment(site.instance_namespace(index), Network(site, index, nic, self.queue))
                for index in indices
            ],
            resources,
        )
        network.wait_forwarding([(site.namespace, site.port(index)) for index in indices])
        return started

    def boot(
        self, attachments: Sequence[GuestAttachment], resources: Resources = DEFAULT_RESOURCES
    ) -> list[QemuInstance]:
        """Boot a guest at each of these places. See `start`."""
        flavour = flavour_for(resources.nic, self._kernel)
        chosen = self._accelerator(flavour)
        manager = self._manager(forward=any(one.cards for one in attachments))
        _log_machines(chosen, manager)
        return start_in_turn(
            attachments,
            lambda attachment: self._boot(attachment, resources, flavour, chosen, manager),
            lambda machine: _ready(machine, resources, chosen, manager),
        )

    def _boot(
        self, attachment: GuestAttachment, resources: Resources, flavour: str, chosen: Accelerator, manager: Manager
    ) -> GuestMachine:
        if attachment.network is not None:
            place = (attachment.network.site, attachment.network.index)
            self._removals.callback(taps.remove_tap, *place)
            if manager.uri is None:
                network.carry_out(taps.tap_steps(*place))
        # Guests that forward do nothing else.
        wanted = None if attachment.forwards else disk.disk_of(directory_of(attachment.name), resources)
        spec = replace(
            self._spec(attachment.name, flavour, attachment.nic, disk=wanted),
            accelerator=chosen.name,
            vcpus=resources.vcpus or 1,
            memory_byte=resources.memory_byte or GIVEN_MEMORY[flavour],
            clock_source=resources.clock_source,
            network=attachment.network,
            vhost=chosen.name == "kvm" and os.access(_VHOST, os.R_OK | os.W_OK),
            cards=attachment.cards,
            namespace=attachment.namespace,
            forwards=attachment.forwards,
        )
        machine = QemuMachine(spec) if manager.uri is None else LibvirtMachine(spec, manager.uri, self._owner)
        self._removals.callback(machine.end)
        return machine

    def accelerator(self) -> str:
        """What runs guests here: kvm or tcg. The first call may boot one."""
        return self._accelerator(flavour_for(None, self._kernel)).name

    def _spec(self, name: str, flavour: str, nic: str | None, disk: Disk | None = None) -> GuestSpec:
        kernel = find_kernel(flavour)
        directory = directory_of(name)
        queue = None if nic is None else self.queue
        image = image_for(kernel, self._binary, nic, queue=queue, disk=None if disk is None else VIRTIO_DISK)
        memory_byte = LEAST_MEMORY[flavour]
        return GuestSpec(name, directory, kernel.image, image, "tcg", self._type, memory_byte=memory_byte, disk=disk)

    def _manager(self, *, forward: bool = False) -> Manager:
        if self._managed_by == "qemu":
            return Manager(None, None, "the plan asks for plain QEMU")
        if forward:
            if self._managed_by == "libvirt":
                raise MachineCannot("guests that forward are run by the lab itself; leave `manager` out")
            return Manager(None, None, "guests that forward are run by the lab itself")
        return found_manager()

    def _accelerator(self, flavour: str) -> Accelerator:
        if self._wanted == "tcg":
            return accelerator.Accelerator("tcg", "the plan asks for emulation")
        if self._wanted == "kvm":
            return accelerator.as_asked()
        return accelerator.choose(lambda: self._spec(f"{self._owner}-probe", flavour, None))


def _ready(machine: GuestMachine, resources: Resources, chosen: Accelerator, manager: Manager) -> QemuInstance:
    """Wait until a guest is what was asked for."""
    spec = machine.spec
    hello = machine.wait_ready(READY_S)
    pinned = None if resources.pinned is None else machine.pin(resources.pinned)
    inside = settled_facts(machine.agent, spec.name, resources.clock_source)
    facts = {
        "emulator": emulator_version(),
        **manager.facts,
        "accelerator": chosen.name,
        "accelerator_reason": chosen.reason,
        "machine": spec.machine,
        "vcpus": spec.vcpus,
        "memory_byte": spec.memory_byte,
        "pinned": pinned,
        "nic": spec.all_cards[0].nic if spec.all_cards else None,
        "queue": spec.all_cards[0].queue if spec.all_cards else None,
        "vhost": spec.vhost,
        "disk": None if spec.disk is None else {"device": "virtio-blk", **spec.disk.facts()},
        "kernel": inside.get("kernel"),
        "clock_source": inside.get("clock_source"),
        "agent": hello.get("version"),
    }
    return QemuInstance(machine, facts)


@cache
def emulator_version() -> str | None:
    """What QEMU states of itself, such as `QEMU emulator version 7.2.9`; None where it does not state."""
    try:
        return run_tool((PROGRAM, "--version")).partition("\n")[0].strip()
    except ToolFailed:
        return None


@cache
def _log_machines(chosen: Accelerator, manager: Manager) -> None:
    """Log once what runs the guests."""
    if chosen.name == "tcg":
        reason = (chosen.reason or "no reason known").rstrip(". ")
        _LOG.warning(
            "guests are EMULATED (TCG), not virtualized: %s. Their figures prove function, not performance; every "
            "record states it.", reason,
        )  # fmt: skip
    if manager.uri is not None:
        _LOG.info("guests are run by libvirt %s at %s", manager.version, manager.uri)


def directory_of(name: str) -> Path:
    """The directory of the guest with this name: its sockets and logs."""
    return Path(tempfile.gettempdir()) / f"{name}{_SUFFIX}"


def leftovers() -> tuple[Leftover, ...]:
    """Guests of lab processes, recognised by the names of their directories: QEMU, where it runs, and the directory."""
    machines = []
    for directory in sorted(Path(tempfile.gettempdir()).glob(f"vtare-*{_SUFFIX}")):
        owner = owner_of(directory.name)
        if owner is not None and directory.is_dir():
            machines.append(
                Leftover(
                    "guest",
                    directory.name.removesuffix(_SUFFIX),
                    still_runs(owner),
                    lambda directory=directory, owner=owner: _remove(directory, owner),  # type: ignore[misc]
                )
            )
    return (*machines, *taps.leftovers())


def _remove(directory: Path, owner: str) -> None:
    remove_domain(directory, directory.name.removesuffix(_SUFFIX))
    for pid in running_in(directory):
        if started_by(pid, owner):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


def running_in(directory: Path) -> Iterator[int]:
    """Processes that work in this directory, which is one guest's own."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if (entry / "cwd").readlink() == directory:
                    yield int(entry.name)
