"""Start, await and end the programs of one run. Every wait ends: by the program, a deadline or a stop request."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.errors import Interrupted
from vtare.platforms.child import Child, wait_readable
from vtare.process import ending_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtare.campaign.journal import Status
    from vtare.campaign.stop import StopRequest

READY_S: Final = 30.0
_MEASURED_CODES: Final = (0, 1)
MACHINE_CANNOT: Final = 3
_INTERRUPTED: Final = 130
#: A program prints some lines before it is ready.
_FIRST_BYTE: Final = 1 << 16
#: Exit codes of helpers that ended on request.
ENDED_WELL: Final = (0, 130)


class RunFailed(Exception):
    """This run cannot be used; the campaign goes on. `log` is where the program to blame reported why."""

    def __init__(
        self, reason: str, exit_code: int | None = None, status: Status = "failed", log: Path | None = None
    ) -> None:
        """Keep what the journal shall state."""
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code
        self.status: Status = status
        self.log = log


@dataclass(frozen=True, slots=True)
class Helper:
    """A program that works beside the one that measures.

    `log` has its stderr; `ended_well` are the exit codes with which it ends on request, None where it has no rule.
    """

    name: str
    child: Child
    log: Path
    ended_well: tuple[int, ...] | None = ENDED_WELL


def wait_ready(helper: Helper, ready: Callable[[], bool], stop: StopRequest) -> None:
    """Wait until a helper works.

    Raises:
        RunFailed: it ended instead (skipped, where the machine cannot do it), or was not ready within 30 s.
        Interrupted: a stop was requested.
    """
    deadline = time.monotonic() + READY_S
    while not ready():
        code = helper.child.returncode
        # Looked at again: it may have become ready and ended between the two looks.
        if code is not None and not ready():
            status: Status = "skipped" if code == MACHINE_CANNOT else "failed"
            raise RunFailed(f"the {helper.name} could not start ({ending_text(code)})", code, status, helper.log)
        if time.monotonic() > deadline:
            raise RunFailed(f"the {helper.name} was not ready within {READY_S:.0f} s", log=helper.log)
        # 5 ms: nothing is being measured yet, and a hundred threads need about that to start.
        if wait_readable([stop.fd], time.monotonic() + 0.005):
            raise Interrupted(f"stopped while the {helper.name} started")


def has_line(log: Path, line: bytes) -> bool:
    """Whether the beginning of a log holds this line."""
    return line in beginning(log).splitlines()


def beginning(path: Path) -> bytes:
    """The first `_FIRST_BYTE` of a file that a program writes; it is read again and again while the program starts."""
    with path.open("rb") as file:
        return file.read(_FIRST_BYTE)


def wait_measured(
    child: Child,
    timeout_s: float,
    stop: StopRequest,
    helpers: Sequence[Helper],
    freeze: Callable[[Sequence[Child], float], None] | None = None,
) -> int:
    """Wait for the program that measures and return its exit code, 0 or 1. `freeze` is that of `RunSettings`.

    Raises:
        RunFailed: it failed or hung, or a helper ended before it did.
        Interrupted: a stop was requested.
    """
    code, deadline = None, time.monotonic() + timeout_s
    others = [helper.child for helper in helpers]
    try:
        if freeze is not None:
            freeze([child, *others], timeout_s)
        code = child.wait(max(0.0, deadline - time.monotonic()), stop_fd=stop.fd, others=others)
    finally:
        if code is None:
            end(child, stop)
    if stop.requested:
        raise Interrupted("stopped during a run")
    if code not in _MEASURED_CODES or code is None:
        # A helper that is gone explains a sender that lost its peer better than the sender can.
        blame_helpers(helpers)
    if code is None:
        raise RunFailed(f"did not end within {timeout_s:.0f} s and was killed; raise `run_timeout` in the plan")
    if code == MACHINE_CANNOT:
        raise RunFailed("this machine cannot do it", code, "skipped")
    if code == _INTERRUPTED:
        raise RunFailed("a signal from outside interrupted the instrument", code)
    if code not in _MEASURED_CODES:
        raise RunFailed(f"the instrument ended with {ending_text(code)}", code)
    blame_helpers(helpers)
    return code


def blame_helpers(helpers: Sequence[Helper]) -> None:
    """Fail the run where a helper has ended already.

    Raises:
        RunFailed: one has, with its exit code and its log.
    """
    for helper in helpers:
        code = helper.child.returncode
        if code is not None:
            raise RunFailed(f"the {helper.name} ended ({ending_text(code)}) before the run did", code, log=helper.log)


def end(child: Child, stop: StopRequest) -> int:
    """End a child: gently, or at once where the user has asked twice. Returns its exit code."""
    stop.acknowledge()
    return child.terminate(0.0 if stop.count > 1 else 10.0, stop_fd=stop.fd)
