"""What a program in a guest writes: kept in files here, and compared with what the agent states it has passed on."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.frames import Kind
from vtare.platforms.intake import MOST_OUTPUT_BYTE, printable

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO


class Output:
    """Two files, opened for adding to. Only one thread may call."""

    def __init__(self, stdout: Path, stderr: Path) -> None:
        """Open them. Raises OSError where one cannot be opened."""
        self._files: dict[Kind, BinaryIO] = {Kind.STDOUT: stdout.open("ab", buffering=0)}
        self._files[Kind.STDERR] = stderr.open("ab", buffering=0)
        self._came = {kind: (0, 0) for kind in self._files}
        self._unwritten: Exception | None = None

    def keep(self, kind: Kind, piece: bytes) -> None:
        """Add what came of one stream. What cannot be written is shown by `lost`.

        Raises:
            GuestFailed: it is more than a program may print.
        """
        byte, check = self._came[kind]
        if byte + len(piece) > MOST_OUTPUT_BYTE:
            raise GuestFailed(f"more than {MOST_OUTPUT_BYTE} B on {kind.name.lower()} of a program")
        self._came[kind] = byte + len(piece), zlib.crc32(piece, check)
        try:
            while piece:
                piece = piece[self._files[kind].write(piece) :]
        except (OSError, ValueError) as error:
            # ValueError: closed, since the lab no longer waits for the program.
            self._unwritten = error

    def lost(self, sent: dict[str, Any]) -> str | None:
        """What is missing or changed, in words; None where all came. `sent`: byte, crc32 and error of each stream."""
        if self._unwritten is not None:
            return f"what it wrote cannot be kept here: {self._unwritten}"
        wrong = []
        for kind, (byte, check) in self._came.items():
            name = kind.name.lower()
            figures = sent.get(name)
            if not isinstance(figures, dict) or not {"byte", "crc32"} <= figures.keys():
                return f"its agent reports {printable(figures)} of {name}, not byte and crc32"
            sent_byte = printable(figures["byte"])
            if figures.get("error") is not None:
                wrong.append(f"its agent could not read {name} behind {sent_byte} B: {printable(figures['error'])}")
            elif figures["byte"] != byte:
                wrong.append(f"of {sent_byte} B of {name} {byte} B came")
            elif figures["crc32"] != check:
                wrong.append(f"{byte} B of {name} came with CRC-32 {check}, sent was {printable(figures['crc32'])}")
        return "; ".join(wrong) or None

    def note(self, line: str) -> None:
        """Add a line of the lab's own to stderr's file."""
        with suppress(OSError, ValueError):
            self._files[Kind.STDERR].write(f"{line}\n".encode())

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
