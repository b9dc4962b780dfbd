"""The few file operations that a store's safety rests on, in one place so that tests can break each of them."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from vtare.process import sync
from vtare.stored.paths import kind_of

if TYPE_CHECKING:
    from pathlib import Path


class Files:
    """Durable file operations. Every method raises OSError where the system refuses."""

    def make_directory(self, path: Path) -> None:
        """Make one directory; its parent must exist."""
        path.mkdir()

    def write(self, path: Path, content: bytes) -> None:
        """Write a file and bring it to the disk."""
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def sync_tree(self, directory: Path) -> None:
        """Bring every file in a directory, and the directory's own entries, to the disk."""
        for path in sorted(directory.iterdir()):
            self._sync(path)
        self._sync(directory)

    def publish(self, temporary: Path, final: Path) -> None:
        """Rename a finished directory or file into place and bring the rename to the disk."""
        temporary.rename(final)
        self._sync(final.parent)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all it holds; one that is not there is fine. Links are removed, never followed."""
        kind = kind_of(path)
        if kind == "directory":
            # Python walks down by descriptors: nobody can put a link in its way.
            shutil.rmtree(path)
        elif kind is not None:
            path.unlink()

    def set_aside(self, path: Path, directory: Path) -> Path:
        """Move a file, a link or a directory into `directory` under its own name or the next free one; return it."""
        place, number = directory / path.name, 2
        while kind_of(place) is not None:
            place = directory / f"{path.name}-{number}"
            number += 1
        path.rename(place)
        self._sync(directory)
        self._sync(path.parent)
        return place

    def free_byte(self, path: Path) -> int:
        """Return how many bytes an ordinary user may still write below `path`."""
        facts = os.statvfs(path)
        return facts.f_bavail * facts.f_frsize

    def _sync(self, path: Path) -> None:
        sync(path)
