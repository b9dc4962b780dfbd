"""Whatever a guest sends over its control channel: the decoder holds a bounded part of it, and questions end."""

from __future__ import annotations

import json
import socket
import struct
import threading
import tracemalloc
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vtare.errors import PlatformFailed
from vtare.platforms.guest.agent import Agent
from vtare.platforms.guest.frames import MAX_PAYLOAD_BYTE, Decoder, Kind, encode

pytestmark = pytest.mark.attack

#: On a busy machine an example may take any time.
STEADY = settings(suppress_health_check=[HealthCheck.too_slow])

#: What a frame takes on the line beside its payload.
AROUND_BYTE = 21
DEEP = b"[" * 5_000 + b"]" * 5_000


def any_head(kind: int, job: int, length: int, payload: bytes) -> bytes:
    """A frame with right checks whose head states anything."""
    head = struct.pack("<4sBII", b"vtG1", kind, job, length)
    return head + struct.pack("<I", zlib.crc32(head)) + payload + struct.pack("<I", zlib.crc32(payload))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["byte", "error", "name"]), inner),
    max_leaves=8,
)
PAYLOADS = st.one_of(
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.sampled_from([b"", b"{}", DEEP, b'{"error":' + DEEP + b"}", b'{"x":1e999}', b'{"x":' + b"9" * 5_000 + b"}"]),
)
LINES = st.lists(
    st.one_of(
        st.binary(max_size=100),
        st.builds(any_head, st.integers(0, 255), st.integers(0, 9), st.integers(0, 2**32 - 1), st.binary(max_size=50)),
        st.builds(encode, st.sampled_from(Kind), st.integers(0, 9), PAYLOADS),
        st.sampled_from([b"vtG1", b"v" * 300, b"vtG" * 50]),
    ),
    max_size=12,
).map(b"".join)


@settings(STEADY)
@given(LINES, st.lists(st.integers(1, 400), max_size=20))
def test_any_bytes_give_frames_that_were_sent_and_all_of_them_are_accounted_for(line: bytes, cuts: list[int]) -> None:
    whole, decoder = Decoder(), Decoder()
    wanted, found, rest = whole.take(line), [], line
    for cut in cuts:
        found += decoder.take(rest[:cut])
        rest = rest[cut:]
    found += decoder.take(rest)
    assert found == wanted
    assert decoder.skipped_byte == whole.skipped_byte
    framed = sum(AROUND_BYTE + len(frame.payload) for frame in found)
    assert 0 <= len(line) - framed - decoder.skipped_byte <= AROUND_BYTE + MAX_PAYLOAD_BYTE
    for frame in found:
        assert encode(frame.kind, frame.job, frame.payload) in line


@pytest.mark.parametrize(
    "piece",
    [
        b"\0" * 4096,
        b"\nvtG" * 1024,
        any_head(Kind.DATA, 1, MAX_PAYLOAD_BYTE, b"")[:17] + bytes(4079),
        any_head(Kind.DATA, 1, MAX_PAYLOAD_BYTE + 1, b"") * 160,
    ],
    ids=["zeros", "beginnings of marks", "a frame without an end", "too long frames"],
)
def test_the_decoder_holds_no_more_than_two_frames_however_much_comes(piece: bytes) -> None:
    decoder, rounds = Decoder(), 600_000 // len(piece)
    tracemalloc.start()
    try:
        for _ in range(rounds):
            assert decoder.take(piece) == []
        _, peak_byte = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_byte < 8 * MAX_PAYLOAD_BYTE
    assert decoder.skipped_byte > 0


def send(end: socket.socket, greeting: bytes, answer: bytes) -> None:
    """Be the guest: greet, wait for the question, answer it, and go away."""
    with end:
        try:
            end.sendall(greeting)
            end.recv(1 << 16)
            end.sendall(answer)
        except OSError:
            # The lab gave the guest up.
            return


@settings(STEADY, max_examples=60)
@given(PAYLOADS, st.lists(st.tuples(st.sampled_from(Kind), PAYLOADS), min_size=1, max_size=4))
def test_any_greeting_and_any_answer_are_a_document_or_a_failure_of_the_guest(
    greeting: bytes, answers: list[tuple[Kind, bytes]]
) -> None:
    ours, guests = socket.socketpair()
    answer = b"".join(encode(kind, 1, payload) for kind, payload in answers)
    guest = threading.Thread(target=send, args=(guests, encode(Kind.HELLO, 0, greeting), answer))
    guest.start()
    agent = Agent(ours, "hostile")
    refused = ""
    try:
        assert isinstance(agent.hello(20.0), dict)
        assert isinstance(agent.facts(), dict)
    except PlatformFailed as error:
        refused = str(error)
    finally:
        agent.close()
        guest.join(20.0)
    assert not guest.is_alive()
    # A reading thread that died of its own fault would leave it to the time limit.
    assert "20 s" not in refused
