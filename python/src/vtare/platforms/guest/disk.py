"""A guest's virtual disk: a sparse file on the host with an ext4 file system, which is the guest's `/tmp`.

What the guest forces to its disk the hypervisor forces to the host's device. Where the host's file system has direct
access, reads and writes go past the host's page cache, too: else it would serve what the guest reads back.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms.guest.errors import GuestFailed
from vtare.process import ToolFailed, run_tool

if TYPE_CHECKING:
    from vtare.platforms.protocol import Resources

#: Room for 15 streams of the io load. The file is sparse: it takes what was written.
DEFAULT_BYTE: Final = 256 << 20
#: What journal and tables of the file system take before anything is written: measured, rounded up.
OWN_BYTE: Final = 8 << 20
#: The drivers of the file system, and of the check sums of its tables, which it names nowhere as its dependency.
DRIVERS: Final = ("crc32c_generic", "ext4")
_PROGRAM: Final = "mkfs.ext4"
_MADE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Disk:
    """One disk: the file that holds it, and its size."""

    file: Path
    byte: int

    @property
    def direct(self) -> bool:
        """Whether the host's file system has direct access to the file, which is there."""
        try:
            os.close(os.open(self.file, os.O_RDWR | os.O_DIRECT))
        except OSError:
            return False
        return True

    def make(self) -> None:
        """Make the file with its file system.

        Raises:
            GuestFailed: it cannot be made.
            OSError: the file cannot be created.
        """
        with self.file.open("xb") as file:
            file.truncate(self.byte)
        words = (str(_mkfs()), "-q", "-F", "-m", "0", "-N", "128", "-J", "size=4", "-E", "nodiscard,lazy_itable_init=0")
        try:
            run_tool((*words, str(self.file)), timeout_s=_MADE_S)
        except ToolFailed as error:
            raise GuestFailed(f"cannot make a file system in {self.file}: {error.output or error.reason}") from error

    def facts(self) -> dict[str, Any]:
        """What it is made of."""
        return {
            "byte": self.byte,
            "host_file_system": _file_system(self.file),
            "host_page_cache": not self.direct,
        }


def disk_of(directory: Path, resources: Resources) -> Disk | None:
    """The disk of the guest whose directory this is; None where the plan wants none."""
    byte = DEFAULT_BYTE if resources.disk_byte is None else resources.disk_byte
    return Disk(file_in(directory), byte) if byte else None


def file_in(directory: Path) -> Path:
    """The file of the disk of the guest whose directory this is."""
    return directory / "disk"


def missing(resources: Resources) -> str | None:
    """Why no disk can be made here, in words; None where it can, or none is wanted."""
    if resources.disk_byte == 0 or _mkfs() is not None:
        return None
    return f"the program '{_PROGRAM}' is missing; install e2fsprogs, or give guests no disk (disk = \"none\")"


def _mkfs() -> str | None:
    return shutil.which(_PROGRAM)


def _file_system(file: Path) -> str | None:
    """The type of the file system that holds a file; None where the kernel does not show it."""
    with suppress(OSError):
        number = file.stat().st_dev
        wanted = f"{os.major(number)}:{os.minor(number)}"
        for line in reversed(Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()):
            own, _, behind = line.partition(" - ")
            if own.split()[2] == wanted:
                return behind.split()[0]
    return None
