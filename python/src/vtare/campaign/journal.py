"""The journal of a store: which runs are finished, failed or skipped. SQLite with a write-ahead log.

A row is the last thing a run writes, after its directory has been fsynced and renamed into place. So a row never
promises more than the disk holds, whatever the moment of a crash.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self

from vtare.errors import BadInput, CampaignStopped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from vtare.design import Run

Status = Literal["done", "failed", "skipped"]

JOURNAL_SCHEMA: Final = "vtare.journal/1"
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
        try:
            self._connection = self._connect_read_only(path) if read_only else sqlite3.connect(path, timeout=10)
            if there:
                self._refuse_other_schema()
            if not read_only:
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=FULL")
                self._connection.executescript(_TABLES)
                if self.meta("schema") is None:
                    self.set_meta("schema", JOURNAL_SCHEMA)
            self._refuse_other_schema()
        except sqlite3.Error as error:
            raise BadInput(
                f"{path}: cannot read the journal ({error}); is this a store made by `vtare run`?"
            ) from error

    def _refuse_other_schema(self) -> None:
        found = self.meta("schema")
        if found != JOURNAL_SCHEMA:
            raise BadInput(
                f"{self._path}: journal schema is {found!r}, this program reads '{JOURNAL_SCHEMA}': use the version of "
                "vtare that made this store, or measure into a new one"
            )

    @staticmethod
    def _connect_read_only(path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=10)
        try:
            connection.execute("SELECT 1 FROM meta").fetchone()
        except sqlite3.OperationalError:
            # A store on a read-only medium cannot have the shared-memory file that WAL needs.
            connection.close()
            return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        return connection

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
        """Keep one fact about the store."""
        with self._connection:
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def meta(self, key: str) -> str | None:
        """Return one fact about the store, or None."""
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def stopped(self) -> Stopped | None:
        """Return how the campaign stopped by its plan's rule; None where it has not."""
        found = self.meta("stopped")
        return None if found is None else Stopped(**json.loads(found))

    def stop(self, stopped: Stopped) -> None:
        """Keep that the campaign has stopped: no later block will be made, whoever goes on with it."""
        self.set_meta("stopped", json.dumps({"block": stopped.block, "reason": stopped.reason}))

    def record(self, entry: Entry) -> None:
        """Write one row, durably. A run that was tried before counts one attempt more.

        Raises:
            CampaignStopped: the row cannot be written (disk full, store gone).
        """
        before = self._connection.execute("SELECT attempts FROM runs WHERE run_id = ?", (entry.run_id,)).fetchone()
        attempts = 1 if before is None else int(before[0]) + 1
        values = (
            entry.run_id, entry.status, entry.exit_code, entry.reason, entry.log_tail, entry.elapsed_s, attempts,
        )  # fmt: skip
        try:
            with self._connection:
                self._connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        except sqlite3.Error as error:
            raise CampaignStopped(
                f"{self._path}: cannot write the journal ({error}); free space, then `vtare resume`"
            ) from error

    def forget(self, run_id: str) -> None:
        """Remove one row: its run will be made again."""
        with self._connection:
            self._connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))

    def entries(self) -> dict[str, Entry]:
        """Return every row, by run id."""
        query = "SELECT run_id, status, exit_code, reason, log_tail, elapsed_s, attempts FROM runs"
        return {row[0]: Entry(*row) for row in self._connection.execute(query)}
