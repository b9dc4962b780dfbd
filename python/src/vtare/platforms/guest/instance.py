"""Programs and files of one guest over its control channel: the part of an instance that is the same for all guests."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import MachineCannot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.platforms.child import Child
    from vtare.platforms.guest.agent import Agent

_EARLY: Final = "-early"
_SETTLE_S: Final = 30.0
_LOOK_S: Final = 0.2


class GuestFiles:
    """Starts programs in a guest with the files they need, and brings back what they leave."""

    def __init__(self, agent: Agent) -> None:
        """Use this channel."""
        self._agent = agent
        self._outputs: set[Path] = set()
        self._put: dict[Path, tuple[int, int]] = {}

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """Put every file of `directory` that is new or changed into the guest and start the program there.

        Raises:
            GuestFailed: the guest does not do it.
            OSError: a file here cannot be read or written.
        """
        # What programs print is collected here and is no file of theirs.
        self._outputs |= {stdout, stderr}
        for path in sorted(directory.iterdir()):
            facts = path.stat()
            version = (facts.st_mtime_ns, facts.st_size)
            if path.is_file() and path not in self._outputs and self._put.get(path) != version:
                self._agent.put(path, path.read_bytes())
                self._put[path] = version
        return self._agent.start(arguments, directory=directory, stdout=stdout, stderr=stderr)

    def fetch(self, directory: Path) -> None:
        """Bring every file of the guest's `directory` here that was not put there, each whole or not at all.

        Raises:
            GuestFailed: the guest does not give one.
            OSError: a file here cannot be written.
        """
        for name in self._agent.files(directory):
            path = directory / name
            if path in self._put or path in self._outputs:
                continue
            content = self._agent.get(path)
            with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).rename(path)


def settled_facts(agent: Agent, name: str, clock_source: str | None) -> dict[str, Any]:
    """The guest's facts once its kernel keeps time by the clock source wanted, or by one that it will stay with.

    A kernel begins with `tsc-early` and changes over about a second after it has booted: in the middle of a
    measurement, if nobody waits.

    Raises:
        MachineCannot: the kernel does not take the clock source that is wanted.
        GuestFailed: no answer.
    """
    deadline = time.monotonic() + _SETTLE_S
    while True:
        facts = agent.facts()
        found = str(facts.get("clock_source"))
        if found == clock_source or (clock_source is None and not found.endswith(_EARLY)):
            return facts
        if time.monotonic() > deadline:
            there = ", ".join(facts.get("clock_sources_available") or ["none named"])
            wanted = clock_source or "one that it stays with"
            raise MachineCannot(f"guest {name}: its kernel keeps time by {found}, wanted {wanted}; it offers {there}")
        time.sleep(_LOOK_S)
