"""Alerts by a webhook whose far end does what it likes: rounds go on, each alert arrives once, and nowhere else."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from vtare.watch.alerts import Webhook

pytestmark = pytest.mark.attack

GOOD = b"HTTP/1.1 204 No Content\r\n\r\n"
PATIENCE_S = 60.0

Answer = Callable[[socket.socket], None]


class Listener:
    """A far end that answers each request as the next of `answers` does, the last for ever; it keeps what came."""

    def __init__(self, *answers: Answer) -> None:
        self.came: list[dict[str, Any]] = []
        self._answers = list(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/alerts"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head, _, body = self._request(connection).partition(b"\r\n\r\n")
            assert b"application/json" in head
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            self.came.append(json.loads(body))
            answer(connection)

    @staticmethod
    def _request(connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data or not data.endswith(b"}"):
            piece = connection.recv(65_536)
            if not piece:
                raise ConnectionResetError
            data += piece
        return data

    def close(self) -> None:
        """Listen no longer."""
        self._socket.close()


def says(data: bytes) -> Answer:
    """An answer of these bytes."""
    return lambda connection: connection.sendall(data)


def trickles(connection: socket.socket) -> None:
    """One byte a second, for ever."""
    for byte in b"HTTP/1.1 200 OK\r\nX: " + 3600 * b"a":
        connection.sendall(bytes([byte]))
        time.sleep(1.0)


def holds(connection: socket.socket) -> None:
    """Nothing, until the client goes."""
    connection.recv(1)


def endless(connection: socket.socket) -> None:
    """A status line that does not end."""
    while True:
        connection.sendall(b"H" * 65_536)


@pytest.fixture
def listener() -> Iterator[Callable[..., Listener]]:
    """Start far ends; they end with the test."""
    made: list[Listener] = []

    def start(*answers: Answer) -> Listener:
        made.append(Listener(*answers))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def stop() -> Iterator[tuple[int, int]]:
    """What becomes readable when the end is asked for, and what asks for it."""
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def delivered(hook: Webhook, want: Callable[[], bool]) -> None:
    """Let rounds pass until it holds."""
    end = time.monotonic() + PATIENCE_S
    while not want():
        assert time.monotonic() < end
        hook.post([])
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("name", "answer", "reason"),
    [
        ("refuses", says(b"HTTP/1.1 500 \x1b]0;owned\x07 No\r\n\r\n"), "HTTP Error 500"),
        ("is none", says(b"SSH-2.0-OpenSSH_9.2\r\n"), "SSH-2.0"),
        ("hangs up", says(b""), "Remote end closed"),
        ("a number of 5000 digits", says(b"HTTP/1.1 " + b"9" * 5000 + b" OK\r\n\r\n"), ""),
        ("too many headers", says(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n"), "got more than 100 headers"),
        ("an endless line", endless, "got more than 65536 bytes"),
        ("another scheme", says(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"), "file:///etc/passwd"),
        ("a redirection loop", says(b"HTTP/1.1 307 X\r\nLocation: /alerts\r\n\r\n"), "not followed"),
    ],
)
def test_an_alert_that_was_not_accepted_is_named_and_sent_again(
    name: str,
    answer: Answer,
    reason: str,
    listener: Callable[..., Listener],
    stop: tuple[int, int],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    far = listener(answer, says(GOOD))
    with caplog.at_level(logging.WARNING), Webhook(far.url, tmp_path, stop[0]) as hook:
        hook.post([{"number": 1}, {"number": 2}])
        delivered(hook, lambda: len(far.came) == 3)
    assert [one["number"] for one in far.came] == [1, 1, 2], name
    assert far.came[0]["schema"] == "vtare.alert/1"
    (note,) = caplog.messages
    assert reason in note
    assert note.endswith("alerts not delivered yet: 2")
    assert note.isprintable()
    assert len(note) < 500


def test_no_alert_follows_a_redirection_to_an_address_inside(
    listener: Callable[..., Listener], stop: tuple[int, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inside = listener(says(GOOD))
    far = listener(says(b"HTTP/1.1 301 Moved\r\nLocation: " + inside.url.encode() + b"\r\n\r\n"))
    with caplog.at_level(logging.WARNING), Webhook(far.url, tmp_path, stop[0]) as hook:
        hook.post([{"number": 1}])
        delivered(hook, lambda: bool(caplog.messages))
    assert inside.came == []
    assert "alerts not delivered: 1" in caplog.messages[-1]


@pytest.mark.parametrize("answer", [trickles, holds, says(b"HTTP/1.1 100 Continue\r\n\r\n")])
def test_rounds_go_on_beside_an_answer_that_never_ends_and_a_stop_ends_it(
    answer: Answer, listener: Callable[..., Listener], stop: tuple[int, int], tmp_path: Path
) -> None:
    far = listener(answer)
    with Webhook(far.url, tmp_path, stop[0]) as hook:
        hook.post([{"number": 1}])
        delivered(hook, lambda: bool(far.came))
        for number in range(5000):
            hook.post([{"number": number}])
        # One program at a time, whatever waits.
        assert len(far.came) == 1
        os.write(stop[1], b"x")


def test_the_deadline_ends_a_program_whose_answer_trickles(
    listener: Callable[..., Listener], stop: tuple[int, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    far = listener(trickles, says(GOOD))
    with caplog.at_level(logging.WARNING), Webhook(far.url, tmp_path, stop[0]) as hook:
        hook.post([{"number": 1}])
        delivered(hook, lambda: len(far.came) == 2)
    assert caplog.messages == ["webhook: it did not answer in time; alerts not delivered yet: 1"]


def test_where_nobody_listens_the_reason_says_so(
    stop: tuple[int, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    with caplog.at_level(logging.WARNING), Webhook(url, tmp_path, stop[0]) as hook:
        hook.post([{"number": 1}])
        delivered(hook, lambda: bool(caplog.messages))
    assert "Connection refused" in caplog.messages[0]
