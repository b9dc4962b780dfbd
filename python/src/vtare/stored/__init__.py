"""Files of a store that may have come from somebody else, or been damaged since: read, checked and written safely."""

from __future__ import annotations

from vtare.process import write_whole
from vtare.stored.manifest import MANIFEST, damage, manifest_of
from vtare.stored.outputs import Derived, derived_place
from vtare.stored.paths import (
    MOST_TEXT_BYTE,
    is_run_id,
    kind_of,
    odd_entry,
    open_regular,
    parse_json,
    plain_line,
    plain_text,
    plain_values,
    read_named,
    read_regular,
)

__all__ = [
    "MANIFEST",
    "MOST_TEXT_BYTE",
    "Derived",
    "damage",
    "derived_place",
    "is_run_id",
    "kind_of",
    "manifest_of",
    "odd_entry",
    "open_regular",
    "parse_json",
    "plain_line",
    "plain_text",
    "plain_values",
    "read_named",
    "read_regular",
    "write_whole",
]
