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
from vtare.platforms.binary import not_static
from vtare.platforms.child import ProcessChild, start_answering
from vtare.platforms.guest.channel import Descriptors
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.instance import MEBIBYTE
from vtare.platforms.guest.own_process import USUAL_MEMORY, OwnGuest, OwnGuestPlatform
from vtare.platforms.lacks import programs, together
from vtare.platforms.owner import Leftover, owner_of, still_runs
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, Resources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.platforms.guest.cards import GuestAttachment, Network
    from vtare.platforms.guest.channel import Channel

#: The device of KVM, without which none of these monitors runs.
KVM: Final = Path("/dev/kvm")


class StdioMachine(OwnGuest):
    """A guest whose monitor is a process of the lab's own."""

    PROGRAM = "its monitor"

    def __init__(self, name: str, directory: Path, place: Network | None, command: Sequence[str]) -> None:
        """Start the monitor in its directory, which exists.

        Raises:
            GuestFailed: it cannot be started.
        """
        super().__init__(name, directory, place)
        try:
            self._started = start_answering(command, directory=directory, stderr=self._log)
        except OSError as error:
            raise GuestFailed(f"guest {name}: {error}") from error
        self._process = ProcessChild(self._started)

    def _open_channel(self) -> Channel:
        assert self._started.stdin is not None
        assert self._started.stdout is not None
        # Their own, so that whoever closes the channel closes nothing of the process.
        read, write = (os.dup(pipe.fileno()) for pipe in (self._started.stdout, self._started.stdin))
        for descriptor in (read, write):
            os.set_blocking(descriptor, False)
        return Descriptors(read, write)


class StdioPlatform(OwnGuestPlatform[StdioMachine]):
    """Guests of one such monitor."""

    OFFERED = frozenset({"vcpus", "memory_byte"})
    #: The monitor, and where it comes from.
    PROGRAM: ClassVar[str]
    SOURCE: ClassVar[str]

    def _missing(self, resources: Resources) -> str | None:
        usable = os.access(KVM, os.R_OK | os.W_OK)
        return together(
            programs({self.PROGRAM: f"it from {self.SOURCE}"}),
            None if usable else f"{self.PROGRAM} needs KVM, and {KVM} cannot be opened here",
            not_static(self._binary),
            network.missing_tools(),
        )

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one guest takes: its memory, and the monitor with a thread for each vCPU."""
        memory = resources.memory_byte or USUAL_MEMORY
        return Need(memory_byte=memory + 64 * MEBIBYTE, processes=(resources.vcpus or 1) + 8, disk_byte=16 * MEBIBYTE)

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

    def _about(self, resources: Resources) -> dict[str, Any]:
        return {
            "hypervisor": self.name,
            "unverified": self.UNVERIFIED,
            "accelerator": "kvm",
            "vcpus": resources.vcpus or 1,
        }


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
