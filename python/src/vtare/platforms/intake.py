"""What comes from a far end: files and output, bounded, and written only where the lab decides.

A guest, a container or another machine is not trusted. A file is asked for by a name that the lab expects, so no name
of the far end is ever joined to a path here. Its bytes are counted while they come; a file appears whole or not at all.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from vtare.errors import PlatformFailed

if TYPE_CHECKING:
    from types import TracebackType
    from typing import BinaryIO

PIECE_BYTE: Final = 1 << 16
#: What one program of a run may print: a line of 100 B every second of a day, and one JSON document of 4 MiB.
MOST_OUTPUT_BYTE: Final = 16 << 20
#: The exit code of a program whose output did not come whole ("input/output error" in sysexits.h).
OUTPUT_LOST: Final = os.EX_IOERR
#: The longest text of a far end that a message repeats, in characters.
_SHOWN: Final = 300
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Incoming:
    """One expected file on its way to `directory / name`. Use it as a context manager; without `keep` nothing stays."""

    def __init__(self, directory: Path, name: str, most_byte: int, source: str) -> None:
        """Open a temporary file; `most_byte` is how long the file may be, `source` names the far end in messages.

        Raises:
            OSError: it cannot be made.
            ValueError: the lab asks for a name that is not that of a file in `directory`.
        """
        if name != Path(name).name or name in {"", ".", ".."} or "\0" in name:
            raise ValueError(f"{name!r} is no name of a file in a directory")
        self.path = directory / name
        self.byte = 0
        self.most_byte = most_byte
        self._source = source
        descriptor, self._temporary = tempfile.mkstemp(prefix=".incoming-", dir=directory)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")

    def __enter__(self) -> Self:
        """Return the file itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, and remove what was not kept."""
        with suppress(OSError):
            self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._temporary)

    def write(self, piece: bytes) -> None:
        """Add what came.

        Raises:
            PlatformFailed: the file is longer than it may be.
            OSError: it cannot be written.
        """
        self.announce(self.byte + len(piece))
        self._file.write(piece)
        self.byte += len(piece)

    def announce(self, byte: int) -> None:
        """Check a length that the far end gives, before anything of it is read.

        Raises:
            PlatformFailed: it is more than the file may have.
        """
        if byte > self.most_byte:
            raise PlatformFailed(
                f"{self._source}: {self.path.name} has {byte} B or more, {self.most_byte} B are the most that this "
                "run can produce"
            )

    def keep(self) -> None:
        """Bring it to the disk and give it its name. Raises OSError."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.rename(self._temporary, self.path)


def open_below(root: Path, directory: Path, *, make: bool = False) -> int:
    """Return a descriptor of the absolute path `directory` as a process with the root `root` would name it.

    No link is followed on the way below `root`: whoever works in there may have put any. With `make`, directories that
    are missing are made.

    Raises:
        OSError: a part is missing, or is no directory (a link is none).
    """
    descriptor = os.open(root, _DIRECTORY)
    try:
        for part in directory.parts[1:]:
            if part == "..":
                raise OSError(errno.EINVAL, "found '..' in a path", str(directory))
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=descriptor)
            following = os.open(part, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = following
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def take_regular(place: int, incoming: Incoming, source: str) -> None:
    """Copy a file of the directory `place` (a descriptor), under its own name: a regular file only.

    Raises:
        PlatformFailed: it is missing, is a link, a device, a directory, a pipe or a socket, or too long.
        OSError: it cannot be written here.
    """
    name = incoming.path.name
    try:
        # Before it is opened: to open a device may already do something.
        _require_regular(os.stat(name, dir_fd=place, follow_symlinks=False), name, source)
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
    except OSError as error:
        raise PlatformFailed(f"{source}: {name}: cannot be read ({error.strerror})") from error
    try:
        about = os.fstat(descriptor)
        _require_regular(about, name, source)
        incoming.announce(about.st_size)
        while piece := os.read(descriptor, PIECE_BYTE):
            incoming.write(piece)
    finally:
        os.close(descriptor)


def put_regular(place: int, name: str, content: bytes, mode: int) -> None:
    """Write a file into the directory `place` (a descriptor) anew: what is there under its name is removed first.

    Raises:
        OSError: it cannot be written.
    """
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place)
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=place)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)


def printable(text: object, most: int = _SHOWN) -> str:
    """Words of a far end as a message may repeat them: one line of printable characters, not too long."""
    shown = str(text)[: 2 * most]
    line = " ".join("".join(char if char.isprintable() else " " for char in shown).split())
    return line if len(line) <= most else f"{line[:most]}..."


def _require_regular(about: os.stat_result, name: str, source: str) -> None:
    if not stat.S_ISREG(about.st_mode):
        kind = _KINDS.get(stat.S_IFMT(about.st_mode), "something else")
        raise PlatformFailed(f"{source}: {name} is {kind}, not a regular file")


_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
