"""What is derived from a store: beside it or, where it cannot be written, in a cache."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from vtare.places import cache


@dataclass(frozen=True, slots=True)
class Derived:
    """Where the files derived from a store go; `reason` is why not into the store itself, None where they do."""

    directory: Path
    reason: str | None = None


def derived_place(store: Path, reason: str | None) -> Derived:
    """The place of derived files: the store, or for a `reason` not to write there, its directory in the cache."""
    return Derived(store) if reason is None else Derived(cache() / "stores" / _name(store), reason)


def _name(store: Path) -> str:
    """A name for a store that others of the same name do not have."""
    place = store.resolve()
    return f"{place.name[:100]}-{hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}"
