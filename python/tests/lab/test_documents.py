"""Documents that the lab prints of a finished store are as their schemas state."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from json_schemas import validate

#: STORE stands for the store. Comparisons of two: python/tests/stats/test_between.py.
LINES = {
    "vtare.status/1": "status STORE --json",
    "vtare.verify/1": "verify STORE --json",
    "vtare.report/1": "report STORE --format json --out DIRECTORY/report.json",
    "vtare.plot/1": "plot STORE --only medians --json",
    "vtare.over_time/1": "compare --over-time STORE --json",
    "vtare.power/1": "plan tiny.toml --power --pilot STORE --shift 5 --json",
    "vtare.standing/2": "papers kirova2019 --store STORE --json",
    "vtare.reanalysis/2": "papers lampe2013 --json",
}


@pytest.mark.parametrize("name", LINES)
def test_a_document_of_a_store_is_as_its_schema_states(
    name: str, finished: Path, tmp_path: Path, lab_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    store = shutil.copytree(finished, tmp_path / "store")
    named = {"STORE": str(store), "tiny.toml": str(store / "plan.toml")}
    words = [named.get(word, word.replace("DIRECTORY", str(tmp_path))) for word in LINES[name].split()]
    done = lab_command(*words)
    written = tmp_path / "report.json"
    document = json.loads(written.read_text("utf-8") if written.exists() else done.stdout)
    assert document["schema"] == name, done.stderr
    validate(document)
