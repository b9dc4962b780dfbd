"""The `uml` platform: micro guests of user-mode Linux, a kernel that runs as a process and needs no hypervisor.

A guest runs vtare's own binary as first process, as under `qemu` (docs/internals/guests.md); its serial line is the
control channel, so that its network card carries the measured packets alone. The card is a tap, a port of the site's
bridge: there the host captures. Such a kernel has one CPU, and its processes' system calls are intercepted by ptrace.

Its root is a directory of this machine (hostfs), through which runs' files go: the driver of the serial line hangs for
good once more than 4 KiB wait to be read in the guest.
"""

from __future__ import annotations

import re
import shutil
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms.child import start_child
from vtare.platforms.guest.cards import words_of_all
from vtare.platforms.guest.channel import Terminal
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.instance import MEBIBYTE, GuestInstance
from vtare.platforms.guest.own_process import USUAL_MEMORY, OwnGuest, OwnGuestPlatform
from vtare.platforms.lacks import together
from vtare.platforms.owner import Leftover
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, Resources
from vtare.platforms.rooted import (
    BINARY,
    PLACES,
    copy_in,
    copy_out,
    make_root,
    missing_for_containers,
    pinning,
    places_left,
    remove_files,
)
from vtare.process import run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.platforms.child import Child
    from vtare.platforms.guest.cards import GuestAttachment, Network
    from vtare.platforms.guest.channel import Channel

PROGRAM: Final = "linux.uml"
#: The guest's end of its serial line.
_PORT: Final = "/dev/ttyS0"
_SERIAL: Final = re.compile(r"Serial line 0 assigned device '(?P<path>/dev/pts/\d+)'")
_LEAST_MEMORY: Final = 96 * MEBIBYTE
#: How long its kernel may take to name its serial line.
_SERIAL_S: Final = 60.0
_LOOK_S: Final = 0.02


class UmlMachine(OwnGuest):
    """A guest that is a kernel in a process of the lab's own."""

    PROGRAM = PROGRAM

    def __init__(self, root: Path, name: str, place: Network | None, memory_byte: int, before: Sequence[str]) -> None:
        """Start the kernel on this root, with `before` in front of it.

        Raises:
            GuestFailed: it cannot be started.
        """
        super().__init__(name, root.parent, place)
        self.root = root
        cards = () if place is None else (place.card,)
        inside = [] if place is None else ["ip", "netns", "exec", place.site.namespace]
        devices = [] if place is None else [f"vec0:transport=tap,ifname={place.port},mac={place.card.mac},depth=128"]
        words = [word.replace("vtare.address", "vtare.device=vec0 vtare.address", 1) for word in
                 words_of_all(_PORT, None, cards)]  # fmt: skip
        command = [
            *inside, *before, PROGRAM, f"mem={memory_byte // MEBIBYTE}M", f"umid={name}",
            f"uml_dir={self.directory}",
            # Root and console are given, so that the kernel adds none behind the words for the first process.
            "root=/dev/root", "rootfstype=hostfs", f"rootflags={root}", "rw", f"init={BINARY}", "vtare.tmp=root",
            "console=tty0", "con0=null,fd:1", "con=null", "ssl0=pts", "ssl=null",
            *devices, *(part for word in words for part in word.split(" ")),
        ]  # fmt: skip
        try:
            self._process = start_child(command, directory=self.directory, stdout=self._log, stderr=self._log)
        except OSError as error:
            raise GuestFailed(f"guest {name}: {error}") from error

    def _open_channel(self) -> Channel:
        deadline = time.monotonic() + _SERIAL_S
        while (match := _SERIAL.search(self._log.read_text(encoding="utf-8", errors="replace"))) is None:
            if self.ended() is not None or time.monotonic() > deadline:
                raise GuestFailed(f"guest {self.name}: has no serial line; {self.last_words()}")
            time.sleep(_LOOK_S)
        return Terminal(Path(match["path"]))


class UmlInstance(GuestInstance[UmlMachine]):
    """One guest that is ready. Runs' files are copied into its root and out of it."""

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """Copy the directory's files in and start the guest's own binary. See `Instance.start`."""
        copy_in(self._machine.root, self.name, directory, {stdout, stderr})
        return self._machine.agent.start(arguments, directory=directory, stdout=stdout, stderr=stderr)

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """Copy out what is expected. See `Instance.fetch`."""
        copy_out(self._machine.root, self.name, directory, expected)


class UmlPlatform(OwnGuestPlatform[UmlMachine]):
    """Micro guests of user-mode Linux."""

    name: Final = "uml"
    CARD = "tap"
    READY_S = 60.0
    WORDS = "a guest of user-mode Linux"
    OFFERED = frozenset({"memory_byte", "pinned"})

    def _missing(self, resources: Resources) -> str | None:
        reason = missing_for_containers({PROGRAM: "user-mode-linux"}, self._binary)
        if shutil.which(PROGRAM) is not None:
            reason = together(cannot_start(), reason)
        if resources.memory_byte is not None and resources.memory_byte < _LEAST_MEMORY:
            mebibytes = resources.memory_byte / MEBIBYTE
            small = f"a guest of {mebibytes:.0f} MiB does not boot; give it {_LEAST_MEMORY // MEBIBYTE} MiB or more"
            return together(small, reason)
        return reason

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one guest takes: its memory, its root, and a process of the host for each of its own."""
        memory = resources.memory_byte or USUAL_MEMORY
        return Need(memory_byte=memory + 32 * MEBIBYTE, processes=24, disk_byte=16 * MEBIBYTE)

    def _boot(self, attachment: GuestAttachment, resources: Resources) -> UmlMachine:
        self._make_tap(attachment)
        directory = PLACES / self.name / f"{attachment.name}-uml"
        self._removals.callback(remove_files, directory)
        root = make_root(directory)
        shutil.copy(self._binary, root / BINARY[1:])
        memory = resources.memory_byte or USUAL_MEMORY
        machine = UmlMachine(root, attachment.name, attachment.network, memory, pinning(resources))
        self._removals.callback(machine.end)
        return machine

    def _about(self, resources: Resources) -> dict[str, Any]:
        return {
            "emulator": f"user-mode Linux {_version()}",
            "accelerator": "uml",
            "vcpus": 1,
            "pinned": None if resources.pinned is None else list(resources.pinned),
        }

    def _instance(self, guest: UmlMachine, facts: dict[str, Any]) -> UmlInstance:
        return UmlInstance(guest, facts)


def cannot_start() -> str | None:
    """Why the kernel that is installed does not start on this CPU, or None where nothing is known against it."""
    return known_fault(_version(), Path("/proc/cpuinfo").read_text(encoding="utf-8"))


def known_fault(version: str, cpuinfo: str) -> str | None:
    """Seen with 6.1.176 on a Xeon with AMX: `ptrace set fp regs failed, errno = 14`, and its first process ends."""
    if version.startswith("6.1.") and "amx_tile" in cpuinfo.split():
        return (
            f"user-mode Linux {version} does not start on a CPU with AMX: the host's kernel refuses the size of its "
            "floating-point registers; use a machine without AMX (`grep amx_tile /proc/cpuinfo`)"
        )
    return None


@cache
def _version() -> str:
    return run_tool((PROGRAM, "--version")).strip()


def leftovers() -> tuple[Leftover, ...]:
    """Directories of guests that lab processes left: the kernels themselves have ended with the lab."""
    return places_left(UmlPlatform.name, remove_files)
