"""The `qemu` platform: micro guests under QEMU, with KVM where a guest comes up under it, else emulated (TCG).

A guest boots the distribution's kernel with vtare's own binary as first process (docs/guests.md); the lab talks to it
over a virtio port, so that its network card carries the measured packets alone. The card ends in a tap, which is a port
of the site's bridge: there the host captures. Libvirt runs the guests where it is there, else the lab itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.errors import BadInput, MachineCannot
from vtare.platforms import network
from vtare.platforms.guest import accelerator, taps
from vtare.platforms.guest.failed import GuestFailed
from vtare.platforms.guest.image import image_for
from vtare.platforms.guest.instance import (
    LEAST_MEMORY,
    MEBIBYTE,
    READY_S,
    GuestInstance,
    settled_facts,
    start_in_turn,
)
from vtare.platforms.guest.kernel import FLAVOURS, find_kernel, flavour_for, missing_kernel
from vtare.platforms.guest.libvirt_machine import LibvirtMachine, Manager, found_manager, remove_domain
from vtare.platforms.guest.modules import EMULATED_NICS, QUEUE_DRIVERS
from vtare.platforms.guest.qemu_command import PROGRAM, GuestSpec
from vtare.platforms.guest.qemu_machine import QemuMachine, missing_monitor
from vtare.platforms.guest.words import Network
from vtare.platforms.owner import owner_of, started_by, still_runs
from vtare.platforms.protocol import DEFAULT_RESOURCES, Leftover, Need, Resources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vtare.platforms.child import ProcessChild
    from vtare.platforms.guest.accelerator import Accelerator
    from vtare.platforms.guest.machine import GuestMachine
    from vtare.platforms.guest.words import Card
    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Settings

#: QEMU's own, measured: 110 MiB beyond the guest's memory with 32 MiB of translated code.
_OWN_MEMORY: Final = 128 * MEBIBYTE
_OWN_THREADS: Final = 6
#: CPU time that an idle guest takes, measured emulated, rounded up: 0.4 to 0.8 % of a CPU.
_IDLE_CPUS: Final = 0.01
_MACHINES: Final = ("q35", "pc")
_ACCELERATORS: Final = ("auto", "kvm", "tcg")
_MANAGERS: Final = ("auto", "libvirt", "qemu")
_SUFFIX: Final = "-qemu"
_VHOST: Final = Path("/dev/vhost-net")


class QemuInstance(GuestInstance["GuestMachine"]):
    """One guest."""

    @property
    def directory(self) -> Path:
        """Where its sockets and logs lie."""
        return self._machine.spec.directory

    @property
    def emulator(self) -> ProcessChild:
        """QEMU itself; what it says is in `directory / "log"`.

        Raises:
            GuestFailed: libvirt runs it.
        """
        if not isinstance(self._machine, QemuMachine):
            raise GuestFailed(f"guest {self.name}: its emulator is libvirt's, not the lab's")
        return self._machine.process

    def last_words(self) -> str:
        """How QEMU ended, and what it and the guest's kernel said last."""
        return self._machine.last_words()

    def ask(self) -> None:
        """Have the guest say something: it lives.

        Raises:
            GuestFailed: it is gone, or hangs.
        """
        self._machine.agent.facts()


@dataclass(frozen=True, slots=True)
class Stand:
    """Where one guest is to stand: behind the bridge of a site, or with cards of its own and taps in a namespace."""

    name: str
    network: Network | None = None
    cards: tuple[Card, ...] = ()
    namespace: str | None = None
    forwards: bool = False

    @property
    def nic(self) -> str | None:
        """The model of its cards; None where it has none."""
        return self.cards[0].nic if self.cards else None if self.network is None else self.network.nic


class QemuPlatform:
    """Micro guests under QEMU. Settings: `accelerator`, `machine`, `kernel`, `manager`, `queue` (of the card)."""

    name: Final = "qemu"

    def __init__(self, binary: Path, owner: str, settings: Settings | None = None) -> None:
        """Boot this binary; `owner` begins the names of all that is made.

        Raises:
            BadInput: a setting is not known or has a wrong value.
        """
        self._binary = binary
        self._owner = owner
        queues = tuple(QUEUE_DRIVERS)
        allowed = {"accelerator": _ACCELERATORS, "machine": _MACHINES, "kernel": FLAVOURS, "queue": queues}
        allowed["manager"] = _MANAGERS
        for key, value in (settings or {}).items():
            if key not in allowed:
                raise BadInput(f"platform 'qemu': found the setting '{key}', wanted one of: {', '.join(allowed)}")
            if value not in allowed[key]:
                raise BadInput(f"platform 'qemu': {key}: found '{value}', wanted one of: {', '.join(allowed[key])}")
        chosen = {key: str(value) for key, value in (settings or {}).items()}
        self._wanted = chosen.get("accelerator", "auto")
        self._type = chosen.get("machine", "q35")
        self._kernel = chosen.get("kernel")
        self._managed_by = chosen.get("manager", "auto")
        #: The queue discipline that guests give their cards; None for the kernel's own choice.
        self.queue = chosen.get("queue")
        self._machines: list[GuestMachine] = []
        self._taps: list[tuple[Site, int]] = []

    def missing(self, resources: Resources = DEFAULT_RESOURCES) -> str | None:
        """Why this machine cannot run such guests, or None. The first call may boot a guest to try KVM."""
        if shutil.which(PROGRAM) is None:
            return f"the program '{PROGRAM}' is missing; install qemu-system-x86"
        manager = self._manager()
        if self._managed_by == "libvirt" and manager.uri is None:
            return f"libvirt was asked for, but {manager.reason}"
        flavour = flavour_for(resources.nic, self._kernel)
        if resources.nic is not None and resources.nic not in EMULATED_NICS:
            return (
                f"guests have no driver for the network card '{resources.nic}'; "
                f"wanted one of {', '.join(EMULATED_NICS)}"
            )
        least = LEAST_MEMORY[flavour]
        if resources.memory_byte is not None and resources.memory_byte < least:
            found = resources.memory_byte / MEBIBYTE
            return f"a guest of {found:.0f} MiB does not boot; give it {least // MEBIBYTE} MiB or more"
        if resources.pinned is not None:
            absent = sorted(set(resources.pinned) - os.sched_getaffinity(0))
            if absent:
                return f"CPU {absent[0]} to pin to is not there; wanted some of {sorted(os.sched_getaffinity(0))}"
            if manager.uri is None and missing_monitor() is not None:
                return missing_monitor()
        reason = missing_kernel(flavour)
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
        memory = resources.memory_byte or LEAST_MEMORY[flavour_for(resources.nic, self._kernel)]
        processes = (resources.vcpus or 1) + _OWN_THREADS
        return Need(memory_byte=memory + _OWN_MEMORY, processes=processes, cpus=_IDLE_CPUS)

    def start(
        self,
        instances: int,
        site: Site | None = None,
        resources: Resources = DEFAULT_RESOURCES,
        *,
        first: int = 0,
    ) -> Sequence[QemuInstance]:
        """Boot so many guests, four at a time, and return once programs can be started in all of them.

        Raises:
            GuestFailed: one did not come up.
            NetworkError: its tap could not be made.
            MachineCannot: there is no kernel, or a guest cannot be what is asked for.
        """
        nic = resources.nic or "virtio"
        indices = range(first, first + instances)
        if site is None:
            return self.boot([Stand(f"{self._owner}-q{index}") for index in indices], resources)
        started = self.boot(
            [Stand(site.instance_namespace(index), Network(site, index, nic, self.queue)) for index in indices],
            resources,
        )
        network.wait_forwarding([(site.namespace, site.port(index)) for index in indices])
        return started

    def boot(self, stands: Sequence[Stand], resources: Resources = DEFAULT_RESOURCES) -> list[QemuInstance]:
        """Boot a guest at each of these places. See `start`."""
        flavour = flavour_for(resources.nic, self._kernel)
        chosen = self._accelerator(flavour)
        manager = self._manager(forward=any(stand.cards for stand in stands))
        _say_if_emulated(chosen)
        _say_if_managed(manager)
        return start_in_turn(
            stands,
            lambda stand: self._boot(stand, resources, flavour, chosen, manager),
            lambda machine: _ready(machine, resources, chosen, manager),
        )

    def _boot(
        self, stand: Stand, resources: Resources, flavour: str, chosen: Accelerator, manager: Manager
    ) -> GuestMachine:
        if stand.network is not None:
            place = (stand.network.site, stand.network.index)
            self._taps.append(place)
            if manager.uri is None:
                network.carry_out(taps.tap_steps(*place))
        spec = replace(
            self._spec(stand.name, flavour, stand.nic),
            accelerator=chosen.name,
            vcpus=resources.vcpus or 1,
            memory_byte=resources.memory_byte or LEAST_MEMORY[flavour],
            clock_source=resources.clock_source,
            network=stand.network,
            vhost=chosen.name == "kvm" and os.access(_VHOST, os.R_OK | os.W_OK),
            cards=stand.cards,
            namespace=stand.namespace,
            forwards=stand.forwards,
        )
        machine = QemuMachine(spec) if manager.uri is None else LibvirtMachine(spec, manager.uri, self._owner)
        self._machines.append(machine)
        return machine

    def _spec(self, name: str, flavour: str, nic: str | None) -> GuestSpec:
        kernel = find_kernel(flavour)
        directory = directory_of(name)
        image = image_for(kernel, self._binary, nic, queue=None if nic is None else self.queue)
        return GuestSpec(name, directory, kernel.image, image, "tcg", self._type, memory_byte=LEAST_MEMORY[flavour])

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

    def stop(self) -> None:
        """End every guest and remove its tap and its files."""
        machines, self._machines = self._machines, []
        made, self._taps = self._taps, []
        with ExitStack() as stack:
            for site, index in made:
                stack.callback(taps.remove_tap, site, index)
            for machine in machines:
                stack.callback(machine.end)


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
        "kernel": inside.get("kernel"),
        "clock_source": inside.get("clock_source"),
        "agent": hello.get("version"),
    }
    return QemuInstance(machine, facts)


@cache
def emulator_version() -> str | None:
    """What QEMU says of itself, such as `QEMU emulator version 7.2.9`; None where it does not say."""
    try:
        done = subprocess.run((PROGRAM, "--version"), capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.partition("\n")[0].strip()


@cache
def _say_if_emulated(chosen: Accelerator) -> None:
    if chosen.name == "tcg":
        reason = (chosen.reason or "no reason known").rstrip(". ")
        sys.stderr.write(
            f"vtare: guests are EMULATED (TCG), not virtualized: {reason}. Their figures prove function, not "
            "performance; every record says so.\n"
        )


@cache
def _say_if_managed(manager: Manager) -> None:
    if manager.uri is not None:
        sys.stderr.write(f"vtare: guests are run by libvirt {manager.version} at {manager.uri}.\n")


def directory_of(name: str) -> Path:
    """The directory of the guest with this name: its sockets and logs."""
    return Path(tempfile.gettempdir()) / f"{name}{_SUFFIX}"


def leftovers() -> tuple[Leftover, ...]:
    """Guests of lab processes, told by the names of their directories: QEMU where it still runs, and the directory."""
    found = []
    for directory in sorted(Path(tempfile.gettempdir()).glob(f"vtare-*{_SUFFIX}")):
        owner = owner_of(directory.name)
        if owner is not None and directory.is_dir():
            found.append(
                Leftover(
                    "guest",
                    directory.name.removesuffix(_SUFFIX),
                    still_runs(owner),
                    lambda directory=directory, owner=owner: _remove(directory, owner),  # type: ignore[misc]
                )
            )
    return (*found, *taps.leftovers())


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
