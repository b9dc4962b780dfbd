"""Frames on the control channel, as crates/vtare/src/agent/frame.rs lays them out (docs/internals/guests.md)."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from vtare import documents
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.intake import printable

MAX_PAYLOAD_BYTE: Final = 1 << 16
_MARK: Final = b"vtG1"
_KEPT_BYTE: Final = 4000
_SHOWN_BYTE: Final = 200
_HEAD: Final = struct.Struct("<4sBII")
_CHECK: Final = struct.Struct("<I")
_HEAD_BYTE: Final = _HEAD.size + _CHECK.size
#: What a frame takes on the line beside its payload.
FRAME_BYTE: Final = _HEAD_BYTE + _CHECK.size


class Kind(IntEnum):
    """What a frame states. Up to END the host speaks, from HELLO on the agent; DATA and WHOLE go both ways."""

    START = 1
    SIGNAL = 2
    PUT = 3
    GET = 4
    FACTS = 6
    END = 7
    DATA = 16
    WHOLE = 17
    HELLO = 32
    ANSWER = 33
    FAILED = 34
    STDOUT = 35
    STDERR = 36
    EXITED = 37


@dataclass(frozen=True, slots=True)
class Frame:
    """One message; `job` states which request it belongs to."""

    kind: Kind
    job: int
    payload: bytes


def encode(kind: Kind, job: int, payload: bytes) -> bytes:
    """The bytes on the line: mark, kind, job, length, check of these; payload, check of it. All little-endian.

    Raises:
        ValueError: the payload is longer than `MAX_PAYLOAD_BYTE`.
    """
    if len(payload) > MAX_PAYLOAD_BYTE:
        raise ValueError(f"a frame holds {MAX_PAYLOAD_BYTE} B, not {len(payload)} B")
    head = _HEAD.pack(_MARK, kind, job, len(payload))
    return b"".join((head, _CHECK.pack(zlib.crc32(head)), payload, _CHECK.pack(zlib.crc32(payload))))


class Decoder:
    """Finds frames in a stream of bytes, and never holds more than one.

    `skipped_byte` counts what was no frame, `skipped` is the last of it.
    """

    def __init__(self) -> None:
        """Begin with an empty line."""
        self._held = bytearray()
        self.skipped_byte = 0
        self.skipped = b""

    def take(self, data: bytes) -> list[Frame]:
        """Take bytes as they came, and give the frames that they complete."""
        frames: list[Frame] = []
        noise = bytearray()
        for begin in range(0, len(data), MAX_PAYLOAD_BYTE):
            self._held += data[begin : begin + MAX_PAYLOAD_BYTE]
            at = 0
            while at < len(self._held):
                frame, length = self._look(at)
                if length == 0:
                    break
                if frame is not None:
                    frames.append(frame)
                else:
                    self.skipped_byte += length
                    noise += self._held[at : at + length]
                at += length
            if noise:
                self.skipped = (self.skipped + bytes(noise))[-_KEPT_BYTE:]
                noise.clear()
            del self._held[:at]
        return frames

    def _look(self, at: int) -> tuple[Frame | None, int]:
        """The frame at a place with its length; None and what to skip where there is none; None and 0 to wait."""
        held = self._held
        if not _MARK.startswith(held[at : at + len(_MARK)]):
            following = held.find(_MARK, at + 1)
            if following < 0:
                # The end may be the beginning of a mark.
                begun = next((byte for byte in range(len(_MARK) - 1, 0, -1) if held.endswith(_MARK[:byte])), 0)
                following = len(held) - begun
            return None, following - at
        if len(held) - at < _HEAD_BYTE:
            return None, 0
        _, number, job, length = _HEAD.unpack_from(held, at)
        (check,) = _CHECK.unpack_from(held, at + _HEAD.size)
        if length > MAX_PAYLOAD_BYTE or check != zlib.crc32(held[at : at + _HEAD.size]):
            return None, 1
        whole = _HEAD_BYTE + length + _CHECK.size
        if len(held) - at < whole:
            return None, 0
        payload = bytes(held[at + _HEAD_BYTE : at + _HEAD_BYTE + length])
        (check,) = _CHECK.unpack_from(held, at + _HEAD_BYTE + length)
        try:
            kind = Kind(number)
        except ValueError:
            return None, 1
        return (Frame(kind, job, payload), whole) if check == zlib.crc32(payload) else (None, 1)


def document_of(frame: Frame) -> dict[str, Any]:
    """The document that is a frame's payload.

    Raises:
        GuestFailed: it is none.
    """
    try:
        return documents.parse(frame.payload)
    except documents.BadDocument as error:
        shown = printable(frame.payload[:_SHOWN_BYTE].decode(errors="replace"), 80)
        raise GuestFailed(f"the agent sent {frame.kind.name} with '{shown}': {error}") from None
