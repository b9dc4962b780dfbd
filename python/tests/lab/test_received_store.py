"""Attacks by a store that somebody else made: nothing outside of it is read, written or removed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from vtare.campaign.store import Store, read_store
from vtare.contract import check_samples_file
from vtare.errors import BadInput

pytestmark = [pytest.mark.attack, pytest.mark.usefixtures("undrawn")]

Lab = Callable[..., subprocess.CompletedProcess[str]]


def change_journal(store: Path, statement: str, *values: object) -> None:
    """Carry out one statement in the journal of a store, as an attacker would."""
    connection = sqlite3.connect(store / "journal.sqlite")
    with connection:
        connection.execute(statement, values)
    connection.close()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory outside the store, with a file that must survive."""
    directory = tmp_path / "victim"
    directory.mkdir()
    (directory / "thesis.txt").write_text("ten years of work")
    return directory


def assert_untouched(victim: Path) -> None:
    assert [path.name for path in victim.iterdir()] == ["thesis.txt"]
    assert (victim / "thesis.txt").read_text() == "ten years of work"


@pytest.mark.parametrize("form", ["{victim}", "../../victim", "../../../{victim}", ".", "", "0123456789ABCDEF"])
def test_a_run_id_of_the_journal_that_is_a_path_removes_nothing(
    store_of_four: Path, victim: Path, fake: Any, lab_command: Lab, form: str
) -> None:
    name = form.format(victim=victim)
    change_journal(store_of_four, "INSERT INTO runs VALUES (?, 'done', 0, NULL, NULL, 1.0, 1)", name)
    done = lab_command("resume", store_of_four, "--binary", fake.path)
    assert_untouched(victim)
    assert done.returncode == 2
    assert f"journal.sqlite: the run id {name!r} is not 16 hexadecimal digits" in done.stderr
    for command in ("status", "report", "report --format=svg"):
        assert lab_command(command, store_of_four).returncode == 2


@pytest.mark.parametrize("form", ["{victim}", "../../victim"])
def test_a_run_id_of_the_design_that_is_a_path_is_refused(
    store_of_four: Path, victim: Path, fake: Any, lab_command: Lab, form: str
) -> None:
    path = store_of_four / "design.parquet"
    about = pl.read_parquet_metadata(path)["vtare"]
    frame = pl.read_parquet(path)
    ids = [form.format(victim=victim), *frame["run_id"][1:]]
    frame.with_columns(pl.Series("run_id", ids)).write_parquet(path, metadata={"vtare": about})
    done = lab_command("resume", store_of_four, "--binary", fake.path)
    assert_untouched(victim)
    assert done.returncode == 2
    assert "design.parquet: the run id" in done.stderr


def test_a_run_directory_that_is_a_link_is_not_followed(
    store_of_four: Path, victim: Path, fake: Any, lab_command: Lab
) -> None:
    run = sorted((store_of_four / "runs").iterdir())[0]
    shutil.rmtree(run)
    run.symlink_to(victim)
    shown = lab_command("report", store_of_four)
    assert shown.returncode == 1
    assert f"{run}: is a symbolic link, not a directory" in shown.stderr
    done = lab_command("resume", store_of_four, "--binary", fake.path)
    assert_untouched(victim)
    assert done.returncode == 0, done.stderr
    assert "4 of 4 runs done" in done.stdout
    assert not run.is_symlink()


def test_a_file_of_a_run_that_is_a_link_is_not_read(
    store_of_four: Path, tmp_path: Path, fake: Any, lab_command: Lab
) -> None:
    run = sorted((store_of_four / "runs").iterdir())[0]
    outside = (run / "samples.parquet").rename(tmp_path / "outside.parquet")
    (run / "samples.parquet").symlink_to(outside)
    before = outside.read_bytes()
    shown = lab_command("report", store_of_four)
    assert shown.returncode == 1
    assert "holds a symbolic link, 'samples.parquet', which is not followed" in shown.stderr
    done = lab_command("resume", store_of_four, "--binary", fake.path)
    assert done.returncode == 0, done.stderr
    assert outside.read_bytes() == before
    assert not (run / "samples.parquet").is_symlink()


def test_a_fifo_in_a_run_does_not_block_the_reader(store_of_four: Path, lab_command: Lab) -> None:
    run = sorted((store_of_four / "runs").iterdir())[0]
    (run / "load.json").unlink()
    os.mkfifo(run / "load.json")
    shown = lab_command("report", store_of_four)
    assert shown.returncode == 1
    assert "holds a special file, 'load.json'" in shown.stderr


@pytest.mark.parametrize("name", ["runs", "plan.toml", "design.parquet", "journal.sqlite", "journal.sqlite-wal"])
def test_a_part_of_the_store_that_is_a_link_is_refused(
    store_of_four: Path, tmp_path: Path, fake: Any, lab_command: Lab, name: str
) -> None:
    outside = tmp_path / "outside"
    if (store_of_four / name).exists():
        (store_of_four / name).rename(outside)
    else:
        outside.write_bytes(b"x")
    (store_of_four / name).symlink_to(outside)
    for command in ("status", "report"):
        shown = lab_command(command, store_of_four)
        assert shown.returncode == 2
        assert f"{name} is a symbolic link, not a" in shown.stderr
    assert lab_command("resume", store_of_four, "--binary", fake.path).returncode == 2


@pytest.mark.parametrize("kind", ["file", "link", "directory of links"])
def test_what_a_killed_run_left_is_removed_whatever_it_is_and_nothing_behind_it(
    store_of_four: Path, victim: Path, fake: Any, lab_command: Lab, kind: str
) -> None:
    leftover = store_of_four / "runs" / ".tmp-x"
    if kind == "file":
        leftover.write_text("x")
    elif kind == "link":
        leftover.symlink_to(victim)
    else:
        leftover.mkdir()
        (leftover / "away").symlink_to(victim)
    done = lab_command("resume", store_of_four, "--binary", fake.path)
    assert done.returncode == 0, done.stderr
    assert not leftover.is_symlink()
    assert not leftover.exists()
    assert_untouched(victim)


def test_runs_that_is_a_file_is_refused(store_of_four: Path, fake: Any, lab_command: Lab) -> None:
    shutil.rmtree(store_of_four / "runs")
    (store_of_four / "runs").write_text("x")
    for arguments in (["status", store_of_four], ["resume", store_of_four, "--binary", fake.path]):
        done = lab_command(*arguments)
        assert done.returncode == 2
        assert "runs is a file, not a directory" in done.stderr
        assert "Traceback" not in done.stderr


def rollback_journal_naming(path: Path) -> bytes:
    """A hot rollback journal of SQLite whose super-journal is `path`: SQLite removes that file after the rollback."""
    name = os.fsencode(path)
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 0, 1, 512, 4096)
    page = struct.pack(">I", 0x4000_0000 // 4096 + 1)
    total = sum(struct.unpack(f"{len(name)}b", name)) & 0xFFFF_FFFF
    return (
        header.ljust(512, b"\0")
        + page
        + name
        + struct.pack(">II", len(name), total)
        + bytes.fromhex("d9d505f920a163d7")
    )


def test_a_rollback_journal_that_names_a_file_outside_removes_nothing(
    store_of_four: Path, victim: Path, fake: Any, lab_command: Lab
) -> None:
    change_journal(store_of_four, "PRAGMA journal_mode=DELETE")
    (store_of_four / "journal.sqlite-journal").write_bytes(rollback_journal_naming(victim / "thesis.txt"))
    done = lab_command("resume", store_of_four, "--binary", fake.path)
    assert_untouched(victim)
    assert done.returncode == 2
    assert "journal.sqlite-journal is a rollback journal" in done.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        "CREATE VIEW v AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n",
        "ALTER TABLE runs ADD COLUMN more AS (zeroblob(900000000))",
    ],
)
def test_a_journal_with_code_of_its_own_is_refused(
    store_of_four: Path, fake: Any, lab_command: Lab, statement: str
) -> None:
    change_journal(store_of_four, statement)
    done = lab_command("resume", store_of_four, "--binary", fake.path)
    assert done.returncode == 2
    assert "journal.sqlite: holds more than the tables of a journal" in done.stderr


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("status", "finished", "status"),
        ("attempts", "many", "attempts"),
        ("reason", b"\xff", "reason"),
        ("elapsed_s", "long", "elapsed_s"),
    ],
)
def test_a_row_of_another_form_is_refused(
    store_of_four: Path, lab_command: Lab, column: str, value: object, message: str
) -> None:
    change_journal(store_of_four, "PRAGMA ignore_check_constraints=ON")
    connection = sqlite3.connect(store_of_four / "journal.sqlite")
    connection.execute("PRAGMA ignore_check_constraints=ON")
    with connection:
        connection.execute(f"UPDATE runs SET {column} = ?", (value,))
    connection.close()
    done = lab_command("status", store_of_four)
    assert done.returncode == 2
    assert f"journal.sqlite: damaged: {message} of run" in done.stderr
    assert f" is {value!r}, not " in done.stderr


def test_text_of_a_store_is_no_command_to_the_terminal(store_of_four: Path, lab_command: Lab) -> None:
    run = sorted((store_of_four / "runs").iterdir())[0].name
    hostile = "\x1b]0;owned\x07\x9b2J"
    change_journal(
        store_of_four,
        "UPDATE runs SET status = 'failed', reason = ?, log_tail = ? WHERE run_id = ?", hostile, hostile, run,
    )  # fmt: skip
    shown = lab_command("status", store_of_four)
    assert shown.returncode == 0
    assert not {"\x1b", "\x07", "\x9b"} & set(shown.stdout)
    plan = (store_of_four / "plan.toml").read_text().replace("Does the lab work?", "\\u001b[2J")
    (store_of_four / "plan.toml").write_text(plan)
    shown = lab_command("plan", store_of_four / "plan.toml")
    assert shown.returncode == 2
    assert "\x1b" not in shown.stdout + shown.stderr


def test_a_link_in_the_store_does_not_lead_its_report_or_figures_elsewhere(
    store_of_four: Path, victim: Path, lab_command: Lab
) -> None:
    (store_of_four / "report.html").symlink_to(victim / "thesis.txt")
    (store_of_four / "summary.parquet").symlink_to(victim / "thesis.txt")
    (store_of_four / "figures").symlink_to(victim)
    assert lab_command("report", store_of_four).returncode == 0
    assert not (store_of_four / "report.html").is_symlink()
    drawn = lab_command("report", store_of_four, "--format", "svg")
    assert drawn.returncode == 2
    assert "figures is a symbolic link, not a directory" in drawn.stderr
    assert_untouched(victim)


def test_plan_and_design_that_do_not_belong_together_are_refused(store_of_four: Path, lab_command: Lab) -> None:
    plan = store_of_four / "plan.toml"
    text = plan.read_text()
    plan.write_text(text.replace('["usleep", "spin"]', '["usleep", "adaptive"]'))
    for command in ("status", "report"):
        shown = lab_command(command, store_of_four)
        assert shown.returncode == 2
        assert "plan.toml: was changed after the campaign began" in shown.stderr
        assert "Traceback" not in shown.stderr


def without_hash(store: Path) -> None:
    """Make the design one of a version that did not keep the plan's hash."""
    path = store / "design.parquet"
    about = json.loads(pl.read_parquet_metadata(path)["vtare"])
    about.pop("plan_sha256", None)
    frame = pl.read_parquet(path)
    frame.write_parquet(path, metadata={"vtare": json.dumps(about)})


def test_a_design_without_the_plans_hash_still_opens_and_its_levels_are_looked_up_in_the_plan(
    store_of_four: Path,
) -> None:
    without_hash(store_of_four)
    read_store(store_of_four)
    plan = store_of_four / "plan.toml"
    plan.write_text(plan.read_text().replace('["usleep", "spin"]', '["usleep", "adaptive"]'))
    with pytest.raises(BadInput, match=r"a run has the level 'spin' of method, which plan.toml does not"):
        read_store(store_of_four)


def test_resume_does_not_carry_out_a_design_that_its_plan_does_not_state(store_of_four: Path) -> None:
    without_hash(store_of_four)
    path = store_of_four / "design.parquet"
    about = pl.read_parquet_metadata(path)["vtare"]
    frame = pl.read_parquet(path).with_columns(
        parameters=pl.lit('{"method": ["spin"], "samples": 1000000000, "target_ns": [1000000]}')
    )
    frame.write_parquet(path, metadata={"vtare": about})
    with pytest.raises(BadInput, match=r"design.parquet: run [0-9a-f]{16} is not what plan.toml states"):
        Store.open(store_of_four)


@pytest.mark.parametrize("where", ["design", "footer", "load", "stopped"])
def test_json_nested_deep_is_no_traceback(store_of_four: Path, lab_command: Lab, where: str) -> None:
    deep = "[" * 50_000
    run = sorted((store_of_four / "runs").iterdir())[0]
    code = 2
    if where == "design":
        path = store_of_four / "design.parquet"
        pl.read_parquet(path).write_parquet(path, metadata={"vtare": deep})
    elif where == "footer":
        path = run / "samples.parquet"
        pl.read_parquet(path).write_parquet(path, metadata={"vtare": deep})
        code = 1
    elif where == "load":
        (run / "load.json").write_text(deep)
        code = 0
    else:
        change_journal(store_of_four, "INSERT INTO meta VALUES ('stopped', ?)", deep)
    shown = lab_command("report", store_of_four)
    assert "Traceback" not in shown.stderr
    assert shown.returncode == code


def test_damaged_parquet_of_any_kind_is_no_traceback(store_of_four: Path) -> None:
    """Change bytes at many places of a samples file: each is read, or named as damaged."""
    run = sorted((store_of_four / "runs").iterdir())[0]
    path = run / "samples.parquet"
    whole = path.read_bytes()
    end = len(whole) - 8
    begin = max(4, end - int.from_bytes(whole[-8:-4], "little"))
    for at in range(begin, end, max(1, (end - begin) // 300)):
        for bit in (1, 0x80):
            damaged = bytearray(whole)
            damaged[at] ^= bit
            path.write_bytes(damaged)
            with suppress(BadInput):
                check_samples_file(path, run_id=run.name, instrument="sleep")
