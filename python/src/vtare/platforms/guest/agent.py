"""The host's end of the control channel: what the lab asks of `vtare agent` in a guest.

One thread reads; it sleeps in the kernel while nothing is said, so a measurement is not disturbed. Every question has a
time limit, and a channel that is lost ends every program that was started over it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import struct
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from vtare import documents
from vtare.platforms.child import Child
from vtare.platforms.guest.failed import GuestFailed, GuestRefused
from vtare.platforms.guest.frames import FRAME_BYTE, Decoder, Frame, Kind, encode
from vtare.platforms.guest.output import Output
from vtare.platforms.intake import OUTPUT_LOST, printable
from vtare.platforms.protocol import PlatformFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vtare.platforms.guest.channel import Channel
    from vtare.platforms.intake import Incoming

#: How long an answer may take. An emulated guest on a busy machine needs seconds for what takes milliseconds else.
ANSWER_S: Final = 60.0
_PIECE_BYTE: Final = 32 << 10
_SIGNALS: Final = {signal.SIGINT: "int", signal.SIGTERM: "term", signal.SIGKILL: "kill"}
_KILL_S: Final = 20.0
_SHOWN_BYTE: Final = 200
#: How long a file may take: as long as an answer, and 1 s for each of these bytes. A serial line of an emulated guest
#: passes several times as many.
_SLOWEST_BYTE_PER_S: Final = 1 << 18
#: Frames that answer one question and are not taken yet; an agent sends one, or two with a refusal.
_MOST_WAITING: Final = 16
#: What may come that belongs to no frame or to no question: a console's messages, the rest of an answer that is no
#: longer waited for. A guest that sends more is given up.
MOST_UNASKED_BYTE: Final = 4 << 20
_LARGEST_CODE: Final = 255
_LARGEST_SIGNAL: Final = 64


class Agent:
    """An open channel to one guest's agent."""

    def __init__(self, channel: Channel, name: str, *, why_lost: Callable[[], str] | None = None) -> None:
        """Take over an open channel. `why_lost` says what is known about a guest that went silent."""
        self._channel = channel
        self._name = name
        self._why_lost = why_lost or (lambda: "no more is known")
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
        raise GuestFailed(
            f"guest {self._name}: {lost or f'was not ready within {timeout_s:.0f} s; {self._why_lost()}'}"
        )

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
        """What came last over the channel and was no frame: on a console, what the guest's kernel said."""
        return self._decoder.skipped

    @property
    def skipped(self) -> str:
        """How much came that was no frame, and the last of it, in words."""
        byte, last = self._decoder.skipped_byte, self._decoder.skipped[-_SHOWN_BYTE:]
        return f"{byte} B came that were no frame, the last {last!r}" if byte else "nothing came that was no frame"

    def facts(self) -> dict[str, Any]:
        """The guest's own facts, as the footer of its samples has them.

        Raises:
            GuestFailed: no answer.
        """
        return self._ask(Kind.FACTS, {})

    def put(self, path: Path, content: bytes) -> None:
        """Put a file into the guest, whole, for its owner's eyes only.

        Raises:
            GuestFailed: the guest does not take it, or no answer.
        """
        with _Question(self) as question:
            question.say(Kind.PUT, {"path": str(path)})
            for begin in range(0, len(content), _PIECE_BYTE):
                self._send(Kind.DATA, question.job, content[begin : begin + _PIECE_BYTE])
            question.say(Kind.WHOLE, {"byte": len(content)})
            question.answer()

    def get(self, path: Path, incoming: Incoming) -> None:
        """Read a file of the guest into `incoming`. A guest that does not give it as it should is given up.

        Raises:
            GuestFailed: there is no such file, a piece is missing, it is too long or too slow, or no answer.
            OSError: it cannot be written here.
        """
        try:
            with _Question(self, incoming) as question:
                question.say(Kind.GET, {"path": str(path)})
                frame = question.hear_whole(incoming)
            given = _document(frame).get("byte")
            if frame.kind is not Kind.WHOLE or given != incoming.byte:
                raise GuestFailed(
                    f"guest {self._name}: {path}: {incoming.byte} B came, its agent sent {printable(given)} B"
                )
        except GuestRefused:
            raise
        except PlatformFailed as error:
            # What else it sends of the file belongs to no question any more.
            self._lose(str(error))
            raise error if isinstance(error, GuestFailed) else GuestFailed(str(error)) from error

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> GuestChild:
        """Start `vtare ARGUMENTS` in the guest; what it prints is added to two files here.

        Raises:
            GuestFailed: the guest does not start it, or no answer.
            OSError: a file cannot be opened.
        """
        child = GuestChild(self, stdout, stderr)
        job = self._listen(child.hear)
        child.job = job
        try:
            self._send(
                Kind.START,
                job,
                json.dumps({"arguments": list(arguments), "directory": str(directory)}).encode(),
            )
            child.wait_started(ANSWER_S)
        except BaseException:
            self._forget(job)
            raise
        return child

    def signal(self, job: int, number: signal.Signals) -> None:
        """Send a signal to a started program. One that has ended already is fine: what comes of it is not waited for.

        Raises:
            GuestFailed: the channel is gone.
        """
        self._send(Kind.SIGNAL, job, json.dumps({"signal": _SIGNALS[number]}).encode())

    def end(self, timeout_s: float = 2.0) -> None:
        """Ask the guest to end, and wait so long for the channel's end. Whether it did is for the machine to see."""
        with suppress(GuestFailed):
            self._send(Kind.END, 0, b"{}")
            self._reader.join(timeout_s)

    def close(self, why: str = "the lab closed the channel") -> None:
        """Give the channel up. Programs started over it count as killed."""
        self._lose(why)
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._reader:
            self._reader.join(5.0)
        self._channel.close()

    # --- for this file ---

    def _ask(self, kind: Kind, document: dict[str, Any]) -> dict[str, Any]:
        with _Question(self) as question:
            question.say(kind, document)
            return question.answer()

    def _listen(self, hear: Callable[[Frame | None], None]) -> int:
        with self._changed:
            if self._lost is not None:
                raise GuestFailed(f"guest {self._name}: {self._lost}")
            self._number += 1
            self._listeners[self._number] = hear
            return self._number

    def _forget(self, job: int) -> None:
        with self._changed:
            self._listeners.pop(job, None)

    def _send(self, kind: Kind, job: int, payload: bytes) -> None:
        if self._lost is not None:
            raise GuestFailed(f"guest {self._name}: {self._lost}")
        try:
            with self._sending:
                self._channel.sendall(encode(kind, job, payload))
        except OSError as error:
            self._lose(f"takes nothing more over its control channel ({error}); {self._why_lost()}")
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
                    self._hear(frame)
                if (byte := self._decoder.skipped_byte + self._unasked_byte) > MOST_UNASKED_BYTE:
                    raise GuestFailed(f"{byte} B that nobody asked for, {MOST_UNASKED_BYTE} B are allowed")
            except GuestFailed as error:
                why = f"its agent sends what it must not ({error})"
                break
            except Exception as error:  # a fault of the lab's own must not leave those who wait without an answer
                why = f"what its agent sends cannot be used ({error!r})"
                break
        self._lose(f"{why}; {self._why_lost()}")

    def _hear(self, frame: Frame) -> None:
        with self._changed:
            if frame.kind is Kind.HELLO and self._hello is None:
                self._hello = _document(frame)
                self._changed.notify_all()
                return
            hear = self._listeners.get(frame.job)
        if hear is not None and frame.kind is not Kind.HELLO:
            hear(frame)
        else:
            self._unasked_byte += FRAME_BYTE + len(frame.payload)

    def _lose(self, why: str) -> None:
        with self._changed:
            if self._lost is not None:
                return
            self._lost = why
            listeners, self._listeners = list(self._listeners.values()), {}
            self._changed.notify_all()
        for hear in listeners:
            hear(None)


class _Question:
    """One question and the frames that answer it. The pieces of a file go to `incoming` as they come."""

    def __init__(self, agent: Agent, incoming: Incoming | None = None) -> None:
        self._agent = agent
        self._incoming = incoming
        self._failed: Exception | None = None
        self._heard: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self.job = 0

    def __enter__(self) -> _Question:
        self.job = self._agent._listen(self._take)
        return self

    def __exit__(self, *_: object) -> None:
        self._agent._forget(self.job)

    def _take(self, frame: Frame | None) -> None:
        """Take a frame of the answer. Called by the reading thread."""
        if frame is not None and frame.kind is Kind.DATA and self._incoming is not None and self._failed is None:
            try:
                self._incoming.write(frame.payload)
            except (PlatformFailed, OSError, ValueError) as error:
                self._failed = error
                # Wakes who waits; no more of it is taken.
                self._heard.put(None)
        elif self._failed is None:
            if frame is not None and self._heard.qsize() >= _MOST_WAITING:
                raise GuestFailed(f"more than {_MOST_WAITING} answers to one question")
            self._heard.put(frame)

    def say(self, kind: Kind, document: dict[str, Any]) -> None:
        self._agent._send(kind, self.job, json.dumps(document).encode())

    def hear(self) -> Frame:
        try:
            return self._accepted(self._heard.get(timeout=ANSWER_S))
        except queue.Empty:
            raise GuestFailed(
                f"guest {self._agent._name}: no answer within {ANSWER_S:.0f} s; {self._agent._why_lost()}"
            ) from None

    def hear_whole(self, incoming: Incoming) -> Frame:
        """The frame behind the pieces of a file: waited for while they come, and not for ever."""
        begin = time.monotonic()
        longest_s = ANSWER_S + incoming.most_byte / _SLOWEST_BYTE_PER_S
        while True:
            before = incoming.byte
            try:
                return self._accepted(self._heard.get(timeout=ANSWER_S))
            except queue.Empty:
                taken_s = time.monotonic() - begin
                if incoming.byte == before or taken_s > longest_s:
                    raise GuestFailed(
                        f"guest {self._agent._name}: {incoming.byte} B of a file came within {taken_s:.0f} s, but not "
                        f"its end; {self._agent._why_lost()}"
                    ) from None

    def _accepted(self, frame: Frame | None) -> Frame:
        name = self._agent._name
        if self._failed is not None:
            raise self._failed
        if frame is None:
            raise GuestFailed(f"guest {name}: {self._agent.lost}")
        if frame.kind is Kind.FAILED:
            raise GuestRefused(f"guest {name}: {printable(_document(frame).get('error'))}")
        return frame

    def answer(self) -> dict[str, Any]:
        return _document(self.hear())


class GuestChild(Child):
    """A program that runs in a guest. Where the guest is lost it counts as killed, and its log says why.

    Where less of its output came than it wrote, or not the same, its exit code is `OUTPUT_LOST`, and its log says so.
    """

    def __init__(self, agent: Agent, stdout: Path, stderr: Path) -> None:
        """Prepare to hear of a program. Raises OSError where a file cannot be opened."""
        self._agent = agent
        self.job = 0
        self._output = Output(stdout, stderr)
        self._code: int | None = None
        self._refused: str | None = None
        self._started = threading.Event()
        self._ended = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        weakref.finalize(self, os.close, self._ended)

    def hear(self, frame: Frame | None) -> None:
        """Take what the agent says of this program; None where the channel is lost. Called by the reading thread."""
        if frame is None:
            self._output.note(f"vtare: guest {self._agent._name}: {self._agent.lost}")
            self._end(-signal.SIGKILL)
        elif frame.kind in (Kind.STDOUT, Kind.STDERR):
            self._output.keep(frame.kind, frame.payload)
        elif frame.kind is Kind.ANSWER:
            self._started.set()
        elif frame.kind is Kind.FAILED and not self._started.is_set():
            self._refused = printable(_document(frame).get("error"))
            self._end(-signal.SIGKILL)
        elif frame.kind is Kind.EXITED:
            how = _document(frame)
            ended = _exit_code(how)
            if (lost := self._output.lost(how)) is not None:
                said = f"{lost}; {self._agent.skipped}; the program itself had ended with {ended}"
                self._output.note(f"vtare: guest {self._agent._name}: output is lost: {said}")
                ended = OUTPUT_LOST
            self._end(ended)

    def wait_started(self, timeout_s: float) -> None:
        """Wait until the guest has started it.

        Raises:
            GuestFailed: it did not.
        """
        name = self._agent._name
        if not self._started.wait(timeout_s):
            self._end(-signal.SIGKILL)
            raise GuestFailed(f"guest {name}: started no program within {timeout_s:.0f} s; {self._agent._why_lost()}")
        if self._refused is not None:
            raise GuestFailed(f"guest {name}: {self._refused}")

    @property
    def returncode(self) -> int | None:
        """See `Child.returncode`."""
        return self._code

    def watch(self) -> int:
        """Return a descriptor that becomes readable at the end. Raises ProcessLookupError where that has been."""
        if self._code is not None:
            raise ProcessLookupError
        return os.dup(self._ended)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program and all that it started. In a guest that is lost, nothing runs any more."""
        if self._code is None:
            with suppress(GuestFailed):
                self._agent.signal(self.job, number)

    def kill(self) -> int:
        """Kill it and return its exit code. A guest that does not even do that is given up."""
        self.send_signal(signal.SIGKILL)
        code = self.wait(_KILL_S)
        if code is None:
            self._agent.close(f"did not kill a program within {_KILL_S:.0f} s")
            code = self.wait(1.0)
        return -signal.SIGKILL if code is None else code

    def _end(self, code: int) -> None:
        if self._code is not None:
            return
        self._agent._forget(self.job)
        self._output.close()
        self._code = code
        self._started.set()
        os.eventfd_write(self._ended, 1)


def _exit_code(how: dict[str, Any]) -> int:
    """How a program ended, as `subprocess` shows it."""
    code, number = how.get("code"), how.get("signal")
    if code is None and number is None:
        return -signal.SIGKILL
    found, sign, largest = (number, -1, _LARGEST_SIGNAL) if code is None else (code, 1, _LARGEST_CODE)
    if type(found) is not int or not 0 <= found <= largest:
        raise GuestFailed(f"a program that ended with {printable(found)}, expected a number from 0 to {largest}")
    return sign * found


def _document(frame: Frame) -> dict[str, Any]:
    try:
        return documents.parse(frame.payload)
    except documents.BadDocument as error:
        shown = printable(frame.payload[:_SHOWN_BYTE].decode(errors="replace"), 80)
        raise GuestFailed(f"the agent sent {frame.kind.name} with '{shown}': {error}") from None


def connect(path: Path, timeout_s: float, gone: Callable[[], str | None]) -> socket.socket:
    """Connect to a socket that another program is about to open.

    Raises:
        GuestFailed: that program has ended (`gone` says how), or it did not open the socket in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        channel = socket.socket(socket.AF_UNIX)
        try:
            channel.connect(str(path))
        except OSError as error:
            channel.close()
            how = gone()
            if how is not None:
                raise GuestFailed(how) from error
            if time.monotonic() > deadline:
                raise GuestFailed(f"{path}: {error} after {timeout_s:.0f} s") from error
            time.sleep(0.02)
        else:
            return channel
