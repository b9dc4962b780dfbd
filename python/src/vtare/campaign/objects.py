"""A store on S3, or on what speaks its protocol: `s3://BUCKET/NAME`, with a working copy on this machine.

A campaign works on the copy, as on any store, and puts what is whole: of a run its files and, last, their checksums,
which are the mark that it is whole; of the journal a snapshot, every few seconds and at the end. A reader fetches plan,
design and journal, and the runs with a mark that its copy lacks. The object `lock.json` keeps a second campaign out.

What a copy alone has (its lab was killed, or S3 was out of reach) is put when its campaign goes on.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.campaign.files import Files
from vtare.campaign.journal import BESIDE
from vtare.campaign.store import TEMPORARY, lock_store
from vtare.errors import BadInput, CampaignStopped, VtareError
from vtare.platforms.notes import state_directory
from vtare.platforms.owner import own_prefix, still_runs
from vtare.process import write_whole
from vtare.stored.manifest import MANIFEST, damage
from vtare.stored.paths import is_run_id, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

S3: Final = "s3://"
#: What a reader needs to see the progress of a campaign; the plan is put last.
_STATE: Final = ("design.parquet", "journal.sqlite", "plan.toml")
_LOCK: Final = "lock.json"
#: The journal is put at most this often.
_JOURNAL_S: Final = 10.0
#: Requests at a time: each waits for the network.
_AT_ONCE: Final = 16
#: The longest name of a file of a run, and how many one may have: what else lies there was not put by vtare.
_MOST_NAME, _MOST_FILES = 100, 1000
_known: Final[dict[Path, ObjectStore]] = {}


def place_of(text: str) -> Path:
    """The directory of a store that is named on the command line: of one on S3, its working copy.

    Raises:
        BadInput: a store on S3 is named without a bucket and a name.
    """
    path = Path(text)
    if text.startswith(S3):
        bucket, _, name = text.removeprefix(S3).strip("/").partition("/")
        if not bucket or not name:
            raise BadInput(f"'{text}' is not a store on S3: use s3://BUCKET/NAME")
        path = _place(f"{S3}{bucket}/{name}")
    elif path.absolute().parent.parent == state_directory("s3") and (origin := path.parent / "origin").is_file():
        text = origin.read_text(encoding="utf-8")
    else:
        return path
    _known.setdefault(path, ObjectStore(text.rstrip("/"), path))
    return path


def _place(url: str) -> Path:
    name = f"{url.rpartition('/')[2][:100]}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
    return state_directory("s3") / name / "store"


def named(text: str) -> str:
    """A message in which stores on S3 are named as such, not by their working copies."""
    for path, remote in _known.items():
        text = text.replace(str(path), remote.url)
    return text


def fetch(path: Path, *, runs: bool = True) -> None:
    """Bring what a store on S3 has into its working copy; with `runs` all whole ones, else how far it is alone.

    Nothing is done for any other store, nor while a campaign of this machine works in the copy, which is ahead then.

    Raises:
        BadInput: there is no such store, or S3 is out of reach.
    """
    remote = _known.get(path)
    if remote is None:
        return
    if path.is_dir():
        try:
            descriptor = lock_store(path, to_write=False)
        except BadInput:
            return
        os.close(descriptor)
    if not remote.fetch_state():
        raise BadInput(f"{remote.url}: no such store; make one with `vtare run PLAN --store {remote.url}`")
    if runs:
        remote.fetch_runs(remote.listed())


@contextmanager
def at_work(path: Path) -> Iterator[Files]:
    """Lock a store on S3 and keep it as its working copy is: the operations by which a campaign writes the copy.

    Any other store is written by the usual ones.

    Raises:
        BadInput: another campaign works in it, or S3 is out of reach.
    """
    remote = _known.get(path)
    if remote is None:
        yield Files()
        return
    remote.lock()
    try:
        listed = remote.listed()
        if remote.fetch_state():
            remote.fetch_runs(listed)
        files = _CopiedFiles(remote)
        files.put_missing(listed)
        try:
            yield files
        finally:
            if kind_of(path / "plan.toml") == "file":
                remote.put_state()
    finally:
        remote.unlock()


class _CopiedFiles(Files):
    """Operations after which S3 has what the working copy has."""

    def __init__(self, store: ObjectStore) -> None:
        """Put nothing yet."""
        self._store = store
        self._journal_at_s = time.monotonic()

    def put_missing(self, listed: dict[str, list[str]]) -> None:
        """Put the whole runs that the copy alone has, and where S3 has no store yet, all of it."""
        path = self._store.path
        if kind_of(path / "plan.toml") != "file":
            return
        for directory in sorted((path / "runs").iterdir()):
            if is_run_id(directory.name) and MANIFEST not in listed.get(directory.name, ()):
                with suppress(OSError):
                    if damage(directory) is None:
                        self._store.put_run(directory)
        self._store.put_state()

    def make_directory(self, path: Path) -> None:
        """See `Files.make_directory`."""
        super().make_directory(path)
        self._put_journal()

    def publish(self, temporary: Path, final: Path) -> None:
        """See `Files.publish`: what has its name here is put."""
        super().publish(temporary, final)
        if final.resolve() == self._store.path.resolve():
            self._store.put_state()
        elif is_run_id(final.name):
            self._store.put_run(final)
            self._put_journal()

    def set_aside(self, path: Path, directory: Path) -> Path:
        """See `Files.set_aside`: a damaged run is whole nowhere."""
        self._store.remove_mark(path.name)
        return super().set_aside(path, directory)

    def _put_journal(self) -> None:
        if time.monotonic() - self._journal_at_s >= _JOURNAL_S and (self._store.path / "plan.toml").exists():
            self._store.check_lock()
            self._store.put("journal.sqlite", self._store.journal())
            self._journal_at_s = time.monotonic()


class ObjectStore:
    """The objects of one store, and its working copy. Each method raises VtareError where S3 refuses."""

    def __init__(self, url: str, path: Path) -> None:
        """Name it; nothing is connected yet."""
        self.url = url
        self.path = path
        self._opened: tuple[Any, Any] | None = None
        self._lock_tag: str | None = None

    def put(self, name: str, content: bytes | Path, **options: Any) -> Any:
        """Put one object, which appears whole."""
        return self._asked(lambda library, store: library.put(store, name, content, **options))

    def get(self, name: str) -> bytes | None:
        """Get one object; None where there is none."""
        content: bytes | None = self._asked(
            lambda library, store: bytes(library.get(store, name).bytes()), missing=None
        )
        return content

    def put_state(self) -> None:
        """Put plan, design and journal."""
        for name in _STATE:
            self.put(name, self.journal() if name == "journal.sqlite" else self.path / name)

    def fetch_state(self) -> bool:
        """Get plan, design and journal; whether they are there."""
        with ThreadPoolExecutor(len(_STATE)) as pool:
            contents = dict(zip(_STATE, pool.map(self.get, _STATE), strict=True))
        if None in contents.values():
            return False
        self.path.joinpath("runs").mkdir(parents=True, exist_ok=True)
        write_whole(self.path.parent / "origin", self.url.encode())
        for end in BESIDE:
            (self.path / f"journal.sqlite{end}").unlink(missing_ok=True)
        for name, content in contents.items():
            write_whole(self.path / name, content or b"")
        return True

    def journal(self) -> bytes:
        """A snapshot of the journal, whoever writes it."""
        place = self.path / "journal.sqlite"
        with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True, timeout=10)) as connection:
            return connection.serialize()

    def put_run(self, directory: Path) -> None:
        """Put a whole run: its files, then the mark."""
        names = sorted(path.name for path in directory.iterdir() if path.name != MANIFEST)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda name: self.put(f"runs/{directory.name}/{name}", directory / name), names))
        self.put(f"runs/{directory.name}/{MANIFEST}", directory / MANIFEST)

    def remove_mark(self, run_id: str) -> None:
        """Let a run be whole no more."""
        if is_run_id(run_id):
            name = f"runs/{run_id}/{MANIFEST}"
            self._asked(lambda library, store: library.delete(store, name), missing=None)

    def listed(self) -> dict[str, list[str]]:
        """The names of the files of each run that has any."""

        def names(library: Any, store: Any) -> list[str]:
            return [entry["path"] for chunk in library.list(store, prefix="runs") for entry in chunk]

        runs: dict[str, list[str]] = {}
        for name in self._asked(names):
            parts = name.split("/")[-3:]
            # Somebody else may have put objects there: no name leads out of the copy.
            if len(parts) == 3 and is_run_id(parts[1]) and parts[2].strip(".") and len(parts[2]) <= _MOST_NAME:
                runs.setdefault(parts[1], []).append(parts[2])
        return {run_id: files for run_id, files in runs.items() if len(files) <= _MOST_FILES}

    def fetch_runs(self, listed: dict[str, list[str]]) -> None:
        """Get the whole runs that the copy lacks. One that is being put anew is left for the next time."""
        lacking = [
            run_id
            for run_id, names in listed.items()
            if MANIFEST in names and kind_of(self.path / "runs" / run_id) is None
        ]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda run_id: self._fetch_run(run_id, listed[run_id]), lacking))

    def _fetch_run(self, run_id: str, names: list[str]) -> None:
        files, temporary = Files(), self.path / "runs" / f"{TEMPORARY}{run_id}"
        files.remove_tree(temporary)
        files.make_directory(temporary)
        try:
            for name in names:
                (temporary / name).write_bytes(self.get(f"runs/{run_id}/{name}") or b"")
            if damage(temporary) is None:
                temporary.rename(self.path / "runs" / run_id)
        finally:
            files.remove_tree(temporary)

    def lock(self) -> None:
        """Keep other campaigns out.

        Raises:
            BadInput: another one works in this store, or its lab was killed on another machine.
        """
        about = {"owner": own_prefix(), "host": socket.gethostname(), "boot": _boot(), "pid": os.getpid()}
        about["token"] = secrets.token_hex(8)
        content = json.dumps(about).encode()
        if (tag := self._try_lock(content, "create")) is None:
            held, held_tag = self._holder()
            if held == about:
                # The answer to what was put was lost, and it was put once more.
                tag = held_tag
            elif held is not None and held.get("boot") == _boot() and still_runs(str(held.get("owner"))) is None:
                tag = self._try_lock(content, {"e_tag": held_tag})
            if tag is None:
                who = "another lab" if held is None else f"process {held.get('pid')} on {held.get('host')}"
                raise BadInput(
                    f"{self.url}: {who} runs a campaign in this store; wait for it or end it; where that machine is "
                    f"gone, remove the lock with `aws s3 rm {self.url}/{_LOCK}`"
                )
        self._lock_tag = tag

    def _try_lock(self, content: bytes, mode: Any) -> str | None:
        """Put the lock if nobody did (`create`), or it is still that of a tag. Its tag; None where it is another's."""

        def put(library: Any, store: Any) -> str | None:
            refused = (library.exceptions.AlreadyExistsError, library.exceptions.PreconditionError)
            try:
                return str(library.put(store, _LOCK, content, mode=mode)["e_tag"])
            except refused:
                return None

        tag: str | None = self._asked(put)
        return tag

    def _holder(self) -> tuple[dict[str, Any] | None, str | None]:
        """What the lock states, and its tag."""

        def get(library: Any, store: Any) -> tuple[bytes, str]:
            lock = library.get(store, _LOCK)
            return bytes(lock.bytes()), str(lock.meta["e_tag"])

        content, tag = self._asked(get, missing=(b"", None))
        with suppress(ValueError):
            document = json.loads(content)
            if isinstance(document, dict):
                return document, tag
        return None, tag

    def check_lock(self) -> None:
        """Find out that the lock is still ours.

        Raises:
            CampaignStopped: it was removed, or another lab has it.
        """
        if self._holder()[1] != self._lock_tag:
            raise CampaignStopped(
                f"{self.url}: the lock of this campaign was removed, another may work in the store; end that one, then "
                f"`vtare resume {self.url}`"
            )

    def unlock(self) -> None:
        """Let others work in the store."""
        with suppress(VtareError):
            if self._holder()[1] == self._lock_tag:
                self._asked(lambda library, store: library.delete(store, _LOCK))

    def _asked(self, ask: Callable[[Any, Any], Any], **missing: Any) -> Any:
        """What S3 answers; `missing` is given where there is no such object."""
        library, store = self._connected()
        try:
            return ask(library, store)
        except (library.exceptions.NotFoundError, FileNotFoundError) as error:
            if "missing" in missing:
                return missing["missing"]
            raise self._refused(error) from error
        except library.exceptions.BaseError as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> VtareError:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return CampaignStopped(
            f"{self.url}: {lines[0][:300] if lines else type(error).__name__}; see that the bucket is there and that "
            "AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are right; whole runs are kept "
            f"in {self.path.parent}, and `vtare resume {self.url}` puts them"
        )

    def _connected(self) -> tuple[Any, Any]:
        if self._opened is None:
            try:
                library = import_module("obstore")
            except ImportError as error:
                raise BadInput(
                    f"{self.url}: stores on S3 need the package 'obstore': install it with pip install obstore"
                ) from error
            plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
            options = {"allow_http": True} if plain else {}
            self._opened = library, library.store.S3Store.from_url(self.url, client_options=options)
        return self._opened


def _boot() -> str:
    """What distinguishes this start of this machine from all others."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return socket.gethostname()
