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
    """When a process was started, in clock ticks since boot. Raises OSError where there is no such process."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    # The name in brackets may hold blanks and brackets; the 22nd field is the 20th behind it.
    return int(text.rpartition(")")[2].split()[19])


_OWNED: Final = re.compile(r"vtare-(?P<pid>\d+)-(?P<start>[0-9a-f]+)-[a-z0-9-]+")


def owner_of(name: str) -> str | None:
    """The prefix of the lab process that gave something this name; None where no lab process did."""
    owned = _OWNED.fullmatch(name)
    return None if owned is None else f"vtare-{owned['pid']}-{owned['start']}"


def still_runs(owner: str) -> str | None:
    """Why what this lab process made must stay: it still runs. None where it has ended."""
    _, pid, start = owner.split("-")
    with suppress(OSError, ValueError, IndexError):
        if start_of(int(pid)) == int(start, 16):
            return f"process {pid}, which made it, still runs"
    return None


def started_by(pid: int, owner: str) -> bool:
    """Whether the lab process of this name started a program: it marks the environment of all that it starts."""
    with suppress(OSError):
        return f"{OWNER_VARIABLE}={owner}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False
