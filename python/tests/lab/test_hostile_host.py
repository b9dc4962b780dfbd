"""A hostile machine over SSH: a server that lies, asked by the lab's real connection."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from machines import wait_until

from vtare.errors import MachineCannot, PlatformFailed
from vtare.platforms import remote
from vtare.platforms.intake import MOST_OUTPUT_BYTE, OUTPUT_LOST
from vtare.platforms.remote import Login, Machine
from vtare.platforms.ssh import SshInstance, SshPlatform

asyncssh = pytest.importorskip("asyncssh", reason="the Python package 'asyncssh' is missing: make platforms")
pytestmark = pytest.mark.attack

EXPECTED = {"samples.parquet": 1 << 20}
FLOOD = b"\x1b[2J" * 10_000


@dataclass
class Host:
    """A machine that behaves until a test changes it: each lie is a function in its place."""

    root: Path
    port: int = 0
    architecture: bytes = os.uname().machine.encode() + b"\n"
    #: What a started program does with its process, in place of ending with 0.
    program: Callable[[Any], Any] | None = None
    #: What the first command does, in place of printing the architecture.
    first: Callable[[Any], Any] | None = None
    lstat: Callable[[str], Any] | None = None
    read: Callable[[int, int], bytes] | None = None
    commands: list[str] = field(default_factory=list)
    connections: int = 0

    def settings(self) -> dict[str, str | int]:
        known = str(self.root / "known")
        return {"host": "127.0.0.1", "user": "x", "port": self.port, "known_hosts": known, "directory": "/tmp"}

    async def serve(self, process: Any) -> None:
        command = process.command or ""
        self.commands.append(command)
        try:
            if command.startswith("umask 077 && mkdir "):
                (self.root / "files" / command.split()[4].strip("'/")).mkdir(parents=True)
                if self.first is not None:
                    await self.first(process)
                process.stdout.write(self.architecture)
            elif command.startswith("lease="):
                await process.stdin.read()
            elif command.startswith("cd ") and self.program is not None:
                await self.program(process)
            process.exit(0)
        except (OSError, asyncssh.Error):
            process.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """The machine, in a thread and an event loop of its own."""
    made = Host(tmp_path / "host")
    (made.root / "files/tmp").mkdir(parents=True)

    class Server(asyncssh.SSHServer):  # type: ignore[misc,name-defined]
        def connection_made(self, conn: Any) -> None:
            made.connections += 1

        def connection_lost(self, exc: Exception | None) -> None:
            made.connections -= 1

        def begin_auth(self, username: str) -> bool:
            return False

    class Sftp(asyncssh.SFTPServer):  # type: ignore[misc,name-defined]
        def __init__(self, chan: Any) -> None:
            super().__init__(chan, chroot=str(made.root / "files").encode())

        def lstat(self, path: bytes) -> Any:
            found = None if made.lstat is None or not path.endswith(b"samples.parquet") else made.lstat(path.decode())
            return super().lstat(path) if found is None else found

        def read(self, file_obj: Any, offset: int, size: int) -> bytes:
            name = getattr(file_obj, "name", b"")
            if made.read is not None and bytes(name).endswith(b"samples.parquet"):
                return made.read(offset, size)
            return bytes(super().read(file_obj, offset, size))

    key = asyncssh.generate_private_key("ssh-ed25519")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def listen() -> Any:
        return await asyncssh.listen(
            "127.0.0.1", 0, server_host_keys=[key], server_factory=Server, process_factory=made.serve,
            sftp_factory=Sftp, encoding=None,
        )  # fmt: skip

    listening = asyncio.run_coroutine_threadsafe(listen(), loop).result(30)
    made.port = listening.get_port()
    public = key.export_public_key().decode()
    (made.root / "known").write_text(f"[127.0.0.1]:{made.port} {public}")
    yield made
    loop.call_soon_threadsafe(listening.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "vtare"
    path.write_bytes(b"\x7fELF" + bytes(100_000))
    return path


@pytest.fixture
def platform(host: Host, binary: Path) -> Iterator[SshPlatform]:
    made = SshPlatform(binary, "vtare-1-2", host.settings())
    yield made
    made.stop()


def instance_in(platform: SshPlatform, run: Path) -> SshInstance:
    """The machine with a program started that left a file."""
    (instance,) = platform.start(1)
    run.mkdir()
    (run / "run.json").write_text("{}")
    return instance


def leave(host: Host, run: Path, content: bytes) -> None:
    """Put the samples where the instance's files are."""
    (there,) = (host.root / "files/tmp").glob("vtare-1-2-ssh-*")
    (there / run.name).mkdir()
    (there / run.name / "samples.parquet").write_bytes(content)


def attributes(kind: int, mode: int, size: int) -> Any:
    return asyncssh.SFTPAttrs(type=kind, permissions=mode | 0o600, size=size)


def test_a_machine_that_behaves_gives_what_is_expected_and_no_more(
    host: Host, platform: SshPlatform, tmp_path: Path
) -> None:
    instance = instance_in(platform, tmp_path / "run")
    leave(host, tmp_path / "run", b"PAR1" * 100_000)
    (next((host.root / "files/tmp").glob("vtare-*/run")) / "evil").write_text("x")
    instance.fetch(tmp_path / "run", EXPECTED)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["run.json", "samples.parquet"]
    assert (tmp_path / "run/samples.parquet").read_bytes() == b"PAR1" * 100_000


@pytest.mark.parametrize(
    ("lstat", "read", "reason"),
    [
        (lambda path: attributes(asyncssh.FILEXFER_TYPE_SYMLINK, stat.S_IFLNK, 3), None, "is not a regular file"),
        (lambda path: attributes(asyncssh.FILEXFER_TYPE_DIRECTORY, stat.S_IFDIR, 3), None, "is not a regular file"),
        (lambda path: attributes(asyncssh.FILEXFER_TYPE_SPECIAL, stat.S_IFIFO, 3), None, "is not a regular file"),
        (
            lambda path: attributes(asyncssh.FILEXFER_TYPE_REGULAR, stat.S_IFREG, 1 << 60),
            None,
            f"has {1 << 60} B or more, {1 << 20} B are the most",
        ),
        (None, lambda offset, size: bytes(size), f"B or more, {1 << 20} B are the most"),
        (None, lambda offset, size: bytes(2 << 20), "B are the most|over SSH"),
    ],
    ids=["link", "directory", "pipe", "long", "endless", "more than asked"],
)
def test_a_file_that_is_not_what_was_asked_for_leaves_nothing(
    host: Host, platform: SshPlatform, tmp_path: Path, lstat: Any, read: Any, reason: str
) -> None:
    instance = instance_in(platform, tmp_path / "run")
    leave(host, tmp_path / "run", b"PAR1")
    host.lstat, host.read = lstat, read
    with pytest.raises(PlatformFailed, match=reason):
        instance.fetch(tmp_path / "run", EXPECTED)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["run.json"]


def test_a_file_that_is_missing_is_named(platform: SshPlatform, tmp_path: Path) -> None:
    instance = instance_in(platform, tmp_path / "run")
    with pytest.raises(PlatformFailed, match=r"x@127.0.0.1: samples.parquet: .*No such file"):
        instance.fetch(tmp_path / "run", EXPECTED)


async def flood(process: Any) -> None:
    while True:
        process.stdout.write(FLOOD)
        await process.stdout.drain()


async def hang(process: Any) -> None:
    await asyncio.sleep(3600)


def test_a_program_that_prints_without_end_is_ended_and_its_log_is_bounded(
    host: Host, platform: SshPlatform, tmp_path: Path
) -> None:
    host.program = flood
    run = tmp_path / "run"
    instance = instance_in(platform, run)
    child = instance.start(["measure"], directory=run, stdout=run / "log", stderr=run / "log")
    assert child.wait(60) == OUTPUT_LOST
    assert (run / "log").stat().st_size <= MOST_OUTPUT_BYTE + 100
    assert f"vtare: more than {MOST_OUTPUT_BYTE} B of output" in (run / "log").read_bytes()[-100:].decode()


def test_a_first_answer_without_end_is_cut_off(host: Host, binary: Path) -> None:
    host.first = flood
    with pytest.raises(PlatformFailed, match="more than 65536 B in answer to a command") as failed:
        SshPlatform(binary, "vtare-1-2", host.settings()).start(1)
    assert str(failed.value).isprintable()


def test_a_machine_that_never_answers_costs_the_time_limit(
    host: Host, binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.first = hang
    monkeypatch.setattr(remote, "_TIMEOUT_S", 0.5)
    with pytest.raises((PlatformFailed, MachineCannot), match=r"in time|TimeoutError"):
        SshPlatform(binary, "vtare-1-2", host.settings()).start(1)


def test_a_machine_of_another_architecture_keeps_neither_directory_nor_connection(host: Host, binary: Path) -> None:
    host.architecture = b"\x1b]0;z80\x07\n" * 99
    login = Login("127.0.0.1", "x", host.port, known_hosts=str(host.root / "known"))
    with pytest.raises(MachineCannot, match=r"z80.* the binary .* is for") as failed:
        Machine(login, "/tmp/vtare-1-2-ssh-0", "vtare-1-2").open(binary)
    assert str(failed.value).isprintable()
    assert "rm -rf /tmp/vtare-1-2-ssh-0" in host.commands[-1]
    wait_until("the connection is gone", lambda: host.connections == 0)
