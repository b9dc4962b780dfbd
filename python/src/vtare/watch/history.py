"""What a watched machine showed, round by round: one SQLite file, appended to as a whole or not at all.

    STORE/plan.toml, history.sqlite (WAL), rounds/<number>/ (each a store of its own, for as long as it is kept)

A round's row, its figures and the changes that they show are one transaction. A figure that a round lacks has no row.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, get_args

from vtare.errors import BadInput
from vtare.series.model import FACTS_AFTER, FACTS_BEFORE, Change, Series, SeriesKey, changed_facts
from vtare.stats import Better
from vtare.stored.paths import HISTORY, kind_of, parse_json, plain_values

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCHEMA: Final = "vtare.history/1"
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rounds (number INTEGER PRIMARY KEY, at_s REAL NOT NULL, elapsed_s REAL NOT NULL,
  facts TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS points (series INTEGER NOT NULL, round INTEGER NOT NULL, value REAL NOT NULL,
  PRIMARY KEY (series, round)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (series INTEGER NOT NULL, round INTEGER NOT NULL, found INTEGER NOT NULL,
  before REAL NOT NULL, after REAL NOT NULL, PRIMARY KEY (series, round)) WITHOUT ROWID;
"""


#: What a history may hold: names as long as those of plans, times to the year 2500, figures of any unit.
_MOST_TEXT: Final = 1000
_LATEST_S: Final = 1.7e10
_MOST_VALUE: Final = 1e30


@dataclass(frozen=True, slots=True)
class Round:
    """One pass over the plan: when it began (UNIX time), the machine's facts, and each figure that it has."""

    at_s: float
    elapsed_s: float
    facts: Mapping[str, Any]
    figures: Mapping[SeriesKey, float]


class History:
    """The open file. Use it as a context manager."""

    def __init__(self, store: Path, *, read_only: bool = False) -> None:
        """Open the history of a store, or make it.

        Raises:
            BadInput: there is none to read, or it is damaged or of another program.
        """
        self._path = store / HISTORY
        if (read_only or kind_of(self._path) is not None) and kind_of(self._path) != "file":
            raise BadInput(f"{self._path}: there is no history here: make one with `vtare watch --store {store}`")
        try:
            uri = f"{self._path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
            self._connection = sqlite3.connect(uri, uri=True, timeout=30)
            if not read_only:
                self._connection.execute("PRAGMA journal_mode = WAL")
                # Each commit is on the disk before the round counts.
                self._connection.execute("PRAGMA synchronous = FULL")
                with self._connection:
                    self._connection.executescript(_TABLES)
                    self._connection.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (SCHEMA,))
            schema = self._connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        if schema is None or schema[0] != SCHEMA:
            raise BadInput(
                f"{self._path}: its schema is {schema and schema[0]!r}, not '{SCHEMA}': use the vtare that wrote it"
            )

    def _damaged(self, error: Exception) -> BadInput:
        return BadInput(f"{self._path}: cannot be read as the history of `vtare watch` ({error})")

    def __enter__(self) -> Self:
        """Return the history itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def rounds(self) -> int:
        """How many rounds there are, those without figures too: the number of the next one."""
        return int(self._connection.execute("SELECT coalesce(max(number) + 1, 0) FROM rounds").fetchone()[0])

    @property
    def last_s(self) -> float | None:
        """When the last round began; None before the first."""
        row = self._connection.execute("SELECT at_s FROM rounds ORDER BY number DESC LIMIT 1").fetchone()
        return None if row is None else float(row[0])

    def newest(self, count: int) -> set[int]:
        """The numbers of the last `count` rounds."""
        rows = self._connection.execute("SELECT number FROM rounds ORDER BY number DESC LIMIT ?", (count,))
        return {row[0] for row in rows}

    def append(self, made: Round) -> list[Change]:
        """Add a round and return the changes that it shows. All of it is on the disk afterwards, or nothing.

        Raises:
            sqlite3.Error: it cannot be written (`sqlite3.OperationalError`: the disk is full).
        """
        with self._connection:
            number = self.rounds
            self._connection.execute(
                "INSERT INTO rounds VALUES (?, ?, ?, ?)",
                (number, made.at_s, made.elapsed_s, json.dumps(dict(made.facts))),
            )
            return [
                change for key, value in made.figures.items() if (change := self._add(key, number, value)) is not None
            ]

    def _add(self, key: SeriesKey, number: int, value: float) -> Change | None:
        """Add a point, and look whether the points since the last change show another one."""
        from vtare.stats.changes import WINDOW, newest_change

        run = self._connection.execute
        written = json.dumps(key.document())
        run("INSERT OR IGNORE INTO series (key) VALUES (?)", (written,))
        series = run("SELECT id FROM series WHERE key = ?", (written,)).fetchone()[0]
        run("INSERT INTO points VALUES (?, ?, ?)", (series, number, value))
        last = run("SELECT coalesce(max(round), 0) FROM changes WHERE series = ?", (series,)).fetchone()[0]
        query = "SELECT round, value FROM points WHERE series = ? AND round >= ? ORDER BY round DESC LIMIT ?"
        newest = run(query, (series, last, WINDOW)).fetchall()[::-1]
        change = newest_change([point for _, point in newest])
        if change is None:
            return None
        place = newest[change.index][0]
        run("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", (series, place, number, change.before, change.after))
        around = newest[change.index - FACTS_BEFORE][0], newest[change.index + FACTS_AFTER][0]
        return self._change(key, *around, place, number, change.before, change.after)

    def _change(
        self, key: SeriesKey, previous: int, following: int, place: int, number: int, before: float, after: float
    ) -> Change:
        """A change with the times of its points, and the facts that differ between the points around it."""
        query = "SELECT at_s, facts FROM rounds WHERE number = ?"
        (_, old), (_, new), (at_s, _), (found_s, _) = (
            self._connection.execute(query, (one,)).fetchone() for one in (previous, following, place, number)
        )
        facts = changed_facts(_facts(old), _facts(new))
        at_s, found_s = _number(at_s, _LATEST_S), _number(found_s, _LATEST_S)
        before, after = _number(before, _MOST_VALUE), _number(after, _MOST_VALUE)
        return Change(key, int(place), int(number), at_s, found_s, before, after, facts)

    def changes(self) -> list[Change]:
        """All changes so far, in the order in which they were found.

        Raises:
            BadInput: the file is damaged.
        """
        near = (
            "(SELECT round FROM points p WHERE p.series = c.series AND p.round {} c.round"
            " ORDER BY round {} LIMIT 1 OFFSET {})"
        )
        query = (
            f"SELECT key, {near.format('<', 'DESC', FACTS_BEFORE - 1)}, {near.format('>', 'ASC', FACTS_AFTER - 1)},"
            " round, found, before, after FROM changes c JOIN series ON series.id = c.series ORDER BY found, c.series"
        )
        try:
            return [self._change(_key(key), *others) for key, *others in self._connection.execute(query)]
        except (sqlite3.Error, ValueError, TypeError, KeyError, OverflowError) as error:
            raise self._damaged(error) from error

    def series(self) -> list[Series]:
        """Every series, in order of its key.

        Raises:
            BadInput: the file is damaged.
        """
        query = (
            "SELECT key, number, at_s, value, facts FROM points JOIN rounds ON number = round"
            " JOIN series ON series.id = points.series ORDER BY series.id, number"
        )
        by_key: dict[str, Series] = {}
        facts: dict[str, Mapping[str, Any]] = {}
        try:
            with closing(self._connection.execute(query)) as rows:
                for key, number, at_s, value, written in rows:
                    one = by_key.setdefault(key, Series(_key(key)) if key not in by_key else by_key[key])
                    one.rounds.append(int(number))
                    one.at_s.append(_number(at_s, _LATEST_S))
                    one.values.append(_number(value, _MOST_VALUE))
                    one.facts.append(facts.setdefault(written, _facts(written)))
        except (sqlite3.Error, ValueError, TypeError, KeyError, OverflowError) as error:
            raise self._damaged(error) from error
        return sorted(by_key.values(), key=lambda one: (one.key.experiment, one.key.labels, one.key.figure))


def _key(written: str) -> SeriesKey:
    fields = plain_values(parse_json(written))
    labels = tuple((_text(name), _text(level)) for name, level in dict(fields["labels"]).items())
    better = fields["better"]
    if better not in (None, *get_args(Better)):
        raise ValueError("found a direction that is none")
    return SeriesKey(_text(fields["experiment"]), labels, _text(fields["figure"]), _text(fields["quantity"]), better)


def _text(found: object) -> str:
    """A name as it may be shown: the history may come from somebody else."""
    if not isinstance(found, str) or len(found) > _MOST_TEXT:
        raise ValueError("found a name that is no text, or too long")
    return found


def _number(found: object, most: float) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float) or not -most <= found <= most:
        raise ValueError(f"{str(found)[:40]!r} is not a number up to {most:g}")
    return float(found)


def _facts(written: str) -> dict[str, Any]:
    facts = plain_values(parse_json(written))
    if not isinstance(facts, dict):
        raise ValueError("found facts that are no object")
    return facts
