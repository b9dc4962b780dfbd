"""Frames to and from `vtare agent` in a guest: each that comes goes to who listens for its number.

One thread reads; it sleeps in the kernel while nothing comes, so a measurement is not disturbed. A channel that is lost
ends every program that was started over it.
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.frames import FRAME_BYTE, Decoder, Frame, Kind, document_of, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.platforms.guest.channel import Channel

#: How long an answer may take. An emulated guest on a busy machine needs seconds for what takes milliseconds else.
ANSWER_S: Final = 60.0
_SIGNALS: Final = {signal.SIGINT: "int", signal.SIGTERM: "term", signal.SIGKILL: "kill"}
_SHOWN_BYTE: Final = 200
#: What may come that belongs to no frame or to no question: a console's messages, the rest of an answer that is no
#: longer waited for. A guest that sends more is given up.
MOST_UNASKED_BYTE: Final = 4 << 20


class Exchange:
    """An open channel to one guest's agent."""

    def __init__(self, channel: Channel, name: str, *, why_lost: Callable[[], str] | None = None) -> None:
        """Take over an open channel. `why_lost` states what is known about a guest that went silent."""
        self._channel = channel
        self._name = name
        self.why_lost = why_lost or (lambda: "no more is known")
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._listeners: dict[int, Callable[[Frame | None], None]] = {}
        self._number = 0
        self._lost: str | None = None
        self._hello: dict[str, Any] | None = None
        self._decoder = Decoder()
        self._unasked_byte = 0
        if isinstance(channel, socket.socket):
            # A guest that no longer reads must not hold the lab up.
            channel.settimeout(None)
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(ANSWER_S), 0))
        self._reader = threading.Thread(target=self._read, name=f"agent of {name}", daemon=True)
        self._reader.start()

    def hello(self, timeout_s: float) -> dict[str, Any]:
        """The agent's first words; wait for them.

        Raises:
            GuestFailed: they did not come in time, or the channel is gone.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._hello is not None or self._lost is not None, timeout_s)
            if self._hello is not None:
                return self._hello
            lost = self._lost
        raise GuestFailed(f"guest {self._name}: {lost or f'was not ready within {timeout_s:.0f} s; {self.why_lost()}'}")

    @property
    def name(self) -> str:
        """The guest's name."""
        return self._name

    @property
    def lost(self) -> str | None:
        """Why nothing can be asked any more; None while it can."""
        return self._lost

    @property
    def noise(self) -> bytes:
        """What came last over the channel and was no frame: on a console, what the guest's kernel reported."""
        return self._decoder.skipped

    @property
    def skipped(self) -> str:
        """How much came that was no frame, and the last of it, in words."""
        byte, last = self._decoder.skipped_byte, self._decoder.skipped[-_SHOWN_BYTE:]
        return f"{byte} B came that were no frame, the last {last!r}" if byte else "nothing came that was no frame"

    def signal(self, job: int, number: signal.Signals) -> None:
        """Send a signal to a started program. One that has ended already is fine: what comes of it is not waited for.

        Raises:
            GuestFailed: the channel is gone.
        """
        self.send(Kind.SIGNAL, job, json.dumps({"signal": _SIGNALS[number]}).encode())

    def end(self, timeout_s: float = 2.0) -> None:
        """Ask the guest to end, and wait so long for the channel's end. Whether it did is for the machine to see."""
        with suppress(GuestFailed):
            self.send(Kind.END, 0, b"{}")
            self._reader.join(timeout_s)

    def close(self, why: str = "the lab closed the channel") -> None:
        """Give the channel up. Programs started over it count as killed."""
        self.lose(why)
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._reader:
            self._reader.join(5.0)
        self._channel.close()

    def listen(self, take: Callable[[Frame | None], None]) -> int:
        """Take a number whose frames go to `take`, None where the channel is lost. Raises GuestFailed where it is."""
        with self._changed:
            if self._lost is not None:
                raise GuestFailed(f"guest {self._name}: {self._lost}")
            self._number += 1
            self._listeners[self._number] = take
            return self._number

    def forget(self, job: int) -> None:
        """Give a number back."""
        with self._changed:
            self._listeners.pop(job, None)

    def send(self, kind: Kind, job: int, payload: bytes) -> None:
        """Send a frame. Raises GuestFailed where the channel is gone."""
        if self._lost is not None:
            raise GuestFailed(f"guest {self._name}: {self._lost}")
        try:
            with self._sending:
                self._channel.sendall(encode(kind, job, payload))
        except OSError as error:
            self.lose(f"takes nothing more over its control channel ({error}); {self.why_lost()}")
            raise GuestFailed(f"guest {self._name}: {self._lost}") from error

    def _read(self) -> None:
        why = "its control channel is closed"
        while True:
            try:
                data = self._channel.recv(1 << 16)
            except OSError as error:
                why = f"its control channel failed ({error})"
                break
            if not data:
                break
            try:
                for frame in self._decoder.take(data):
                    self._pass_on(frame)
                if (byte := self._decoder.skipped_byte + self._unasked_byte) > MOST_UNASKED_BYTE:
                    raise GuestFailed(f"{byte} B that nobody asked for, {MOST_UNASKED_BYTE} B are allowed")
            except GuestFailed as error:
                why = f"its agent sends what it must not ({error})"
                break
            except Exception as error:  # a fault of the lab's own must not leave those who wait without an answer
                why = f"what its agent sends cannot be used ({error!r})"
                break
        self.lose(f"{why}; {self.why_lost()}")

    def _pass_on(self, frame: Frame) -> None:
        with self._changed:
            if frame.kind is Kind.HELLO and self._hello is None:
                self._hello = document_of(frame)
                self._changed.notify_all()
                return
            take = self._listeners.get(frame.job)
        if take is not None and frame.kind is not Kind.HELLO:
            take(frame)
        else:
            self._unasked_byte += FRAME_BYTE + len(frame.payload)

    def lose(self, why: str) -> None:
        """Ask nothing more: every program that was started counts as killed, every request as failed."""
        with self._changed:
            if self._lost is not None:
                return
            self._lost = why
            listeners, self._listeners = list(self._listeners.values()), {}
            self._changed.notify_all()
        for take in listeners:
            take(None)
