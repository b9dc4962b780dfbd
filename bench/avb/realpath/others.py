"""CPU time that other work takes from the benchmark."""

from __future__ import annotations

import bisect
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Others:
    """CPU time that programs not of this benchmark took, looked at ten times a second."""

    own: set[int] = field(default_factory=set)
    at_s: list[float] = field(default_factory=list)
    used_s: list[float] = field(default_factory=list)
    _last: dict[int, float] = field(default_factory=dict)
    _own_s: float = 0.0
    _end: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Takes one look."""
        tick = os.sysconf("SC_CLK_TCK")
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        # User, nice, system and what the hypervisor took; interrupts are packets of ours.
        all_s = (fields[0] + fields[1] + fields[2] + fields[7]) / tick
        for pid in list(self.own):
            try:
                words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            used = (int(words[11]) + int(words[12])) / tick
            self._own_s += used - self._last.get(pid, 0.0)
            self._last[pid] = used
        self.at_s.append(time.monotonic())
        self.used_s.append(all_s - self._own_s)

    def watch(self) -> None:
        """Looks until `end`."""
        while not self._end.wait(0.1):
            self.look()

    def end(self) -> None:
        """Ends [`watch`]."""
        self._end.set()

    def share(self, from_s: float, to_s: float) -> float:
        """CPUs that others used between two times, at least over 0.3 s."""
        low = max(0, bisect.bisect_left(self.at_s, from_s - 0.15) - 1)
        high = min(len(self.at_s) - 1, bisect.bisect_right(self.at_s, to_s + 0.15))
        span = self.at_s[high] - self.at_s[low]
        return max(0.0, (self.used_s[high] - self.used_s[low]) / span) if span > 0 else 0.0


OTHERS = Others()
