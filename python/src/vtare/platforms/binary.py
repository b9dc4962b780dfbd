"""The binary that goes into containers and onto other machines: static, and the same everywhere by its hash."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_PT_INTERP: Final = 3
#: Where the program header table of a 64-bit ELF file is found: its offset, then the size and number of its entries.
_HEADER: Final = struct.Struct("<32xQ14xHH")


def digest(binary: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises OSError where it cannot be read."""
    with binary.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def not_static(binary: Path) -> str | None:
    """Why a binary cannot run where there is no file but itself, or None where it can."""
    try:
        content = binary.read_bytes()
    except OSError as error:
        return f"{binary}: cannot be read ({error.strerror})"
    if not content.startswith(b"\x7fELF\x02\x01"):
        return f"{binary}: not a 64-bit ELF program; name the static vtare with --binary"
    offset, size, number = _HEADER.unpack_from(content)
    for place in range(offset, offset + size * number, size):
        if content[place : place + 4] == _PT_INTERP.to_bytes(4, "little"):
            return (
                f"{binary}: needs a dynamic loader, which a container or another machine may lack; name the static "
                "vtare with --binary (`make install` builds one)"
            )
    return None
