"""`vtare selftest` on this machine: injected faults are found, and one that is not injected is missed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def selftest(line: list[str | Path], code: set[int]) -> dict[str, Any]:
    done = subprocess.run([*line, "--json"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in code, f"{done.stdout}{done.stderr}"
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.alone
@pytest.mark.e2e
def test_every_fault_that_can_be_injected_here_is_found(vtare: Path) -> None:
    found = selftest([vtare, "selftest", "--quick"], {0})
    assert (found["missed"], found["found"] + found["skipped"]) == (0, 11)
    # The emulated link needs what a machine may not have; on a busy CPU the command itself measured that it was.
    skipped = [row for row in found["faults"] if row["verdict"] == "skipped"]
    assert all(row["by"] == "emulated_link" or "other programs used" in row["reason"] for row in skipped), skipped


@pytest.mark.alone
@pytest.mark.e2e
def test_a_loss_that_is_claimed_and_not_made_is_missed(vtare: Path) -> None:
    found = selftest([vtare, "selftest", "--quick", "--only", "loss", "--leave-out", "loss"], {1, 3})
    row = found["faults"][0]
    if row["verdict"] == "skipped":
        pytest.skip(row["reason"])
    assert (row["verdict"], row["attempts"], row["found"]) == ("missed", 3, pytest.approx(0.0, abs=0.01))


@pytest.mark.alone
@pytest.mark.e2e
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_an_ordinary_user_gets_each_fault_found_or_the_reason_why_it_was_not_injected(vtare: Path) -> None:
    # Where that user can read it: the tree of these tests may lie in root's own directory.
    with tempfile.TemporaryDirectory(prefix="vtare-") as place:
        Path(place).chmod(0o755)
        program = shutil.copy(vtare, place)
        found = selftest([*NOBODY, program, "selftest", "--quick", "--only", "simulated-loss,delay"], {0})
    assert found["missed"] == 0
    assert {row["verdict"] for row in found["faults"] if row["name"] == "simulated-loss"} == {"found"}
    assert all(row["reason"] for row in found["faults"] if row["verdict"] == "skipped")
