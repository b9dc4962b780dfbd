"""Processes that draw while the rest of a report is worked out."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import forkserver
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST: Final = 4
"""Processes, so that no report takes a large machine for itself."""
_YOUNG_OBJECTS: Final = 100_000
"""New objects after which unreachable ones are looked for, instead of Python's 700."""


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
        # Not forked from this process, whose threads of Polars would be missing in the copies.
        forkserver.set_forkserver_preload(["vtare.plots"])
        forkserver.ensure_running()
        context = multiprocessing.get_context("forkserver")
        executor = ProcessPoolExecutor(count, mp_context=context, initializer=_begin)
    except OSError:
        # Where no process can be had, this one draws.
        yield
        return
    with executor:
        # Here, not above: they begin meanwhile.
        from vtare.plots.drawn import drawn_by

        before = gc.get_threshold()
        gc.set_threshold(_YOUNG_OBJECTS)
        try:
            with drawn_by(executor):
                yield
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            gc.set_threshold(*before)


def _begin() -> None:
    """Leave Ctrl-C to the process that asked, and end where that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(_YOUNG_OBJECTS)
    threading.Thread(target=_end_with_the_asking, daemon=True).start()


def _end_with_the_asking() -> None:
    asking = multiprocessing.parent_process()
    if asking is not None:
        asking.join()
        os._exit(1)
