"""The name of one lab process, which begins the name of all it makes and marks all it starts."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

#: In the environment of every program that a lab process starts: that process's name.
OWNER_VARIABLE: Final = "VTARE_OWNER"


def own_prefix(pid: int | None = None) -> str:
    """The prefix of every namespace that one lab process makes: it names the process beyond the reuse of its number."""
    own = os.getpid() if pid is None else pid
    return f"vtare-{own}-{start_of(own):x}"


def start_of(pid: int) -> int:
    """When a process was started, in clock ticks since boot, as the first time namespace counts them (within a tick).

    Raises OSError where there is no such process.
    """
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    # The name in brackets may hold blanks and brackets; the 22nd field is the 20th behind it.
    return int(text.rpartition(")")[2].split()[19]) - (_boot_offset() or 0)


def _boot_offset() -> int | None:
    """How many ticks this process's time namespace adds to the time since boot; None where that is not known."""
    try:
        own, childrens = (os.readlink(f"/proc/self/ns/{name}") for name in ("time", "time_for_children"))
        if own != childrens:
            # The file below states the offsets of the other one.
            return None
        lines = Path("/proc/self/timens_offsets").read_text(encoding="ascii").splitlines()
    except OSError:
        # A kernel without time namespaces.
        return 0
    for line in lines:
        clock, seconds, nanoseconds = line.split()
        if clock in ("boottime", "7"):
            ticks = os.sysconf("SC_CLK_TCK")
            return round((int(seconds) + int(nanoseconds) * 1e-9) * ticks)
    return 0


_OWNED: Final = re.compile(r"vtare-(?P<pid>\d+)-(?P<start>[0-9a-f]+)-[a-z0-9-]+")


def owner_of(name: str) -> str | None:
    """The prefix of the lab process that gave something this name; None where no lab process did."""
    owned = _OWNED.fullmatch(name)
    return None if owned is None else f"vtare-{owned['pid']}-{owned['start']}"


def still_runs(owner: str) -> str | None:
    """Why what this lab process made must stay: it still runs. None where it has ended."""
    _, pid, start = owner.split("-")
    try:
        found = start_of(int(pid))
    except (FileNotFoundError, ProcessLookupError):
        return None
    except (OSError, ValueError, IndexError):
        return f"process {pid} is there and does not show when it was started"
    if _boot_offset() is None:
        return (
            f"process {pid} is there, and this process cannot tell when it was started: its children have other clocks"
        )
    # Rounded to a tick on either side.
    return f"process {pid}, which made it, still runs" if abs(found - int(start, 16)) <= 1 else None


def started_by(pid: int, owner: str) -> bool:
    """Whether the lab process of this name started a program: it marks the environment of all that it starts."""
    with suppress(OSError):
        return f"{OWNER_VARIABLE}={owner}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False
