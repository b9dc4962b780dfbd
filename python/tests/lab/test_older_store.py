"""A store that an earlier version wrote: its runs are whole, and its report has the figures of then."""

from __future__ import annotations

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
    verified = lab_command("verify", older)
    assert (verified.returncode, "6 runs: 6 whole" in verified.stdout) == (0, True), verified.stderr
    status = lab_command("status", older)
    assert (status.returncode, "6 runs: 6 done" in status.stdout) == (0, True), status.stderr


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


def test_the_report_of_an_older_store_has_the_figures_of_then(older: Path, lab_command: Lab) -> None:
    done = lab_command("report", older, "--format", "md")
    assert done.returncode == 0, done.stderr
    text = (older / "report.md").read_text(encoding="utf-8")
    # As the report of the version that measured them had them.
    assert "74.6 µs" in text
    assert "71.5 µs" in text


def test_a_campaign_of_now_is_compared_with_an_older_one(older: Path, lab_command: Lab) -> None:
    done = lab_command("compare", older, older)
    assert done.returncode == 2, "one store on both sides is refused, not misread"
    assert "old-store" in done.stderr
