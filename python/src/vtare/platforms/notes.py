"""Notes of machines that were made elsewhere: they must not be forgotten, whatever becomes of the lab process.

Before such a machine is made, a note of it is written under the user's state directory, and stays until the machine is
deleted. `vtare clean` finds the machines of gone lab processes by these notes. A note states how to reach what made the
machine, but holds no secret.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtare.errors import PlatformFailed
from vtare.platforms.owner import Leftover, owner_of, still_runs
from vtare.process import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class PlatformNotes:
    """The notes of one kind of platform: `$XDG_STATE_HOME/vtare/KIND`, else `~/.local/state/vtare/KIND`."""

    def __init__(self, kind: str) -> None:
        """Use this kind's notes; nothing is written yet."""
        self._kind = kind

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Note a machine, or note it anew: on the disk, whole or not at all. Raises OSError where that fails."""
        place = self._place()
        place.mkdir(parents=True, exist_ok=True)
        write_whole(place / f"{name}.json", json.dumps(dict(document)).encode())

    def read(self, name: str) -> dict[str, Any] | None:
        """The note of a machine; None where there is none (any more).

        Raises:
            PlatformFailed: it cannot be read.
        """
        path = self._place() / f"{name}.json"
        try:
            noted = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise PlatformFailed(
                f"{path}: {error}; look after the machine {name} by hand and delete the note"
            ) from error
        return dict(noted)

    def drop(self, name: str) -> None:
        """The machine is gone."""
        (self._place() / f"{name}.json").unlink(missing_ok=True)

    def leftovers(self, what: str, delete: Callable[[str], None]) -> tuple[Leftover, ...]:
        """What the notes of lab processes name; `delete` deletes a machine by its name."""
        owned = ((name, owner_of(name)) for name in self.names())
        return tuple(Leftover(what, name, still_runs(owner), partial(delete, name)) for name, owner in owned if owner)

    def names(self) -> list[str]:
        """The names of all machines of which there is a note."""
        place = self._place()
        return [note.stem for note in sorted(place.glob("*.json"))] if place.is_dir() else []

    def _place(self) -> Path:
        return state_directory(self._kind)


def state_directory(name: str) -> Path:
    """Where this user's labs keep what outlasts them: `$XDG_STATE_HOME/vtare/NAME`, or `~/.local/state/vtare/NAME`."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "vtare" / name
