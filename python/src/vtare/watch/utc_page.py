"""The page from which the programs of this machine read UTC, as `vtare clock --witness` keeps it.

The words are those of crates/clock/src/utc_page.rs.
"""

from __future__ import annotations

import os
import stat
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_WORDS: Final = struct.Struct("=13Q")
_SEQUENCE: Final = slice(8, 16)
_MAGIC: Final = int.from_bytes(b"vtareUT\x01", "big")
#: Looks at a page that is being written.
_TRIES: Final = 64
_STEP_NS: Final = 1_000
_OTHERS_WRITE: Final = 0o022
STATUSES: Final = ("synchronized", "free_running", "disrupted", "unknown")


@dataclass(frozen=True, slots=True)
class KeptUtc:
    """What the page states now. What holds only while UTC is vouched for is None at other times."""

    status: str
    generation: int
    width_s: float | None = None
    hosts: int | None = None
    liars: int | None = None


def page_path() -> Path:
    """Where the page is."""
    return Path(os.environ.get("VTARE_UTC_PAGE", "/run/vtare/utc"))


def kept_utc(path: Path, now_ns: int | None = None) -> KeptUtc | None:
    """The page at `now_ns` of CLOCK_MONOTONIC; None where none is kept there, or others than its owner may write it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            facts = os.fstat(descriptor)
            own = facts.st_uid in (0, os.geteuid()) and not facts.st_mode & _OTHERS_WRITE
            words = _words(descriptor) if own and stat.S_ISREG(facts.st_mode) else None
        finally:
            os.close(descriptor)
        return None if words is None else _stated(words, time.monotonic_ns() if now_ns is None else now_ns)
    return None


def _words(descriptor: int) -> tuple[int, ...] | None:
    """The words of a page that is whole."""
    for _ in range(_TRIES):
        page = os.pread(descriptor, _WORDS.size, 0)
        if len(page) < _WORDS.size:
            return None
        words = _WORDS.unpack(page)
        if words[1] % 2 == 0 and os.pread(descriptor, 8, 8) == page[_SEQUENCE]:
            return words if words[0] == _MAGIC else None
    return None


def _stated(words: tuple[int, ...], now_ns: int) -> KeptUtc:
    _, _, begun, at, earliest, latest, slower, faster, until, status, generation, _, votes = words
    name = STATUSES[min(status, len(STATUSES) - 1)]
    if name == "synchronized" and now_ns < begun:
        # The clock was set back, which no round has seen yet.
        name = "disrupted"
    elif name == "synchronized" and now_ns >= until:
        name = "unknown"
    if name != "synchronized":
        return KeptUtc(name, generation)
    grown_ns = max(now_ns - at, 0) * (slower + faster) / 2**32
    width_s = (latest - earliest + grown_ns + 2 * _STEP_NS) / 1e9
    # A daemon of an earlier version counts no hosts.
    hosts, liars = (votes >> 32, votes % 2**32) if votes else (None, None)
    return KeptUtc(name, generation, width_s, hosts, liars)
