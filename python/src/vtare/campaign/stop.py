"""Ask a campaign to stop: Ctrl-C, SIGTERM or a lost terminal, without a single wake-up while a run measures."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType


class StopRequest:
    """Counts stop requests and makes `fd` readable with each. The second one means: at once.

    As a context manager it takes over SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP of the main thread and
    gives them back at the end. A terminal that goes away sends SIGHUP more than once: it is one request.
    """

    def __init__(self) -> None:
        """Make the pipe; no signal is taken over yet."""
        self.count = 0
        self._read_fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before: dict[signal.Signals, Any] = {}

    @property
    def fd(self) -> int:
        """Readable after a request, until `acknowledge`."""
        return self._read_fd

    @property
    def requested(self) -> bool:
        """Whether anyone has asked to stop."""
        return self.count > 0

    def request(self) -> None:
        """Ask to stop. Safe in a signal handler."""
        self.count += 1
        with suppress(BlockingIOError):
            os.write(self._write_fd, b"x")

    def acknowledge(self) -> None:
        """Make `fd` quiet, so that it wakes its watcher again at the next request only."""
        with suppress(BlockingIOError):
            os.read(self._read_fd, 4096)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGHUP or not self.requested:
            self.request()

    def __enter__(self) -> Self:
        """Take over SIGINT, SIGTERM and SIGHUP."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back and close the pipe."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._read_fd)
        os.close(self._write_fd)
