"""How much of the machine others took while a run was made: CPU time that no program of the lab used.

The lab's programs share one kernel, so /proc/stat holds all of it. Time in interrupts is left out: packets are
forwarded there, in whosever turn they come.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

from vtare.kernel_files import lines_of

SURROUNDINGS_SCHEMA: Final = "vtare.surroundings/1"
#: Columns of /proc/stat that every kernel since 2.6.11 has, up to steal; and those that are work of programs: user,
#: nice, system.
_FIELDS: Final = 8
_WORK: Final = slice(0, 3)


class Surroundings:
    """Reads the CPU time of work once when it is made and once in `seen`, after all children of the run have ended."""

    def __init__(self) -> None:
        """Begin to watch."""
        self._began = _look()

    def seen(self) -> dict[str, Any]:
        """The document `vtare.surroundings/1`: how many cores others took, null where the system does not state."""
        before, after = self._began, _look()
        elapsed_s = after[0] - before[0]
        others = None
        if before[1] is not None and after[1] is not None and elapsed_s > 0:
            # Both counters tick in 10 ms: a difference below 0 is nothing but that.
            others = max(0.0, (after[1] - before[1] - (after[2] - before[2])) / elapsed_s)
        return {"schema": SURROUNDINGS_SCHEMA, "elapsed_s": elapsed_s, "others_cores": others}


def _look() -> tuple[float, float | None, float]:
    """The time, the work of all programs, and that of this one and its ended children, all in s."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    try:
        name, *words = lines_of("stat")[0].split()
        if name != "cpu" or len(words) < _FIELDS:
            raise ValueError
        work = sum(int(word) for word in words[_WORK]) / os.sysconf("SC_CLK_TCK")
    except (IndexError, ValueError):
        return time.monotonic(), None, own
    return time.monotonic(), work, own
