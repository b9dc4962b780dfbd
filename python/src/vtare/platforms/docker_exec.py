"""A program that the Docker daemon started in a container, watched like any other child."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms.child import Child
from vtare.platforms.intake import MOST_OUTPUT_BYTE, OUTPUT_LOST
from vtare.process import code_of_shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_STDERR: Final = 2
_REAPED_S: Final = 30.0


class ExecChild(Child):
    """One `exec` in a container. A thread of this process waits for what it prints, asleep while it prints nothing."""

    def __init__(self, client: Any, exec_id: str, *, stdout: Path, stderr: Path) -> None:
        """Start the program that was made under this id; its output goes to the two files."""
        self._client = client
        self._id = exec_id
        self._code: int | None = None
        self._ended = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("ab", buffering=0)) for path in (stdout, stderr)]
            stream = client.exec_start(exec_id, socket=True)
            kept = stack.pop_all()
        self._reader = threading.Thread(target=self._read, args=(stream, files, kept), daemon=True)
        self._reader.start()

    def __del__(self) -> None:
        """Close the descriptor that signals the end."""
        with suppress(OSError, AttributeError):
            os.close(self._ended)

    @property
    def returncode(self) -> int | None:
        """See `Child.returncode`."""
        return self._code

    def watch(self) -> int:
        """Return a descriptor that is readable once the output has ended and the exit code is known."""
        if self._code is not None:
            raise ProcessLookupError
        return os.dup(self._ended)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program, which the daemon runs on this machine."""
        deadline = time.monotonic() + _REAPED_S
        while self._code is None and time.monotonic() < deadline:
            about = self._client.exec_inspect(self._id)
            if not about["Running"]:
                return
            # 0 until the daemon has started it.
            if about["Pid"]:
                with suppress(ProcessLookupError):
                    os.kill(about["Pid"], number)
                return
            time.sleep(0.01)

    def kill(self) -> int:
        """Kill the program and return the exit code."""
        self.send_signal(signal.SIGKILL)
        self._reader.join(_REAPED_S)
        return -signal.SIGKILL if self._code is None else self._code

    def _read(self, stream: Any, files: list[Any], kept: ExitStack) -> None:
        from docker.utils.socket import frames_iter

        lost = False
        try:
            with kept, suppress(OSError):
                lost = self._keep(frames_iter(stream, tty=False), files)
            self._code = OUTPUT_LOST if lost else self._exit_code()
        except Exception:
            # The daemon is gone, and the container with it.
            self._code = -signal.SIGKILL
        finally:
            os.eventfd_write(self._ended, 1)

    def _keep(self, frames: Iterator[tuple[int, bytes]], files: list[Any]) -> bool:
        """Keep what the program prints. Whether it printed too much, and was ended for it."""
        came = [0, 0]
        for number, chunk in frames:
            which = 1 if number == _STDERR else 0
            came[which] += len(chunk)
            if came[which] > MOST_OUTPUT_BYTE:
                files[1].write(f"\nvtare: more than {MOST_OUTPUT_BYTE} B of output: ended\n".encode())
                self.send_signal(signal.SIGKILL)
                return True
            files[which].write(chunk)
        return False

    def _exit_code(self) -> int:
        deadline = time.monotonic() + _REAPED_S
        while True:
            about = self._client.exec_inspect(self._id)
            if not about["Running"] and about["ExitCode"] is not None:
                return code_of_shell(int(about["ExitCode"]))
            if time.monotonic() > deadline:
                return -signal.SIGKILL
            time.sleep(0.005)
