"""Whether this machine has the capacity for instances, checked before the first of them is started."""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Final

from vtare.errors import MachineCannot
from vtare.kernel_files import free_memory_byte, kernel_number, left, lines_of
from vtare.platforms.protocol import Need

if TYPE_CHECKING:
    from collections.abc import Callable

_ANY: Final = 1 << 22
#: What the rest of the machine keeps.
_SPARE: Final = Need(memory_byte=256 << 20, processes=256, disk_byte=256 << 20, cpus=0.5)


def require_capacity(what: str, need: Need, *, look: Callable[[], Need] | None = None) -> None:
    """Refuse to start what this machine has no capacity for.

    `look` states what is free; that of this machine by default.

    Raises:
        MachineCannot: with the figure that is short.
    """
    free = (look or free_capacity)()
    for name, wanted, has, spare in (
        ("memory", need.memory_byte, free.memory_byte, _SPARE.memory_byte),
        ("room for processes", need.processes, free.processes, _SPARE.processes),
        ("disk", need.disk_byte, free.disk_byte, _SPARE.disk_byte),
        ("CPU time", need.cpus, free.cpus, _SPARE.cpus),
    ):
        if wanted and wanted + spare > has:
            raise MachineCannot(
                f"{what} would take {_shown(name, wanted)} of {name}, and {_shown(name, spare)} are kept for the rest, "
                f"but {_shown(name, max(0, has))} are free here; ask for fewer or smaller ones"
            )


def free_capacity() -> Need:
    """What this machine, and the control group of this process, still have; of CPUs, all that there are."""
    disk = os.statvfs(tempfile.gettempdir())
    cpus = float(len(os.sched_getaffinity(0)))
    return Need(free_memory_byte(), _free_processes(), disk.f_bavail * disk.f_frsize, cpus)


def spare_memory_byte(look: Callable[[], Need] | None = None) -> int:
    """The memory that instances may take, without what the rest of the machine keeps."""
    return max(0, (look or free_capacity)().memory_byte - _SPARE.memory_byte)


def _free_processes() -> int:
    running = re.search(r"/(\d{1,9}) ", next(iter(lines_of("loadavg")), ""))
    most = [kernel_number(f"proc/sys/kernel/{name}") for name in ("pid_max", "threads-max")]
    known = [] if running is None else [one - int(running[1]) for one in most if one is not None]
    # Where this kernel states none, the system itself refuses.
    return min([*known, *left("pids", "pids.max", "pids.current")], default=_ANY)


def _shown(name: str, value: float) -> str:
    if name == "CPU time":
        return f"{value:.1f} CPUs"
    return str(value) if "processes" in name else f"{value / (1 << 20):.0f} MiB"
