from __future__ import annotations

import errno
import json
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vtare.campaign.binary import find_binary
from vtare.campaign.executor import Campaign
from vtare.campaign.files import Files
from vtare.campaign.journal import Entry, Journal
from vtare.campaign.results import CampaignResult
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store, default_store
from vtare.errors import BadInput, CampaignStopped, Interrupted
from vtare.plan.files import parse_plan
from vtare.plan.model import Plan

Run = Callable[[Store], CampaignResult]


def small(plan: Plan, old: str = "", new: str = "") -> Plan:
    """The tiny plan cut to one block, with one text replaced."""
    return parse_plan(plan.text.replace("blocks = 2", "blocks = 1").replace(old, new, 1), source=Path("tiny.toml"))


def test_campaign_leaves_the_store_of_the_contract(
    tmp_path: Path, tiny_plan: Plan, fake: Any, run_campaign: Run
) -> None:
    with Store.create(tmp_path / "store", tiny_plan, 7) as store:
        result = run_campaign(store)
        assert (result.done, result.failed, result.skipped, result.total) == (8, 0, 0, 8)
        for run in store.runs:
            directory = store.directory(run.run_id)
            assert {path.name for path in directory.iterdir()} == {
                "run.json", "samples.parquet", "load.json", "log", "files.sha256",
            }  # fmt: skip
            document = json.loads((directory / "run.json").read_text())
            assert document["parameters"] == run.parameters
            assert "factors" not in document
            load = json.loads((directory / "load.json").read_text())
            assert (load["kind"], load["threads"]) == (("cpu", 3) if run.factors["load"] == "cpu 3" else ("idle", 0))
        assert (store.path / "plan.toml").read_text() == tiny_plan.text
    assert sorted(p.name for p in (tmp_path / "store").iterdir()) == [
        "design.parquet", "journal.sqlite", "plan.toml", "runs",
    ]  # fmt: skip
    assert not list(fake.directory.glob("load-*.pid"))


FAILURES = [
    ({"fail": "spin"}, "failed", 4, "the instrument ended with exit code 4: cannot open the counter device"),
    ({"cannot": "spin"}, "skipped", 3, "this machine cannot do it: no invariant counter on this CPU"),
    ({"garbage": "spin"}, "failed", None, "damaged, or not written by vtare"),
    ({"silent": "spin"}, "failed", None, "reported it measured but left no samples.parquet"),
    ({"foreign": "spin"}, "failed", None, "belongs to run '0000000000000000', not '"),
    ({"hang": "spin"}, "failed", None, "did not end within 12 s and was killed; raise `run_timeout` in the plan"),
    ({"crash": "spin"}, "failed", -11, "the instrument ended with signal 11"),
    ({"stopped": "spin"}, "failed", 130, "a signal from outside interrupted the instrument"),
    ({"load_cannot": "cpu"}, "skipped", 3, "the load could not start (exit code 3): no cores left for a load"),
    ({"load_dies": "cpu"}, "failed", 0, "the load ended (exit code 0) before the run did"),
    ({"load_mute": "cpu"}, "failed", None, "load.json: not JSON"),
]


@pytest.mark.parametrize(("steer", "word", "code", "reason"), FAILURES, ids=[next(iter(case[0])) for case in FAILURES])
def test_failing_cell_costs_its_cell_and_resume_tries_it_again(
    tmp_path: Path,
    tiny_plan: Plan,
    fake: Any,
    run_campaign: Run,
    steer: dict[str, str],
    word: str,
    code: int | None,
    reason: str,
) -> None:
    # Two runs: a good one, and one that the text in `steer` picks out.
    narrow = (
        ('["usleep", "spin"]', '["usleep"]') if "cpu" in steer.values() else (', { kind = "cpu", threads = 3 }', "")
    )
    # Long enough for the good run on a machine with other work.
    limit = "12 s" if "hang" in steer else "120 s"
    plan = small(small(tiny_plan, *narrow), 'name = "sleep"', f'name = "sleep"\nrun_timeout = "{limit}"')
    fake.behave(**steer)
    with Store.create(tmp_path / "store", plan, 7) as store:
        result = run_campaign(store)
        assert (result.done, getattr(result, word)) == (1, 1)
        entry = next(entry for entry in store.journal.entries().values() if entry.status != "done")
        assert (entry.status, entry.exit_code) == (word, code)
        assert reason in str(entry.reason)
        assert not list((store.path / "runs").glob(".tmp-*"))
        assert len(list((store.path / "runs").iterdir())) == 1
    fake.behave()
    with Store.open(tmp_path / "store") as store:
        again = run_campaign(store)
        # What was missing may be there now: skipped runs are tried again, too.
        assert (again.done, again.skipped) == (2, 0)
        assert sorted(entry.attempts for entry in store.journal.entries().values()) == [1, 2]


def test_full_disk_seen_by_the_instrument_stops_the_campaign(
    tmp_path: Path, tiny_plan: Plan, fake: Any, run_campaign: Run
) -> None:
    fake.behave(full="spin")
    with Store.create(tmp_path / "store", tiny_plan, 7) as store:
        with pytest.raises(CampaignStopped, match=r"the disk is full .* free some space, then `vtare resume"):
            run_campaign(store)
        assert {entry.status for entry in store.journal.entries().values()} <= {"done"}
    fake.behave()
    with Store.open(tmp_path / "store") as store:
        assert run_campaign(store).done == 8


class FullAt(Files):
    """A disk that is full at one operation, from the n-th time on."""

    def __init__(self, operation: str, after: int) -> None:
        self.operation, self.left = operation, after

    def _gate(self, operation: str) -> None:
        if operation == self.operation:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def make_directory(self, path: Path) -> None:
        self._gate("make_directory")
        super().make_directory(path)

    def write(self, path: Path, content: bytes) -> None:
        self._gate("write")
        path.write_bytes(content[:5])
        super().write(path, content)

    def sync_tree(self, directory: Path) -> None:
        self._gate("sync_tree")
        super().sync_tree(directory)

    def publish(self, temporary: Path, final: Path) -> None:
        self._gate("publish")
        super().publish(temporary, final)


@pytest.mark.parametrize("operation", ["make_directory", "write", "sync_tree", "publish"])
def test_full_disk_at_any_step_leaves_a_store_that_can_go_on(
    tmp_path: Path, tiny_plan: Plan, fake: Any, run_campaign: Run, operation: str
) -> None:
    plan = small(tiny_plan)
    # Making the store itself takes each operation once or twice; two runs more, then full.
    files = FullAt(operation, {"make_directory": 4, "write": 5}.get(operation, 3))
    with Store.create(tmp_path / "store", plan, 7, files=files) as store:
        with pytest.raises(CampaignStopped, match="the disk is full"):
            run_campaign(store)
        assert len(store.journal.entries()) == 2
        assert not list((store.path / "runs").glob(".tmp-*"))
    with Store.open(tmp_path / "store") as store:
        assert run_campaign(store).done == 4


@pytest.mark.parametrize("operation", ["make_directory", "write", "sync_tree", "publish"])
def test_store_is_made_whole_or_not_at_all(tmp_path: Path, tiny_plan: Plan, operation: str) -> None:
    with pytest.raises(BadInput, match="cannot make a store here: No space left on device; name another --store"):
        Store.create(tmp_path / "store", tiny_plan, 7, files=FullAt(operation, 0))
    assert (
        list(tmp_path.iterdir()) == [tmp_path / "bin"] if (tmp_path / "bin").exists() else not list(tmp_path.iterdir())
    )


def test_nearly_full_disk_is_refused_before_anything_is_measured(tmp_path: Path, tiny_plan: Plan) -> None:
    class Nearly(Files):
        def free_byte(self, path: Path) -> int:
            return 4096

    with pytest.raises(BadInput, match="No space left on device"):
        Store.create(tmp_path / "store", tiny_plan, 7, files=Nearly())


def test_place_that_cannot_hold_a_store_is_refused(tmp_path: Path, tiny_plan: Plan) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match="cannot make a store here"):
        Store.create(tmp_path / "file" / "store", tiny_plan, 7)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    with pytest.raises(BadInput, match="exists and is not an empty directory"):
        Store.create(tmp_path / "full", tiny_plan, 7)
    assert (tmp_path / "full" / "thesis.txt").read_text() == "x"
    Store.create(tmp_path / "store", tiny_plan, 7).__exit__(None, None, None)
    with pytest.raises(BadInput, match=r"already holds a campaign; resume it \(`vtare resume"):
        Store.create(tmp_path / "store", tiny_plan, 7)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_store_without_write_access_is_refused(tmp_path: Path, tiny_plan: Plan) -> None:
    Store.create(tmp_path / "store", tiny_plan, 7).__exit__(None, None, None)
    (tmp_path / "store" / "runs").chmod(0o500)
    with pytest.raises(BadInput, match="cannot write to this store"):
        Store.open(tmp_path / "store")


def test_second_campaign_in_one_store_is_kept_out(tmp_path: Path, tiny_plan: Plan) -> None:
    refusal = pytest.raises(BadInput, match=f"process {os.getpid()} runs a campaign in this store")
    with Store.create(tmp_path / "store", tiny_plan, 7), refusal:
        Store.open(tmp_path / "store")
    Store.open(tmp_path / "store").__exit__(None, None, None)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such store; make one"):
        Store.open(tmp_path / "none")
    with pytest.raises(
        BadInput, match=r"not a store of vtare \(plan.toml, design.parquet, journal.sqlite, runs missing\)"
    ):
        Store.open(tmp_path)


def test_run_without_row_is_taken_over_and_row_without_run_is_made_again(
    tmp_path: Path, tiny_plan: Plan, run_campaign: Run
) -> None:
    with Store.create(tmp_path / "store", small(tiny_plan), 7) as store:
        run_campaign(store)
        first, second = (run.run_id for run in store.runs[:2])
        store.journal.forget(first)
        store.files.remove_tree(store.directory(second))
        (store.temporary(store.runs[2].run_id)).mkdir()
        whole = [store.runs[0], *store.runs[2:]]
        kept = [store.directory(run.run_id).stat().st_ino for run in whole]
    with Store.open(tmp_path / "store") as store:
        result = run_campaign(store)
        assert (result.done, result.removed_leftovers, result.adopted, result.set_aside) == (4, 1, 1, 0)
        assert [store.directory(run.run_id).stat().st_ino for run in whole] == kept


def test_binary_that_vanishes_stops_the_campaign_with_the_way_out(
    tmp_path: Path, tiny_plan: Plan, fake: Any, run_campaign: Run
) -> None:
    with Store.create(tmp_path / "store", tiny_plan, 7) as store:
        fake.path.unlink()
        with pytest.raises(CampaignStopped, match="the vtare binary is gone; bring it back or name one with --binary"):
            run_campaign(store)


def test_stop_during_a_run_drops_only_that_run_and_ends_all_children(
    tmp_path: Path, tiny_plan: Plan, fake: Any
) -> None:
    fake.behave(hang="spin")
    with Store.create(tmp_path / "store", tiny_plan, 7) as store, StopRequest() as stop:

        def ask_when_it_hangs() -> None:
            while not (fake.directory / "hanging").exists():
                threading.Event().wait(0.01)
            stop.request()

        asker = threading.Thread(target=ask_when_it_hangs)
        asker.start()
        with pytest.raises(Interrupted):
            Campaign(store, fake.path, stop).run()
        asker.join()
        entries = store.journal.entries()
        assert all(entry.status == "done" for entry in entries.values())
        assert not list((store.path / "runs").glob(".tmp-*"))
    assert not list(fake.directory.glob("load-*.pid"))
    with pytest.raises(ProcessLookupError):
        os.kill(int((fake.directory / "measuring.pid").read_text()), 0)


def test_forecast_follows_the_pace_of_finished_runs(tmp_path: Path, tiny_plan: Plan, fake: Any) -> None:
    seen: list[tuple[int, float]] = []

    class Recorder:
        def started(self, forecast: Any) -> None:
            seen.append((forecast.finished, forecast.left_s))

        def run_started(self, run: Any, forecast: Any) -> None: ...

        def run_ended(self, run: Any, outcome: Any, forecast: Any) -> None:
            seen.append((forecast.finished, forecast.left_s))

        def ended(self) -> None:
            seen.append((-1, 0.0))

    with Store.create(tmp_path / "store", small(tiny_plan), 7) as store, StopRequest() as stop:
        Campaign(store, fake.path, stop, Recorder()).run()
    assert [finished for finished, _ in seen] == [0, 1, 2, 3, 4, -1]
    assert seen[0][1] > 0
    assert seen[4][1] == 0


def test_binary_is_found_by_option_then_environment_then_path(
    tmp_path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VTARE_BINARY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(
        BadInput, match=r"was not found: not beside .* name the binary with --binary PATH or VTARE_BINARY"
    ):
        find_binary()
    assert find_binary(fake.path) == fake.path
    monkeypatch.setenv("PATH", str(fake.directory))
    assert find_binary() == fake.path
    monkeypatch.setenv("VTARE_BINARY", str(tmp_path / "other"))
    with pytest.raises(BadInput, match=r"VTARE_BINARY: .*other: no such file"):
        find_binary()
    plain = tmp_path / "plain"
    plain.write_text("x")
    with pytest.raises(BadInput, match=r"--binary: .*plain: not executable"):
        find_binary(plain)


def test_journal_keeps_meta_and_refuses_other_files(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.sqlite") as journal:
        journal.record(Entry("a" * 16, "failed", 4, "why", "log", 1.0))
        journal.record(Entry("a" * 16, "done", 0, None, None, 1.0))
    with Journal(tmp_path / "j.sqlite", read_only=True) as journal:
        assert journal.entries() == {"a" * 16: Entry("a" * 16, "done", 0, None, None, 1.0, attempts=2)}
    (tmp_path / "text").write_text("not a database, but long enough to look like a header of one")
    with pytest.raises(BadInput, match="cannot read the journal"):
        Journal(tmp_path / "text", read_only=True)
    with pytest.raises(BadInput, match="cannot read the journal"):
        Journal(tmp_path / "none", read_only=True)


@pytest.mark.parametrize("content", [b"no database", b""])
def test_a_journal_that_is_refused_is_closed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(content)
    with pytest.raises(BadInput) as refused:
        Journal(path, there=True)
    assert not [one for one in Path("/proc/self/fd").iterdir() if str(tmp_path) in os.path.realpath(one)], refused


def test_a_new_stores_journal_that_cannot_be_written_leaves_nothing_and_asks_for_another_place(
    tmp_path: Path, tiny_plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_self: Journal, _key: str, _value: str) -> None:
        raise BadInput("vtare verify") from sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Journal, "set_meta", refused)
    with pytest.raises(BadInput, match=r"its journal cannot be written \(disk I/O error\); name another --store"):
        Store.create(tmp_path / "store", tiny_plan, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["other version", "emptied"])
def test_going_on_with_another_versions_or_a_lost_journal_is_refused_and_keeps_all_runs(
    tmp_path: Path, tiny_plan: Plan, fake: Any, run_campaign: Run, damage: str
) -> None:
    path = tmp_path / "store"
    with Store.create(path, small(tiny_plan), 7) as store:
        run_campaign(store)
    kept = sorted((path / "runs").iterdir())
    journal = path / "journal.sqlite"
    if damage == "emptied":
        journal.write_bytes(b"")
        message = "cannot read the journal"
    else:
        with sqlite3.connect(journal) as connection:
            connection.execute("UPDATE meta SET value = 'vtare.journal/0' WHERE key = 'schema'")
        connection.close()
        message = r"journal schema is 'vtare.journal/0', this program reads 'vtare.journal/1': use the version"
    for _ in range(2):
        with pytest.raises(BadInput, match=message):
            Store.open(path)
    assert len(kept) == 4
    assert sorted((path / "runs").iterdir()) == kept


def test_default_store_takes_the_next_free_name(tmp_path: Path) -> None:
    assert default_store("quickstart", tmp_path).name == "quickstart"
    (tmp_path / "quickstart").mkdir()
    (tmp_path / "quickstart-2").mkdir()
    assert default_store("quickstart", tmp_path).name == "quickstart-3"
