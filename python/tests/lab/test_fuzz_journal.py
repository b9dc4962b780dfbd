"""Whatever became of a journal's bytes: its rows are read as they were, or it is an error that a person can act on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from vtare.campaign.journal import Entry, Journal
from vtare.errors import BadInput

pytestmark = [pytest.mark.attack, pytest.mark.fault]

#: On a busy machine an example may take any time.
STEADY = settings(suppress_health_check=[HealthCheck.too_slow])

ENTRIES = {
    f"{number:016x}": Entry(
        f"{number:016x}",
        "failed" if number % 7 == 0 else "done",
        3 if number % 7 == 0 else 0,
        "exit code 3" if number % 7 == 0 else None,
        "x" * 400 if number % 7 == 0 else None,
        0.5,
    )
    for number in range(60)
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a journal with some rows, closed in order."""
    path = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    with Journal(path) as journal:
        journal.set_meta("program", "0.1.0")
        for entry in ENTRIES.values():
            journal.record(entry)
    assert not path.with_name("journal.sqlite-wal").exists()
    return path.read_bytes()


def read(directory: Path, content: bytes, *, read_only: bool) -> None:
    """Read a journal of these bytes as reports do, or as `vtare resume` does."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    path = directory / "journal.sqlite"
    path.write_bytes(content)
    found, refused = dict[str, Entry](), str(path)
    try:
        with Journal(path, read_only=read_only, there=True) as journal:
            found = journal.entries()
            journal.stopped()
            if not read_only:
                journal.set_meta("holder_pid", "1")
    except BadInput as error:
        refused = str(error)
    assert str(path) in refused
    for run_id, entry in found.items():
        assert isinstance(run_id, str)
        assert entry.status in {"done", "failed", "skipped"}


@settings(STEADY, max_examples=100)
@given(
    changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=30),
    keep=st.floats(0.0, 1.0) | st.just(1.0),
    read_only=st.booleans(),
)
@example(changes=[(3988, 128)], keep=1.0, read_only=True).via("a byte that is no text in the statement of a table")
def test_a_journal_with_any_damage_is_read_or_bad_input(
    whole: bytes,
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, int]],
    keep: float,
    read_only: bool,
) -> None:
    content = bytearray(whole)
    for at, value in changes:
        content[at % len(content)] = value
    del content[round(keep * len(content)) :]
    read(tmp_path_factory.getbasetemp() / "damaged", bytes(content), read_only=read_only)


@settings(STEADY)
@given(head=st.sampled_from([b"", b"SQLite format 3\0"]), rest=st.binary(max_size=5_000), read_only=st.booleans())
def test_any_bytes_as_a_journal_are_bad_input(
    tmp_path_factory: pytest.TempPathFactory, head: bytes, rest: bytes, read_only: bool
) -> None:
    read(tmp_path_factory.getbasetemp() / "random", head + rest, read_only=read_only)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_journal_whose_last_page_is_damaged_is_bad_input(whole: bytes, tmp_path: Path, read_only: bool) -> None:
    page = 4096
    for fill in (b"\0", b"\xff", b"\r"):
        read(tmp_path / "page", whole[:-page] + fill * page, read_only=read_only)


def test_a_whole_journal_is_read_as_it_was_written(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(whole)
    with Journal(path, read_only=True) as journal:
        assert journal.entries() == ENTRIES
