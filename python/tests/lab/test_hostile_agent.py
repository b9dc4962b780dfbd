"""What an agent answers and asks for is checked: messages, files, sizes, certificates; nothing is unpickled."""

from __future__ import annotations

import json
import os
import pickle
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import vtare
from vtare.campaign.allowance import allowance
from vtare.design import Run, make_design
from vtare.fleet.agent_answers import BadAnswer, read_announced, read_document, take_files
from vtare.fleet.agent_requests import AgentConnection, BadRequest, Registry, answer, handshake
from vtare.fleet.certificates import Certificates, KeyPair, host_of
from vtare.fleet.plain_dask import REFUSED, PickleRefused, allow_pickles, refuse_pickles
from vtare.plan.files import parse_plan

pytestmark = pytest.mark.attack

SOURCES = Path(vtare.__file__).parent

PLAN = """
schema = "vtare.plan/1"
name = "small"
question = "?"
blocks = 1
[[experiment]]
name = "sleep"
instrument = "sleep"
parameters = { target_ns = "1 ms", samples = 20, seconds = "0.1 s" }
factors = { method = ["usleep"] }
"""


class Bomb:
    """An object that makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self._path),)


@pytest.fixture
def run() -> Run:
    return next(iter(make_design(parse_plan(PLAN, source=Path("plan.toml")), 1)))


def announced(run: Run, **changed: Any) -> bytes:
    outcome = {"status": "done", "elapsed_s": 1.0, "exit_code": 0, "reason": None, "log_tail": None, "lost": False}
    document: dict[str, Any] = {"run_id": run.run_id, "outcome": outcome, "files": {"samples.parquet": 4}}
    return json.dumps({**document, **changed}).encode()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"run_id": "0" * 16}, "the answer is of run"),
        ({"run_id": ["x"]}, "the answer is of run"),
        ({"files": {"../x": 1}}, "no run leaves a file named '../x'"),
        ({"files": {"/etc/passwd": 1}}, "no run leaves a file named"),
        ({"files": {".tmp": 1}}, "no run leaves a file named"),
        ({"files": {"files.sha256": 1}}, "no run leaves a file named"),
        ({"files": {"a\x1b[2J": 1}}, "no run leaves a file named"),
        ({"files": {"samples.parquet": 1 << 60}}, "more than this run can leave"),
        ({"files": {"samples.parquet": -1}}, "more than this run can leave"),
        ({"files": {"samples.parquet": True}}, "more than this run can leave"),
        ({"files": {f"f{i}": 16 << 20 for i in range(100)}}, "in all files are more than this run can leave"),
        ({"files": {f"f{i}": 0 for i in range(5000)}}, "no list of 4096"),
        ({"files": ["samples.parquet"]}, "no list of 4096"),
        ({"outcome": {"status": "won", "elapsed_s": 1.0}}, "unknown status won"),
        ({"outcome": {"status": ["done"], "elapsed_s": 1.0}}, "unknown status"),
        ({"outcome": {"status": "done", "elapsed_s": -1}}, "a run cannot take -1 s"),
        ({"outcome": {"status": "done", "elapsed_s": 1, "exit_code": "0"}}, "impossible exit code 0"),
        ({"outcome": {"status": "failed", "elapsed_s": 1, "reason": {}}}, "its reason is not a text"),
        ({"outcome": None}, "the answer has no outcome"),
        ({"error": "a\x1b[2Jb"}, "it reports a [2Jb"),
    ],
)
def test_an_announced_result_that_no_run_has_is_refused(changed: dict[str, Any], message: str, run: Run) -> None:
    with pytest.raises(BadAnswer) as raised:
        read_announced(announced(run, **changed), run, allowance(run, 60.0))
    assert message in str(raised.value)
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\x80\x04", REFUSED, 1, {"files": {}}, None, b"{" * 100_000])
def test_an_answer_that_is_no_document_is_refused(data: object) -> None:
    with pytest.raises(BadAnswer):
        read_document(data)


def test_a_disk_that_is_full_elsewhere_does_not_end_the_campaign(run: Run) -> None:
    outcome = {"status": "failed", "elapsed_s": 1.0, "reason": "x", "log_tail": "No space left on device"}
    most = allowance(run, 60.0)
    assert read_announced(announced(run, outcome=outcome), run, most).outcome.away
    assert not read_announced(announced(run, outcome=outcome, files=None), run, most).outcome.away


@pytest.mark.parametrize("piece", [b"", b"12345", "1234", None, REFUSED])
def test_a_piece_of_a_file_that_is_none_leaves_nothing(piece: object, run: Run, tmp_path: Path) -> None:
    most = allowance(run, 60.0)
    found = read_announced(announced(run), run, most)
    with pytest.raises(BadAnswer, match=r"no piece of samples\.parquet came at 0 of 4 B"):
        take_files(found, tmp_path, run, most, lambda _name, _offset: piece, "evil")
    assert list(tmp_path.iterdir()) == []


def test_samples_that_are_none_and_links_in_a_shared_store_are_refused(run: Run, tmp_path: Path) -> None:
    most = allowance(run, 60.0)
    with pytest.raises(BadAnswer, match="the load left no report"):
        take_files(
            read_announced(announced(run), run, most), tmp_path, run, most, lambda _name, _offset: b"1234", "evil"
        )
    (tmp_path / "load.json").symlink_to("/etc/passwd")
    with pytest.raises(BadAnswer, match="link"):
        take_files(read_announced(announced(run, files=None), run, most), tmp_path, run, most, lambda *_: b"", "evil")


REGISTER = {
    "op": "register-worker", "reply": False, "address": "tls://10.0.0.1:1", "status": "init", "server_id": "s",
    "nthreads": 1, "name": "tls://10.0.0.1:1", "now": 1.0, "resources": {"host-evil": 1}, "memory_limit": 0, "pid": 1,
    "services": {"dashboard": 1}, "local_directory": "/tmp", "versions": {}, "nanny": None, "metrics": {"x": 1},
    "extra": {"y": 1}, "stimulus_id": "z",
}  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"resources": {"host-good": 1}},
        {"resources": {"host-evil": 1, "host-good": 1}},
        {"resources": {"host-evil": 2}},
        {"resources": {}},
        {"resources": None},
        {"name": "tls://10.0.0.9:1"},
        {"nanny": "tls://10.0.0.1:2"},
        {"address": "tls://10.0.0.9:1", "name": "tls://10.0.0.9:1"},
        {"nthreads": "1"},
        {"status": "closed"},
        {"op": "run_function", "function": b"x"},
        {"op": "register-client", "client": "c"},
        {"op": "connection_stream"},
        {"op": "gather", "keys": ["a"]},
        {"op": "unregister"},
        {"op": "terminate"},
        {"op": ["register-worker"]},
        {"op": "heartbeat_worker", "address": "tls://10.0.0.9:1"},
    ],
)
def test_an_agent_registers_its_own_host_and_asks_for_nothing_else(changed: dict[str, Any]) -> None:
    registry = Registry()
    registry.add("good", "tls://10.0.0.9:1")
    with pytest.raises(BadRequest):
        AgentConnection("evil", registry).request({**REGISTER, **changed})
    assert registry.host_of("tls://10.0.0.1:1") is None


@pytest.mark.parametrize(
    "message",
    [
        {"op": "update-graph", "client": "c"},
        {"op": "add-keys", "keys": ["a"]},
        {"op": "subscribe-topic"},
        {"op": "task-finished", "key": "a", "run_id": 1, "stimulus_id": "s", "nbytes": 1, "worker": "tls://10.0.0.9:1"},
        {"op": "task-finished", "key": "a", "run_id": 1, "stimulus_id": "s", "nbytes": -1},
        {"op": "task-finished", "key": ["a"], "run_id": 1, "stimulus_id": "s", "nbytes": 1},
        {"op": "worker-status-change", "status": "closed", "stimulus_id": "s"},
        {},
        "OK",
    ],
)
def test_a_registered_worker_reports_of_its_own_tasks_and_nothing_else(message: Any) -> None:
    agent = AgentConnection("evil", Registry())
    assert agent.request(REGISTER)["metrics"] != REGISTER["metrics"]
    with pytest.raises(BadRequest):
        agent.request([message])


def test_no_object_of_an_agent_is_in_what_the_scheduler_takes() -> None:
    registry = Registry()
    agent = AgentConnection("evil", registry)
    found = agent.request(REGISTER)
    assert (found["services"], found["extra"], found["resources"]) == ({}, {}, {"host-evil": 1})
    bomb, task = object(), {"key": "a", "run_id": 1, "stimulus_id": "s", "nbytes": 1}
    reports = agent.request(
        [
            {"op": "task-erred", "exception": bomb, "traceback": bomb, "exception_text": "x", **task},
            {"op": "task-finished", "type": bomb, "metadata": bomb, "startstops": bomb, **task},
            {"op": "log-event", "topic": "warn", "msg": bomb},
        ]
    )
    assert [report["op"] for report in reports] == ["task-erred", "task-finished"]
    assert bomb not in [value for report in reports for value in report.values()]
    assert answer({"status": "OK", "data": {"a": 1}, "op": "run_function"}) == {"status": "OK", "data": {"a": 1}}
    for wrong in ({"status": "busy"}, {"status": "OK", "data": []}, [], b""):
        with pytest.raises(BadRequest):
            answer(wrong)
    assert handshake({"compression": "zlib", "op": "x"})["compression"] is None


def connected(server: KeyPair, trusted_there: str, client: KeyPair, trusted_here: str) -> dict[str, Any] | None:
    """Whom the server of a connection sees; None where either end refuses it."""
    contexts = []
    for purpose, pair, trusted in (
        (ssl.Purpose.CLIENT_AUTH, server, trusted_there),
        (ssl.Purpose.SERVER_AUTH, client, trusted_here),
    ):
        context = ssl.create_default_context(purpose, cadata=trusted)
        context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        for name, text in (("certificate", pair.certificate), ("key", pair.key)):
            Path(name).write_text(text)
        context.load_cert_chain("certificate", "key")
        contexts.append(context)
    one, other = socket.socketpair()
    seen: list[dict[str, Any] | None] = []

    def serve() -> None:
        with suppress(OSError), contexts[0].wrap_socket(one, server_side=True) as secured:
            secured.recv(1)
            seen.append(secured.getpeercert())

    thread = threading.Thread(target=serve)
    thread.start()
    with suppress(OSError), contexts[1].wrap_socket(other) as secured:
        secured.send(b"x")
        with suppress(OSError):
            secured.recv(1)
    one.close()
    thread.join(10)
    return seen[0] if seen else None


def test_agents_trust_the_lab_alone_and_a_certificate_names_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = Certificates()
    scheduler, good, evil = made.scheduler()["tls"], made.agent("good")["tls"], made.of_host("evil")
    lab = KeyPair(scheduler["scheduler"]["cert"], scheduler["scheduler"]["key"])
    pair = KeyPair(good["worker"]["cert"], good["worker"]["key"])
    # The scheduler and an agent talk in both directions.
    assert host_of(connected(lab, scheduler["ca-file"], evil, good["ca-file"])) == "evil"
    assert host_of(connected(pair, good["ca-file"], lab, scheduler["ca-file"])) is None
    # No agent talks to another, and the lab's client to no agent that plays its scheduler.
    assert connected(pair, good["ca-file"], evil, scheduler["ca-file"]) is None
    assert connected(evil, scheduler["ca-file"], lab, made.client()["tls_ca_file"]) is None
    # Another campaign's certificates are nobody's.
    assert connected(lab, scheduler["ca-file"], Certificates().of_host("evil"), scheduler["ca-file"]) is None
    for certificate in (None, {}, {"issuer": ((("commonName", "x"),),)}):
        with pytest.raises(ValueError, match="certificate"):
            host_of(certificate)


@pytest.fixture
def plain() -> Iterator[None]:
    pytest.importorskip("distributed", reason="the Python package 'distributed' is missing")
    refuse_pickles()
    try:
        yield
    finally:
        allow_pickles()


def test_only_the_fleet_uses_dask() -> None:
    # Elsewhere nothing refuses pickles.
    users = {
        path.relative_to(SOURCES).parts[0]
        for path in SOURCES.rglob("*.py")
        if re.search(r"import.*\bdistributed\b", path.read_text("utf-8"))
    }
    assert users == {"fleet"}


def test_dask_unpickles_nothing_on_any_way_into_the_lab(plain: None, tmp_path: Path) -> None:
    core, serialize, client, protocol = (
        import_module(f"distributed.{name}") for name in ("protocol.core", "protocol.serialize", "client", "core")
    )
    bomb = pickle.dumps(Bomb(tmp_path / "bomb"))
    headers = [
        ({"serializer": "pickle", "writeable": ()}, [bomb]),
        ({"serializer": "dask", "type-serialized": bomb, "sub-header": {}}, []),
        ({"is-collection": True, "sub-headers": [], "frame-lengths": [], "type-serialized": "dict"}, []),
        ({"serializer": "msgpack", "compression": ("zlib",)}, [b"x"]),
        ({"serializer": "msgpack"}, [b"\xc1"]),
        ({"serializer": "error"}, [b"x"]),
        ({"__Enum__": True, "__module__": "distributed.utils_test", "__name__": "x", "name": "y"}, []),
    ]
    for header, frames in headers:
        message = core.dumps({"data": serialize.Serialized(header, frames)})
        assert core.loads(message, deserializers=("msgpack",)) == {"data": REFUSED}
        assert core.loads(message) == {"data": REFUSED}
    assert core.loads(core.dumps({"a": core.Pickled({"pickled-obj": bomb}, [])})) == {"a": REFUSED}
    member = {"__Enum__": True, "__module__": "distributed.utils_test", "__name__": "x"}
    assert core.loads(core.dumps({"a": member})) == {"a": member}
    assert protocol.clean_exception(bomb, bomb)[1:][1] is None
    for part in ("category", "message"):
        with pytest.raises(PickleRefused):
            client._handle_warn((0.0, {"message": bomb, part: bomb}))
    with pytest.raises(PickleRefused):
        client.loads(bomb)
    good = core.dumps({"data": serialize.Serialize(b"bytes")}, serializers=("msgpack",))
    assert core.loads(good, deserializers=("msgpack",)) == {"data": b"bytes"}
    assert not (tmp_path / "bomb").exists()
