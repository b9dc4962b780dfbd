"""The name of one lab process, which begins the name of all it makes and marks all it starts."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: In the environment of every program that a lab process starts: that process's name.
OWNER_VARIABLE: Final = "VTARE_OWNER"


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a lab process left on this machine, recognised by its name alone. `kept_because` is None where it may go.

    `remove` removes it and may be called after another process has; it raises VtareError or OSError where it cannot.
    """

    kind: str
    name: str
    kept_because: str | None
    remove: Callable[[], None]


def own_prefix(pid: int | None = None) -> str:
    """The prefix of every name that one lab process gives: `vtare-PID-START` and, behind a `p`, its PID namespace.

    The start names the process beyond the reuse of its number; the PID namespace beyond another one's process of the
    same number, as where two containers share a directory or a network.
    """
    own = os.getpid() if pid is None else pid
    space = _pid_namespace("self")
    return f"vtare-{own}-{start_of(own):x}" + ("" if space is None else f"p{space:x}")


def _pid_namespace(process: str) -> int | None:
    """The number of a process's PID namespace; None where it has ended, or the kernel does not show it."""
    with suppress(OSError):
        return os.stat(f"/proc/{process}/ns/pid").st_ino
    return None


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


_OWNED: Final = re.compile(r"(?P<owner>vtare-(?P<pid>\d+)-(?P<start>[0-9a-f]+)(p(?P<space>[0-9a-f]+))?)(-[a-z0-9_-]+)?")
#: The first PID namespace, in which every process of the machine is seen: PROC_PID_INIT_INO of the kernel.
_FIRST_PID_NAMESPACE: Final = 0xEFFFFFFC


def owner_of(name: str) -> str | None:
    """The prefix of the lab process that gave something this name; None where no lab process did."""
    owned = _OWNED.fullmatch(name)
    return None if owned is None or owned["owner"] == name else owned["owner"]


def still_runs(owner: str) -> str | None:
    """Why what this lab process made must stay: it still runs, or nobody here can know. None where it has ended."""
    owned = _OWNED.fullmatch(owner)
    if owned is None:
        return f"{owner} is no name of a lab process"
    own, space = _pid_namespace("self"), owned["space"]
    pid: str | None = owned["pid"]
    if space is not None and own is not None and int(space, 16) != own:
        pid = _number_here(owned["pid"], int(space, 16))
        if pid is None:
            return (
                None
                if _sees_all_processes()
                else (
                    "it was made in another PID namespace, whose processes are not seen from here; run `vtare clean` "
                    "where it was made, or remove it by hand"
                )
            )
    try:
        started = start_of(int(str(pid)))
    except (FileNotFoundError, ProcessLookupError):
        return None
    except (OSError, ValueError, IndexError):
        return f"process {pid} is there and does not show when it was started"
    if _boot_offset() is None:
        return f"process {pid} is there, and its start cannot be compared: children of this process have other clocks"
    # Rounded to a tick on either side.
    return f"process {pid}, which made it, still runs" if abs(started - int(owned["start"], 16)) <= 1 else None


def _number_here(pid: str, space: int) -> str | None:
    """The number that a process of another PID namespace has in this one; None where it is not seen from here."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _pid_namespace(entry.name) == space:
            with suppress(OSError):
                for line in (entry / "status").read_text(encoding="utf-8", errors="replace").splitlines():
                    # Its numbers from this namespace down to its own.
                    if line.startswith("NSpid:") and line.split()[-1] == pid:
                        return entry.name
    return None


def _sees_all_processes() -> bool:
    """Whether this process's namespace holds those of all others."""
    return _pid_namespace("self") == _FIRST_PID_NAMESPACE


def started_by(pid: int, owner: str) -> bool:
    """Whether the lab process of this name started a program: it marks the environment of all that it starts."""
    with suppress(OSError):
        return f"{OWNER_VARIABLE}={owner}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False
