"""The name of one lab process, which begins the name of all it makes and marks all it starts."""

from __future__ import annotations

import os
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
