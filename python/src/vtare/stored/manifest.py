"""The checksums of one run: `files.sha256` in its directory, written before the directory gets its final name.

The format is that of sha256sum(1): `cd runs/RUN_ID && sha256sum -c files.sha256` checks it, too.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Final

from vtare.stored.paths import open_regular, read_regular

MANIFEST: Final = "files.sha256"
_LINE: Final = re.compile(rb"(?P<escaped>\\?)(?P<digest>[0-9a-f]{64})  (?P<name>[^\n]+)")


def manifest_of(directory: Path) -> bytes:
    """The checksums of every file below a directory, by name; those of a manifest itself are left out.

    Raises:
        OSError: a file cannot be read, or is no ordinary one.
    """
    names = []
    for place, _, files in os.walk(directory):
        names += [os.path.relpath(os.path.join(place, name), directory) for name in files]
    return b"".join(_line(directory, name) for name in sorted(names) if name != MANIFEST)


def damage(directory: Path) -> str | None:
    """What differs from a run's manifest, in words; None where every file that it lists is as it was written.

    Raises:
        FileNotFoundError: there is no manifest: an older version of vtare made the run.
        OSError: the manifest cannot be read.
    """
    lines = read_regular(directory / MANIFEST).split(b"\n")
    if lines.pop() != b"" or not lines:
        return f"{MANIFEST} was cut short"
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            return f"{MANIFEST} holds a line that is no checksum"
        name = os.fsdecode(_unescaped(match["name"]) if match["escaped"] else match["name"])
        if name.startswith("/") or ".." in name.split("/"):
            return f"{MANIFEST} names {name!r}, which is not in the directory of the run"
        try:
            digest = _digest(directory / name)
        except FileNotFoundError:
            return f"{name} is missing"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror or error})"
        if digest.encode() != match["digest"]:
            return f"{name} is not what was written (its checksum differs)"
    return None


def _line(directory: Path, name: str) -> bytes:
    raw = os.fsencode(name)
    escaped = raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    mark = b"\\" if escaped != raw else b""
    return mark + _digest(directory / name).encode() + b"  " + escaped + b"\n"


def _unescaped(name: bytes) -> bytes:
    return re.sub(rb"\\([\\nr])", lambda found: {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}[found[1]], name)


def _digest(path: Path) -> str:
    with os.fdopen(open_regular(path), "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
