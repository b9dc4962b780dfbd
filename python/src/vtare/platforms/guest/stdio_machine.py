"""A guest whose monitor has the guest's serial line, or its first process, on stdin and stdout: the control channel.

What is the same for monitors that are one program of that kind (Firecracker, Cloud Hypervisor, Kata by `ctr`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import abstractmethod
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Layer
from vtare.platforms.binary import digest, not_static
from vtare.platforms.child import ProcessChild, start_answering
from vtare.platforms.guest.cards import GuestAttachment, Network
from vtare.platforms.guest.channel import Descriptors
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.instance import MEBIBYTE, READY_S, GuestInstance, settled_facts, start_in_turn
from vtare.platforms.guest.machine import RunningGuest, how, tail
from vtare.platforms.owner import owner_of, still_runs
from vtare.platforms.protocol import DEFAULT_RESOURCES, Leftover, Need, Resources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.platforms.guest.channel import Channel
    from vtare.platforms.network import Site

#: The device of KVM, without which none of these monitors runs.
KVM: Final = Path("/dev/kvm")
USUAL_MEMORY: Final = 128 * MEBIBYTE


class StdioMachine(RunningGuest):
    """A guest whose monitor is a process of the lab's own."""

    def __init__(self, name: str, directory: Path, place: Network | None, command: Sequence[str]) -> None:
        """Start the monitor in its directory, which exists.

        Raises:
            GuestFailed: it cannot be started.
        """
        super().__init__(name, directory, place)
        self._log = directory / "log"
        try:
            self._started = start_answering(command, directory=directory, stderr=self._log)
        except OSError as error:
            raise GuestFailed(f"guest {name}: {error}") from error
        self._process = ProcessChild(self._started)

    @property
    def process(self) -> ProcessChild:
        """The monitor."""
        return self._process

    def ended(self) -> str | None:
        """See `RunningGuest.ended`."""
        code = self._process.returncode
        return None if code is None else f"its monitor ended with {how(code)}"

    def end(self) -> None:
        """End the guest and remove its files. May be called twice."""
        self._process.kill()
        if self._agent is not None:
            self._agent.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def last_words(self) -> str:
        """How the monitor ended, and what it reported last."""
        self._process.wait(0.5)
        return "; ".join(part for part in (self.ended() or "its monitor still runs", tail(self._log)) if part)

    def _open_channel(self) -> Channel:
        assert self._started.stdin is not None
        assert self._started.stdout is not None
        # Their own, so that whoever closes the channel closes nothing of the process.
        read, write = (os.dup(pipe.fileno()) for pipe in (self._started.stdout, self._started.stdin))
        for descriptor in (read, write):
            os.set_blocking(descriptor, False)
        return Descriptors(read, write)


class StdioPlatform(BasePlatform[GuestInstance[StdioMachine]]):
    """Guests of one such monitor."""

    LAYER = Layer.MACHINE
    BOOTS = True
    TRIED_WITH_ALL = False
    OFFERED = frozenset({"vcpus", "memory_byte"})
    #: The monitor, and where it comes from.
    PROGRAM: ClassVar[str]
    SOURCE: ClassVar[str]

    def _missing(self, resources: Resources) -> str | None:
        program = shutil.which(self.PROGRAM)
        if program is None:
            return f"the program '{self.PROGRAM}' is missing; install it from {self.SOURCE}"
        if not os.access(KVM, os.R_OK | os.W_OK):
            return f"{self.PROGRAM} needs KVM, and {KVM} cannot be opened here"
        return not_static(self._binary) or network.missing_tools()

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one guest takes: its memory, and the monitor with a thread for each vCPU."""
        memory = resources.memory_byte or USUAL_MEMORY
        return Need(memory_byte=memory + 64 * MEBIBYTE, processes=(resources.vcpus or 1) + 8, disk_byte=16 * MEBIBYTE)

    def _make(self, index: int, site: Site | None, resources: Resources) -> GuestInstance[StdioMachine]:
        return self._make_all(range(index, index + 1), site, resources)[0]

    def _make_all(
        self, indices: range, site: Site | None, resources: Resources
    ) -> Sequence[GuestInstance[StdioMachine]]:
        """Boot guests, four at a time."""
        attachments = [
            GuestAttachment(f"{self._owner}-{index}")
            if site is None
            else GuestAttachment(site.instance_namespace(index), Network(site, index, "virtio"))
            for index in indices
        ]
        started = start_in_turn(
            attachments, lambda one: self._boot(one, resources), lambda machine: self._ready(machine, resources)
        )
        if site is not None:
            network.wait_forwarding([(site.namespace, site.port(index)) for index in indices])
        return started

    def _boot(self, attachment: GuestAttachment, resources: Resources) -> StdioMachine:
        place = attachment.network
        directory = directory_of(attachment.name, self.name)
        self._removals.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.mkdir(mode=0o700)
        command = self._command(attachment, directory, resources)
        if place is not None and self.IN_SITE:
            command = ["ip", "netns", "exec", place.site.namespace, *command]
        machine = StdioMachine(attachment.name, directory, place, command)
        self._removals.callback(machine.end)
        return machine

    #: Whether the monitor opens its tap in the site's namespace.
    IN_SITE: ClassVar[bool] = True

    @abstractmethod
    def _command(self, attachment: GuestAttachment, directory: Path, resources: Resources) -> list[str]:
        """Lay what the monitor needs into the directory, and give the words that start it. Makes the network, too."""

    def _ready(self, machine: StdioMachine, resources: Resources) -> GuestInstance[StdioMachine]:
        hello = machine.wait_ready(READY_S)
        inside = settled_facts(machine.agent, machine.name, None)
        facts: dict[str, Any] = {
            "hypervisor": self.name,
            "unverified": self.UNVERIFIED,
            "accelerator": "kvm",
            "vcpus": resources.vcpus or 1,
            "memory_byte": resources.memory_byte or USUAL_MEMORY,
            "nic": None if machine.network is None else machine.network.nic,
            "kernel": inside.get("kernel"),
            "clock_source": inside.get("clock_source"),
            "agent": hello.get("version"),
            "binary_sha256": digest(self._binary),
        }
        return GuestInstance(machine, facts)


def directory_of(name: str, kind: str) -> Path:
    """The directory of the guest with this name: what its monitor is given, and its log."""
    return Path(tempfile.gettempdir()) / f"{name}-{kind}"


def directories_left(kind: str) -> tuple[Leftover, ...]:
    """Directories of guests that lab processes left: the monitors themselves have ended with the lab."""
    found = []
    for directory in sorted(Path(tempfile.gettempdir()).glob(f"vtare-*-{kind}")):
        owner = owner_of(directory.name)
        if owner is not None and directory.is_dir():
            remove = partial(shutil.rmtree, directory, ignore_errors=True)
            found.append(Leftover("guest", directory.name, still_runs(owner), remove))
    return tuple(found)
