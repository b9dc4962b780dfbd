"""The other end of a guest's control channel, as tests of the lab's end play it."""

from __future__ import annotations

import json
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from vtare.platforms.guest.agent import Agent
from vtare.platforms.guest.frames import Decoder, Frame, Kind, encode


def on_the_line(frames: list[Frame]) -> bytes:
    return b"".join(encode(frame.kind, frame.job, frame.payload) for frame in frames)


#: What the other end answers to a frame, as frames or as bytes on the line.
Answer = Callable[[Frame], "list[Frame] | bytes"]


@contextmanager
def guest(answer: Answer, *, hello: bytes | None = None) -> Iterator[Agent]:
    """An agent whose other end answers each frame by a function; an empty answer sends nothing."""
    ours, theirs = socket.socketpair()
    first = json.dumps({"schema": "vtare.agent/1", "problems": []}).encode() if hello is None else hello

    def serve() -> None:
        decoder = Decoder()
        theirs.sendall(encode(Kind.HELLO, 0, first))
        while data := theirs.recv(1 << 16):
            for frame in decoder.take(data):
                said = answer(frame)
                with suppress(OSError):
                    theirs.sendall(said if isinstance(said, bytes) else on_the_line(said))
                if frame.kind is Kind.END:
                    theirs.close()
                    return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    agent = Agent(ours, "g", why_lost=lambda: "the kernel panicked")
    try:
        yield agent
    finally:
        agent.close()
        thread.join(10)
        theirs.close()


def say(kind: Kind, job: int, document: object) -> Frame:
    return Frame(kind, job, json.dumps(document).encode())


def exited(job: int, code: int, *, stdout: bytes = b"", stderr: bytes = b"") -> Frame:
    """The end of a program that has written these bytes."""
    streams = {"stdout": stdout, "stderr": stderr}
    sent = {name: {"byte": len(said), "crc32": zlib.crc32(said)} for name, said in streams.items()}
    return say(Kind.EXITED, job, {"code": code, "signal": None, **sent})
