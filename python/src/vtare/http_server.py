"""An HTTP server for few clients that nobody can fill: the part that the live report and the metrics have in common."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.server import HTTPServer
from socket import SHUT_RDWR
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import socket

#: Far more than one browser and a few scrapers have open.
MOST_CONNECTIONS: Final = 16
#: A handler waits so long for the next byte; whoever sends one now and then is ended by those that come after.
IDLE_S: Final = 10.0


class BoundedServer(ThreadingMixIn, HTTPServer):
    """A thread for each of at most `MOST_CONNECTIONS` connections; a new one beyond them closes the oldest.

    A connection lasts for one request, so the oldest of many is one that holds a place: silent, slow to send or slow to
    read.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        """Bind, as `HTTPServer` does."""
        self._open: dict[int, socket.socket] = {}
        self._changed = threading.Condition()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, after the end of the oldest where there is no place."""
        with self._changed:
            if len(self._open) >= MOST_CONNECTIONS:
                with suppress(OSError):
                    next(iter(self._open.values())).shutdown(SHUT_RDWR)
                # Its thread ends at once; one that makes an answer just then may take longer.
                self._changed.wait_for(lambda: len(self._open) < MOST_CONNECTIONS, IDLE_S)
            has_place = len(self._open) < MOST_CONNECTIONS
            if has_place:
                self._open[id(request)] = request
        try:
            if not has_place:
                raise RuntimeError
            super().process_request(request, client_address)
        except RuntimeError:
            # No place, or no thread could be started.
            self._leave(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection and free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing of clients that hang up or send nonsense."""

    def _leave(self, request: Any) -> None:
        with self._changed:
            self._open.pop(id(request), None)
            self._changed.notify_all()
