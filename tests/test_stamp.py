"""STAMP against ends of other makes: bench/stamp/run with few packets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.e2e
@pytest.mark.long
def test_stamp_works_with_every_foreign_end_that_is_available_in_each_mode_and_direction() -> None:
    words = [sys.executable, str(ROOT / "bench/stamp/run"), "--packets", "20", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) == 8
    tried = [row for row in rows if row["reason"] is None]
    for row in rows:
        print(row["sender"], row["reflector"], row["mode"], row["reason"] or "works")
    assert all(row["works"] for row in tried)
    if not tried:
        pytest.skip("; ".join({row["reason"] for row in rows}))
