"""What is derived from a store: written whole or not at all, beside it or, where it cannot be written, in a cache."""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Derived:
    """Where the files derived from a store go; `reason` is why not into the store itself, None where they do."""

    directory: Path
    reason: str | None = None


def derived_place(store: Path, reason: str | None) -> Derived:
    """The place of derived files: the store, or for a `reason` not to write there, its directory in the cache."""
    return Derived(store) if reason is None else Derived(_cache() / _name(store), reason)


def _cache() -> Path:
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The specification of the variable: a relative path is ignored.
    root = named if named.is_absolute() else Path(os.path.expanduser("~")) / ".cache"
    return root / "vtare" / "stores"


def _name(store: Path) -> str:
    """A name for a store that others of the same name do not have."""
    place = store.resolve()
    return f"{place.name[:100]}-{hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside it, fsync, and rename it into place. A link there is replaced.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    # A name that nobody can know beforehand, and a file that is made here: whoever prepared the directory cannot
    # have laid a link there.
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}.partial")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
