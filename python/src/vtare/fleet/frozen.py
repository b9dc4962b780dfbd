"""A worker on the measured host stops while a program measures: then nothing of it runs there (`watchdog`)."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms.child import PipedChild, ProcessChild
from vtare.process import PIPE, start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.platforms.child import Child
    from vtare.process import Process

_PROGRAM: Final = Path(__file__).with_name("watchdog.py")
_PR_SET_PTRACER: Final = 0x59616D61
_PRCTL: Final = ctypes.CDLL(None).prctl
_LOG = logging.getLogger(__name__)


class Freezer:
    """Stops this process while others measure."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._watchdog: Process | None = None

    def freeze(self, longest_s: float, children: Sequence[Child], timeout_s: float) -> None:
        """Stop until one of these programs has ended, or one of the times is over.

        This process stays awake where it carries the output of one of them: it would keep that one waiting; and where
        it may not be traced.
        """
        pids = [
            child.pid for child in children if isinstance(child, ProcessChild) and not isinstance(child, PipedChild)
        ]
        if len(pids) < len(children):
            return
        try:
            watchdog = self._started()
            os.write(watchdog.stdin.fileno(), f"{min(longest_s, timeout_s)} {' '.join(map(str, pids))}\n".encode())
            answered = os.read(watchdog.stdout.fileno(), 1024).decode(errors="replace").strip()
        except OSError as error:
            answered = str(error)
        if answered != ".":
            _LOG.warning("a worker stays awake while it measures: %s", answered or "its watchdog ended")
            # The next run has another one.
            self.close()

    def _started(self) -> Any:
        if self._watchdog is None or self._watchdog.poll() is not None:
            self.close()
            words = [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid())]
            # A session of its own: Ctrl-C is for the worker.
            self._watchdog = start(words, stdin=PIPE, stdout=PIPE, buffered=False, session=True)
            # Where Yama lets parents alone trace; its child, the freezer, may then, too. Without Yama this is refused.
            _PRCTL(_PR_SET_PTRACER, self._watchdog.pid)
        return self._watchdog

    def close(self) -> None:
        """End the watchdog. May be called twice."""
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.kill()
            watchdog.communicate()
