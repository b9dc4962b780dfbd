"""How the parts of the tests are run: one after the other, or beside the others, and never in silence."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

MAKEFILE = """
quick:
\t@echo quick is done
fails:
\t@echo fails is run; exit 3
slow:
\t@echo $$$$ >slow.pid; exec sleep 300
killed:
\t@kill -9 $$PPID
waits:
\t@touch waits.begun; exec sleep 2
"""


@pytest.fixture
def parts(root: Path, tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    shutil.copy(root / "tools/parts", tmp_path / "tools/parts")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    return tmp_path / "tools/parts"


def ran(parts: Path, *names: str) -> tuple[int, str]:
    result = subprocess.run([parts, *names], capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, result.stdout


@pytest.mark.parametrize("mark", ["", "+"])
def test_a_part_that_fails_is_named_and_the_others_run(parts: Path, mark: str) -> None:
    code, said = ran(parts, f"{mark}fails", "quick")
    assert code == 1
    assert "fails is run" in said
    assert "quick is done" in said
    assert said.splitlines()[-1] == "failed: to repeat it, make fails"


def test_a_part_beside_the_others_passes(parts: Path) -> None:
    code, said = ran(parts, "+quick", "waits")
    assert (code, "quick is done" in said, "FAILED" in said) == (0, True, False)


def test_a_part_that_was_killed_has_not_passed(parts: Path) -> None:
    assert ran(parts, "+killed", "waits")[0] == 1


def test_what_runs_beside_ends_with_the_parts(parts: Path) -> None:
    process = subprocess.Popen([parts, "+slow", "waits"], stdout=subprocess.DEVNULL)
    root = parts.parents[1]
    deadline = time.monotonic() + 30
    while not ((root / "slow.pid").exists() and (root / "waits.begun").exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)
    sleeper = int((root / "slow.pid").read_text())
    while Path(f"/proc/{sleeper}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(sleeper, 0)
