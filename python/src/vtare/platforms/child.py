"""A child process that never outlives the lab and never wakes it while it measures.

Waiting blocks in `poll(2)` on a pidfd, so the lab takes no CPU time from a measurement. A child leads its own process
group, so that a Ctrl-C at the terminal reaches the lab alone, which then ends its children in order; `PR_SET_PDEATHSIG`
ends them where the lab itself is killed.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from vtare.platforms.intake import MOST_OUTPUT_BYTE, OUTPUT_LOST, PIECE_BYTE
from vtare.platforms.owner import OWNER_VARIABLE, own_prefix
from vtare.process import NOWHERE, PIPE, start

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import IO

    from vtare.process import Process

_PR_SET_PDEATHSIG: Final = 1
#: How long what is left in its pipes is waited for when a program has ended.
_DRAINED_S: Final = 5.0
# Loaded before any fork: the forked child must not import or look up anything.
_PRCTL: Final = ctypes.CDLL(None, use_errno=True).prctl


class Child(ABC):
    """A started program. End it with `terminate` or `kill`; `returncode` is None while it runs.

    A platform's own kind of child states how to watch, signal and reap its program; waiting is the same for all.
    """

    @property
    @abstractmethod
    def returncode(self) -> int | None:
        """Exit code, minus the signal's number where a signal ended it, None while it runs."""

    @abstractmethod
    def watch(self) -> int:
        """Return a new descriptor that becomes readable when the program ends; whoever asks closes it.

        Raises ProcessLookupError where it has ended already, and OSError where it can only be asked now and then.
        """

    @abstractmethod
    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program and all that it started; one that has ended is fine."""

    @abstractmethod
    def kill(self) -> int:
        """Kill the program and all that it started, and return the exit code."""

    def wait(self, timeout_s: float | None, *, stop_fd: int | None = None, others: Sequence[Child] = ()) -> int | None:
        """Block until the program ends, and return its exit code.

        None when the time is over, `stop_fd` is readable or one of the `others` has ended first.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        opened: list[int] = []
        try:
            for child in (self, *others):
                opened.append(child.watch())
            wait_readable(opened if stop_fd is None else [*opened, stop_fd], deadline)
        except ProcessLookupError:
            # Gone and reaped already, by a look at its exit code.
            pass
        except OSError:
            return self._wait_by_polling(deadline, stop_fd, others)
        finally:
            for descriptor in opened:
                os.close(descriptor)
        return self.returncode

    def _wait_by_polling(self, deadline: float | None, stop_fd: int | None, others: Sequence[Child]) -> int | None:
        # Kernels before 5.3 and strict seccomp profiles have no pidfd: 20 wake-ups a second is the price there.
        while self.returncode is None and all(child.returncode is None for child in others):
            step = time.monotonic() + 0.05
            if wait_readable([] if stop_fd is None else [stop_fd], step if deadline is None else min(step, deadline)):
                break
            if deadline is not None and time.monotonic() >= deadline:
                break
        return self.returncode

    def terminate(self, grace_s: float = 10.0, *, stop_fd: int | None = None) -> int:
        """Ask it to end (SIGTERM), kill it after `grace_s` or when `stop_fd` is readable; the exit code."""
        self.send_signal(signal.SIGTERM)
        code = self.wait(grace_s, stop_fd=stop_fd)
        return self.kill() if code is None else code


class ProcessChild(Child):
    """A process of this machine that leads its own group."""

    def __init__(self, process: Process) -> None:
        """Take over a process that leads its own group."""
        self.process = process

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """See `Child.returncode`."""
        return self.process.poll()

    def watch(self) -> int:
        """Return a pidfd."""
        return os.pidfd_open(self.pid)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def kill(self) -> int:
        """Kill the whole group and return the exit code."""
        self.send_signal(signal.SIGKILL)
        return self.process.wait()


class PipedChild(ProcessChild):
    """A process whose output is not trusted: read by threads of this process, bounded, and kept in two files."""

    def __init__(self, process: Process, *, stdout: Path, stderr: Path) -> None:
        """Take over what `start_piped` has started. Raises OSError where a file cannot be opened."""
        super().__init__(process)
        self._files = [path.open("ab", buffering=0) for path in (stdout, stderr)]
        self._lost = False
        self._code: int | None = None
        self._copiers = [
            threading.Thread(target=self._copy, args=(pipe, file), daemon=True)
            for pipe, file in zip((process.stdout, process.stderr), self._files, strict=True)
        ]
        for copier in self._copiers:
            copier.start()

    @property
    def returncode(self) -> int | None:
        """See `Child.returncode`: `OUTPUT_LOST` where the program printed too much."""
        code = self.process.poll()
        if code is None or self._code is not None:
            return self._code
        # What it has started may hold its output open for ever.
        deadline = time.monotonic() + _DRAINED_S
        for copier in self._copiers:
            copier.join(max(0.0, deadline - time.monotonic()))
        for file in self._files:
            file.close()
        self._code = OUTPUT_LOST if self._lost else code
        return self._code

    def kill(self) -> int:
        """Kill the whole group and return the exit code."""
        code = super().kill()
        return code if self.returncode is None else self.returncode

    def _copy(self, pipe: IO[bytes], file: IO[bytes]) -> None:
        came = 0
        # ValueError: the file is closed, since nobody waits for this output any more.
        with pipe, suppress(OSError, ValueError):
            while piece := os.read(pipe.fileno(), PIECE_BYTE):
                came += len(piece)
                if came > MOST_OUTPUT_BYTE:
                    self._lost = True
                    self._files[1].write(f"\nvtare: more than {MOST_OUTPUT_BYTE} B of output: ended\n".encode())
                    self.send_signal(signal.SIGKILL)
                    return
                file.write(piece)


def wait_readable(descriptors: Sequence[int], deadline: float | None) -> bool:
    """Block until one of the descriptors is readable (True) or `time.monotonic()` reaches `deadline` (False)."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    left_ms = None if deadline is None else max(0.0, (deadline - time.monotonic()) * 1000)
    return bool(poll.poll(left_ms))


def start_child(
    command: Sequence[str], *, directory: Path, stdout: Path, stderr: Path, most_file_byte: int | None = None
) -> ProcessChild:
    """Start a program in `directory` with its output in two files (the same file twice is allowed).

    With `most_file_byte` a signal (SIGXFSZ) ends it where it makes any file longer.

    Raises:
        OSError: the program cannot be started, or a file cannot be written.
    """
    with stdout.open("ab") as out, stderr.open("ab") as err:
        return ProcessChild(_started(command, directory, out, err, most_file_byte))


def start_piped(command: Sequence[str], *, directory: Path) -> Process:
    """Start a program in `directory` for a `PipedChild`, which reads what it prints.

    Raises:
        OSError: the program cannot be started.
    """
    return _started(command, directory, PIPE, PIPE, None)


def _started(
    command: Sequence[str],
    directory: Path,
    out: IO[bytes] | int,
    err: IO[bytes] | int,
    most_file_byte: int | None,
    *,
    stdin: int = NOWHERE,
) -> Process:
    return start(
        command,
        stdin=stdin,
        stdout=out,
        stderr=err,
        directory=directory,
        environment={OWNER_VARIABLE: own_prefix()},
        buffered=False,
        group=True,
        before=_die_with(os.getpid(), most_file_byte),
    )


def _die_with(parent: int, most_file_byte: int | None) -> Callable[[], None]:
    def before_exec() -> None:
        if most_file_byte is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_file_byte, most_file_byte))
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent may have died between fork and prctl: then no signal will ever come.
        if os.getppid() != parent:
            os._exit(127)

    return before_exec
