"""Where the lab keeps files of its user."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """What can be made again: `$XDG_CACHE_HOME/vtare`, else `~/.cache/vtare`."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The specification of the variable: a relative path is ignored.
    root = named if named.is_absolute() else Path(os.path.expanduser("~")) / ".cache"
    return root / "vtare"
