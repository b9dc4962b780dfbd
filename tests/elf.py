"""The part of an ELF file that shows whether a program is static."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_PT_DYNAMIC, _PT_INTERP = 2, 3
_DT_NULL, _DT_NEEDED = 0, 1


@dataclass(frozen=True)
class Linkage:
    """What a program needs at run time: an interpreter (the dynamic linker) and a number of shared libraries."""

    interpreter: bool
    libraries: int

    @property
    def static(self) -> bool:
        """Needs neither: it starts in an empty root file system."""
        return not self.interpreter and self.libraries == 0


def linkage(image: bytes) -> Linkage:
    """Read the program headers of a 64-bit little-endian ELF `image`.

    Raises:
        ValueError: not such a file.
    """
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{image[:6]!r} does not begin a 64-bit little-endian ELF file")
    table, size, count = struct.unpack_from("<Q", image, 32)[0], *struct.unpack_from("<HH", image, 54)
    interpreter, libraries = False, 0
    for position in range(table, table + size * count, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", image, position)
        interpreter = interpreter or kind == _PT_INTERP
        if kind == _PT_DYNAMIC:
            for tag, _ in struct.iter_unpack("<qQ", image[offset : offset + length]):
                if tag == _DT_NULL:
                    break
                libraries += tag == _DT_NEEDED
    return Linkage(interpreter, libraries)
