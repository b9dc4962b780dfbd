"""What a store is worth after a kill, a copy without its write-ahead log, and damage: verify, repair and resume."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vtare.campaign.journal import Journal
from vtare.campaign.results import CampaignResult
from vtare.campaign.store import Store
from vtare.campaign.verify import verify
from vtare.errors import BadInput
from vtare.plan.model import Plan

pytestmark = [pytest.mark.attack, pytest.mark.usefixtures("undrawn")]

Lab = Callable[..., subprocess.CompletedProcess[str]]
Run = Callable[[Store], CampaignResult]
KILLED = """
import os, signal, sys
from pathlib import Path
from vtare.campaign.executor import Campaign
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.plan.files import load_plan

plan, store, binary = (Path(a) for a in sys.argv[1:])
with Store.create(store, load_plan(plan), 7) as opened, StopRequest() as stop:
    Campaign(opened, binary, stop).run()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def inodes(store: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in sorted((store / "runs").iterdir())}


def flip(path: Path, at: int) -> None:
    """Change one bit of a file and leave its length."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def some_run(store: Path, number: int = 0) -> Path:
    return sorted((store / "runs").iterdir())[number]


@pytest.fixture
def copy_without_log(tmp_path: Path, tiny_plan: Plan, fake: Any) -> Path:
    """A copy of the store of a killed lab that lacks `journal.sqlite-wal`."""
    plan = tmp_path / "plan.toml"
    plan.write_text(tiny_plan.text.replace("blocks = 2", "blocks = 1"))
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent(KILLED))
    command = [sys.executable, script, plan, tmp_path / "killed", fake.path]
    done = subprocess.run(command, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    ignored = shutil.ignore_patterns("journal.sqlite-*")
    return Path(shutil.copytree(tmp_path / "killed", tmp_path / "copy", ignore=ignored))


def test_a_copy_without_the_write_ahead_log_keeps_every_finished_run(copy_without_log: Path, run_campaign: Run) -> None:
    before = inodes(copy_without_log)
    assert len(before) == 4
    with Store.open(copy_without_log) as store:
        assert run_campaign(store).done == 4
    assert inodes(copy_without_log) == before


@pytest.mark.fault
def test_a_journal_that_lost_its_rows_gets_them_from_the_runs(store_of_four: Path, fake: Any, lab_command: Lab) -> None:
    with Journal(store_of_four / "journal.sqlite") as journal:
        for run_id in journal.entries():
            journal.forget(run_id)
    before = inodes(store_of_four)
    shown = lab_command("verify", store_of_four)
    assert shown.returncode == 1
    assert shown.stdout.count("not in the journal: runs/") == 4
    done = lab_command("resume", store_of_four, "--binary", fake.path)
    assert "taken over 4 whole runs that the journal lacked" in done.stderr
    assert inodes(store_of_four) == before


@pytest.mark.fault
@pytest.mark.parametrize("lost", ["removed", "emptied", "last page damaged", "cut short"])
def test_repair_makes_a_lost_journal_from_the_runs(store_of_four: Path, fake: Any, lab_command: Lab, lost: str) -> None:
    journal = store_of_four / "journal.sqlite"
    if lost == "removed":
        journal.unlink()
    elif lost == "emptied":
        journal.write_bytes(b"")
    elif lost == "cut short":
        journal.write_bytes(journal.read_bytes()[:5000])
    else:
        content = journal.read_bytes()
        journal.write_bytes(content[:-4096] + b"\xff" * 4096)
    before = inodes(store_of_four)
    for command in (["status"], ["resume", "--binary", fake.path]):
        shown = lab_command(*command, store_of_four)
        assert "Traceback" not in shown.stderr
        # An index that is damaged does not matter to who reads all rows.
        if command[0] == "resume" or lost != "last page damaged":
            assert shown.returncode == 2
            assert f"vtare verify {store_of_four} --repair" in shown.stderr
    assert lab_command("verify", store_of_four).returncode == 1
    done = lab_command("verify", store_of_four, "--repair")
    assert done.returncode == 0, done.stderr
    assert "made the journal anew; added 4 runs to the journal" in done.stdout
    assert (store_of_four / "damaged" / "journal.sqlite").exists() == (lost != "removed")
    assert lab_command("verify", store_of_four).returncode == 0
    assert json.loads(lab_command("status", store_of_four, "--json").stdout)["done"] == 4
    assert inodes(store_of_four) == before


def test_a_sound_store_verifies_and_nothing_in_it_is_changed(store_of_four: Path, lab_command: Lab) -> None:
    def state() -> list[tuple[str, int]]:
        return sorted((str(path), path.stat().st_mtime_ns) for path in (store_of_four / "runs").rglob("*"))

    before = state()
    shown = lab_command("verify", store_of_four)
    assert shown.returncode == 0
    assert "4 runs: 4 whole" in shown.stdout
    assert shown.stdout.endswith("sound\n")
    document = json.loads(lab_command("verify", store_of_four, "--json").stdout)
    assert document.items() >= {"schema": "vtare.verify/1", "sound": True, "whole": 4, "damaged": {}}.items()
    assert state() == before


@pytest.mark.fault
@pytest.mark.parametrize("name", ["samples.parquet", "run.json", "load.json", "log", "files.sha256"])
def test_every_file_of_a_run_is_checked_and_a_damaged_run_is_measured_again(
    store_of_four: Path, fake: Any, lab_command: Lab, name: str
) -> None:
    run = some_run(store_of_four, 1)
    (run / "log").write_text("other\n") if name == "log" else flip(run / name, 20)
    others = {key: value for key, value in inodes(store_of_four).items() if key != run.name}
    shown = lab_command("verify", store_of_four)
    assert shown.returncode == 1
    assert f"damaged: runs/{run.name}: " in shown.stdout
    damaged = (run / name).read_bytes()
    done = lab_command("resume", store_of_four, "--binary", fake.path)
    assert done.returncode == 0, done.stderr
    assert f"damaged: run {run.name}: " in done.stderr
    assert "4 of 4 runs done" in done.stdout
    # Nothing is lost: what was damaged lies aside.
    assert (store_of_four / "damaged" / run.name / name).read_bytes() == damaged
    assert inodes(store_of_four).items() >= others.items()
    assert lab_command("verify", store_of_four).returncode == 0


@pytest.mark.fault
def test_repair_moves_damaged_runs_aside_and_resume_makes_them(
    store_of_four: Path, fake: Any, lab_command: Lab
) -> None:
    flip(some_run(store_of_four) / "samples.parquet", 100)
    done = lab_command("verify", store_of_four, "--repair")
    assert done.returncode == 0
    assert f"moved 1 damaged run to {store_of_four / 'damaged'}" in done.stdout
    assert f"make the other runs with: vtare resume {store_of_four}" in done.stdout
    assert json.loads(lab_command("status", store_of_four, "--json").stdout)["pending"] == 1
    assert lab_command("resume", store_of_four, "--binary", fake.path).returncode == 0


def test_a_store_of_an_older_version_without_checksums_opens_and_its_damage_is_found(
    store_of_four: Path, run_campaign: Run
) -> None:
    for run in (store_of_four / "runs").iterdir():
        (run / "files.sha256").unlink()
    assert verify(store_of_four).sound
    before = inodes(store_of_four)
    path = some_run(store_of_four) / "samples.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    found = verify(store_of_four)
    assert list(found.conditions.damaged) == [path.parent.name]
    with Store.open(store_of_four) as store:
        assert run_campaign(store).set_aside == 1
    after = inodes(store_of_four)
    assert {name for name in before if before[name] != after[name]} == {path.parent.name}


def test_runs_swapped_between_two_directories_are_found(store_of_four: Path) -> None:
    one, other = some_run(store_of_four), some_run(store_of_four, 1)
    one.rename(store_of_four / "runs" / "x")
    other.rename(one)
    (store_of_four / "runs" / "x").rename(other)
    found = verify(store_of_four)
    assert found.conditions.damaged == {
        one.name: f"belongs to run '{other.name}'",
        other.name: f"belongs to run '{one.name}'",
    }


def test_checksums_are_those_of_sha256sum(store_of_four: Path) -> None:
    for run in (store_of_four / "runs").iterdir():
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "files.sha256"], cwd=run, check=True)


def test_what_lies_in_runs_and_is_not_of_the_campaign_stays(store_of_four: Path, lab_command: Lab) -> None:
    (store_of_four / "runs" / ("f" * 16)).mkdir()
    (store_of_four / "runs" / "notes.txt").write_text("x")
    shown = lab_command("verify", store_of_four, "--repair")
    assert "not of this campaign: runs/notes.txt" in shown.stdout
    assert (store_of_four / "runs" / "notes.txt").exists()
    assert (store_of_four / "runs" / ("f" * 16)).exists()


@pytest.mark.fault
@pytest.mark.parametrize("command", ["status", "report", "report --format=svg", "resume", "verify --repair"])
def test_a_key_that_a_killed_run_left_is_removed_at_the_next_start(
    store_of_four: Path, fake: Any, lab_command: Lab, command: str
) -> None:
    temporary = store_of_four / "runs" / f".tmp-{some_run(store_of_four).name}"
    temporary.mkdir()
    (temporary / "key").write_text("0" * 64)
    words = [*command.split()[:1], store_of_four, *command.split()[1:]]
    lab_command(*words, *(["--binary", fake.path] if command == "resume" else []))
    assert not (temporary / "key").exists()


def test_a_key_of_a_running_campaign_stays(store_of_four: Path, lab_command: Lab) -> None:
    with Store.open(store_of_four) as store:
        temporary = store.temporary(store.runs[0].run_id)
        temporary.mkdir()
        (temporary / "key").write_text("0" * 64)
        assert lab_command("status", store_of_four).returncode == 0
        shown = lab_command("verify", store_of_four)
        assert (temporary / "key").exists()
    assert shown.returncode == 0


@pytest.mark.fault
def test_repair_while_a_campaign_runs_is_refused(store_of_four: Path) -> None:
    with Store.open(store_of_four), pytest.raises(BadInput, match="runs a campaign in this store"):
        verify(store_of_four, repair=True)
