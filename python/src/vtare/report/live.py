"""The report live in a browser while its campaign runs: loopback only, made anew by a process that yields to others.

Nothing happens while nobody looks: only a page that asks makes the server look at the journal. A report is made by
a child process of the lowest priority (`SCHED_IDLE`), at most every so often: a campaign's measurements come first.

The server trusts nobody but its own pages: it answers GET and HEAD for two paths, only where the `Host` header names
the loopback address (else a foreign page could point a name of its own here), from a bounded number of connections.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from vtare.campaign.status import read_state
from vtare.errors import BadInput, VtareError
from vtare.http_server import IDLE_S, BoundedServer
from vtare.process import start, where_the_lab_is
from vtare.report.build import build
from vtare.report.frame import environment, stylesheet, template_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from vtare.process import Process
    from vtare.records.campaigns import Live

ADDRESS: Final = "127.0.0.1"
#: What a page cannot state itself; the rest is in its head.
_POLICY: Final = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_VERSION: Final = "@PAGE@"


@dataclass(frozen=True, slots=True)
class CampaignState:
    """How far the campaign is: a `mark` that changes with every entry of the journal, and the counts of runs."""

    mark: str
    total: int
    counts: dict[str, int]


def state_of(store: Path) -> CampaignState:
    """Read a campaign's progress, without locking it.

    Raises:
        BadInput: the store has gone or cannot be read.
    """
    state = read_state(store)
    mark = "\n".join(f"{run_id} {entry.status} {entry.attempts}" for run_id, entry in sorted(state.entries.items()))
    return CampaignState(mark, len(state.runs), dict(Counter(map(state.word, state.runs))))


class LivePage:
    """The page of one store. `look` returns how far it is, and starts making a newer page where one is due."""

    def __init__(
        self,
        store: Path,
        *,
        every_s: float,
        make: Callable[[Path, Path, Path], Process] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take a store that `read_state` can read.

        `make(store, page, log)` starts the process that writes a page, its errors into the log.
        """
        self._store = store
        self._every_s = every_s
        self._make = make if make is not None else start_maker
        self._now = now
        self._lock = threading.Lock()
        self._directory = tempfile.TemporaryDirectory(prefix="vtare-report-")
        self._child: Process | None = None
        self._mark_in_work = ""
        self._mark_shown = ""
        self._ended_s: float | None = None
        self._number = 0
        self._html = ""
        self._page_error: str | None = None

    def look(self) -> Live:
        """How far the campaign and the page are, as the JSON-ready document `vtare.live/1`."""
        with self._lock:
            state: CampaignState | None = None
            store_error: str | None = None
            try:
                state = state_of(self._store)
            except VtareError as error:
                store_error = str(error)
            self._reap()
            if state is not None and self._is_due(state):
                self._mark_in_work = state.mark
                self._child = self._make(self._store, self._page_file, self._log_file)
            counts = {} if state is None else state.counts
            return {
                "schema": "vtare.live/1",
                "page": self._number,
                "building": self._child is not None,
                "error": store_error or self._page_error,
                "total": None if state is None else state.total,
                "done": counts.get("done", 0),
                "failed": counts.get("failed", 0),
                "skipped": counts.get("skipped", 0),
                "pending": counts.get("pending", 0),
                "not_needed": counts.get("not_needed", 0),
            }

    def html(self) -> str:
        """The newest page there is; one that asks to wait where there is none."""
        document = self.look()
        with self._lock:
            if self._html:
                return self._html.replace(_VERSION, str(self._number))
        name = self._store.resolve().name
        page = environment().get_template("waiting.html.j2").render(
            name=name, state=document, css=stylesheet(), live=template_text("live.js")
        )  # fmt: skip
        return page.replace(_VERSION, "0")

    def close(self) -> None:
        """End the process that makes a page, where there is one, and remove what it wrote."""
        with self._lock:
            if self._child is not None:
                self._child.kill()
                self._child.wait()
                self._child = None
            self._directory.cleanup()

    @property
    def _page_file(self) -> Path:
        return Path(self._directory.name) / "report.html"

    @property
    def _log_file(self) -> Path:
        """A file and not a pipe: nobody reads while the child works, and a full pipe would block it."""
        return Path(self._directory.name) / "errors"

    def _is_due(self, state: CampaignState) -> bool:
        if self._child is not None or state.mark == self._mark_shown or not state.counts.get("done"):
            return False
        return self._ended_s is None or self._now() - self._ended_s >= self._every_s

    def _reap(self) -> None:
        """Take over the page of a process that has ended."""
        if self._child is None or self._child.poll() is None:
            return
        code = self._child.returncode
        self._child = None
        self._ended_s = self._now()
        # The same journal is not tried again.
        self._mark_shown = self._mark_in_work
        if code != 0:
            self._page_error = _last_line(self._log_file) or f"making the report ended with {code}"
            return
        try:
            self._html = self._page_file.read_text(encoding="utf-8")
        except OSError as error:
            self._page_error = f"the report cannot be read: {error.strerror}"
            return
        self._page_error = None
        self._number += 1


def _last_line(log: Path) -> str:
    """The last line of a log, of its last 4 KiB at most; empty where there is none."""
    try:
        with log.open("rb") as lines:
            lines.seek(max(0, log.stat().st_size - 4096))
            return next(reversed(lines.read().decode(errors="replace").strip().splitlines()), "")
    except OSError:
        return ""


def start_maker(store: Path, out: Path, log: Path, *, polite: bool = True) -> Process:
    """Start this module as a program that makes one page, errors into `log`; a `polite` one yields to all others."""
    arguments = [str(store.resolve()), str(out), "polite" if polite else "plain"]
    with log.open("wb") as errors:
        words = [sys.executable, "-m", "vtare.report.live", *arguments]
        return start(words, stderr=errors, environment=where_the_lab_is())


def make_page(store: Path, out: Path) -> None:
    """Make one live page.

    Raises:
        BadInput: no run of the store can be used, or the page cannot be written.
    """
    from vtare.report.write import write_whole
    from vtare.summary import summarise

    summary = summarise(store)
    if summary.runs.height == 0:
        reasons = [problem.reason for problem in summary.sample_set.problems]
        raise BadInput(reasons[0] if reasons else f"{store}: no run is finished; wait for the first, then try again")
    write_whole(out, build(summary, live=True))


def yield_to_others() -> None:
    """Take the lowest priority there is, where the system grants it."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class _Handler(BaseHTTPRequestHandler):
    """Answers for one connection."""

    server: LiveServer
    timeout = IDLE_S
    server_version = "vtare"
    sys_version = ""

    def do_GET(self) -> None:
        """Send the page or its state."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send the headers of the same."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        page = self.server.page
        if not self._is_for_us():
            status, kind, text = HTTPStatus.MISDIRECTED_REQUEST, "text/plain", "answers for the loopback address only"
        elif self.path == "/":
            status, kind, text = HTTPStatus.OK, "text/html", page.html()
        elif self.path == "/state":
            status, kind, text = HTTPStatus.OK, "application/json", json.dumps(page.look())
        else:
            status, kind, text = HTTPStatus.NOT_FOUND, "text/plain", "there are two paths here: / and /state"
        self._send(status, kind, text, with_body=with_body)

    def _is_for_us(self) -> bool:
        """Whether the browser asked for the loopback address: a name that points here is not enough."""
        hosts = self.headers.get_all("Host") or []
        port = self.server.server_port
        return len(hosts) == 1 and hosts[0].lower() in (f"{ADDRESS}:{port}", f"localhost:{port}")

    def _send(self, status: HTTPStatus, kind: str, text: str, *, with_body: bool) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", _POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the terminal belongs to the person who started the server."""


class LiveServer(BoundedServer):
    """Serves one page on the loopback address."""

    def __init__(self, page: LivePage, port: int) -> None:
        """Bind to `port`, 0 for any free one.

        Raises:
            OSError: the port is taken.
        """
        self.page = page
        super().__init__((ADDRESS, port), _Handler)


def serve(store: Path, *, port: int, every_s: float, say: Callable[[str], object]) -> None:
    """Serve a store's report until interrupted or terminated; only the main thread may.

    Raises:
        BadInput: the port is taken.
    """
    page = LivePage(store, every_s=every_s)
    try:
        server = LiveServer(page, port)
    except OSError as error:
        page.close()
        raise BadInput(
            f"port {port} of {ADDRESS} cannot be opened: {error.strerror}; take another with --port (0: any free one)"
        ) from error
    # A server that a signal ends has done its work: it removes what it wrote, and that is no failure.
    # Both signals are taken over by name: libraries put handlers of their own under Python's, and a shell that starts
    # it in the background has SIGINT ignored.
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with server, suppress(KeyboardInterrupt):
            say(f"serving {store} at http://{ADDRESS}:{server.server_port}/ (this machine only; Ctrl-C ends it)")
            server.serve_forever(poll_interval=0.5)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        page.close()


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    if sys.argv[3] == "polite":
        yield_to_others()
    try:
        make_page(Path(sys.argv[1]), Path(sys.argv[2]))
    except VtareError as failure:
        sys.stderr.write(f"{failure}\n")
        sys.exit(failure.exit_code)
