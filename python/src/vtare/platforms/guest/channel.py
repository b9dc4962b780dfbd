"""What a control channel is, and how a socket or a pseudo-terminal (a Xen guest's console) becomes one."""

from __future__ import annotations

import errno
import os
import select
import socket
import termios
import time
import tty
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from vtare.platforms.guest.errors import GuestFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: A terminal that takes nothing for so long is given up.
SEND_S: Final = 60.0


class Channel(Protocol):
    """What the lab talks to an agent over: a connected socket, or what does the same."""

    def recv(self, size: int, /) -> bytes:
        """Block until something has come; nothing where the other end is gone. Raises OSError."""
        ...

    def sendall(self, data: bytes, /) -> None:
        """Pass everything on. Raises OSError, also where nothing is taken for long."""
        ...

    def shutdown(self, how: int, /) -> None:
        """Wake who waits in `recv`. Raises OSError."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Descriptors:
    """A channel over two descriptors, one to read and one to write, which may be the same."""

    def __init__(self, read: int, write: int) -> None:
        """Take both over; neither may block. Raises OSError where the kernel gives no more descriptors."""
        self._read, self._write = read, write
        self._ended = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def recv(self, size: int) -> bytes:
        """Block until something has come, and give it; nothing where the other end is gone or `shutdown` was called.

        Raises OSError where reading fails.
        """
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while True:
            if any(descriptor == self._ended for descriptor, _ in poll.poll()):
                return b""
            with suppress(BlockingIOError):
                try:
                    return os.read(self._read, size)
                except OSError as error:
                    # How a terminal states that nobody holds its other end.
                    if error.errno == errno.EIO:
                        return b""
                    raise

    def sendall(self, data: bytes) -> None:
        """Pass everything on. Raises OSError where writing fails or nothing is taken for `SEND_S`."""
        poll = select.poll()
        poll.register(self._write, select.POLLOUT)
        deadline = time.monotonic() + SEND_S
        rest = memoryview(data)
        while rest:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError(f"took nothing for {SEND_S:.0f} s")
            with suppress(BlockingIOError):
                rest = rest[os.write(self._write, rest) :]
                deadline = time.monotonic() + SEND_S

    def shutdown(self, _how: int, /) -> None:
        """Wake who waits in `recv`."""
        os.eventfd_write(self._ended, 1)

    def close(self) -> None:
        """Close it. Nobody may wait in `recv` any more."""
        for descriptor in {self._read, self._write, self._ended}:
            os.close(descriptor)


class Terminal(Descriptors):
    """One end of a terminal, with the calls of a connected socket that a channel needs. Every byte passes as it is."""

    def __init__(self, path: Path, *, doubled: bytes = b"") -> None:
        """Open it. `doubled` is a byte that the other end takes as itself only when it comes twice.

        Raises OSError where it cannot be opened.
        """
        self._doubled = doubled
        opened = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            # At once: what has come already, such as a guest's first words, is kept.
            tty.setraw(opened, termios.TCSANOW)
            super().__init__(opened, opened)
        except BaseException:
            os.close(opened)
            raise

    def sendall(self, data: bytes) -> None:
        """Pass everything on. Raises OSError where the terminal fails or takes nothing for `SEND_S`."""
        super().sendall(data.replace(self._doubled, self._doubled * 2) if self._doubled else data)


def connect(path: Path, timeout_s: float, gone: Callable[[], str | None]) -> socket.socket:
    """Connect to a socket that another program is about to open.

    Raises:
        GuestFailed: that program has ended (`gone` states how), or it did not open the socket in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        channel = socket.socket(socket.AF_UNIX)
        try:
            channel.connect(str(path))
        except OSError as error:
            channel.close()
            how = gone()
            if how is not None:
                raise GuestFailed(how) from error
            if time.monotonic() > deadline:
                raise GuestFailed(f"{path}: {error} after {timeout_s:.0f} s") from error
            time.sleep(0.02)
        else:
            return channel
