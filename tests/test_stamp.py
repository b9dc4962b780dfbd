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
    print(done.stderr)
    pairs: dict[str, dict[str, int | None]] = {}
    for figure in json.loads(done.stdout)["figures"]:
        pair, _, name = figure["name"].rpartition("/")
        pairs.setdefault(pair, {})[name] = figure["value"]
    assert len(pairs) == 8
    tried = [pair for pair in pairs.values() if pair["sent"] is not None]
    assert all(pair["answered"] == pair["sent"] for pair in tried)
    assert all(pair["extensions_answered"] == pair["extensions_asked"] for pair in tried)
    if not tried:
        pytest.skip(done.stderr)
