"""A control group of all that one platform runs: its CPU time is counted, its memory limited, and all of it ended."""

from __future__ import annotations

import itertools
import os
import signal
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from vtare.errors import MachineCannot
from vtare.kernel_files import kernel_text
from vtare.platforms.owner import Leftover, own_prefix, owner_of, still_runs
from vtare.sentences import weigh as wording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Where version 2 is mounted: alone, or beside version 1.
_ROOTS: Final = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
#: Where version 1 limits memory.
_MEMORY: Final = Path("/sys/fs/cgroup/memory")
#: Where systemd-nspawn makes the same group again, on machines with version 1.
_SYSTEMD: Final = Path("/sys/fs/cgroup/systemd")
#: The most memory since the file was written to (in version 2 since Linux 6.12, in this descriptor), and that of now.
_MOST: Final = (("memory.max_usage_in_bytes", "memory.usage_in_bytes"), ("memory.peak", "memory.current"))
_MARK: Final = "-weigh-group-"
_EMPTY_S: Final = 2.0
"""How long the processes of a group may take to be gone."""


class Group:
    """One of them, with a name that states the lab process that made it."""

    def __init__(self, at: int, memory_byte: int | None = None) -> None:
        """Make it; where this machine gives none, nothing is counted.

        Raises:
            MachineCannot: its memory is to be limited, and this machine cannot do that.
        """
        self._memory_byte = memory_byte
        #: Where it is, and where this process was before: the one whose CPU time is counted is the first.
        self._places: list[tuple[Path, Path]] = []
        name = f"{own_prefix()}{_MARK}{at}"
        root = _root()
        self._counts = root is not None and self._make(root, "", name)
        is_first_version = (_MEMORY / "memory.limit_in_bytes").exists()
        has_memory = is_first_version and self._make(_MEMORY, "memory", name)
        if memory_byte is None:
            return
        try:
            if is_first_version:
                if not has_memory:
                    raise OSError(wording.NO_GROUP)
                limits = {"memory.limit_in_bytes": memory_byte, "memory.memsw.limit_in_bytes": memory_byte}
            elif root is not None and self._counts:
                (root / "cgroup.subtree_control").write_text("+memory")
                limits = {"memory.max": memory_byte, "memory.swap.max": 0}
            else:
                raise OSError(wording.NO_GROUP)
            for file, number in limits.items():
                target = self._places[-1][0] / file
                # A kernel that counts no swap has no limit of it.
                if target.exists() or "sw" not in file:
                    target.write_text(str(number))
        except OSError as error:
            self.close()
            raise MachineCannot(wording.no_limit(error)) from error

    @contextmanager
    def around_start(self) -> Iterator[None]:
        """What is started inside belongs to the group, with all that it starts.

        Raises:
            MachineCannot: its memory is limited, and this machine takes nothing into it.
        """
        if not all([_move(place) for place, _ in self._places]):
            self._leave()
            self.close()
            if self._memory_byte is not None:
                raise MachineCannot(wording.no_limit(wording.NO_GROUP))
        try:
            yield
        finally:
            self._leave()

    def used_ns(self) -> int | None:
        """The CPU time of all that ran in it; None where it is not counted."""
        if not self._counts or not self._places:
            return None
        for line in (kernel_text(str(self._places[0][0] / "cpu.stat")) or "").splitlines():
            name, _, value = line.partition(" ")
            if name == "usage_usec" and value.isdecimal():
                return 1000 * int(value)
        return None

    @contextmanager
    def most_memory(self) -> Iterator[Callable[[], int | None]]:
        """Give what tells how far the memory of all that runs in it rose since, in bytes; None where it is not counted.

        The kernel's own memory for it is included, and files that nobody had read before.
        """
        with ExitStack() as stack:
            counted: list[tuple[IO[str], int]] = []
            # That of memory is the last.
            for place, (most, now) in itertools.product([one for one, _ in self._places[-1:]], _MOST):
                with suppress(OSError, ValueError):
                    peak = stack.enter_context((place / most).open("r+"))
                    peak.write("0")
                    peak.flush()
                    counted.append((peak, int((place / now).read_text())))

            def risen() -> int | None:
                with suppress(OSError, ValueError):
                    for peak, before in counted:
                        peak.seek(0)
                        return max(0, int(peak.read()) - before)
                return None

            yield risen

    def end(self) -> None:
        """End all that runs in it."""
        for place, _ in self._places:
            _kill(place)

    def close(self) -> None:
        """End all that runs in it, and remove it."""
        # Ctrl-C may have come while this process was on its way out: it would be taken for one that holds the group.
        self._leave()
        while self._places:
            place = self._places.pop()[0]
            _remove(place)
            _remove(_SYSTEMD / place.name)

    def _make(self, root: Path, controller: str, name: str) -> bool:
        lines = [line.split(":", 2) for line in (kernel_text("proc/self/cgroup") or "").splitlines()]
        own = next((path for _, names, path in lines if controller in names.split(",")), "")
        if not own:
            return False
        with suppress(OSError):
            (root / name).mkdir()
            self._places.append((root / name, root / own.lstrip("/")))
            return True
        return False

    def _leave(self) -> None:
        for _, before in self._places:
            _move(before)


def _root() -> Path | None:
    return next((root for root in _ROOTS if (root / "cgroup.controllers").exists()), None)


def _move(place: Path) -> bool:
    """Move this process; whether it could be."""
    with suppress(OSError):
        (place / "cgroup.procs").write_text(str(os.getpid()))
        return True
    return False


def _kill(place: Path) -> None:
    processes = (kernel_text(str(place / "cgroup.procs")) or "").split()
    # Where it could not be left again, it holds this process.
    if str(os.getpid()) in processes:
        return
    with suppress(OSError):
        if (place / "cgroup.kill").exists() or not (place / "tasks").exists():
            (place / "cgroup.kill").write_text("1")
            return
    # Version 1.
    for process in processes:
        with suppress(OSError, ValueError):
            os.kill(int(process), signal.SIGKILL)


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
    roots = [root for root in (_root(), _MEMORY, _SYSTEMD) if root is not None]
    owned = [(place, owner_of(place.name)) for root in roots for place in sorted(root.glob(f"vtare-*{_MARK}*"))]
    return tuple(
        Leftover("control group", place.name, still_runs(owner), partial(_remove, place))
        for place, owner in owned
        if owner
    )
