"""Files of the kernel, as another machine's or a container's /proc may show them: absent, empty, huge, or a pipe.

Nothing here raises, waits, or reads more than `_MOST_BYTE`: what cannot be read is None, which is not 0.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

#: Where the trees of the kernel are.
ROOT = Path("/")
_MOST_BYTE: Final = 1 << 20
_CGROUPS: Final = "sys/fs/cgroup"


def kernel_text(name: str) -> str | None:
    """The text of a file such as `proc/self/status`; None where it is no file that can be read."""
    with suppress(OSError):
        descriptor = os.open(ROOT / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            parts: list[bytes] = []
            left = _MOST_BYTE
            while left > 0 and (part := os.read(descriptor, left)):
                parts.append(part)
                left -= len(part)
        finally:
            os.close(descriptor)
        return b"".join(parts).decode("utf-8", errors="replace")
    return None


def kernel_number(name: str) -> int | None:
    """The number that a file holds; None where it holds none."""
    return _number((kernel_text(name) or "").strip())


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def capabilities() -> int:
    """The effective capabilities of this process, a bit each; 0 where this kernel does not state them."""
    for line in lines_of("self/status"):
        name, _, value = line.partition(":")
        if name == "CapEff":
            with suppress(ValueError):
                return int(value, 16)
    return 0


def free_memory_byte() -> int:
    """Memory that this machine and the control groups of this process still have, B; 0 where none is stated."""
    rooms = []
    for line in lines_of("meminfo"):
        name, _, value = line.partition(":")
        words = value.split()
        if name == "MemAvailable" and words and (kib := _number(words[0])) is not None:
            rooms.append(kib * 1024)
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        rooms += left("memory", limit, used)
    return min(rooms, default=0)


def _cache_byte(group: Path) -> int:
    """Files that a control group holds in memory: counted as taken, and given up as soon as somebody wants it."""
    names = ("active_file", "inactive_file", "total_active_file", "total_inactive_file")
    rows = dict(
        line.split(" ", 1) for line in (kernel_text(str(group / "memory.stat")) or "").splitlines() if " " in line
    )
    known = {name: number for name in names if (number := _number(rows.get(name, "").strip())) is not None}
    # Version 1 counts the groups below under names of their own.
    return sum(known[name] for name in (names[2:] if names[2] in known else names[:2]) if name in known)


def left(controller: str, limit: str, used: str) -> list[int]:
    """What each control group that holds this process has left of one controller."""
    rooms = []
    for line in lines_of("self/cgroup"):
        _, names, path = (*line.split(":", 2), "", "")[:3]
        if controller not in names.split(",") and names:
            continue
        root = Path(_CGROUPS) / controller if names else Path(_CGROUPS)
        place = root / path.lstrip("/")
        while root in (place, *place.parents):
            # "max" is no number: no limit.
            most, taken = kernel_number(str(place / limit)), kernel_number(str(place / used))
            if most is not None and taken is not None:
                rooms.append(most - taken + (_cache_byte(place) if controller == "memory" else 0))
            place = place.parent
    return rooms


def lines_of(name: str) -> list[str]:
    """The lines of a file of /proc; none where it cannot be read."""
    return (kernel_text(f"proc/{name}") or "").splitlines()
