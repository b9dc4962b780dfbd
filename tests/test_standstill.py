"""Instruments, `ab` and `watch` that are stopped or frozen while they measure: each names it, with start and length."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from fleet_machines import sources

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

GROUPS: Final = Path("/sys/fs/cgroup")
STOPPED_S: Final = 1.2
PLAN: Final = """schema = "vtare.plan/1"
name = "still"
question = "?"
blocks = 1
settle = "0 ms"
control = false
[[experiment]]
name = "sleep"
instrument = "sleep"
parameters = { target_ns = "1 ms", samples = 100000, seconds = "4 s" }
factors = { method = ["usleep"] }
"""


class Stop:
    """What keeps a process and its children from running."""

    def begin(self, process: subprocess.Popen[str]) -> None:
        """Before anything runs in it: put it where it can be stopped."""

    def set(self, process: subprocess.Popen[str], *, stopped: bool) -> None:
        """Stop them, or let them go on."""
        number = signal.SIGSTOP if stopped else signal.SIGCONT
        for pid in [process.pid, *_below(process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self) -> None:
        """Remove what was made."""


class Freezer(Stop):
    """A control group that is frozen, of version 1 or 2."""

    def __init__(self) -> None:
        place = next((place for place in (GROUPS / "freezer", GROUPS / "unified", GROUPS) if place.is_dir()), GROUPS)
        self._group = place / f"vtare-frozen-{os.getpid()}"
        if os.geteuid() != 0:
            pytest.skip("control groups need root")
        try:
            self._group.mkdir()
        except OSError as error:
            pytest.skip(f"no control groups here: {error}")

    def begin(self, process: subprocess.Popen[str]) -> None:
        (self._group / "cgroup.procs").write_text(str(process.pid))

    def set(self, process: subprocess.Popen[str], *, stopped: bool) -> None:
        if (old := self._group / "freezer.state").exists():
            old.write_text("FROZEN" if stopped else "THAWED")
        else:
            (self._group / "cgroup.freeze").write_text(str(int(stopped)))

    def end(self) -> None:
        # The last process is gone a moment after its parent knows of its end.
        for _ in range(50):
            with suppress(OSError):
                self._group.rmdir()
                return
            time.sleep(0.1)


def _below(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            words = stat.read_text().rpartition(")")[2].split()
            if int(words[1]) == pid:
                found += [int(stat.parent.name), *_below(int(stat.parent.name))]
    return found


@pytest.fixture(params=[Stop, Freezer])
def stop(request: pytest.FixtureRequest) -> Iterator[Stop]:
    made: Stop = request.param()
    yield made
    made.end()


@pytest.fixture
def stopped(stop: Stop) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command that is stopped for a while, some time after its start."""

    def run(words: list[object], *, after_s: float, **how: Any) -> subprocess.CompletedProcess[str]:
        # It begins when it stands in its group.
        script = ["sh", "-c", 'read -r _; exec "$@"', "sh", *map(str, words)]
        process = subprocess.Popen(
            script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how
        )
        stop.begin(process)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(after_s)
        stop.set(process, stopped=True)
        time.sleep(STOPPED_S)
        stop.set(process, stopped=False)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        return subprocess.CompletedProcess(script, 0, out, err)

    return run


@pytest.fixture
def far(vtare: Path) -> Iterator[str]:
    server = subprocess.Popen(
        [vtare, "serve", "--json", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    listens = json.loads(server.stdout.readline())
    yield f"127.0.0.1:{listens['port']}" if "port" in listens else str(listens["listen"])
    server.terminate()
    server.wait(timeout=20)


Stopped = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    "line",
    [
        "noise --seconds 4 --cpu 0",
        "sleep --method usleep --target 1ms --samples 100000 --seconds 4",
        "counter --batches 8 --calls 10 --max-exponent 3 --unit-ms 5",
        "rtt FAR --seconds 4 --rate 100 --blocking",
    ],
)
def test_a_stopped_instrument_names_the_time(line: str, vtare: Path, stopped: Stopped, request: Any) -> None:
    if "FAR" in line:
        line = line.replace("FAR", request.getfixturevalue("far"))
    document = json.loads(stopped([vtare, *line.split(), "--json"], after_s=1.5).stdout)
    outages = [one for cell in document["cells"] for one in cell["outages"] if one["place"] == "here"]
    longest = max(one["length_ns"] for one in outages)
    assert STOPPED_S - 0.1 < longest / 1e9 < STOPPED_S + 0.6
    assert any("stalled" in note["text"] for note in document["notes"])


def test_ab_leaves_out_what_was_stopped_and_names_it(vtare: Path, stopped: Stopped) -> None:
    words = [vtare, "ab", "--pairs", "8", "--design", "interleaved", "--", "sleep 0.2", "--", "sleep 0.2"]
    done = stopped(words, after_s=2.5)
    said = done.stdout + done.stderr
    assert "stopped" in said
    assert "equivalent" in said or "no clear difference" in said or "Not enough" in said


def test_a_stopped_round_of_watch_names_the_time_and_counts_it_in_no_figure(
    vtare: Path, stopped: Stopped, tmp_path: Path
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    began_s = time.time()
    words = [sys.executable, "-m", "vtare.watch.round", tmp_path, shutil.which(vtare)]
    document = json.loads(stopped(words, after_s=3.5, env={**os.environ, "PYTHONPATH": sources()}).stdout)
    (one,) = document["standstills"]
    assert STOPPED_S - 0.1 < one["length_s"] < STOPPED_S + 0.6
    assert began_s < one["began_unix_s"] < began_s + 10.0
    assert "stalled for 1." in one["text"]
    assert document["events"]["stalled"] == 1
    (histogram,) = document["histograms"]
    above_1_s = sum(histogram["counts"][histogram["bounds"].index(0.5) + 1 :])
    assert above_1_s == 0
