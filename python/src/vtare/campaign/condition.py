"""What the runs of a store are worth: every file of a run as it was written, or what is wrong with it."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vtare.contract import check_samples_file
from vtare.errors import BadInput
from vtare.stored.manifest import damage
from vtare.stored.paths import kind_of, odd_entry, parse_json, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from vtare.design import Run

#: Checksums are computed without Python's lock; more threads than this wait for the disk.
_MOST_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class Conditions:
    """The finished runs of a store, by run id: None for a whole one, else what is wrong. `byte` were read for it."""

    reasons: dict[str, str | None]
    byte: int
    elapsed_s: float

    @property
    def whole(self) -> tuple[str, ...]:
        """The ids of the runs whose every file is as it was written."""
        return tuple(run_id for run_id, reason in self.reasons.items() if reason is None)

    @property
    def damaged(self) -> dict[str, str]:
        """What is wrong with the others."""
        return {run_id: reason for run_id, reason in self.reasons.items() if reason is not None}


def conditions(store: Path, runs: Iterable[Run]) -> Conditions:
    """Check the directory of every run that has one, by its checksums.

    Raises:
        PermissionError: a directory or a file may not be read, which is no damage.
        OSError: `runs` cannot be listed.
    """
    begin = time.monotonic()
    names = set(os.listdir(store / "runs"))
    there = [run for run in runs if run.run_id in names]
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        checked = list(pool.map(lambda run: _condition(store / "runs" / run.run_id, run), there))
    reasons = {run.run_id: reason for run, (reason, _) in zip(there, checked, strict=True)}
    return Conditions(reasons, sum(byte for _, byte in checked), time.monotonic() - begin)


def _condition(directory: Path, run: Run) -> tuple[str | None, int]:
    """What is wrong with a run's directory, None where nothing is, and the bytes of its files."""
    reason = odd_entry(directory)
    if reason is not None:
        return reason, 0
    byte = sum(entry.stat().st_size for entry in os.scandir(directory))
    try:
        reason = damage(directory) or _belongs(directory, run)
    except FileNotFoundError:
        reason = _read_whole(directory, run)
    except PermissionError:
        raise
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error})"
    return reason, byte


def _belongs(directory: Path, run: Run) -> str | None:
    """Why the files are not those of this run; None where they are."""
    if kind_of(directory / "samples.parquet") is None:
        return "samples.parquet is missing"
    try:
        document = parse_json(read_regular(directory / "run.json"))
    except (OSError, ValueError) as error:
        return f"run.json cannot be read ({error})"
    owner = document.get("run_id") if isinstance(document, dict) else None
    return None if owner == run.run_id else f"belongs to run {owner!r}"


def _read_whole(directory: Path, run: Run) -> str | None:
    """What is wrong with a run that an older version made without checksums: its samples are read to their end."""
    import polars as pl

    path = directory / "samples.parquet"
    try:
        check_samples_file(path, run_id=run.run_id, instrument=run.instrument)
        pl.read_parquet(path)
    except BadInput as error:
        return str(error).removeprefix(f"{directory}/")
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        return f"samples.parquet cannot be read to its end ({error})"
    return None if kind_of(directory / "load.json") == "file" else "load.json is missing"
