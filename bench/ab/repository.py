"""A real repository's suite at two commits: what is flagged by the common way and by `vtare ab --suite`."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from figures import figure

#: Benchmarks of a tree; between the first two versions its code became generic, between the last two little changed.
MODULE, VERSIONS = "github.com/google/btree", ("v1.0.1", "v1.1.2", "v1.1.3")
BENCHSTAT = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"
RUNS = 10
"""Of each side, one side after the other: what benchstat asks for."""
SHORT, LONG = "5ms", "20ms"
"""Of each benchmark in a run: vtare's guide prefers many short runs."""


def repository(
    vtare: str, times: int, neighbours: Callable[[str, str], contextlib.AbstractContextManager[None]]
) -> None:
    """Judge one version against itself and against the one before, by both ways in the same time."""
    with tempfile.TemporaryDirectory(prefix="vtare-repository-") as name:
        place = Path(name)
        programs = [built(place, version) for version in VERSIONS]
        again = place / "again"
        shutil.copytree(programs[1].parent, again)
        tool = benchstat(place)
        pairs = {"the same code": (programs[1], again / "suite"), "made generic": (programs[0], programs[1]),
                 f"{VERSIONS[1]} to {VERSIONS[2]}": (programs[1], programs[2])}  # fmt: skip
        for kind in ("left alone", "bursts of load"):
            print(
                f"\n{MODULE}, {kind}: {times} comparisons a row; benchmarks flagged as slower in each, and its time (s)"
            )
            with neighbours(kind, vtare):
                for title, (first, second) in pairs.items():
                    for _ in range(times):
                        began = time.monotonic()
                        common = by_benchstat(tool, first, second)
                        between = time.monotonic()
                        own, of, verdict = by_vtare(vtare, first, second, between - began)
                        row = f"repository/{kind}/{title}"
                        figure(f"{row}/benchstat", common)
                        figure(f"{row}/vtare", own)
                        print(
                            f"  {title:18} benchstat {common:2}  {between - began:5.1f} s    vtare {own:2} of {of}"
                            f"  {time.monotonic() - between:5.1f} s  {verdict}",
                            flush=True,
                        )


def built(place: Path, version: str) -> Path:
    """The tests of one version as a program."""
    (place / "go.mod").write_text("module suite\n")
    told = go(place, "mod", "download", "-json", f"{MODULE}@{version}")
    source = place / version
    shutil.copytree(json.loads(told)["Dir"], source, copy_function=shutil.copyfile)
    for path in (source, *source.rglob("*")):
        path.chmod(0o755)
    go(source, "test", "-c", "-o", "suite")
    return source / "suite"


def benchstat(place: Path) -> str:
    """The peer's program."""
    go(place, "install", BENCHSTAT, GOBIN=str(place))
    return str(place / "benchstat")


def go(cwd: Path, *words: str, **more: str) -> str:
    """Run it, or end with what it printed."""
    done = subprocess.run(
        ["go", *words], cwd=cwd, env={**os.environ, **more}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"go {shlex.join(words)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def command(program: Path, each: str) -> list[str]:
    """The whole suite, once."""
    return [str(program), "-test.run", "^$", "-test.bench", ".", "-test.skip", "G$|G/", "-test.benchtime", each]


def by_benchstat(tool: str, first: Path, second: Path) -> int:
    """Benchmarks that it calls slower (p < 0.05) of runs of the first, then of the second."""
    texts = []
    for program in (first, second):
        path = program.with_suffix(".txt")
        words = command(program, LONG)
        runs = [subprocess.run(words, capture_output=True, text=True, check=True).stdout for _ in range(RUNS)]
        path.write_text("".join(runs))
        texts.append(str(path))
    done = subprocess.run([tool, "-format", "csv", *texts], capture_output=True, text=True, check=True)
    flagged, unit = 0, ""
    for row in csv.reader(io.StringIO(done.stdout)):
        if row and row[0] == "" and len(row) > 1:
            unit = row[1]
        elif unit == "sec/op" and len(row) > 5 and row[0] != "geomean":
            flagged += row[5].startswith("+")
    return flagged


def by_vtare(vtare: str, first: Path, second: Path, seconds: float) -> tuple[int, int, str]:
    """Benchmarks that are slower beyond doubt in this time, of how many, and what it calls the typical one."""
    words = [vtare, "ab", "--suite", "go", "--fail-if", "slower", "--max-time", f"{seconds:.0f}s", "--json", "--"]
    done = subprocess.run(
        [*words, *command(first, SHORT), "--", *command(second, SHORT)], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"vtare ab ended with exit code {done.returncode}: {done.stderr.strip()[-400:]}")
    document = json.loads(done.stdout)
    typical, *each = document["findings"]
    slower = sum(one["ratio_low"] is not None and one["ratio_low"] > 1 for one in each)
    return slower, len(each), f"the typical one: {typical['word']}"
