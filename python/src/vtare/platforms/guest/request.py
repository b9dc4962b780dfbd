"""One request to a guest's agent: its number, the frames of its answer, and how long they may take."""

from __future__ import annotations

import json
import queue
import time
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import PlatformFailed
from vtare.platforms.guest.errors import GuestFailed, GuestRefused
from vtare.platforms.guest.exchange import ANSWER_S, Exchange
from vtare.platforms.guest.frames import Frame, Kind, document_of
from vtare.platforms.intake import printable

if TYPE_CHECKING:
    from vtare.platforms.intake import Incoming

#: How long a file may take: as long as an answer, and 1 s for each of these bytes. A serial line of an emulated guest
#: passes several times as many.
_SLOWEST_BYTE_PER_S: Final = 1 << 18
#: Frames that answer one request and are not taken yet; an agent sends one, or two with a refusal.
_MOST_WAITING: Final = 16


class GuestRequest:
    """One request and the frames that answer it; a context manager. Pieces of a file go to `incoming` as they come."""

    def __init__(self, agent: Exchange, incoming: Incoming | None = None) -> None:
        """Ask this agent; nothing is sent yet."""
        self._agent = agent
        self._incoming = incoming
        self._failed: Exception | None = None
        self._frames: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self.job = 0

    def __enter__(self) -> GuestRequest:
        """Take a number, under which frames come."""
        self.job = self._agent.listen(self._take)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the number back."""
        self._agent.forget(self.job)

    def _take(self, frame: Frame | None) -> None:
        """Take a frame of the answer. Called by the reading thread."""
        if frame is not None and frame.kind is Kind.DATA and self._incoming is not None and self._failed is None:
            try:
                self._incoming.write(frame.payload)
            except (PlatformFailed, OSError, ValueError) as error:
                self._failed = error
                # Wakes who waits; no more of it is taken.
                self._frames.put(None)
        elif self._failed is None:
            if frame is not None and self._frames.qsize() >= _MOST_WAITING:
                raise GuestFailed(f"more than {_MOST_WAITING} answers to one request")
            self._frames.put(frame)

    def send(self, kind: Kind, document: dict[str, Any]) -> None:
        """Send a frame of this request. Raises GuestFailed where the channel is gone."""
        self._agent.send(kind, self.job, json.dumps(document).encode())

    def receive(self) -> Frame:
        """The next frame of the answer.

        Raises:
            GuestFailed: it does not come within `ANSWER_S`, the guest refuses, or the channel is gone.
        """
        try:
            return self._accepted(self._frames.get(timeout=ANSWER_S))
        except queue.Empty:
            raise GuestFailed(
                f"guest {self._agent.name}: no answer within {ANSWER_S:.0f} s; {self._agent.why_lost()}"
            ) from None

    def receive_whole(self, incoming: Incoming) -> Frame:
        """The frame behind the pieces of a file: waited for while they come, and not for ever."""
        begin = time.monotonic()
        longest_s = ANSWER_S + incoming.most_byte / _SLOWEST_BYTE_PER_S
        while True:
            before = incoming.byte
            try:
                return self._accepted(self._frames.get(timeout=ANSWER_S))
            except queue.Empty:
                taken_s = time.monotonic() - begin
                if incoming.byte == before or taken_s > longest_s:
                    raise GuestFailed(
                        f"guest {self._agent.name}: {incoming.byte} B of a file came within {taken_s:.0f} s, but not "
                        f"its end; {self._agent.why_lost()}"
                    ) from None

    def _accepted(self, frame: Frame | None) -> Frame:
        name = self._agent.name
        if self._failed is not None:
            raise self._failed
        if frame is None:
            raise GuestFailed(f"guest {name}: {self._agent.lost}")
        if frame.kind is Kind.FAILED:
            raise GuestRefused(f"guest {name}: {printable(document_of(frame).get('error'))}")
        return frame

    def answer(self) -> dict[str, Any]:
        """The document that answers. See `receive`."""
        return document_of(self.receive())
