"""The journal of a store: which runs are finished, failed or skipped. SQLite with a write-ahead log.

A row is the last thing a run writes, after its directory has been fsynced and renamed into place. So a row never
promises more than the disk holds, whatever the moment of a crash. After each row the log is emptied into the file, so
that a copy of the file alone lacks none.

That of a campaign over many hosts has a third table, to which rows are only added: when each run took its hosts and
gave them back. The rows of a run that ends are written together with its own.

A journal may come from somebody else: it is opened only where it holds our tables and nothing that computes (views,
triggers), and every value is checked before it is used.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

from vtare.errors import BadInput, CampaignStopped
from vtare.stored.paths import is_run_id, kind_of, parse_json, plain_text, require_run_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from vtare.design import Run

Status = Literal["done", "failed", "skipped"]
HostEventKind = Literal["taken", "released", "lost", "answered"]

JOURNAL_SCHEMA: Final = "vtare.journal/1"
#: What reading a damaged file raises. SQLite's own message may quote the file, and bytes that are no text then end its
#: decoding.
_UNREADABLE: Final = (sqlite3.Error, UnicodeDecodeError)
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed', 'skipped')),
    exit_code INTEGER,
    reason TEXT,
    log_tail TEXT,
    elapsed_s REAL,
    attempts INTEGER NOT NULL
);
"""
_HOST_EVENTS: Final = """
CREATE TABLE IF NOT EXISTS host_events (
    number INTEGER PRIMARY KEY,
    at_s REAL NOT NULL,
    host TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('taken', 'released', 'lost', 'answered')),
    run_id TEXT
);
"""
#: What SQLite itself keeps beside a journal while it is open, or after a kill.
BESIDE: Final = ("-wal", "-shm")
#: Most bytes of one text of a journal: reasons and log tails have a few thousand.
_MOST_VALUE_BYTE: Final = 1 << 20
#: What each column of a row may be; None where the run has no such figure.
_COLUMNS: Final[dict[str, tuple[type, ...]]] = {
    "exit_code": (int, type(None)),
    "reason": (str, type(None)),
    "log_tail": (str, type(None)),
    "elapsed_s": (int, float, type(None)),
    "attempts": (int,),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One journal row. `exit_code` is None where no program ran; `reason` and `log_tail` are None for done runs."""

    run_id: str
    status: Status
    exit_code: int | None
    reason: str | None
    log_tail: str | None
    elapsed_s: float | None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class HostEvent:
    """What happened to a host of a fleet at `at_s` (seconds since 1970, UTC; of a dry run: since its start).

    A run `run_id` has `taken` or `released` it; it was `lost`, or has `answered` a probe, which no run needs.
    """

    at_s: float
    host: str
    kind: HostEventKind
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """That a campaign has stopped by its plan's rule: the last block that counts, and why."""

    block: int
    reason: str


def not_needed(run: Run, entries: Mapping[str, Entry], stopped: Stopped | None) -> bool:
    """Whether a run was never made because the campaign had stopped before its block."""
    return stopped is not None and run.block > stopped.block and run.run_id not in entries


class Journal:
    """An open journal. Use it as a context manager."""

    def __init__(self, path: Path, *, read_only: bool = False, there: bool = False) -> None:
        """Open the journal, and unless it is `read_only` or must be `there` already, make it.

        Raises:
            BadInput: the file is missing, unreadable, no journal, or one of another version.
        """
        self._path = path
        _refuse_odd_files(path)
        try:
            if read_only:
                self._connection = self._connect_read_only(path)
            else:
                mode = "rw" if there else "rwc"
                self._connection = sqlite3.connect(f"{_uri(path)}?mode={mode}", uri=True, timeout=10)
                self._restrict()
            if there or read_only:
                self._refuse_other_schema()
            if there:
                self.check()
            if not read_only:
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=FULL")
                self._connection.executescript(_TABLES)
                if self._meta("schema") is None:
                    self.set_meta("schema", JOURNAL_SCHEMA)
                    self._refuse_other_schema()
        except Exception as error:
            # Else the file stays open, and its file system in use, for as long as the error is kept.
            if hasattr(self, "_connection"):
                self.close()
            if isinstance(error, _UNREADABLE):
                self._refuse_unreadable(error)
            raise

    def _restrict(self) -> None:
        """Let nothing that the file states be computed, and no value of it take much memory."""
        self._connection.execute("PRAGMA trusted_schema=OFF")
        self._connection.execute("PRAGMA cell_size_check=ON")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE_BYTE)

    def _refuse_unreadable(self, error: Exception) -> None:
        code = getattr(error, "sqlite_errorname", "")
        if code.startswith(("SQLITE_READONLY", "SQLITE_PERM")):
            raise BadInput(
                f"{self._path}: cannot write the journal ({error}); give yourself write access or copy the store"
            ) from error
        raise BadInput(
            f"{self._path}: cannot read the journal ({error}); is this a store made by `vtare run`? "
            f"`vtare verify {self._path.parent} --repair` makes the journal of its finished runs anew"
        ) from error

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn what SQLite reports of a damaged or unreadable file into one clear error."""
        try:
            yield
        except _UNREADABLE as error:
            self._refuse_unreadable(error)

    def _refuse_other_schema(self) -> None:
        entries = self._connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        tables = {name: " ".join(str(sql).split()) for kind, name, sql in entries if kind == "table"}
        automatic = all(kind == "table" or (kind == "index" and sql is None) for kind, _, sql in entries)
        if tables and (not automatic or tables not in ({**_EXPECTED, **_OF_HOSTS}, _EXPECTED)):
            raise BadInput(
                f"{self._path}: holds more than the tables of a journal, or others, which is not made by vtare: do "
                f"not go on with a store that you do not trust; `vtare verify {self._path.parent} --repair` makes the "
                "journal of its finished runs anew"
            )
        schema = self.meta("schema")
        if schema != JOURNAL_SCHEMA:
            raise BadInput(
                f"{self._path}: journal schema is {schema!r}, this program reads '{JOURNAL_SCHEMA}': use the version "
                "of vtare that made this store, or measure into a new one"
            )

    def _connect_read_only(self, path: Path) -> sqlite3.Connection:
        self._connection = sqlite3.connect(f"{_uri(path)}?mode=ro", uri=True, timeout=10)
        try:
            self._restrict()
            self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # A store on a read-only medium cannot have the shared-memory file that WAL needs.
            self._connection.close()
            self._connection = sqlite3.connect(f"{_uri(path)}?mode=ro&immutable=1", uri=True)
            self._restrict()
        return self._connection

    def __enter__(self) -> Self:
        """Return the journal itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the journal."""
        self.close()

    def close(self) -> None:
        """Close the file. Rows already written stay."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def set_meta(self, key: str, value: str) -> None:
        """Keep one fact about the store.

        Raises:
            BadInput: the journal cannot be written.
        """
        with self._guarded(), self._connection:
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def meta(self, key: str) -> str | None:
        """Return one fact about the store, or None.

        Raises:
            BadInput: the journal is damaged.
        """
        with self._guarded():
            return self._meta(key)

    def _meta(self, key: str) -> str | None:
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else plain_text(str(row[0]))

    def check(self) -> None:
        """Check the whole file, pages that no row is read from included.

        Raises:
            BadInput: it is damaged.
        """
        with self._guarded():
            outcome = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if outcome != "ok":
                raise sqlite3.DatabaseError(" ".join(str(outcome).split()))

    def stopped(self) -> Stopped | None:
        """Return how the campaign stopped by its plan's rule; None where it has not.

        Raises:
            BadInput: the journal is damaged, or states something else.
        """
        text = self.meta("stopped")
        if text is None:
            return None
        try:
            document = parse_json(text)
            block, reason = document["block"], document["reason"]
        except (ValueError, TypeError, KeyError) as error:
            raise self._odd(text[:200], "'stopped'", "a block and a reason") from error
        if not isinstance(block, int) or not isinstance(reason, str):
            raise self._odd(text[:200], "'stopped'", "a block and a reason")
        return Stopped(block, reason)

    def stop(self, stopped: Stopped) -> None:
        """Keep that the campaign has stopped: no later block will be made, whoever goes on with it."""
        self.set_meta("stopped", json.dumps({"block": stopped.block, "reason": stopped.reason}))
        self._empty_log()

    def record(self, entry: Entry, events: Sequence[HostEvent] = ()) -> None:
        """Write one row, durably, and with it what happened to the hosts of the run.

        A run that was tried before counts one attempt more.

        Raises:
            CampaignStopped: the row cannot be written (disk full, store gone).
        """
        with self._written():
            if events:
                self._add(events)
            query = "SELECT attempts FROM runs WHERE run_id = ?"
            before = self._connection.execute(query, (entry.run_id,)).fetchone()
            attempts = 1 if before is None else int(before[0]) + 1
            self._connection.execute(
                "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    entry.run_id, entry.status, entry.exit_code, entry.reason, entry.log_tail, entry.elapsed_s,
                    attempts,
                ),
            )  # fmt: skip
        self._empty_log()

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Write rows together, or none of them."""
        try:
            with self._connection:
                yield
        except sqlite3.Error as error:
            raise CampaignStopped(
                f"{self._path}: cannot write the journal ({error}); free space, then `vtare resume`"
            ) from error

    def keep_host_events(self) -> None:
        """Make the table of hosts, where there is none yet.

        Raises:
            CampaignStopped: the journal cannot be written.
        """
        with self._written():
            self._connection.execute(_HOST_EVENTS)

    def add_host_events(self, events: Sequence[HostEvent]) -> None:
        """Add what happened to hosts, in this order. `keep_host_events` was called before.

        Raises:
            CampaignStopped: the journal cannot be written.
        """
        if events:
            with self._written():
                self._add(events)

    def _add(self, events: Sequence[HostEvent]) -> None:
        self._connection.executemany(
            "INSERT INTO host_events (at_s, host, kind, run_id) VALUES (?, ?, ?, ?)",
            [(event.at_s, event.host, event.kind, event.run_id) for event in events],
        )

    def host_events(self) -> tuple[HostEvent, ...]:
        """Return what happened to hosts, in order; nothing where the campaign was on one machine.

        Raises:
            BadInput: the journal is damaged, or a row is none of a host.
        """
        known = "SELECT 1 FROM sqlite_master WHERE name = 'host_events'"
        query = "SELECT at_s, host, kind, run_id FROM host_events ORDER BY number"
        with self._guarded():
            there = self._connection.execute(known).fetchone() is not None
            rows = self._connection.execute(query).fetchall() if there else []
        return tuple(self._host_event(*row) for row in rows)

    def _host_event(self, at_s: Any, host: Any, kind: Any, run_id: Any) -> HostEvent:
        if not isinstance(at_s, float) or not isinstance(host, str) or kind not in get_args(HostEventKind):
            raise self._odd(
                (at_s, host, kind), "an event of a host", "a time, a host, and taken, released, lost or answered"
            )
        if not (run_id is None or is_run_id(run_id)):
            raise self._odd(run_id, "the run of an event", "16 hexadecimal digits")
        return HostEvent(at_s, plain_text(host), kind, run_id)

    def _empty_log(self) -> None:
        # A reader in between is no reason to wait: the next row tries again.
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def forget(self, run_id: str) -> None:
        """Remove one row: its run will be made again.

        Raises:
            BadInput: the journal cannot be written.
        """
        with self._guarded(), self._connection:
            self._connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))

    def entries(self) -> dict[str, Entry]:
        """Return every row, by run id.

        Raises:
            BadInput: the journal is damaged, or a row is none of a run.
        """
        query = "SELECT run_id, status, exit_code, reason, log_tail, elapsed_s, attempts FROM runs"
        with self._guarded():
            return {row[0]: self._entry(row) for row in self._connection.execute(query)}

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        run_id, status, *others = row
        require_run_id(run_id, self._path)
        if status not in get_args(Status):
            raise self._odd(status, f"status of run {run_id}", "done, failed or skipped")
        for (column, kinds), value in zip(_COLUMNS.items(), others, strict=True):
            if not isinstance(value, kinds):
                raise self._odd(value, f"{column} of run {run_id}", " or ".join(kind.__name__ for kind in kinds))
        values: list[Any] = [plain_text(value) if isinstance(value, str) else value for value in others]
        return Entry(run_id, status, *values)

    def _odd(self, value: object, what: str, usual: str) -> BadInput:
        return BadInput(
            f"{self._path}: damaged: {what} is {value!r}, not {usual}; "
            f"`vtare verify {self._path.parent} --repair` rebuilds the journal from the finished runs"
        )


def _refuse_odd_files(path: Path) -> None:
    """Refuse links, and the rollback journal that a write-ahead log never has: it may name any file to be removed."""
    for beside in ("", *BESIDE):
        place = path.with_name(path.name + beside)
        kind = kind_of(place)
        if kind not in ("file", None):
            raise BadInput(f"{place} is a {kind}, not an ordinary file; put the file itself there")
    rollback = path.with_name(f"{path.name}-journal")
    if kind_of(rollback) is not None:
        raise BadInput(
            f"{rollback} is a rollback journal, which vtare never leaves and which can make SQLite remove any "
            "file; remove it, and do not go on with a store that you do not trust"
        )


def _uri(path: Path) -> str:
    return path.absolute().as_uri()


def _statements(script: str) -> dict[str, str]:
    """The statements that make tables as SQLite keeps them, by name."""
    statements = {}
    for statement in script.split(";"):
        words = " ".join(statement.split()).replace("IF NOT EXISTS ", "")
        if words:
            statements[words.split()[2]] = words
    return statements


_EXPECTED: Final = _statements(_TABLES)
_OF_HOSTS: Final = _statements(_HOST_EVENTS)
