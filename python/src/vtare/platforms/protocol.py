"""What a platform is: the protocols that the executor knows, and the plain data that passes between the two.

A platform starts instances, an instance starts the binary in them. Nothing else of a platform is known outside its own
file. Instances that are to talk to each other are started at a `Site`: one server of a topology
(`vtare.topology.links`), with a bridge to attach them to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.platforms.child import Child
    from vtare.platforms.network import Site


#: What a plan states of a platform of its own (`[platforms.NAME]`, without `kind`).
Settings = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Resources:
    """What one instance is given. None is what the platform gives where nothing is asked for.

    `vcpus` is how many virtual CPUs a guest has, or how many CPUs' worth of time a container may take. `pinned` are
    CPUs of the host: vCPU n of a guest stays on the n-th of them, round and round; a container stays on all of them.
    `nic` is the model of the virtual network card (`virtio`, `vmxnet3`, `e1000`, `rtl8139`, or another that the
    hypervisor offers), `clock_source` what the guest's kernel keeps time by (`tsc`, `kvm-clock`, `hpet`, `acpi_pm`),
    `disk_byte` the size of its virtual disk, 0 for none.
    """

    vcpus: int | None = None
    memory_byte: int | None = None
    pinned: tuple[int, ...] | None = None
    nic: str | None = None
    clock_source: str | None = None
    disk_byte: int | None = None

    def beyond(self, offered: frozenset[str]) -> str | None:
        """Why a platform that offers only these cannot give this, in words; None where it can."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and field.name not in offered:
                return f"has no {_WORDS[field.name]} to choose: leave out {_shown(value)}"
        return None


_WORDS: Final = {
    "vcpus": "number of CPUs",
    "memory_byte": "memory limit",
    "pinned": "CPUs to pin to",
    "nic": "model of its network card",
    "clock_source": "clock source of its own",
    "disk_byte": "disk of its own",
}
#: A container's: the kernel, its clock source and the virtual Ethernet device are the host's.
CONTAINER_RESOURCES: Final = frozenset({"vcpus", "memory_byte", "pinned"})
#: A guest's, whose machine is made for it.
GUEST_RESOURCES: Final = frozenset(_WORDS)
DEFAULT_RESOURCES: Final = Resources()


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, slots=True)
class Need:
    """What instances will take of this machine: looked at before they are started, so that none is started in vain.

    `cpus` is CPU time that they take all the time, doing nothing, in CPUs.
    """

    memory_byte: int = 0
    processes: int = 0
    disk_byte: int = 0
    cpus: float = 0.0

    def __mul__(self, instances: int) -> Need:
        """What `instances` of them take."""
        return Need(
            self.memory_byte * instances,
            self.processes * instances,
            self.disk_byte * instances,
            self.cpus * instances,
        )

    def __add__(self, other: Need) -> Need:
        """What both take together."""
        return Need(
            self.memory_byte + other.memory_byte,
            self.processes + other.processes,
            self.disk_byte + other.disk_byte,
            self.cpus + other.cpus,
        )


class Instance(Protocol):
    """One started machine, container or guest (for `host`: the host itself)."""

    @property
    def name(self) -> str:
        """What to call it in messages."""
        ...

    @property
    def address(self) -> str | None:
        """Its address in the lab's network; None where it was started at no site."""
        ...

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """Start `vtare ARGUMENTS` in the instance; what it prints lands in the two files, on the controller.

        Every file in `directory` is visible to the program under the same path (a platform without a shared file
        system copies it in). Raises OSError where the program cannot be started on this machine, PlatformFailed where
        the instance does not start it.
        """
        ...

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """Bring files that the program left in `directory` to the same path on the controller, each whole.

        `expected` holds their names, and the most bytes that each can have; nothing else is taken. Call after the
        child's end. Raises PlatformFailed where the instance does not give one, or gives something else than a regular
        file of that size.
        """
        ...

    def facts(self) -> Mapping[str, object]:
        """Facts about the instance that its own footer cannot know (accelerator, NIC model, network device)."""
        ...

    def capture_interface(self) -> str | None:
        """The host-side interface through which the instance's packets pass, or None where there is none."""
        ...

    @property
    def lost(self) -> bool:
        """Whether a connection to it was lost; that another can be made does not bring back what ended with it."""
        ...

    def keep(self, seconds: float) -> None:
        """Let what was started run on for so long, should nothing come from the lab any more."""
        ...


class Server(Instance, Protocol):
    """A machine, or a namespace that stands for one, whose tools the lab may run: a host of a topology.

    Captures, loads, sources of cross traffic, shapers and counters run on servers, wherever these stand.
    """

    def start(
        self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path, before: Sequence[str] = ()
    ) -> Child:
        """See `Instance.start`. `before` are words in front of the program, such as those of `nice`."""
        ...

    def stands_at(self, address: str, interface: str | None) -> None:
        """State its address for measurements, and the device on which packets to it are captured."""
        ...

    def run(self, words: Sequence[str]) -> str:
        """Run a tool to its end and return what it prints.

        Raises NetworkError where it fails, NetworkRefused where this user, or this kernel, never can, PlatformFailed
        where the server cannot be reached.
        """
        ...

    def undo_with(self, commands: Sequence[Sequence[str]]) -> None:
        """State the commands that undo what is changed here from now on, however the lab ends."""
        ...


class Platform(Protocol):
    """A kind of machine that can be started. Made by `Class(binary, owner, settings)`; making one starts nothing."""

    @property
    def name(self) -> str:
        """Its level in plans."""
        ...

    def missing(self, resources: Resources = DEFAULT_RESOURCES) -> str | None:
        """Why this machine cannot give such instances, and the way out; None where it can. Else cells are skipped."""
        ...

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one idle instance takes of this machine, rounded up."""
        ...

    def start(
        self,
        instances: int,
        site: Site | None = None,
        resources: Resources = DEFAULT_RESOURCES,
        *,
        first: int = 0,
    ) -> Sequence[Instance]:
        """Start `instances` of them, attached to the site's bridge where one is given, and return once all are ready.

        Ready is an instance in which a program can be started. `first` is the index of the first of them at the site:
        two platforms may have instances behind one bridge. Raises PlatformFailed, NetworkError or MachineCannot where
        that fails; `stop` then removes what was made.
        """
        ...

    def stop(self) -> None:
        """End every instance. May be called twice, and after a failed `start`."""
        ...
