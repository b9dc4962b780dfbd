"""Another machine over SSH: one connection, files there and back, and programs that end with the connection.

The connection lives in an event loop of its own thread, which sleeps unless a packet of the connection comes: nothing
is asked for while a run measures. A program on the other machine ends where the connection does, and a directory there
that holds the binary and the runs' files is removed by a keeper that ends with it, too: a killed lab leaves nothing
behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import signal
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from vtare.errors import MachineCannot
from vtare.platforms.binary import digest
from vtare.platforms.child import Child
from vtare.platforms.owner import OWNER_VARIABLE
from vtare.platforms.protocol import PlatformFailed

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

_T = TypeVar("_T")

_TIMEOUT_S: Final = 60.0
_STARTED_S: Final = 30.0
#: Above it a shell's exit code tells of a signal; 130 is what vtare itself ends with when interrupted.
_INTERRUPTED: Final = 130
#: Runs a program, hands on its exit code, and ends it when its own input ends: the connection is gone then.
_WRAPPER: Final = """cd {directory} || exit 127
exec 3<&0
{program} </dev/null 3<&- &
pid=$!
echo $pid >{pid_file}
( cat <&3 >/dev/null; kill -TERM $pid; sleep 5; kill -KILL $pid ) >/dev/null 2>&1 &
keeper=$!
exec 3<&-
wait $pid
code=$?
kill $keeper 2>/dev/null
exit $code
"""


@dataclass(frozen=True, slots=True)
class Login:
    """How to reach another machine. What is None is left to the user's own SSH configuration."""

    host: str
    user: str | None = None
    port: int | None = None
    key_file: str | None = None
    known_hosts: str | None = None
    host_key_alias: str | None = None

    def __str__(self) -> str:
        """The machine as a person would name it."""
        return f"{self.user}@{self.host}" if self.user else self.host


def missing_library() -> str | None:
    """Why there is no SSH here, or None."""
    try:
        import asyncssh  # noqa: F401
    except ImportError:
        return "the Python package 'asyncssh' is missing; install it with `pip install vtare[ssh]`"
    return None


class Machine:
    """A connection to another machine, with the binary on it, checked by its hash."""

    def __init__(self, login: Login, binary: Path, directory: str) -> None:
        """Connect, make the directory and bring the binary into it.

        Raises:
            MachineCannot: the machine cannot be reached, does not let this user in, or is of another kind.
            PlatformFailed: the binary did not arrive as it is.
        """
        self.login = login
        self.directory = directory
        self.binary = f"{directory}/vtare"
        self._connection: Any = None
        self._count = 0
        _call(self._open(binary))

    def run(self, command: str) -> tuple[int, str]:
        """Run a shell command and return its exit code and all that it printed."""
        return _call(self._run(command))

    def put(self, files: Mapping[str, bytes], directory: str) -> None:
        """Write files into a directory on the other machine, which is made for this user alone."""
        _call(self._put(files, directory))

    def get(self, directory: str) -> dict[str, bytes]:
        """Read the files of a directory on the other machine."""
        return _call(self._get(directory))

    def start(self, arguments: Sequence[str], *, directory: str, stdout: Path, stderr: Path, owner: str) -> Child:
        """Start `vtare ARGUMENTS` on the other machine; what it prints lands in the two files here."""
        self._count += 1
        pid_file = f"{self.directory}/pid-{self._count}"
        program = shlex.join(["env", f"{OWNER_VARIABLE}={owner}", self.binary, *arguments])
        wrapped = _WRAPPER.format(directory=shlex.quote(directory), program=program, pid_file=shlex.quote(pid_file))
        # Unbuffered: what a program says is looked at while it runs.
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("ab", buffering=0)) for path in (stdout, stderr)]
            started = _call(self._start(wrapped, pid_file, files))
            started.keep(stack.pop_all())
        return started

    def close(self) -> None:
        """End the connection, and with it every program and the directory. May be called twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # Removed before the connection ends, not some time after it.
            with suppress(PlatformFailed):
                _call(self._leave(connection))

    async def _open(self, binary: Path) -> None:
        import asyncssh

        login = {
            "port": self.login.port,
            "username": self.login.user,
            "client_keys": None if self.login.key_file is None else [str(Path(self.login.key_file).expanduser())],
            "known_hosts": None if self.login.known_hosts is None else str(Path(self.login.known_hosts).expanduser()),
            "host_key_alias": self.login.host_key_alias,
        }
        given = {key: value for key, value in login.items() if value is not None}
        try:
            self._connection = await asyncssh.connect(self.login.host, connect_timeout=_TIMEOUT_S, **given)
            place = shlex.quote(self.directory)
            made = await self._run(f"umask 077 && mkdir {place} && uname -m")
            if made[0] != 0:
                raise MachineCannot(f"{self.login}: cannot make {self.directory}: {made[1].strip()}")
            if made[1].strip() != os.uname().machine:
                raise MachineCannot(
                    f"{self.login} is {made[1].strip()}, the binary {binary} is for {os.uname().machine}; "
                    "name one for that machine with --binary"
                )
            await self._connection.create_process(f"cat >/dev/null; rm -rf {place}")
            async with self._connection.start_sftp_client() as files:
                await files.put(str(binary), self.binary)
                await files.chmod(self.binary, 0o755)
                async with files.open(self.binary, "rb") as copy:
                    found = hashlib.sha256(await copy.read()).hexdigest()
        except (OSError, asyncssh.Error) as error:
            raise MachineCannot(f"{self.login}: {error or type(error).__name__}") from error
        if found != (wanted := digest(binary)):
            raise PlatformFailed(f"{self.login}: the binary arrived with SHA-256 {found}, wanted {wanted}; try again")

    async def _run(self, command: str) -> tuple[int, str]:
        done = await self._connection.run(command, stderr=asyncio.subprocess.STDOUT, timeout=_TIMEOUT_S)
        return (-1 if done.exit_status is None else int(done.exit_status)), str(done.stdout)

    async def _put(self, files: Mapping[str, bytes], directory: str) -> None:
        async with self._connection.start_sftp_client() as client:
            await client.makedirs(directory, exist_ok=True)
            for name, content in files.items():
                async with client.open(f"{directory}/{name}", "wb") as file:
                    await client.chmod(f"{directory}/{name}", 0o600)
                    await file.write(content)

    async def _get(self, directory: str) -> dict[str, bytes]:
        found = {}
        async with self._connection.start_sftp_client() as client:
            for name in await client.listdir(directory):
                path = f"{directory}/{name}"
                if await client.isfile(path):
                    async with client.open(path, "rb") as file:
                        found[name] = await file.read()
        return found

    async def _start(self, command: str, pid_file: str, files: list[Any]) -> RemoteChild:
        import asyncssh

        try:
            process = await self._connection.create_process(
                command, stdin=asyncssh.PIPE, stdout=files[0], stderr=files[1], encoding=None
            )
        except asyncssh.Error as error:
            raise PlatformFailed(f"{self.login}: {error}") from error
        return RemoteChild(self, process, pid_file)

    async def _leave(self, connection: Any) -> None:
        import asyncssh

        with suppress(asyncssh.Error, OSError, TimeoutError):
            await connection.run(f"rm -rf {shlex.quote(self.directory)}", timeout=_TIMEOUT_S)
        connection.close()
        with suppress(asyncssh.Error, OSError, TimeoutError):
            await asyncio.wait_for(connection.wait_closed(), _TIMEOUT_S)


class RemoteChild(Child):
    """A program on another machine, started through a connection and ended with it."""

    def __init__(self, machine: Machine, process: Any, pid_file: str) -> None:
        """Take over a started program, whose process number stands in a file there."""
        self._machine = machine
        self._process = process
        self._pid_file = pid_file
        self._code: int | None = None
        self._files = ExitStack()
        self._ended = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._waiter = _loop().create_task(self._wait_closed())

    def __del__(self) -> None:
        """Close the descriptor that tells of the end."""
        with suppress(OSError, AttributeError):
            self._files.close()
            os.close(self._ended)

    def keep(self, files: ExitStack) -> None:
        """Hold the files that its output goes to open as long as this object lives."""
        self._files = files

    @property
    def returncode(self) -> int | None:
        """See `Child.returncode`."""
        return self._code

    def watch(self) -> int:
        """Return a descriptor that is readable once the exit code has come."""
        if self._code is not None:
            raise ProcessLookupError
        return os.dup(self._ended)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program, as soon as it has a process number."""
        if self._code is not None:
            return
        place = shlex.quote(self._pid_file)
        name = number.name.removeprefix("SIG")
        waited = f"n=0; until [ -s {place} ] || [ $n -ge 300 ]; do n=$((n+1)); sleep 0.1; done"
        with suppress(PlatformFailed):
            self._machine.run(f"{waited}; kill -{name} $(cat {place})")

    def kill(self) -> int:
        """Kill the program and return the exit code."""
        self.send_signal(signal.SIGKILL)
        code = self.wait(_STARTED_S)
        return -signal.SIGKILL if code is None else code

    async def _wait_closed(self) -> None:
        code: int | None = None
        with suppress(Exception):
            await self._process.wait_closed()
            code = self._process.exit_status
        # Without a code the connection is gone.
        self._code = -signal.SIGKILL if code is None or code < 0 else code if code <= _INTERRUPTED else 128 - code
        os.eventfd_write(self._ended, 1)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="ssh", daemon=True).start()
    return loop


def _call(work: Coroutine[Any, Any, _T]) -> _T:
    """Do something in the loop's thread, and wait for it."""
    try:
        return asyncio.run_coroutine_threadsafe(work, _loop()).result(5 * _TIMEOUT_S)
    except (MachineCannot, PlatformFailed):
        raise
    except Exception as error:
        raise PlatformFailed(f"over SSH: {error or type(error).__name__}") from error
