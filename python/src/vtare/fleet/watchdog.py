"""Stop a worker process while programs measure beside it, and let it go on: a program of its own, started by `frozen`.

The worker writes a line for each measurement: the longest time in seconds, and the process ids of the programs. A child
of the watchdog, the freezer, stops the worker (SIGSTOP) and sleeps until one of the programs has ended. Then both let
the worker go on (SIGCONT), so that either may be killed. Where the freezer hangs, the watchdog thaws the worker when
the time is over. Neither wakes up in between. The answer is a line.

It imports little, so that it takes little memory on the measured host.
"""

import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

#: What the freezer has beside the time stated, to begin and to end.
SPARE_S = 1.0


def main() -> None:
    """Serve the worker until it closes its end of stdin, or ends."""
    worker = os.pidfd_open(int(sys.argv[1]))
    for line in sys.stdin:
        longest_s, *pids = line.split()
        _hold(worker, float(longest_s), [int(pid) for pid in pids])
        sys.stdout.write("\n")
        sys.stdout.flush()


def _hold(worker: int, longest_s: float, pids: Sequence[int]) -> None:
    freezer = os.fork()
    if freezer == 0:
        try:
            _freeze(worker, longest_s, pids)
        finally:
            os._exit(0)
    ended = os.pidfd_open(freezer)
    try:
        if not _wait([ended, worker], longest_s + SPARE_S):
            os.kill(freezer, signal.SIGKILL)
    finally:
        _signal(worker, signal.SIGCONT)
        os.close(ended)
    os.waitpid(freezer, 0)


def _freeze(worker: int, longest_s: float, pids: Sequence[int]) -> None:
    programs = [os.pidfd_open(pid) for pid in pids]
    try:
        _signal(worker, signal.SIGSTOP)
        _wait([*programs, worker], longest_s)
    finally:
        _signal(worker, signal.SIGCONT)


def _wait(descriptors: Sequence[int], longest_s: float) -> bool:
    """Sleep until one of the processes has ended (True) or the time is over (False)."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1e3 * longest_s))


def _signal(worker: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(worker, number)


if __name__ == "__main__":
    main()
