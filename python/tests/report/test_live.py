"""The live report: loopback only, made anew when the journal changes and someone looks, deaf to hostile clients."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from synthetic_store import PLAN, Recipe, entry_of, write_store

from vtare.campaign.journal import Journal, Stopped
from vtare.campaign.store import read_store
from vtare.cli import app
from vtare.errors import BadInput
from vtare.http_server import MOST_CONNECTIONS
from vtare.report.live import ADDRESS, LivePage, LiveServer, serve, start_maker, state_of

PATIENCE_S = 120.0

SLEEPS = PLAN.format(blocks=2, targets='["1 ms"]').split("[[experiment]]")
SLEEPS = (SLEEPS[0] + "[[experiment]]" + SLEEPS[2]).replace("samples = 400", "samples = 40")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A campaign of sleeps, one of its two blocks done."""
    return write_store(tmp_path / "store", Recipe(plan_text=SLEEPS, pending_from_block=2))


def finish(store: Path) -> None:
    """What the next runs write into the journal; their files are of no matter here."""
    _, runs, _ = read_store(store)
    with Journal(store / "journal.sqlite") as journal:
        for run in runs:
            if run.block == 2:
                entry = entry_of(run, Recipe())
                assert entry is not None
                journal.record(entry)


class Maker:
    """Stands for the process that makes a page: a tiny program that writes what it is given, or fails."""

    def __init__(self) -> None:
        self.count = 0
        self.program = "import sys; open(sys.argv[1], 'w').write('<p>page ' + sys.argv[2] + ' of @PAGE@</p>')"

    def __call__(self, store: Path, out: Path, log: Path) -> subprocess.Popen[bytes]:
        self.count += 1
        with log.open("wb") as errors:
            return subprocess.Popen([sys.executable, "-c", self.program, str(out), str(self.count)], stderr=errors)


class Clock:
    """Time that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def maker() -> Maker:
    return Maker()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def page(store: Path, maker: Maker, clock: Clock) -> Iterator[LivePage]:
    found = LivePage(store, every_s=30.0, make=maker, now=clock)
    yield found
    found.close()


def wait(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with patience: other work may keep both CPUs."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def test_nothing_is_made_until_someone_looks(page: LivePage, maker: Maker) -> None:
    assert maker.count == 0
    assert page.look()["building"] is True
    assert maker.count == 1


def test_the_state_counts_the_runs_of_the_journal(page: LivePage, store: Path) -> None:
    state = state_of(store)
    assert state.counts["done"] + state.counts["pending"] == state.total
    assert state.counts["done"] > 0
    found = page.look()
    assert found["schema"] == "vtare.live/1"
    assert (found["done"], found["pending"], found["total"]) == (
        state.counts["done"], state.counts["pending"], state.total,
    )  # fmt: skip


def test_runs_after_the_stop_of_a_campaign_are_not_pending(page: LivePage, store: Path) -> None:
    with Journal(store / "journal.sqlite") as journal:
        journal.stop(Stopped(block=1, reason="precise enough"))
    found = page.look()
    assert found["pending"] == 0
    assert found["not_needed"] == found["total"] - found["done"] > 0


def test_an_error_of_the_store_goes_once_the_store_can_be_read_again(page: LivePage, store: Path) -> None:
    away = store.with_name("away")
    store.rename(away)
    assert "no such store" in page.look()["error"]
    away.rename(store)
    assert page.look()["error"] is None


def test_a_child_that_writes_much_to_stderr_ends_all_the_same(page: LivePage, maker: Maker) -> None:
    maker.program = (
        "import sys; sys.stderr.write('a warning\\n' * 100_000); open(sys.argv[1], 'w').write('<p>page of @PAGE@</p>')"
    )
    page.look()
    wait(lambda: page.look()["page"] == 1)


def test_a_page_is_made_anew_when_the_journal_changed_and_its_time_has_come(
    page: LivePage, maker: Maker, clock: Clock, store: Path
) -> None:
    assert "No run has finished yet" not in page.html()
    wait(lambda: page.look()["page"] == 1)
    assert page.html() == "<p>page 1 of 1</p>"
    # The same journal gives the same report: nothing is made again, however long it takes.
    clock.now_s += 1000.0
    assert page.look()["building"] is False
    assert maker.count == 1
    finish(store)
    clock.now_s -= 990.0
    assert page.look()["building"] is False, "10 s after the last page: not yet"
    clock.now_s += 25.0
    assert page.look()["building"] is True
    wait(lambda: page.look()["page"] == 2)
    assert page.html() == "<p>page 2 of 2</p>"
    assert maker.count == 2


def test_a_page_that_cannot_be_made_is_shown_once_and_not_tried_again(
    page: LivePage, maker: Maker, clock: Clock
) -> None:
    maker.program = "import sys; sys.stderr.write('first\\nruns must not be <pooled>\\n'); sys.exit(2)"
    page.look()
    wait(lambda: page.look()["error"] is not None)
    clock.now_s += 1000.0
    found = page.look()
    assert (found["error"], found["page"], found["building"]) == ("runs must not be <pooled>", 0, False)
    assert maker.count == 1
    assert "runs must not be &lt;pooled&gt;" in page.html()


def test_a_store_that_goes_away_is_an_error_on_the_page_and_no_end(page: LivePage, store: Path, maker: Maker) -> None:
    (store / "journal.sqlite").rename(store / "gone")
    found = page.look()
    assert found["error"] is not None
    assert found["total"] is None
    assert "journal.sqlite" in found["error"]
    assert maker.count == 0
    assert "an unknown number of" in page.html()


def test_a_campaign_without_a_run_has_a_page_that_waits(tmp_path: Path, maker: Maker) -> None:
    empty = write_store(tmp_path / "<b>store", Recipe(plan_text=SLEEPS, pending_from_block=1))
    page = LivePage(empty, every_s=0.0, make=maker)
    try:
        assert "No run has finished yet" in page.html()
        assert "<b>" not in page.html()
        assert maker.count == 0
    finally:
        page.close()


# --- the server ---


@pytest.fixture
def server(page: LivePage) -> Iterator[LiveServer]:
    made = LiveServer(page, 0)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def ask(
    server: LiveServer, path: str, *, method: str = "GET", host: str | None = None
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(ADDRESS, server.server_port, timeout=PATIENCE_S)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host if host is not None else f"{ADDRESS}:{server.server_port}")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def test_the_server_listens_on_the_loopback_address_alone(server: LiveServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(BadInput, match=r"port \d+ of 127\.0\.0\.1 cannot be opened: .*--port"):
        serve(server.page._store, port=server.server_port, every_s=1.0, say=print)


def test_page_and_state_are_served_with_a_policy_that_fetches_from_here_alone(server: LiveServer) -> None:
    status, headers, body = ask(server, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "connect-src &#39;self&#39;" in body
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert "/state" in body
    status, headers, body = ask(server, "/state")
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert json.loads(body)["schema"] == "vtare.live/1"
    status, headers, body = ask(server, "/", method="HEAD")
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) > 0


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example", ""])
def test_a_name_that_is_not_the_loopback_address_gets_nothing(server: LiveServer, host: str) -> None:
    status, _, body = ask(server, "/", host=host)
    assert (status, body) == (421, "answers for the loopback address only")


def test_localhost_by_name_is_answered(server: LiveServer) -> None:
    assert ask(server, "/state", host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/journal.sqlite", "/?x", "/state/", "/%2e%2e/", "/<script>"])
def test_no_other_path_is_answered(server: LiveServer, path: str) -> None:
    status, _, body = ask(server, path)
    assert status == 404
    assert path not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
def test_no_other_method_is_answered(server: LiveServer, method: str) -> None:
    assert ask(server, "/", method=method)[0] == 501


HOSTILE = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\n\r\n",
    b"\x00\xff" * 4000 + b"\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 5000 + b"\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\r\n\r\n",
    b"GET",
)


def test_hostile_bytes_end_their_own_connection_and_nothing_else(server: LiveServer) -> None:
    for sent in HOSTILE:
        with socket.create_connection((ADDRESS, server.server_port), timeout=PATIENCE_S) as connection:
            try:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(4096)
            except OSError:
                continue  # Closed on us while we were still talking.
            assert not answer.startswith(b"HTTP/1.0 200"), sent[:40]
    assert ask(server, "/state")[0] == 200


@pytest.mark.attack
@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: a"])
def test_connections_that_hold_every_place_give_way_to_one_that_asks(server: LiveServer, first: bytes) -> None:
    holding = [socket.create_connection((ADDRESS, server.server_port), timeout=PATIENCE_S) for _ in range(600)]
    try:
        for connection in holding:
            with suppress(OSError):
                connection.sendall(first)
        assert ask(server, "/state")[0] == 200
        assert sum(closed(connection) for connection in holding) >= 600 - MOST_CONNECTIONS
        assert threading.active_count() < 100
    finally:
        for connection in holding:
            connection.close()
    assert ask(server, "/state")[0] == 200


def closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


# --- for real ---


def test_the_real_page_is_made_by_a_process_of_its_own_and_asks_for_newer_ones(store: Path) -> None:
    # Not the polite one: on a machine where others keep every CPU it would wait for ever.
    page = LivePage(store, every_s=0.0, make=lambda *files: start_maker(*files, polite=False))
    try:
        end = time.monotonic() + 10 * PATIENCE_S
        while page.look()["page"] == 0:
            assert page.look()["error"] is None
            assert time.monotonic() < end
            time.sleep(0.2)
        html = page.html()
    finally:
        page.close()
    assert html.rstrip().endswith("</html>")
    assert "connect-src 'self'" in html.replace("&#39;", "'")
    assert 'data-page="1"' in html
    assert "@PAGE@" not in html
    assert not list(store.glob(".*partial"))


def test_closing_ends_the_process_that_makes_a_page(store: Path) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def endless(store: Path, out: Path, log: Path) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stderr=subprocess.PIPE))
        return started[0]

    page = LivePage(store, every_s=0.0, make=endless)
    assert page.look()["building"] is True
    page.close()
    assert started[0].returncode is not None


def test_the_process_that_makes_a_page_yields_to_all_others(store: Path, tmp_path: Path) -> None:
    maker = start_maker(store, tmp_path / "page.html", tmp_path / "errors")
    try:
        # Either it is already seen at the lowest priority, or it ended before we looked.
        wait(lambda: maker.poll() is not None or os.sched_getscheduler(maker.pid) == os.SCHED_IDLE)
    finally:
        maker.kill()
        maker.wait()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_shown_to_end_and_leaves_nothing(tmp_path: Path, ending: signal.Signals) -> None:
    empty = write_store(tmp_path / "store", Recipe(plan_text=SLEEPS, pending_from_block=1))
    place = tmp_path / "tmp"
    place.mkdir()
    command = [sys.executable, "-X", "faulthandler", "-m", "vtare.cli", "report", str(empty), "--live"]
    environment = {**os.environ, "TMPDIR": str(place)}
    done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert done.stdout is not None
        line = done.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        assert found is not None, line
        connection = http.client.HTTPConnection(ADDRESS, int(found.group(1)), timeout=PATIENCE_S)
        connection.request("GET", "/state")
        assert json.loads(connection.getresponse().read())["page"] == 0
        connection.close()
        assert [path.name.startswith("vtare-report-") for path in place.iterdir()] == [True]
        done.send_signal(ending)
        try:
            out, errors = done.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            # Where it stands, thread by thread.
            done.send_signal(signal.SIGABRT)
            pytest.fail(f"still there after {PATIENCE_S} s:\n{done.communicate(timeout=PATIENCE_S)[1]}")
    finally:
        done.kill()
        done.communicate()
    assert (done.returncode, out, errors) == (0, "", "")
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--every", "soon"], "--every: 'soon' is not a number with a unit"),
        (["--every", "-1 s"], "--every: '-1 s' is not a time from 0 s to 24 h"),
    ],
)
def test_bad_questions_are_refused(
    store: Path, arguments: list[str], message: str, lab_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = lab_command("report", store, "--live", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_what_is_no_store_is_not_served(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--live"])
    assert isinstance(done.exception, BadInput)
    assert "not a store of vtare" in str(done.exception)
