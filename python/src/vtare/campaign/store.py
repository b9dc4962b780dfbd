"""A store: the directory a campaign leaves, and the only place it writes to.

    STORE/plan.toml, design.parquet, journal.sqlite,
    STORE/runs/<run_id>/{run.json, samples.parquet, load.json, log, files.sha256}

A store appears whole (built under a temporary name, fsynced, renamed) and each run in it appears whole. A lock on the
directory keeps a second campaign out. What was damaged since is moved to STORE/damaged, never removed.

A store may come from somebody else: its parts must be ordinary files and directories, no link is followed, run ids are
16 hexadecimal digits, and what is carried out is what its plan states.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from vtare import __version__
from vtare.campaign.condition import Conditions, conditions
from vtare.campaign.files import Files
from vtare.campaign.journal import BESIDE, Entry, Journal
from vtare.design import Design, Run, check_levels, check_plan, check_rows, make_design, read_design, write_design
from vtare.errors import BadInput
from vtare.plan.files import parse_plan
from vtare.plan.model import Plan
from vtare.stored.paths import kind_of, read_regular

if TYPE_CHECKING:
    from types import TracebackType

    from vtare.contract import Contract

DEFAULT_PARENT: Final = Path("vtare-store")
#: The key that sender and responder of a run share, in the run's directory while it executes.
KEY_NAME: Final = "key"
TEMPORARY: Final = ".tmp-"
#: Labs that begin the same store at once come one after the other.
_TRIES: Final = 20
_ROOM_NEEDED_BYTE: Final = 1_000_000
_PARTS: Final = {"plan.toml": "file", "design.parquet": "file", "journal.sqlite": "file", "runs": "directory"}


@dataclass(frozen=True, slots=True)
class Tidied:
    """What was found in a store before its campaign goes on.

    `removed` counts what killed runs left. `adopted` are whole runs that the journal lacked, `missing` those that it
    alone had. `set_aside` states for each damaged run what was wrong; it lies in STORE/damaged and is made again.
    """

    conditions: Conditions
    removed: int
    adopted: tuple[str, ...]
    missing: tuple[str, ...]
    set_aside: dict[str, str]


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
        _refuse_a_campaign(path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise BadInput(f"{path}: exists and is not an empty directory; name another --store")
        partial = path.parent / f".{path.name}.partial"
        lock_fd = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock_fd = _lock_partial(partial, path, files)
            files.write(partial / "plan.toml", plan.text.encode())
            runs = make_design(plan, seed)
            write_design(
                partial / "design.parquet", runs, plan.labels, seed=seed, program=__version__, plan_text=plan.text
            )
            files.make_directory(partial / "runs")
            try:
                with Journal(partial / "journal.sqlite") as journal:
                    journal.set_meta("program", __version__)
            except BadInput as error:
                # No repair helps a journal that is new.
                raise OSError(errno.EIO, f"its journal cannot be written ({error.__cause__})") from error
            files.sync_tree(partial)
            if files.free_byte(partial) < _ROOM_NEEDED_BYTE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            files.publish(partial, path)
        except OSError as error:
            # Without its lock it may be another lab's.
            if lock_fd >= 0:
                with suppress(OSError):
                    files.remove_tree(partial)
                os.close(lock_fd)
            raise BadInput(f"{path}: cannot make a store here: {error.strerror}; name another --store") from error
        return cls(path, plan, runs, seed, lock_fd, files)

    @classmethod
    def open(cls, path: Path, *, files: Files | None = None, contract: Contract | None = None) -> Self:
        """Open and lock an existing store, to go on with its campaign.

        Raises:
            BadInput: no store, another campaign holds it, or it cannot be written.
        """
        plan, runs, seed = _read_checked(path, ("journal.sqlite",), contract)
        lock_fd = lock_store(path)
        try:
            remove_keys(path)
            return cls(path, plan, runs, seed, lock_fd, files or Files())
        except BaseException:
            os.close(lock_fd)
            raise

    @classmethod
    def repair(cls, path: Path, *, files: Files | None = None) -> Self:
        """Open a store whose journal may be missing or damaged: it is then set aside, and an empty one made.

        `tidy` fills it from the finished runs.

        Raises:
            BadInput: no store, another campaign holds it, or it cannot be written.
        """
        plan, runs, seed = _read_checked(path, (), None)
        files = files or Files()
        lock_fd = lock_store(path)
        try:
            remove_keys(path)
            journal = path / "journal.sqlite"
            try:
                with Journal(journal, read_only=True) as checked:
                    checked.check()
                    checked.entries()
                    checked.stopped()
            except BadInput:
                for name in (journal.name, *(f"{journal.name}{end}" for end in (*BESIDE, "-journal"))):
                    if kind_of(path / name) is not None:
                        _set_aside(files, path / name, path)
                with Journal(journal) as made:
                    made.set_meta("program", __version__)
            return cls(path, plan, runs, seed, lock_fd, files)
        except BaseException:
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
        return self.path / "runs" / f"{TEMPORARY}{run_id}"

    def tidy(self) -> Tidied:
        """Make journal and directories agree after a kill, a copy or damage, and return what was found.

        A whole run that the journal lacks is adopted: its row was lost, not its samples. A damaged one is set aside
        and its row forgotten, as is the row of a run that is not there: both are made again.

        Raises:
            BadInput: a directory cannot be read, changed or moved.
        """
        try:
            return self._tidy()
        except OSError as error:
            raise BadInput(
                f"{error.filename or self.path}: {error.strerror or error}; give yourself access to the store, then "
                f"`vtare resume {self.path}`"
            ) from error

    def _tidy(self) -> Tidied:
        removed = 0
        for path in sorted((self.path / "runs").iterdir()):
            if path.name.startswith(TEMPORARY):
                self.files.remove_tree(path)
                removed += 1
        checked = conditions(self.path, self.runs)
        entries = self.journal.entries()
        done = {run_id for run_id, entry in entries.items() if entry.status == "done"}
        for run_id in checked.damaged:
            _set_aside(self.files, self.directory(run_id), self.path)
            self.journal.forget(run_id)
        missing = tuple(run.run_id for run in self.runs if run.run_id in done and run.run_id not in checked.reasons)
        for run_id in missing:
            self.journal.forget(run_id)
        adopted = tuple(run_id for run_id in checked.whole if run_id not in done)
        for run_id in adopted:
            self.journal.record(Entry(run_id, "done", None, None, None, None))
        return Tidied(checked, removed, adopted, missing, checked.damaged)


def _set_aside(files: Files, path: Path, store: Path) -> None:
    damaged = store / "damaged"
    kind = kind_of(damaged)
    if kind is None:
        files.make_directory(damaged)
    elif kind != "directory":
        raise BadInput(f"{damaged} is a {kind}, but vtare keeps damaged runs in a directory of that name: move it away")
    files.set_aside(path, damaged)


def read_store(path: Path, *, contract: Contract | None = None) -> tuple[Plan, tuple[Run, ...], int]:
    """Return plan, runs and seed of a store, without locking it: reading is safe while a campaign writes.

    Raises:
        BadInput: the path is no store, or plan and design do not belong together.
    """
    plan, runs, seed, _ = _read(path, ("journal.sqlite",), contract)
    return plan, runs, seed


def read_for_check(path: Path) -> tuple[Plan, tuple[Run, ...]]:
    """Return plan and runs of a store whose journal may be missing; each run is what the plan states.

    Raises:
        BadInput: the path is no store, or plan and design do not belong together.
    """
    plan, runs, _ = _read_checked(path, (), None)
    return plan, runs


def _read_checked(path: Path, needed: tuple[str, ...], contract: Contract | None) -> tuple[Plan, tuple[Run, ...], int]:
    plan, runs, seed, design = _read(path, needed, contract)
    check_rows(design, plan, path / "design.parquet")
    return plan, runs, seed


def _read(path: Path, needed: tuple[str, ...], contract: Contract | None) -> tuple[Plan, tuple[Run, ...], int, Design]:
    """Read plan and design of a store that has these parts besides."""
    text = read_plan_text(path, needed)
    design = read_design(path / "design.parquet")
    check_plan(design, text, path / "plan.toml")
    plan = parse_plan(text, source=path / "plan.toml", contract=contract)
    check_levels(design, plan, path / "design.parquet")
    return plan, design.runs, design.seed, design


def read_plan_text(path: Path, needed: tuple[str, ...] = ("journal.sqlite",)) -> str:
    """Return the text of a store's plan. `needed` are parts that the store has besides plan, design and runs.

    Raises:
        BadInput: the path is no store, or a part is missing or no ordinary file or directory.
    """
    try:
        _refuse_odd_parts(path, needed)
        return read_regular(path / "plan.toml").decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path / 'plan.toml'}: cannot read the plan: {error}") from error
    except OSError as error:
        raise BadInput(f"{path}: cannot read this store: {error.strerror or error}") from error


def _refuse_odd_parts(path: Path, needed: tuple[str, ...]) -> None:
    """Refuse what is no store, or has a part that is no ordinary file or directory. The path itself may be a link."""
    if path.exists() and not path.is_dir():
        raise BadInput(f"{path} is a file: name the directory that a campaign left")
    if not path.is_dir():
        raise BadInput(f"{path}: no such store; make one with `vtare run PLAN --store {path}`")
    kinds = {name: kind_of(path / name) for name in _PARTS}
    missing = [name for name, kind in kinds.items() if kind is None and (name != "journal.sqlite" or name in needed)]
    if missing == ["journal.sqlite"]:
        raise BadInput(
            f"{path}: the journal of this store is missing (journal.sqlite); `vtare verify {path} --repair` makes it "
            "from the finished runs"
        )
    if missing:
        raise BadInput(f"{path}: not a store of vtare ({', '.join(missing)} missing); make one with `vtare run PLAN`")
    for name, kind in kinds.items():
        if kind not in (None, _PARTS[name]):
            raise BadInput(
                f"{path / name} is a {kind}, not a {_PARTS[name]}: vtare follows no link in a store, which may come "
                "from somebody else; put what it names in its place"
            )


def remove_keys(path: Path) -> None:
    """Remove the keys that killed runs of a store left. Whoever calls it holds the lock, or knows that nobody does."""
    with suppress(OSError):
        for temporary in (path / "runs").iterdir():
            if temporary.name.startswith(TEMPORARY) and kind_of(temporary) == "directory":
                (temporary / KEY_NAME).unlink(missing_ok=True)


def forget_keys(path: Path) -> None:
    """Remove the keys that killed runs left, where no campaign works in this store; one that cannot be read is left."""
    if kind_of(path / "runs") != "directory":
        return
    with suppress(BadInput, OSError):
        descriptor = lock_store(path, to_write=False)
        try:
            remove_keys(path)
        finally:
            os.close(descriptor)


def default_store(plan_name: str, parent: Path = DEFAULT_PARENT) -> Path:
    """Return the first free store for a plan: `vtare-store/NAME`, then `NAME-2`, `NAME-3`, ..."""
    candidate = parent / plan_name
    number = 2
    while candidate.exists():
        candidate = parent / f"{plan_name}-{number}"
        number += 1
    return candidate


def lock_store(path: Path, *, to_write: bool = True) -> int:
    """Lock a store and return the descriptor that holds the lock until it is closed.

    Raises:
        BadInput: another process holds it, or it cannot be locked or, where it is `to_write`, written.
    """
    if to_write and not (os.access(path, os.W_OK | os.X_OK) and os.access(path / "runs", os.W_OK | os.X_OK)):
        raise BadInput(f"{path}: cannot write to this store; give yourself write access or copy it elsewhere")
    return _lock(path)


def _refuse_a_campaign(path: Path) -> None:
    if (path / "design.parquet").exists():
        raise BadInput(f"{path}: already holds a campaign; resume it (`vtare resume {path}`) or name another --store")


def _lock_partial(partial: Path, path: Path, files: Files) -> int:
    """Make the directory in which a store is prepared, for this process alone; what a killed lab left in it is removed.

    Raises:
        BadInput: another lab prepares this store, or has made it meanwhile.
        OSError: it cannot be made.
    """
    for _ in range(_TRIES):
        with suppress(FileExistsError):
            files.make_directory(partial)
        try:
            descriptor = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            # Another lab has just put it in its place.
            continue
        except NotADirectoryError:
            files.remove_tree(partial)
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if partial.exists() and os.path.samestat(os.fstat(descriptor), partial.stat()):
                _refuse_a_campaign(path)
                for left in sorted(partial.iterdir()):
                    files.remove_tree(left)
                return descriptor
        except BlockingIOError as error:
            os.close(descriptor)
            raise BadInput(
                f"{path}: another lab is making a store there; wait for it or name another --store"
            ) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise BadInput(f"{path}: other labs keep making stores there; name another --store")


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
