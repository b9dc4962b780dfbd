"""From a plan to a report with the installed programs, as a user runs them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

PLAN = """
schema = "vtare.plan/1"
name = "end-to-end"
question = "Does the way from plan to report hold?"
blocks = 2
settle = "1 ms"

[[experiment]]
name = "timer"
title = "Cost of reading the clock"
instrument = "timer"
baseline = { load = "idle", source = "clock_monotonic" }

[experiment.parameters]
samples = 20_000
seconds = "0.2 s"

[experiment.factors]
load = ["idle", { kind = "cpu", threads = 2 }]
source = ["vtare", "clock_monotonic"]
"""


class Lab:
    """The installed `vtare` in a directory of its own."""

    def __init__(self, vtare: Path, directory: Path) -> None:
        self.vtare = vtare
        self.directory = directory
        self.store = directory / "store"
        self.plan = directory / "end-to-end.toml"
        self.plan.write_text(PLAN, encoding="utf-8")
        # The lab is looked for beside the binary and on PATH; the binary likewise by the lab.
        self.environment = {**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `vtare` in a process group of its own."""
        return subprocess.Popen(
            [str(self.vtare), *words],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run `vtare` to its end: exit code, stdout, stderr."""
        process = self.start(*words)
        out, error = process.communicate(timeout=300)
        return process.returncode, out, error

    def status(self) -> dict[str, Any]:
        """The document of `vtare status --json` for the store."""
        code, out, error = self.run("status", str(self.store), "--json")
        assert code == 0, error
        document: dict[str, Any] = json.loads(out)
        return document

    def done_runs(self) -> set[str]:
        """The runs that the journal holds as done; samples on the disk alone do not make a run done."""
        journal = self.store / "journal.sqlite"
        if not journal.is_file():
            return set()
        with contextlib.closing(sqlite3.connect(journal, timeout=10)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchone():
                return set()
            return {run for (run,) in connection.execute("SELECT run_id FROM runs WHERE status = 'done'")}

    def sample_times(self, runs: set[str]) -> dict[str, int]:
        """Each run with the time its samples were written, in ns."""
        return {run: (self.store / "runs" / run / "samples.parquet").stat().st_mtime_ns for run in runs}


@pytest.fixture
def lab(vtare: Path, tmp_path: Path) -> Lab:
    """The installed programs and a plan of a few seconds."""
    return Lab(vtare, tmp_path)


def test_a_plan_becomes_a_report(lab: Lab) -> None:
    code, out, error = lab.run("run", str(lab.plan), "--store", str(lab.store), "--seed", "7")
    assert code == 0, error
    report = lab.store / "report.html"
    assert str(report) in out
    status = lab.status()
    assert status["done"] == status["total"] > 0

    page = report.read_text(encoding="utf-8")
    assert "Cost of reading the clock" in page
    # Opens offline: nothing is fetched from anywhere.
    assert re.findall(r"""(?:src|href)=["'](?:https?:)?//|url\(\s*["']?https?:|@import""", page) == []


def test_a_killed_campaign_goes_on_where_it_was(lab: Lab) -> None:
    process = lab.start("run", str(lab.plan), "--store", str(lab.store), "--seed", "7")
    deadline = time.monotonic() + 120
    while not lab.done_runs():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "no run was finished within 120 s"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()

    finished = lab.sample_times(lab.done_runs())
    assert finished
    code, _, error = lab.run("resume", str(lab.store))
    assert code == 0, error
    status = lab.status()
    assert len(finished) < status["done"] == status["total"]
    assert (lab.store / "report.html").is_file()
    assert len(lab.done_runs()) == status["total"]
    assert lab.sample_times(set(finished)) == finished  # what was measured before the kill was not touched


def test_the_slowest_of_three_commands_is_found_and_its_limit_is_crossed(lab: Lab, tmp_path: Path) -> None:
    # Judged is what they print: no machine is too busy for that.
    commands = [f"sleep 0.02; echo took {took}" for took in (1000, 1000, 2000)]
    page = tmp_path / "ab.html"
    words = ("--metric", "took=took ([0-9]+)", "--fail-if", "higher by 20 %", "--json", "--write", f"html={page}")
    code, out, error = lab.run("ab", "--seed", "1", *words, *(word for text in commands for word in ("--", text)))
    found = json.loads(out)
    # It stops once the limit is decided: that may be before B is known to be equivalent.
    assert [finding["word"] for finding in found["findings"]] in (
        ["no clear difference", "higher"],
        ["equivalent", "higher"],
    )
    assert found["limits"] == [{"text": "higher by 20 %", "state": "crossed"}]
    assert code == 1
    assert [command["text"] for command in found["commands"]] == commands
    assert all(pair["figures"]["wall time"][0] > 20e6 for pair in found["pairs"])
    assert all(pair["gaps"] is None or 0 <= pair["gaps"] <= 1 for pair in found["pairs"])
    assert "Are B and C higher than A in took?" in page.read_text(encoding="utf-8")
    code, _, error = lab.run("ab", "--", "true", "--", "false")
    assert code == 2
    assert "exit code 1, not 0" in error


SUITE = """
import os, re, sys, time
open_ = re.compile(os.environ["VTARE_OPEN"])
for name in ["BenchmarkNoisy", *(f"Benchmark{at}" for at in range(30))]:
    if open_.search(name):
        print(f"{name} 1 {100 + time.time_ns() // 1000 % (97 if 'Noisy' in name else 2)} ns/op")
with open(sys.argv[1], "a") as file:
    print(open_.pattern, file=file)
"""


def test_a_suite_that_reads_the_variable_runs_what_is_open(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "suite.py").write_text(SUITE, encoding="utf-8")
    counted = tmp_path / "counted"
    words = ("--suite", "go", "--pairs", "36", "--seed", "1", "--fail-if", "slower by 3 %", "--json")
    command = f"python3 {tmp_path / 'suite.py'} {counted}"
    code, out, error = lab.run("ab", *words, "--", f"{command} a", "--", f"{command} b")
    assert (code, len(json.loads(out)["pairs"])) == (0, 36), error
    asked = counted.read_text(encoding="utf-8").splitlines()
    assert asked[:2] == [".", "."], "all of them while none is known"
    assert "BenchmarkNoisy" in asked[-1]
    assert asked[-1].count("|") < 20


def test_what_a_command_leaves_in_a_session_of_its_own_is_found_and_ended(lab: Lab) -> None:
    code, _, error = lab.run("ab", "--", "setsid sleep 3141 & true", "--", "true")
    assert (code, "1 of its processes still run in the background" in error) == (2, True), error
    left = subprocess.run(["pgrep", "-fx", "sleep 3141"], capture_output=True, check=False)
    assert left.returncode == 1, left.stdout


def test_an_unknown_plan_is_named_with_those_that_are_shipped(lab: Lab) -> None:
    code, out, error = lab.run("run", "quickstrat", "--store", str(lab.store))
    assert (code, out) == (2, "")
    assert "quickstrat" in error
    assert "quickstart" in error
    assert not lab.store.exists()


def test_the_installed_responder_answers_behind_its_confinement(vtare: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run([vtare, "serve", "--new-key", key], check=True, capture_output=True)
    words = [str(vtare), "serve", "--listen", "127.0.0.1:0", "--key-file", str(key), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as responder:
        try:
            assert responder.stdout is not None
            address = json.loads(responder.stdout.readline())["listen"]
            probed = subprocess.run(
                [vtare, "rtt", address, "--key-file", key, "--count", "20", "--json"], capture_output=True, text=True
            )
        finally:
            responder.terminate()
        assert probed.returncode == 0, probed.stderr
        assert json.loads(probed.stdout)["cells"][0]["sent"] > 0
