"""A worker that is stopped while a program measures goes on again, whatever becomes of what has stopped it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

WORKER = """
import math, sys, time
from pathlib import Path
from vtare.fleet.frozen import Freezer
from vtare.platforms.child import start_child
place, seconds, timeout_s, times = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
freezer = Freezer()
for _ in range(times):
    child = start_child(["sleep", seconds], directory=place, stdout=place / "log", stderr=place / "log")
    print("begins", flush=True)
    begin = time.monotonic()
    freezer.freeze(math.inf, [child], timeout_s)
    print(time.monotonic() - begin, child.returncode, flush=True)
    child.kill()
    time.sleep(float(sys.argv[5]))
freezer.close()
"""

WATCHDOG = Path(__file__).resolve().parents[2] / "src" / "vtare" / "fleet" / "watchdog.py"
THREADS = """
import threading, time
def begin():
    time.sleep(0.001)
    threading.Thread(target=begin).start()
for _ in range(5):
    begin()
print("begins", flush=True)
"""


@contextmanager
def worker(
    place: Path, seconds: float, timeout_s: float = 60.0, times: int = 1, pause_s: float = 0.0
) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", WORKER, str(place), str(seconds), str(timeout_s), str(times), str(pause_s)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        until(lambda: state_of(process.pid) == "t")
        yield process
    finally:
        process.kill()
        process.communicate()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20.0
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def tasks_of(pid: int) -> list[str]:
    return sorted(os.listdir(f"/proc/{pid}/task"))


def state_of(pid: int, process: int | None = None) -> str:
    """The state of a process, or of a thread of one."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process or pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def watchdog_of(pid: int) -> int:
    (found,) = (child for child in children_of(pid) if b"watchdog.py" in Path(f"/proc/{child}/cmdline").read_bytes())
    return found


def frozen_s(process: subprocess.Popen[str]) -> tuple[float, str]:
    """How long a worker that has gone on was stopped, and the exit code of its program."""
    assert process.stdout is not None
    seconds, code = process.stdout.readline().split()
    return float(seconds), code


def switches_of(pid: int) -> int:
    found = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(int(line.split()[1]) for text in found for line in text.splitlines() if "ctxt_switches" in line)


def test_a_worker_is_stopped_until_its_program_has_ended_and_nothing_wakes_up_meanwhile(tmp_path: Path) -> None:
    with worker(tmp_path, 1.5, times=2) as process:
        watchdog = watchdog_of(process.pid)
        pids = [process.pid, watchdog, *children_of(watchdog)]
        assert len(pids) == 3
        time.sleep(0.2)
        before = [switches_of(pid) for pid in pids]
        time.sleep(0.8)
        assert [switches_of(pid) for pid in pids] == before
        assert state_of(process.pid) == "t"
        seconds, code = frozen_s(process)
        assert code == "0"
        assert seconds >= 1.3
        # The second run is made with the same watchdog.
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        until(lambda: state_of(process.pid) == "t")
        assert watchdog_of(process.pid) == watchdog
        assert frozen_s(process)[1] == "0"
        assert process.wait(10) == 0
    until(lambda: not Path(f"/proc/{watchdog}").exists())


def test_the_watchdog_thaws_a_worker_whose_freezer_is_killed(tmp_path: Path) -> None:
    with worker(tmp_path, 30.0) as process:
        (freezer,) = children_of(watchdog_of(process.pid))
        os.kill(freezer, signal.SIGKILL)
        seconds, code = frozen_s(process)
        assert (code, seconds < 15.0) == ("None", True)


def test_the_watchdog_thaws_a_worker_whose_freezer_hangs_when_the_time_is_over(tmp_path: Path) -> None:
    with worker(tmp_path, 30.0, timeout_s=1.0) as process:
        (freezer,) = children_of(watchdog_of(process.pid))
        os.kill(freezer, signal.SIGSTOP)
        seconds, code = frozen_s(process)
        assert (code, 2.0 <= seconds < 15.0) == ("None", True)
        until(lambda: not Path(f"/proc/{freezer}").exists())


def test_the_freezer_thaws_a_worker_whose_watchdog_is_killed(tmp_path: Path) -> None:
    with worker(tmp_path, 1.5, times=2) as process:
        first = watchdog_of(process.pid)
        os.kill(first, signal.SIGKILL)
        assert frozen_s(process)[1] == "0"
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        until(lambda: state_of(process.pid) == "t")
        assert watchdog_of(process.pid) != first
        assert frozen_s(process)[1] == "0"


def test_nothing_is_left_of_a_worker_that_is_killed_while_it_is_stopped(tmp_path: Path) -> None:
    with worker(tmp_path, 30.0) as process:
        watchdog = watchdog_of(process.pid)
        left = [watchdog, *children_of(watchdog)]
        process.kill()
        process.wait()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))


def test_a_worker_goes_on_when_the_time_of_its_run_is_over(tmp_path: Path) -> None:
    with worker(tmp_path, 30.0, timeout_s=0.5) as process:
        seconds, code = frozen_s(process)
        assert (code, 0.4 <= seconds < 15.0) == ("None", True)


@pytest.mark.attack
@pytest.mark.parametrize("first", ["freezer", "watchdog"])
def test_the_kernel_thaws_a_worker_whose_freezer_and_watchdog_are_both_killed(first: str, tmp_path: Path) -> None:
    drawn = random.Random(20261128)
    with worker(tmp_path, 30.0, times=10, pause_s=0.3) as process:
        for _ in range(10):
            watchdog = watchdog_of(process.pid)
            pids = {"watchdog": watchdog, "freezer": children_of(watchdog)[0]}
            time.sleep(drawn.uniform(0.0, 0.05))
            for name in sorted(pids, key=lambda name: name != first):
                os.kill(pids[name], signal.SIGKILL)
                time.sleep(drawn.choice([0.0, 0.01]))
            assert process.stdout is not None
            seconds, code = frozen_s(process)
            assert (code, seconds < 15.0) == ("None", True)
            if process.stdout.readline():
                until(lambda: state_of(process.pid) == "t")
        assert process.wait(10) == 0


def test_every_thread_of_a_worker_is_stopped_also_those_that_begin_meanwhile(tmp_path: Path) -> None:
    program = tmp_path / "threads.py"
    program.write_text(THREADS)
    with ExitStack() as stack:

        def started(*words: str | Path) -> subprocess.Popen[str]:
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        busy, sleeper = started(sys.executable, program), started("sleep", "30")
        watchdog = started(sys.executable, "-I", "-S", WATCHDOG, str(busy.pid))
        assert busy.stdout is not None
        assert busy.stdout.readline() == "begins\n"
        assert watchdog.stdin is not None
        assert watchdog.stdout is not None
        for _ in range(5):
            watchdog.stdin.write(f"0.5 {sleeper.pid}\n")
            watchdog.stdin.flush()
            until(lambda: {state_of(int(name), busy.pid) for name in tasks_of(busy.pid)} == {"t"})
            before = (switches_of(busy.pid), tasks_of(busy.pid))
            time.sleep(0.1)
            assert (switches_of(busy.pid), tasks_of(busy.pid)) == before
            assert watchdog.stdout.readline() == ".\n"


def test_a_worker_that_may_not_be_traced_stays_awake_and_the_reason_is_stated(tmp_path: Path) -> None:
    with worker(tmp_path, 30.0, timeout_s=1.0) as traced:
        words = [sys.executable, "-I", "-S", str(WATCHDOG), str(traced.pid)]
        # It is traced already, and a process has one tracer at most.
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as second:
            answered, _ = second.communicate(f"5 {os.getpid()}\n", timeout=20)
        assert answered == "[Errno 1] ptrace: Operation not permitted\n"
        assert frozen_s(traced)[1] == "None"
