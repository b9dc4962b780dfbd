"""What every command of the lab shares: an output that nobody reads any more."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING

from vtare.errors import MachineCannot

if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer


class _Out(io.FileIO):
    """Standard output, or standard error: a reader that goes away (`vtare status STORE | head`) is no error.

    What follows goes nowhere. So does what cannot be written for another reason: an error, of standard output alone.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            # EIO: the terminal has gone.
            if error.errno not in (errno.EPIPE, errno.EIO) and self.fileno() == 1:
                raise MachineCannot(f"cannot write to standard output: {error.strerror}") from error
            return super().write(data)


def forgive_lost_readers() -> None:
    """From now on a reader of stdout or stderr that goes away is no error, and the exit code that of what was done."""
    sys.stdout, sys.stderr = _forgiving(sys.stdout), _forgiving(sys.stderr)


def _forgiving(out: TextIO) -> TextIO:
    try:
        raw = _Out(out.fileno(), "w", closefd=False)
    except (AttributeError, OSError, ValueError):
        # It is closed, or no file (as in tests).
        return out
    out.flush()
    buffered = io.BufferedWriter(raw)
    by_line = out is sys.stderr or out.isatty()
    return io.TextIOWrapper(buffered, encoding=out.encoding, errors=out.errors, line_buffering=by_line)
