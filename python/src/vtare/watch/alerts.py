"""Alerts on their way to a webhook, posted by a program of its own (`vtare.watch.post`): no round waits for it."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, Self

from vtare.platforms.child import ProcessChild
from vtare.platforms.intake import printable
from vtare.process import start, where_the_lab_is

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import IO

_LOG = logging.getLogger(__name__)
#: Alerts that wait for a webhook that does not answer; the oldest are dropped beyond.
_MOST_WAITING: Final = 1000
#: At the end the program is waited for: its own deadline of 10 s and its start.
_LAST_S: Final = 12.0
#: What is read of the reason that it prints.
_MOST_REASON_BYTE: Final = 4096


class Webhook:
    """Posts each alert to a URL as one JSON document, `vtare.alert/1`; those not accepted wait for the next round."""

    def __init__(self, url: str, store: Path, stop_fd: int) -> None:
        """Take the URL, the store that the alerts are of, and what becomes readable when the end is asked for."""
        self._url = url
        self._store = store
        self._stop_fd = stop_fd
        self._waiting: list[dict[str, Any]] = []
        self._sending: list[dict[str, Any]] = []
        self._child: ProcessChild | None = None
        # In memory: the disk may be full, and nobody reads a pipe between two rounds.
        self._out, self._err = (_memory(name) for name in ("accepted", "reason"))

    def post(self, alerts: Sequence[dict[str, Any]]) -> None:
        """Add alerts, and send what waits unless the last are still on their way. It does not block."""
        self._waiting = [*self._waiting, *alerts][-_MOST_WAITING:]
        self._collect()
        if not self._waiting or self._child is not None:
            return
        lines = [json.dumps({"schema": "vtare.alert/1", "store": str(self._store), **one}) for one in self._waiting]
        for file in (self._out, self._err):
            file.truncate(0)
            file.seek(0)
        with _memory("alerts") as letters:
            letters.write("\n".join(lines).encode())
            letters.seek(0)
            words = [sys.executable, "-m", "vtare.watch.post", self._url]
            try:
                process = start(words, stdin=letters, stdout=self._out, stderr=self._err, group=True,
                                environment=where_the_lab_is())  # fmt: skip
            except OSError as error:
                self._note(str(error))
                return
        self._child = ProcessChild(process)
        self._sending, self._waiting = self._waiting, []

    def _collect(self) -> None:
        """Take over how the program ended, where it has."""
        if self._child is None or (code := self._child.returncode) is None:
            return
        self._child = None
        self._out.seek(0)
        accepted = len(self._out.read().splitlines())
        self._waiting = [*self._sending[accepted:], *self._waiting][-_MOST_WAITING:]
        if code != 0:
            self._err.seek(0)
            reason = printable(self._err.read(_MOST_REASON_BYTE).decode(errors="replace"))
            late = code in (-signal.SIGALRM, -signal.SIGKILL)
            self._note("it did not answer in time" if late else reason or f"exit code {code}")

    def _note(self, reason: str) -> None:
        _LOG.warning(f"webhook: {reason}; alerts not delivered yet: {len(self._waiting)}")

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """Wait for those on their way, but not after a request to stop."""
        if self._child is not None and kind is None:
            self._child.wait(_LAST_S, stop_fd=self._stop_fd)
        if self._child is not None and self._child.returncode is None:
            self._child.kill()
        self._collect()
        if self._waiting:
            count, command = len(self._waiting), f"vtare compare --over-time {self._store}"
            _LOG.warning(f"webhook: alerts not delivered: {count}; `{command}` prints all changes")
        for file in (self._out, self._err):
            file.close()


def _memory(name: str) -> IO[bytes]:
    return os.fdopen(os.memfd_create(f"vtare-{name}", os.MFD_CLOEXEC), "w+b", buffering=0)
