"""What a hostile guest sends over its control channel, and what a hostile container leaves: bounded, and refused."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_end import exited, guest, on_the_line, say

from vtare import documents
from vtare.errors import BadInput, PlatformFailed
from vtare.platforms.guest import request as request_module
from vtare.platforms.guest.agent import Agent
from vtare.platforms.guest.child import GuestChild
from vtare.platforms.guest.errors import GuestFailed, GuestRefused
from vtare.platforms.guest.exchange import MOST_UNASKED_BYTE
from vtare.platforms.guest.frames import Frame, Kind, encode
from vtare.platforms.guest.instance import GuestFiles
from vtare.platforms.guest.request import GuestRequest
from vtare.platforms.intake import (
    MOST_OUTPUT_BYTE,
    Incoming,
    open_below,
    printable,
    put_regular,
    take_regular,
)
from vtare.platforms.lxc import LxcInstance

pytestmark = pytest.mark.attack

EXPECTED = {"samples.parquet": 1000}


def only_run(directory: Path) -> list[str]:
    """What is in a run's directory and beside it."""
    return sorted(str(path.relative_to(directory.parent)) for path in directory.parent.rglob("*"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    directory.mkdir()
    return directory


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/b", "", ".", "..", "a\0b"])
def test_a_name_that_is_no_file_of_the_directory_is_never_written(run: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a file"):
        Incoming(run, name, 10, "guest g")
    assert only_run(run) == ["run"]


def test_a_guest_that_names_files_elsewhere_is_not_asked_for_them(run: Path) -> None:
    asked = []

    def answer(frame: Frame) -> list[Frame]:
        asked.append(frame.kind)
        return [Frame(Kind.DATA, frame.job, b"bad"), say(Kind.WHOLE, frame.job, {"byte": 3, "path": "../evil"})]

    with guest(answer) as agent:
        GuestFiles(agent).fetch(run, EXPECTED)
    assert (asked, only_run(run)) == ([Kind.GET], ["run", "run/samples.parquet"])


def pieces(count: int, byte: int = 400) -> Callable[[Frame], list[Frame]]:
    return lambda frame: [Frame(Kind.DATA, frame.job, bytes(byte))] * count


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (pieces(3), "samples.parquet has 1200 B or more, 1000 B are the most that this run can produce"),
        (lambda frame: [say(Kind.WHOLE, frame.job, {"byte": 5})], "0 B came, its agent sent 5 B"),
        (lambda frame: [say(Kind.WHOLE, frame.job, {"byte": "\x1b[2J" * 999})], r"its agent sent( \[2J)+"),
        (lambda frame: [say(Kind.ANSWER, frame.job, {})], "0 B came, its agent sent None B"),
        (lambda frame: [Frame(Kind.WHOLE, frame.job, b"[" * 60_000)], "nested too deep"),
        (lambda frame: [Frame(Kind.WHOLE, frame.job, b'{"byte": NaN}')], "NaN, which is not finite"),
        (lambda frame: [Frame(Kind.WHOLE, frame.job, b'{"byte": 1e999}')], "beyond the range"),
        (lambda frame: [Frame(Kind.WHOLE, frame.job, b"{" + b"9" * 5000)], "not JSON"),
        (lambda frame: [say(Kind.FAILED, frame.job, {"error": ["\ud800"]})], "surrogate"),
        (lambda frame: [say(Kind.FAILED, frame.job, {"error": "\x1b]0;x\x07" * 999})], "guest g: "),
        (lambda frame: [Frame(Kind.FAILED, frame.job, b"")], "not JSON"),
    ],
)
def test_a_file_that_is_not_what_was_asked_for_fails_the_run_and_leaves_nothing(
    run: Path, answer: Callable[[Frame], list[Frame]], reason: str
) -> None:
    with guest(answer) as agent:
        with pytest.raises(GuestFailed, match=reason) as failed:
            GuestFiles(agent).fetch(run, EXPECTED)
        # A refusal is a proper answer; any other costs the guest.
        assert (agent.lost is None) == isinstance(failed.value, GuestRefused)
    assert str(failed.value).isprintable()
    assert len(str(failed.value)) < 1000
    assert only_run(run) == ["run"]


def test_a_file_that_never_ends_is_given_up_though_its_pieces_come(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_module, "ANSWER_S", 0.05)
    ours, theirs = socket.socketpair()
    agent = Agent(ours, "g")
    theirs.sendall(encode(Kind.HELLO, 0, b"{}"))
    agent.hello(30)
    # Job 1 is the file that will be asked for. Some came, and then nothing.
    with Incoming(run, "samples.parquet", 1000, "guest g") as incoming:
        with pytest.raises(GuestFailed, match="0 B of a file came within 0 s, but not its end"):
            agent.get(run / "samples.parquet", incoming)
        assert agent.lost is not None
    agent.close()
    theirs.close()
    assert only_run(run) == ["run"]


@pytest.mark.parametrize("payload", [b"", b"[1, 2]", b"[" * 60_000, b"{", b"\xff", b'{"a": "\\ud800"}'])
def test_a_first_message_that_is_no_document_ends_the_guest(payload: bytes) -> None:
    with guest(lambda frame: [], hello=payload) as agent:
        with pytest.raises(GuestFailed, match="its agent sends what it must not"):
            agent.hello(30)
        assert agent.lost is not None


@pytest.mark.parametrize("code", ["x", 1e9, 2**40, -5, [1], {"a": 1}, True, 256])
def test_an_exit_code_that_is_none_ends_the_guest_and_its_program(tmp_path: Path, code: object) -> None:
    def answer(frame: Frame) -> list[Frame]:
        return [say(Kind.ANSWER, frame.job, {}), say(Kind.EXITED, frame.job, {"code": code})]

    with guest(answer) as agent:
        child = agent.start(["load"], directory=tmp_path, stdout=tmp_path / "o", stderr=tmp_path / "e")
        assert child.wait(30) == -9
        assert "not a number from 0 to 255" in (tmp_path / "e").read_text()


def flood(agent: Agent, theirs: socket.socket, data: bytes) -> int:
    """Send this again and again until the guest is given up; the bytes that were taken."""
    theirs.settimeout(0.2)
    sent = 0
    deadline = time.monotonic() + 60
    while agent.lost is None and time.monotonic() < deadline:
        try:
            sent += theirs.send(data)
        except TimeoutError:
            continue
    assert agent.lost is not None
    return sent


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"v" * 60_000, "that nobody asked for"),
        (b"noise " * 10_000, "that nobody asked for"),
        (encode(Kind.DATA, 77, bytes(60_000)), "that nobody asked for"),
        (encode(Kind.HELLO, 0, b"{}") * 1000, "that nobody asked for"),
        (encode(Kind.STDOUT, 1, bytes(60_000)), f"more than {MOST_OUTPUT_BYTE} B on stdout of a program"),
    ],
)
def test_a_stream_without_end_is_cut_off(tmp_path: Path, data: bytes, reason: str) -> None:
    ours, theirs = socket.socketpair()
    agent = Agent(ours, "g")
    theirs.sendall(encode(Kind.HELLO, 0, b"{}") + encode(Kind.ANSWER, 1, b"{}"))
    try:
        agent.hello(30)
        if "stdout" in reason:
            child = GuestChild(agent, tmp_path / "o", tmp_path / "e")
            child.job = agent.listen(child.take)
        sent = flood(agent, theirs, data)
        assert reason in str(agent.lost)
        assert sent < 2 * (MOST_OUTPUT_BYTE + MOST_UNASKED_BYTE)
        if "stdout" in reason:
            assert child.wait(30) == -9
            assert (tmp_path / "o").stat().st_size <= MOST_OUTPUT_BYTE
    finally:
        agent.close()
        theirs.close()


def test_answers_that_nobody_takes_are_not_kept() -> None:
    ours, theirs = socket.socketpair()
    agent = Agent(ours, "g")
    try:
        with GuestRequest(agent) as question:
            theirs.sendall(on_the_line([say(Kind.ANSWER, question.job, {})] * 17))
            deadline = time.monotonic() + 30
            while agent.lost is None and time.monotonic() < deadline:
                time.sleep(0.01)
            assert "more than 16 answers to one request" in str(agent.lost)
    finally:
        agent.close()
        theirs.close()


def test_a_program_whose_end_is_reported_twice_ends_once(tmp_path: Path) -> None:
    def answer(frame: Frame) -> list[Frame]:
        return [say(Kind.ANSWER, frame.job, {}), exited(frame.job, 0), exited(frame.job, 3)]

    with guest(answer) as agent:
        child = agent.start(["load"], directory=tmp_path, stdout=tmp_path / "o", stderr=tmp_path / "e")
        assert child.wait(30) == 0
        assert agent.lost is None


def test_why_the_kernel_ended_a_program_stands_in_its_log_and_is_not_too_long(tmp_path: Path) -> None:
    def answer(frame: Frame) -> list[Frame]:
        killed = "Out of memory: Killed process 71\n\x1b[31m" + "x" * 9000
        how = {**json.loads(exited(frame.job, 0).payload), "code": None, "signal": 9, "kernel": killed}
        return [say(Kind.ANSWER, frame.job, {}), say(Kind.EXITED, frame.job, how)]

    with guest(answer) as agent:
        child = agent.start(["load"], directory=tmp_path, stdout=tmp_path / "o", stderr=tmp_path / "e")
        assert child.wait(30) == -9
    log = (tmp_path / "e").read_text()
    assert log.startswith("vtare: guest g: its kernel reported: Out of memory: Killed process 71 [31mxxx")
    assert len(log) < 2100


# --- what a container leaves in its files ---


@pytest.fixture
def inside(tmp_path: Path, run: Path) -> Path:
    """The run's directory as a container has it."""
    found = tmp_path / "container/rootfs" / str(run).lstrip("/")
    found.mkdir(parents=True)
    return found


def lxc(tmp_path: Path) -> LxcInstance:
    return LxcInstance(tmp_path / "container/rootfs", None, 0, {}, 1)


def link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def listening(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (link, "is a symbolic link"),
        (os.mkfifo, "is a pipe"),
        (Path.mkdir, "is a directory"),
        (listening, "is a socket"),
        (sparse, f"has {1 << 40} B or more, 1000 B are the most"),
        (lambda path: None, "cannot be read"),
    ],
)
def test_only_a_regular_file_of_its_size_comes_out_of_a_container(
    tmp_path: Path, run: Path, inside: Path, make: Callable[[Path], object], found: str
) -> None:
    make(inside / "samples.parquet")
    with pytest.raises(PlatformFailed, match=found):
        lxc(tmp_path).fetch(run, EXPECTED)
    assert list(run.iterdir()) == []


def test_a_directory_that_a_container_replaced_by_a_link_is_not_followed(
    tmp_path: Path, run: Path, inside: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "samples.parquet").write_bytes(b"secret")
    inside.rmdir()
    inside.symlink_to(secret)
    with pytest.raises(PlatformFailed, match="is no directory of the container"):
        lxc(tmp_path).fetch(run, EXPECTED)
    (run / "run.json").write_text("{}")
    with pytest.raises(PlatformFailed, match="is no directory of the container"):
        lxc(tmp_path).start(["--version"], directory=run, stdout=run / "o", stderr=run / "o")
    assert [path.name for path in secret.iterdir()] == ["samples.parquet"]


def test_a_file_is_put_beside_a_link_and_not_through_it(tmp_path: Path, inside: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"as it was")
    (inside / "run.json").symlink_to(victim)
    place = open_below(tmp_path / "container/rootfs", Path("/") / inside.relative_to(tmp_path / "container/rootfs"))
    try:
        put_regular(place, "run.json", b"{}", 0o600)
    finally:
        os.close(place)
    assert (victim.read_bytes(), (inside / "run.json").read_bytes()) == (b"as it was", b"{}")


def test_a_file_that_grows_while_it_is_read_is_cut_off(tmp_path: Path, run: Path) -> None:
    place = os.open("/dev", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with Incoming(run, "zero", 1000, "here") as incoming, pytest.raises(PlatformFailed, match="is a device"):
            take_regular(place, incoming, "here")
    finally:
        os.close(place)
    with Incoming(run, "x", 1000, "here") as incoming:
        incoming.write(bytes(1000))
        with pytest.raises(PlatformFailed, match="has 1001 B or more"):
            incoming.write(b"1")
    assert list(run.iterdir()) == []


# --- documents ---


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'"x"', b"[" * 10**6, b'{"a":' * 10**5, b'{"a": Infinity}', b'{"a": 1e400}', b'{"a": %d}' % 10**30,
     b'{"\\udfff": 1}', b"\xff\xfe", b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}"],
)  # fmt: skip
def test_a_document_that_could_break_what_uses_it_is_refused(data: bytes) -> None:
    with pytest.raises(documents.BadDocument):
        documents.parse(data)


def test_a_document_is_read_from_a_regular_file_of_bounded_size_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(json.dumps({"a": [1, 2.5, "ü", None, True]}).encode())
    assert documents.read(path) == {"a": [1, 2.5, "ü", None, True]}
    with pytest.raises(BadInput, match="10 B are allowed"):
        documents.read(path, most_byte=10)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="no regular file"):
        documents.read(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(BadInput, match="cannot be read"):
        documents.read(tmp_path / "link")


def test_words_of_a_far_end_are_one_short_line_of_printable_characters() -> None:
    assert printable("a\x1b[2Jb\n\x00c‮") == "a [2Jb c"
    assert len(printable("x" * 10**7)) < 400


def test_every_claim_about_far_ends_names_a_test_that_is_there() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs/internals/security.md").read_text(encoding="utf-8")
    section = page.split("## Guests and remote hosts")[1].split("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", section))
    code = "".join(
        path.read_text(encoding="utf-8") for part in ("python/tests", "tests") for path in (root / part).rglob("*.py")
    )
    assert len(named) > 20
    assert [name for name in sorted(named) if f"def {name}(" not in code] == []
