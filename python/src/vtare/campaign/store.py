"""A store: the directory a campaign leaves, and the only place it writes to.

    STORE/plan.toml, design.parquet, journal.sqlite, runs/<run_id>/{run.json, samples.parquet, load.json, log}

A store appears whole (built under a temporary name, fsynced, renamed) and each run in it appears whole. A lock on the
directory keeps a second campaign out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from vtare import __version__
from vtare.campaign.files import Files
from vtare.campaign.journal import Journal
from vtare.design import Run, make_design, read_design, write_design
from vtare.errors import BadInput
from vtare.plan import Plan, parse_plan

if TYPE_CHECKING:
    from types import TracebackType

    from vtare.contract import Contract

DEFAULT_PARENT: Final = Path("vtare-store")
_RUN_ID: Final = re.compile(r"[0-9a-f]{16}")
_ROOM_NEEDED_BYTE: Final = 1_000_000


class Store:
    """An open, locked store. Use it as a context manager; leaving it gives the lock back."""

    def __init__(self, path: Path, plan: Plan, runs: tuple[Run, ...], seed: int, lock_fd: int, files: Files) -> None:
        """Take over a locked directory; use `Store.create` or `Store.open`."""
        self.path = path.resolve()
        self.plan = plan
        self.runs = runs
        self.seed = seed
        self.files = files
        self._lock_fd = lock_fd
        self.journal = Journal(self.path / "journal.sqlite", there=True)
        self.journal.set_meta("holder_pid", str(os.getpid()))

    @classmethod
    def create(cls, path: Path, plan: Plan, seed: int, *, files: Files | None = None) -> Self:
        """Make a new store for a plan.

        Raises:
            BadInput: the directory holds something already, or cannot be written.
        """
        files = files or Files()
        if (path / "design.parquet").exists():
            raise BadInput(
                f"{path}: holds a campaign already; go on with `vtare resume {path}` or name another --store"
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise BadInput(f"{path}: exists and is not an empty directory; name another --store")
        partial = path.parent / f".{path.name}.partial"
        lock_fd = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.remove_tree(partial)
            files.make_directory(partial)
            lock_fd = _lock(partial)
            files.write(partial / "plan.toml", plan.text.encode())
            runs = make_design(plan, seed)
            write_design(partial / "design.parquet", runs, plan.factor_names, seed=seed, program=__version__)
            files.make_directory(partial / "runs")
            with Journal(partial / "journal.sqlite") as journal:
                journal.set_meta("program", __version__)
            files.sync_tree(partial)
            if files.free_byte(partial) < _ROOM_NEEDED_BYTE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            files.publish(partial, path)
        except OSError as error:
            with suppress(OSError):
                files.remove_tree(partial)
            if lock_fd >= 0:
                os.close(lock_fd)
            raise BadInput(f"{path}: cannot make a store here: {error.strerror}; name another --store") from error
        return cls(path, plan, runs, seed, lock_fd, files)

    @classmethod
    def open(cls, path: Path, *, files: Files | None = None, contract: Contract | None = None) -> Self:
        """Open and lock an existing store, to go on with its campaign.

        Raises:
            BadInput: no store, another campaign holds it, or it cannot be written.
        """
        plan, runs, seed = read_store(path, contract=contract)
        if not os.access(path, os.W_OK) or not os.access(path / "runs", os.W_OK):
            raise BadInput(f"{path}: cannot write to this store; give yourself write access or copy it elsewhere")
        lock_fd = _lock(path)
        try:
            return cls(path, plan, runs, seed, lock_fd, files or Files())
        except BadInput:
            os.close(lock_fd)
            raise

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the journal and give the lock back."""
        self.journal.close()
        os.close(self._lock_fd)

    def directory(self, run_id: str) -> Path:
        """Where a finished run lies."""
        return self.path / "runs" / run_id

    def temporary(self, run_id: str) -> Path:
        """Where a run lies while it executes."""
        return self.path / "runs" / f".tmp-{run_id}"

    def tidy(self) -> int:
        """Make journal and directories agree after a kill, and return how many leftovers were removed.

        A run counts only with both its directory and its row; one without the other is removed and made again.
        """
        removed = 0
        entries = self.journal.entries()
        done = {run_id for run_id, entry in entries.items() if entry.status == "done"}
        for path in sorted((self.path / "runs").iterdir()):
            leftover = path.name.startswith(".tmp-") or (_RUN_ID.fullmatch(path.name) and path.name not in done)
            if leftover:
                self.files.remove_tree(path)
                removed += 1
        for run_id in done:
            if not (self.directory(run_id) / "samples.parquet").is_file():
                self.files.remove_tree(self.directory(run_id))
                self.journal.forget(run_id)
                removed += 1
        return removed


def read_store(path: Path, *, contract: Contract | None = None) -> tuple[Plan, tuple[Run, ...], int]:
    """Return plan, runs and seed of a store, without locking it: reading is safe while a campaign writes.

    Raises:
        BadInput: the path is no store.
    """
    if path.exists() and not path.is_dir():
        raise BadInput(f"{path}: found a file, wanted the directory that a campaign left")
    if not path.is_dir():
        raise BadInput(f"{path}: no such store; make one with `vtare run PLAN --store {path}`")
    missing = [name for name in ("plan.toml", "design.parquet", "journal.sqlite", "runs") if not (path / name).exists()]
    if missing:
        raise BadInput(f"{path}: not a store of vtare ({', '.join(missing)} missing); make one with `vtare run PLAN`")
    try:
        text = (path / "plan.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path / 'plan.toml'}: cannot read the plan: {error}") from error
    runs, seed = read_design(path / "design.parquet")
    return parse_plan(text, source=path / "plan.toml", contract=contract), runs, seed


def default_store(plan_name: str, parent: Path = DEFAULT_PARENT) -> Path:
    """Return the first free store for a plan: `vtare-store/NAME`, then `NAME-2`, `NAME-3`, ..."""
    candidate = parent / plan_name
    number = 2
    while candidate.exists():
        candidate = parent / f"{plan_name}-{number}"
        number += 1
    return candidate


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise BadInput(f"{path}: {_holder(path)} runs a campaign in this store; wait for it or end it") from error
    except OSError as error:
        os.close(descriptor)
        raise BadInput(
            f"{path}: this file system cannot lock a directory ({error.strerror}); use a local disk"
        ) from error
    return descriptor


def _holder(path: Path) -> str:
    with suppress(BadInput), Journal(path / "journal.sqlite", read_only=True) as journal:
        pid = journal.meta("holder_pid")
        if pid is not None:
            return f"process {pid}"
    return "another process"
