"""What this machine and the control groups of this process still have."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_CGROUPS: Final = Path("/sys/fs/cgroup")


def free_memory_byte() -> int:
    """Memory that may still be taken, B; 0 where this machine states none."""
    lines = (line for line in lines_of("meminfo") if line.startswith("MemAvailable:"))
    found = [int(line.split()[1]) * 1024 for line in lines]
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        found += left("memory", limit, used)
    return min(found, default=0)


def left(controller: str, limit: str, used: str) -> list[int]:
    """What each control group that holds this process has left of one controller."""
    found = []
    for line in lines_of("self/cgroup"):
        _, names, path = line.split(":", 2)
        root = _CGROUPS / controller if controller in names.split(",") else _CGROUPS if not names else None
        place = None if root is None else root / path.lstrip("/")
        while root is not None and place is not None and root in (place, *place.parents):
            with suppress(OSError, ValueError):
                # "max" is no number: no limit.
                found.append(int((place / limit).read_text()) - int((place / used).read_text()))
            place = place.parent
    return found


def lines_of(name: str) -> list[str]:
    """The lines of a file of /proc; none where it cannot be read."""
    with suppress(OSError):
        return (_PROC / name).read_text(encoding="utf-8", errors="replace").splitlines()
    return []


__all__ = ["free_memory_byte", "left", "lines_of"]
