"""Stores that earlier versions wrote: their runs are whole, and their reports have the levels and figures of then."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STORES = Path(__file__).resolve().parents[1] / "stores"
Lab = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=sorted(STORES.glob("*.tar.xz")), ids=lambda path: path.name)
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    # Not extractall(filter=...), which Python 3.11 has from 3.11.4 on.
    shutil.unpack_archive(request.param, tmp_path)
    return tmp_path / "old-store"


def test_an_older_store_is_whole_and_counted(older: Path, lab_command: Lab) -> None:
    runs = len([*(older / "runs").iterdir()])
    assert runs >= 6
    verified = lab_command("verify", older)
    assert (verified.returncode, f"{runs} runs: {runs} whole" in verified.stdout) == (0, True), verified.stderr
    status = lab_command("status", older)
    assert (status.returncode, f"{runs} runs: {runs} done" in status.stdout) == (0, True), status.stderr


def test_a_store_of_a_schema_that_is_not_known_is_refused_with_both_versions(
    older: Path, lab_command: Lab, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTARE_BINARY", str(fake.path))
    with sqlite3.connect(older / "journal.sqlite") as connection:
        connection.execute("UPDATE meta SET value = 'vtare.journal/9' WHERE key = 'schema'")
    for command in ("status", "report", "resume"):
        done = lab_command(command, older)
        assert done.returncode == 2
        assert "journal schema is 'vtare.journal/9', this program reads 'vtare.journal/1'" in done.stderr


def test_the_report_of_an_older_store_has_the_figures_of_then(tmp_path: Path, lab_command: Lab) -> None:
    shutil.unpack_archive(STORES / "store-0.1.0-2026-11.tar.xz", tmp_path)
    older = tmp_path / "old-store"
    done = lab_command("report", older, "--format", "md")
    assert done.returncode == 0, done.stderr
    text = (older / "report.md").read_text(encoding="utf-8")
    # As the report of the version that measured them had them.
    assert "74.6 µs" in text
    assert "71.5 µs" in text


@pytest.mark.parametrize("written", sorted(STORES.glob("*.json")), ids=lambda path: path.name)
def test_levels_and_medians_of_an_older_store_are_those_of_then_in_the_order_of_their_numbers(
    written: Path, tmp_path: Path, lab_command: Lab
) -> None:
    """Levels of words, of numbers and of quantities, and one with a name of the plan's own."""
    shutil.unpack_archive(written.with_suffix(".tar.xz"), tmp_path)
    done = lab_command("report", tmp_path / "old-store", "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "old-store" / "report.json").read_text(encoding="utf-8"))
    (table,) = (one for part in document["sections"] for one in part["tables"] if one["id"] == "cells-sleep")
    expected = json.loads(written.read_text(encoding="utf-8"))
    assert [{name: row[name]["text"] for name in expected[0]} for row in table["rows"]] == expected
    targets = [row["target_ns"]["text"] for row in table["rows"]]
    number = {text: float(re.split(r"\s", text)[0]) * (1e3 if text.endswith("ms") else 1.0) for text in targets}
    assert [*dict.fromkeys(targets)] == sorted(number, key=lambda text: number[text])


def test_a_campaign_of_now_is_compared_with_an_older_one(older: Path, lab_command: Lab) -> None:
    done = lab_command("compare", older, older)
    assert done.returncode == 2, "one store on both sides is refused, not misread"
    assert "old-store" in done.stderr
