"""A program that runs in a guest, watched like any other child."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms.child import Child
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.frames import Frame, Kind, document_of
from vtare.platforms.guest.output import Output
from vtare.platforms.intake import OUTPUT_LOST, printable

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.platforms.guest.exchange import Exchange

_KILL_S: Final = 20.0
_LARGEST_CODE: Final = 255
_LARGEST_SIGNAL: Final = 64
_MOST_REPORTED: Final = 2000


class GuestChild(Child):
    """A program that runs in a guest. Where the guest is lost it counts as killed, and its log states why.

    Where less of its output came than it wrote, or not the same, its exit code is `OUTPUT_LOST`, and its log states so.
    """

    def __init__(self, agent: Exchange, stdout: Path, stderr: Path) -> None:
        """Prepare for a program. Raises OSError where a file cannot be opened."""
        self._agent = agent
        self.job = 0
        self._output = Output(stdout, stderr)
        self._code: int | None = None
        self._refused: str | None = None
        self._started = threading.Event()
        self._ended = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        weakref.finalize(self, os.close, self._ended)

    def take(self, frame: Frame | None) -> None:
        """Take a frame about this program; None where the channel is lost. Called by the reading thread."""
        if frame is None:
            self._output.note(f"vtare: guest {self._agent.name}: {self._agent.lost}")
            self._end(-signal.SIGKILL)
        elif frame.kind in (Kind.STDOUT, Kind.STDERR):
            self._output.keep(frame.kind, frame.payload)
        elif frame.kind is Kind.ANSWER:
            self._started.set()
        elif frame.kind is Kind.FAILED and not self._started.is_set():
            self._refused = printable(document_of(frame).get("error"))
            self._end(-signal.SIGKILL)
        elif frame.kind is Kind.EXITED:
            how = document_of(frame)
            ended = _exit_code(how)
            if (kernel := how.get("kernel")) is not None:
                self._output.note(
                    f"vtare: guest {self._agent.name}: its kernel reported: {printable(kernel, _MOST_REPORTED)}"
                )
            if (lost := self._output.lost(how)) is not None:
                reported = f"{lost}; {self._agent.skipped}; the program itself had ended with {ended}"
                self._output.note(f"vtare: guest {self._agent.name}: output is lost: {reported}")
                ended = OUTPUT_LOST
            self._end(ended)

    def wait_started(self, timeout_s: float) -> None:
        """Wait until the guest has started it.

        Raises:
            GuestFailed: it did not.
        """
        name = self._agent.name
        if not self._started.wait(timeout_s):
            self._end(-signal.SIGKILL)
            raise GuestFailed(f"guest {name}: started no program within {timeout_s:.0f} s; {self._agent.why_lost()}")
        if self._refused is not None:
            raise GuestFailed(f"guest {name}: {self._refused}")

    @property
    def returncode(self) -> int | None:
        """See `Child.returncode`."""
        return self._code

    def watch(self) -> int:
        """Return a descriptor that becomes readable at the end. Raises ProcessLookupError where that has been."""
        if self._code is not None:
            raise ProcessLookupError
        return os.dup(self._ended)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program and all that it started. In a guest that is lost, nothing runs any more."""
        if self._code is None:
            with suppress(GuestFailed):
                self._agent.signal(self.job, number)

    def kill(self) -> int:
        """Kill it and return its exit code. A guest that does not even do that is given up."""
        self.send_signal(signal.SIGKILL)
        code = self.wait(_KILL_S)
        if code is None:
            self._agent.close(f"did not kill a program within {_KILL_S:.0f} s")
            code = self.wait(1.0)
        return -signal.SIGKILL if code is None else code

    def _end(self, code: int) -> None:
        if self._code is not None:
            return
        self._agent.forget(self.job)
        self._output.close()
        self._code = code
        self._started.set()
        os.eventfd_write(self._ended, 1)


def _exit_code(how: dict[str, Any]) -> int:
    """How a program ended, as `subprocess` shows it."""
    code, number = how.get("code"), how.get("signal")
    if code is None and number is None:
        return -signal.SIGKILL
    value, sign, largest = (number, -1, _LARGEST_SIGNAL) if code is None else (code, 1, _LARGEST_CODE)
    if type(value) is not int or not 0 <= value <= largest:
        raise GuestFailed(f"a program that ended with {printable(value)}, not a number from 0 to {largest}")
    return sign * value
