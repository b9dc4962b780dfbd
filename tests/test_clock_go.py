"""The Go module: vetted, tested, built without cgo; its example and its benchmark run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from witnesses import kept_page, witnesses

MODULES = ("bindings/go", "examples/go", "bench/go")


@pytest.fixture(scope="module")
def go() -> str:
    """The Go tool; 1.23 or newer."""
    found = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if found is None:
        pytest.skip("no go on PATH (1.23 or newer; Debian 12's own is older)")
    version = subprocess.run([found, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    numbers = re.match(r"go(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < (1, 23):
        pytest.skip(f"found {version.strip()}, need go1.23 or newer")
    return found


def run(go: str, *arguments: str, directory: Path, **others: str) -> subprocess.CompletedProcess[str]:
    """One command of the Go tool: no cgo, no network."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOPROXY": "off", "GOTOOLCHAIN": "local", **others}
    return subprocess.run(
        [go, *arguments], cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_the_module_passes_its_tests_without_cgo(root: Path, go: str) -> None:
    done = run(go, "test", "./...", directory=root / "bindings/go")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_vetted_and_formatted(root: Path, go: str, module: str) -> None:
    done = run(go, "vet", "./...", directory=root / module)
    assert done.returncode == 0, done.stdout + done.stderr
    gofmt = Path(go).resolve().parent / "gofmt"
    listed = subprocess.run([str(gofmt), "-l", "."], cwd=root / module, capture_output=True, text=True, check=True)
    assert listed.stdout == ""


def test_the_example_wakes_on_time_and_states_utc(root: Path, go: str) -> None:
    done = run(go, "run", ".", directory=root / "examples/go")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"10 periods of 200 us, at most \S+ late\nUTC: ", done.stdout)


@pytest.mark.e2e
def test_a_lease_and_a_commit_hold_by_the_page_beside_a_witness_that_lies(
    root: Path, go: str, vtare: Path, tmp_path: Path
) -> None:
    page = tmp_path / "utc"
    with witnesses(0, 0, -3_600_000_000_000) as addresses, kept_page(vtare, addresses, page):
        before_ns = time.time_ns()
        done = run(go, "run", "./lease", directory=root / "examples/go", VTARE_UTC_PAGE=str(page))
        after_ns = time.time_ns()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the lease held" in done.stdout
    assert before_ns <= int(done.stdout.partition("committed at ")[2].split()[0]) <= after_ns
    # Nobody keeps it any more.
    alone = run(go, "run", "./lease", directory=root / "examples/go", VTARE_UTC_PAGE=str(page))
    assert alone.returncode != 0
    assert "UTC is not confirmed" in alone.stderr
