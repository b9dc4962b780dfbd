"""The page docs/internals/add-a-claim.md, done to a copy of the lab: its claim is checked from the published table."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import vtare

PAGE = Path(__file__).resolve().parents[3] / "docs/internals" / "add-a-claim.md"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A copy of the lab with the claim of the page."""
    package = tmp_path / "vtare"
    shutil.copytree(Path(vtare.__file__).parent, package, ignore=shutil.ignore_patterns("_lib"))
    block = re.search(r"^```python (\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert block is not None
    file = package / block[1]
    text = file.read_text(encoding="utf-8")
    assert text.count("    claims = (\n") == 1
    file.write_text(text.replace("    claims = (\n", f"    claims = (\n{block[2]}"), encoding="utf-8")
    return tmp_path


def added(lab: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", "from vtare.start import main; main()", "papers", "kachan2017", "--claims", "--json"],
        cwd=lab, env={**os.environ, "PYTHONPATH": str(lab)}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    claims: list[dict[str, Any]] = json.loads(done.stdout)["claims"]
    return next(claim for claim in claims if claim["id"] == "whole-seconds")


def test_the_added_claim_has_the_outcome_that_the_page_states(lab: Path) -> None:
    claim = added(lab)
    assert (claim["outcome"], claim["found"]) == ("does not reproduce", "6.67 s a step")


def test_another_figure_in_the_table_gives_another_outcome(lab: Path) -> None:
    table = lab / "vtare/papers/data/kachan_prose.csv"
    text = table.read_text(encoding="utf-8")
    assert text.count(",60,s,,,60,") == 1
    table.write_text(text.replace(",60,s,,,60,", ",63,s,,,63,"), encoding="utf-8")
    assert added(lab)["outcome"] == "reproduces"
