"""Initramfs archives: the `newc` form of cpio (kernel documentation, driver-api/early-userspace/buffer-format)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIRECTORY: Final = 0o040755
_FILE: Final = 0o100000
_DEVICE: Final = 0o020600
_END: Final = "TRAILER!!!"


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """One file: its path without a leading slash, its mode with the type bits, its content or its device number."""

    path: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def directory(path: str) -> ArchiveEntry:
    """A directory that everyone may read."""
    return ArchiveEntry(path, _DIRECTORY)


def file(path: str, content: bytes, *, executable: bool = False) -> ArchiveEntry:
    """A regular file."""
    return ArchiveEntry(path, _FILE | (0o755 if executable else 0o644), content)


def device(path: str, major: int, minor: int) -> ArchiveEntry:
    """A character device."""
    return ArchiveEntry(path, _DEVICE, device=(major, minor))


def archive(entries: Iterable[ArchiveEntry]) -> bytes:
    """The archive. The same entries give the same bytes: owner and group are root, the time is 0."""
    parts: list[bytes] = []
    for number, entry in enumerate((*entries, ArchiveEntry(_END, 0)), start=1):
        parts += _record(0 if entry.path == _END else number, entry)
    return b"".join(parts)


def _record(number: int, entry: ArchiveEntry) -> list[bytes]:
    name = entry.path.encode() + b"\0"
    links = 2 if entry.mode == _DIRECTORY else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields)
    return [_padded(head + name), _padded(entry.content)]


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
