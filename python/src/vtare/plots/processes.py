"""Processes that draw while the rest of a report is worked out."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import vtare.plots  # noqa: F401
from vtare.plots.drawn import drawn_by

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST: Final = 4
"""Processes: half a second each to begin with, which few figures are worth."""


@contextmanager
def drawing_processes() -> Iterator[None]:
    """Draw in as many other processes as there are CPUs, where there is more than one.

    They import what they need while this process reads the store.
    """
    count = min(len(os.sched_getaffinity(0)), _MOST)
    # A limit of memory holds for each process, and a thread that cannot be had would leave drawings waiting.
    if count == 1 or resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        yield
        return
    try:
        # Not forked: threads of Polars would be missing in the copy.
        context = multiprocessing.get_context("spawn")
        executor = ProcessPoolExecutor(count, mp_context=context, initializer=_leave_interrupts)
    except OSError:
        # Where no process can be had, this one draws.
        yield
        return
    with executor:
        with suppress(BrokenExecutor, OSError):
            for _ in range(count):
                executor.submit(os.getpid)
        try:
            with drawn_by(executor):
                yield
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the process that asked; this module has imported what draws."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
