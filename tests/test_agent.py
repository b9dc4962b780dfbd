"""`vtare agent` itself, over a pair of sockets in place of a guest's port: what it does, refuses and survives."""

from __future__ import annotations

import json
import os
import random
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vtare.platforms.guest.agent import Agent
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.frames import Decoder, Frame, Kind, encode
from vtare.platforms.guest.instance import GuestFiles
from vtare.platforms.intake import Incoming

pytestmark = pytest.mark.e2e


@contextmanager
def line(vtare: Path, *options: str) -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """The other end of a started agent's channel, and the agent."""
    ours, theirs = socket.socketpair()
    words = [str(vtare), "agent", *options]
    process = subprocess.Popen(words, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.DEVNULL)
    theirs.close()
    try:
        yield ours, process
    finally:
        ours.close()
        try:
            process.wait(60)
        finally:
            process.kill()


@contextmanager
def agent_in(vtare: Path, directory: Path) -> Iterator[tuple[Agent, subprocess.Popen[bytes]]]:
    with line(vtare, "--directory", str(directory)) as (channel, process):
        agent = Agent(channel, "g")
        assert agent.hello(60)["problems"] == []
        try:
            yield agent, process
        finally:
            agent.close()


def heard(channel: socket.socket, decoder: Decoder, kind: Kind, job: int) -> Frame:
    """The first frame of this kind and job."""
    channel.settimeout(60)
    while data := channel.recv(1 << 16):
        for frame in decoder.take(data):
            if (frame.kind, frame.job) == (kind, job):
                return frame
    raise AssertionError(f"the agent closed the channel before it sent {kind.name}")


def content_of(agent: Agent, path: Path, place: Path) -> bytes:
    """What the agent gives for a path, kept under a name of its own."""
    with Incoming(place, "content", 1 << 22, "the agent") as incoming:
        agent.get(path, incoming)
        incoming.keep()
    return (place / "content").read_bytes()


def test_a_run_goes_in_and_its_samples_come_back(vtare: Path, tmp_path: Path) -> None:
    # The guest's files are those of this machine here: what comes back is fetched to a place of its own.
    run = {
        "schema": "vtare.run/1",
        "run_id": "0123456789abcdef",
        "instrument": "sleep",
        "seed": 1,
        "output": str(tmp_path / "samples.parquet"),
        "parameters": {"samples": 5, "target_ns": [1000], "method": ["spin"]},
    }
    with agent_in(vtare, tmp_path) as (agent, process):
        assert agent.facts()["architecture"]
        agent.put(tmp_path / "new" / "big", bytes(range(256)) * 4000)
        assert content_of(agent, tmp_path / "new" / "big", tmp_path) == bytes(range(256)) * 4000
        agent.put(tmp_path / "run.json", json.dumps(run).encode())
        log = tmp_path / "log"
        child = agent.start(["measure", str(tmp_path / "run.json")], directory=tmp_path, stdout=log, stderr=log)
        assert child.wait(120) == 0, log.read_text()
        assert content_of(agent, tmp_path / "samples.parquet", tmp_path).startswith(b"PAR1")
        GuestFiles(agent).fetch(tmp_path, {"samples.parquet": 1 << 20})
        assert (tmp_path / "samples.parquet").read_bytes().startswith(b"PAR1")
        agent.end(60)
        assert process.wait(60) == 0


def test_only_a_few_commands_of_its_own_are_started_and_only_files_in_reach_are_touched(
    vtare: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("s")
    with agent_in(vtare, tmp_path / "in") as (agent, _):
        for arguments in (["exec", "sh"], ["agent"], ["/bin/sh"], [], ["--version"]):
            with pytest.raises(GuestFailed, match="use one of measure, load, serve, capture, check"):
                agent.start(arguments, directory=tmp_path / "in", stdout=tmp_path / "o", stderr=tmp_path / "e")
        for path in (tmp_path / "secret", tmp_path / "in" / ".." / "secret", Path("relative")):
            with pytest.raises(GuestFailed, match="path is "):
                content_of(agent, path, tmp_path)
        with pytest.raises(GuestFailed, match="the --directory"):
            agent.put(tmp_path / "new", b"x")
        with pytest.raises(GuestFailed, match="No such file"):
            content_of(agent, tmp_path / "in" / "none", tmp_path)


def test_signals_reach_what_runs_and_its_end_is_shown(vtare: Path, tmp_path: Path) -> None:
    with agent_in(vtare, tmp_path) as (agent, _):
        out, log = tmp_path / "out", tmp_path / "log"
        child = agent.start(["load", "cpu", "--threads", "1", "--json"], directory=tmp_path, stdout=out, stderr=log)
        deadline = time.monotonic() + 60
        while b"ready\n" not in log.read_bytes():
            assert time.monotonic() < deadline, "the load was not ready within 60 s"
            time.sleep(0.02)
        assert child.terminate(60) == 0
        assert json.loads(out.read_text())["kind"] == "cpu"
        other = agent.start(["load", "idle"], directory=tmp_path, stdout=out, stderr=log)
        assert other.kill() == -9


@pytest.mark.parametrize("how", ["close", "term"])
def test_nothing_that_was_started_outlives_the_channel_or_the_agent(vtare: Path, tmp_path: Path, how: str) -> None:
    with line(vtare, "--directory", str(tmp_path)) as (channel, process):
        decoder = Decoder()
        heard(channel, decoder, Kind.HELLO, 0)
        start = {"arguments": ["load", "idle"], "directory": str(tmp_path)}
        channel.sendall(encode(Kind.START, 5, json.dumps(start).encode()))
        pid = int(json.loads(heard(channel, decoder, Kind.ANSWER, 5).payload)["pid"])
        descriptor = os.pidfd_open(pid)
        try:
            if how == "close":
                channel.close()
            else:
                process.terminate()
            process.wait(60)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            assert poll.poll(60_000), "the load outlived its agent by 60 s"
        finally:
            os.close(descriptor)


def test_hostile_bytes_are_survived(vtare: Path, tmp_path: Path) -> None:
    choice = random.Random(1)
    marks = [b"vtG1", b"v", encode(Kind.DATA, 9, b"piece of no file"), encode(Kind.WHOLE, 9, b'{"byte": 3}')]
    with line(vtare, "--directory", str(tmp_path)) as (channel, process):
        decoder = Decoder()
        heard(channel, decoder, Kind.HELLO, 0)
        for number in range(1, 40):
            noise = b"".join(choice.choice([*marks, choice.randbytes(choice.randrange(300))]) for _ in range(20))
            kind = choice.choice([Kind.START, Kind.SIGNAL, Kind.PUT, Kind.GET, Kind.HELLO, Kind.EXITED])
            payload = choice.choice([b"", b"{", b"[]", b'{"path": 1}', b'{"path": "/", "x": 1}', choice.randbytes(40)])
            channel.sendall(noise + encode(kind, number, payload))
            # Whatever was sent, it is answered by a refusal, and the next question by its answer.
            assert b"error" in heard(channel, decoder, Kind.FAILED, number).payload
            channel.sendall(encode(Kind.FACTS, 1000 + number, b""))
            assert heard(channel, decoder, Kind.ANSWER, 1000 + number).payload.startswith(b"{")
        assert process.poll() is None
    assert list(tmp_path.iterdir()) == []


def test_a_channel_or_a_directory_that_is_not_there_is_named(vtare: Path, tmp_path: Path) -> None:
    for options, code, text in (
        (["--port", "org.vtare.nothing"], 3, "no virtio port is called 'org.vtare.nothing'"),
        (["--port", str(tmp_path / "none")], 3, "No such file"),
        (["--directory", str(tmp_path / "none")], 2, "use a directory"),
        (["--init"], 2, "belongs to process 1"),
    ):
        done = subprocess.run(
            [str(vtare), "agent", *options],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, done
        assert text in done.stderr
