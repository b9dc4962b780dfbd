"""Stop a worker process while programs measure beside it, and let it go on: a program of its own, started by `frozen`.

The worker writes a line for each measurement: the longest time in seconds, and the process ids of the programs. A child
of the watchdog, the freezer, stops every thread of the worker as a debugger does (ptrace) and sleeps until one of the
programs has ended. When the freezer ends, however it ends, the kernel lets the worker go on. Where the freezer hangs,
the watchdog kills it when the time is over. Neither wakes up in between. The answer is a line: "." where the worker was
stopped, else why it stayed awake.

It imports little, so that it takes little memory on the measured host.
"""

import ctypes
import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

#: What the freezer has beside the time stated, to begin and to end.
SPARE_S = 1.0
_PTRACE_SEIZE = 0x4206
_PTRACE_INTERRUPT = 0x4207
#: `waitpid` for threads of others (__WALL).
_ALL_THREADS = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
_LIBC.ptrace.restype = ctypes.c_long


def main() -> None:
    """Serve the worker until it closes its end of stdin, or ends."""
    pid = int(sys.argv[1])
    worker = os.pidfd_open(pid)
    for line in sys.stdin:
        longest_s, *pids = line.split()
        reason = _hold(pid, worker, float(longest_s), [int(one) for one in pids])
        sys.stdout.write(f"{reason}\n")
        sys.stdout.flush()


def _hold(pid: int, worker: int, longest_s: float, pids: Sequence[int]) -> str:
    read, write = os.pipe()
    freezer = os.fork()
    if freezer == 0:
        reason = "the freezer failed"
        try:
            reason = _freeze(pid, worker, longest_s, pids)
        except OSError as error:
            reason = str(error)
        finally:
            os.write(write, reason.encode()[:500])
            os._exit(0)
    os.close(write)
    ended = os.pidfd_open(freezer)
    _wait([ended, worker], longest_s + SPARE_S)
    if not _wait([ended], 0.0 if _wait([worker], 0.0) else 0.1):
        os.kill(freezer, signal.SIGKILL)
    os.waitpid(freezer, 0)
    reason = os.read(read, 500).decode(errors="replace").replace("\n", " ")
    os.close(ended)
    os.close(read)
    return reason or "."


def _freeze(pid: int, worker: int, longest_s: float, pids: Sequence[int]) -> str:
    programs = [os.pidfd_open(one) for one in pids]
    # A traced thread that is killed waits for its tracer, and the worker with it: that comes as SIGCHLD.
    read, write = os.pipe2(os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write)
    try:
        _stop_threads(pid)
    except ProcessLookupError:
        return "."
    os.read(read, 1 << 16)
    if not _any_died():
        _wait([*programs, worker, read], longest_s)
    return "."


def _any_died() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG | _ALL_THREADS)[0] != 0
    except ChildProcessError:
        return True


def _stop_threads(pid: int) -> None:
    """Stop every thread of a process, also those that begin meanwhile, until this process ends. Raises OSError."""
    stopped: set[int] = set()
    while new := {int(name) for name in os.listdir(f"/proc/{pid}/task")} - stopped:
        for thread in sorted(new):
            # One that has ended by itself answers neither, and goes once it is waited for.
            with suppress(ProcessLookupError):
                _trace(_PTRACE_SEIZE, thread)
                with suppress(ProcessLookupError):
                    _trace(_PTRACE_INTERRUPT, thread)
                os.waitpid(thread, _ALL_THREADS)
            stopped.add(thread)


def _trace(request: int, thread: int) -> None:
    if _LIBC.ptrace(request, thread, None, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace: {os.strerror(number)}")


def _wait(descriptors: Sequence[int], longest_s: float) -> bool:
    """Sleep until one of the processes has ended (True) or the time is over (False)."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1e3 * longest_s))


if __name__ == "__main__":
    main()
