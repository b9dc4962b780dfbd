"""A control group of all that one platform runs: the CPU time of it is counted there, and all of it can be ended."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.kernel_files import kernel_text
from vtare.platforms.owner import Leftover, own_prefix, owner_of, still_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Where version 2 is mounted: alone, or beside version 1.
_ROOTS: Final = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_MARK: Final = "-weigh-group-"
_EMPTY_S: Final = 2.0
"""How long the processes of a group may take to be gone."""


class Group:
    """One of them, with a name that states the lab process that made it."""

    def __init__(self, at: int) -> None:
        """Make it; where this machine gives none, nothing is counted."""
        self._place: Path | None = None
        self._before: Path | None = None
        root = _root()
        own = next((line[3:] for line in (kernel_text("proc/self/cgroup") or "").splitlines() if line[:3] == "0::"), "")
        if root is None or not own:
            return
        place = root / f"{own_prefix()}{_MARK}{at}"
        with suppress(OSError):
            place.mkdir()
            self._place, self._before = place, root / own.lstrip("/")

    @contextmanager
    def around_start(self) -> Iterator[None]:
        """What is started inside belongs to the group, with all that it starts."""
        if self._place is not None and not _move(self._place):
            self.close()
        try:
            yield
        finally:
            if self._before is not None:
                _move(self._before)

    def used_ns(self) -> int | None:
        """The CPU time of all that ran in it; None where it is not counted."""
        if self._place is None:
            return None
        for line in (kernel_text(str(self._place / "cpu.stat")) or "").splitlines():
            name, _, value = line.partition(" ")
            if name == "usage_usec" and value.isdecimal():
                return 1000 * int(value)
        return None

    def end(self) -> None:
        """End all that runs in it."""
        if self._place is not None:
            _kill(self._place)

    def close(self) -> None:
        """End all that runs in it, and remove it."""
        if self._place is not None:
            _remove(self._place)
            self._place = None


def _root() -> Path | None:
    return next((root for root in _ROOTS if (root / "cgroup.controllers").exists()), None)


def _move(place: Path) -> bool:
    """Move this process; whether it could be."""
    with suppress(OSError):
        (place / "cgroup.procs").write_text(str(os.getpid()))
        return True
    return False


def _kill(place: Path) -> None:
    # Where it could not be left again, it holds this process.
    if str(os.getpid()) in (kernel_text(str(place / "cgroup.procs")) or "").split():
        return
    with suppress(OSError):
        (place / "cgroup.kill").write_text("1")


def _remove(place: Path) -> None:
    """End all in a group and remove it; one that is gone is fine."""
    _kill(place)
    until = time.monotonic() + _EMPTY_S
    while place.exists():
        with suppress(OSError):
            # A platform may have made groups of its own in it.
            for below in sorted((path for path in place.rglob("*/")), reverse=True):
                below.rmdir()
            place.rmdir()
            return
        if time.monotonic() > until:
            return
        time.sleep(0.01)


def leftovers() -> tuple[Leftover, ...]:
    """What killed runs left."""
    root = _root()
    owned = [] if root is None else [(place, owner_of(place.name)) for place in sorted(root.glob(f"vtare-*{_MARK}*"))]
    return tuple(
        Leftover("control group", place.name, still_runs(owner), partial(_remove, place))
        for place, owner in owned
        if owner
    )
