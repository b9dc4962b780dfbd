"""Witnesses of UTC as docs/internals/wire.md describes them, written apart from vtare's own."""

from __future__ import annotations

import hashlib
import hmac
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Stands in for a key on loopback.
NO_KEY = b"vtare without a key: loopback :)"
BOUND_NS = 1_000_000


def _answer(request: bytes, key: bytes, host: int, off_ns: int) -> bytes:
    """The reply of a witness whose clock is ahead by `off_ns`."""
    assert len(request) == 80
    assert request[0] == 0x15
    assert hmac.new(key, request[:64], hashlib.sha256).digest()[:16] == request[64:]
    utc_ns = time.time_ns() + off_ns
    ends = (utc_ns - BOUND_NS, utc_ns + BOUND_NS)
    body = struct.pack(">BB6x16s5Q", 0x16, 0, request[8:24], *ends, 1, time.monotonic_ns(), host)
    return body + hmac.new(key, body, hashlib.sha256).digest()[:16]


@contextmanager
def witnesses(*offsets_ns: int) -> Iterator[str]:
    """Witnesses on hosts of their own, as `VTARE_WITNESSES` names them."""
    key = hmac.new(NO_KEY, b"vtare heartbeat 1", hashlib.sha256).digest()
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in offsets_ns]
    over = threading.Event()

    def serve(line: socket.socket, host: int, off_ns: int) -> None:
        while not over.is_set():
            try:
                request, client = line.recvfrom(2_000)
            except TimeoutError:
                continue
            line.sendto(_answer(request, key, host, off_ns), client)

    threads = []
    for host, (line, off_ns) in enumerate(zip(sockets, offsets_ns, strict=True), 1):
        line.bind(("127.0.0.1", 0))
        line.settimeout(0.05)
        threads.append(threading.Thread(target=serve, args=(line, host, off_ns)))
        threads[-1].start()
    try:
        yield ",".join(f"127.0.0.1:{line.getsockname()[1]}" for line in sockets)
    finally:
        over.set()
        for thread, line in zip(threads, sockets, strict=True):
            thread.join()
            line.close()


@contextmanager
def kept_page(vtare: Path, addresses: str, page: Path) -> Iterator[None]:
    """`vtare clock` keeps this page."""
    keeper = subprocess.Popen([str(vtare), "clock", "--witness", addresses, "--page", str(page), "--quiet"])
    try:
        until_s = time.monotonic() + 30
        while not page.exists():
            assert keeper.poll() is None
            assert time.monotonic() < until_s, "nobody keeps the page"
            time.sleep(0.05)
        yield
    finally:
        keeper.terminate()
        assert keeper.wait(30) == 0
