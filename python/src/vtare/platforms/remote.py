"""Another machine over SSH: one connection, files there and back, and programs that end with the connection.

The connection lives in an event loop of its own thread, which sleeps unless a packet of the connection comes: nothing
is asked for while a run measures; that the other machine is still there, the kernel finds out (TCP keepalive). A
program on the other machine ends where the connection does. A directory there holds the binary, the runs' files and a
script that ends what was started, undoes what was changed and removes the directory. A keeper runs the script when the
connection ends, or when nothing came from the lab for as long as the longest run may take: neither a killed lab nor
a cut cable leaves anything behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import shlex
import signal
import socket
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from vtare.errors import HostLost, MachineCannot, PlatformFailed
from vtare.platforms.binary import digest
from vtare.platforms.child import Child
from vtare.platforms.intake import MOST_OUTPUT_BYTE, OUTPUT_LOST, PIECE_BYTE, printable
from vtare.platforms.lacks import library
from vtare.platforms.owner import OWNER_VARIABLE
from vtare.process import code_of_shell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence

    from vtare.platforms.intake import Incoming

_T = TypeVar("_T")

_TIMEOUT_S: Final = 60.0
_MAKING: Final = threading.Lock()
_STARTED_S: Final = 30.0
#: What a command of the lab's own may print: a line or two, and an error.
_MOST_ANSWER_BYTE: Final = 1 << 16
#: A file may take as long as an answer, and 1 s for each of these bytes.
_SLOWEST_BYTE_PER_S: Final = 1 << 16
#: A connection that has died is noticed after `_IDLE_S + _PROBES * _BETWEEN_S` seconds.
_IDLE_S, _BETWEEN_S, _PROBES = 10, 5, 3
#: How long what was started may run on without a word of the lab, where it states nothing else.
_LEASE_S: Final = 86_400
#: An sshd allows 10 sessions a connection (MaxSessions): the keeper has one, a command and a file one each.
_MOST_PROGRAMS: Final = 6
#: Ends what was started, undoes what was changed, removes the directory; by whoever comes first.
_END: Final = """cd {place} || exit 0
for file in pid-*; do
  pid=$(cat "$file" 2>/dev/null) || continue
  tr '\\0' '\\n' <"/proc/$pid/environ" 2>/dev/null | grep -qxF {mark} && kill -KILL "$pid"
done
[ -f undo ] && sh ./undo >/dev/null 2>&1
cd / && rm -rf {place}
"""
#: Reads for how many seconds it shall wait for the next number, and ends all where none comes, or the connection ends.
_KEEPER: Final = """lease={lease}
while next=$(timeout $lease dd bs=16 count=1 2>/dev/null) && [ -n "$next" ]; do lease=$next; done
{end}
"""
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
    return library("asyncssh", "asyncssh")


class Machine:
    """A connection to another machine, with the binary on it, checked by its hash."""

    def __init__(self, login: Login, directory: str, owner: str) -> None:
        """Name the directory there; nothing is connected yet. `owner` marks all that is started."""
        self.login = login
        self.directory = directory
        self.binary = f"{directory}/vtare"
        self._owner = owner
        self._connections: list[_Connection] = []
        self._keeper: Any = None
        self._count = 0
        self._ended = True

    def reach(self) -> None:
        """Connect.

        Raises:
            HostLost: the machine cannot be reached, or does not let this user in.
        """
        _call(self._reach())

    def open(self, binary: Path) -> None:
        """Connect, make the directory and bring the binary into it.

        Raises:
            HostLost: the machine cannot be reached, or does not let this user in.
            MachineCannot: it is of another kind.
            PlatformFailed: the binary did not arrive as it is.
        """
        self.reach()
        try:
            _call(self._open(binary))
        except BaseException:
            # A machine that is no place for the binary keeps neither a directory nor a connection.
            self.close()
            raise

    def run(self, command: str) -> tuple[int, str]:
        """Run a shell command and return its exit code and what it printed.

        Raises:
            PlatformFailed: it prints more than `_MOST_ANSWER_BYTE` or takes longer than `_TIMEOUT_S`.
        """
        return _call(self._run(command))

    def put(self, files: Mapping[str, bytes], directory: str) -> None:
        """Write files into a directory on the other machine, which is made for this user alone."""
        _call(self._put(files, directory))

    def get(self, directory: str, incoming: Incoming) -> None:
        """Read a file of a directory on the other machine, under its own name.

        Raises:
            PlatformFailed: it is missing, no regular file, too long, or too slow.
        """
        longest_s = _TIMEOUT_S + incoming.most_byte / _SLOWEST_BYTE_PER_S
        _call(self._get(f"{directory}/{incoming.path.name}", incoming), longest_s)

    def keep(self, seconds: float) -> None:
        """Let what is started run on for so long without a further word of the lab, and no longer."""
        if self._keeper is not None:
            _loop().call_soon_threadsafe(self._keeper.stdin.write, f"{math.ceil(seconds):>15d}\n".encode())

    def start(
        self, arguments: Sequence[str], *, directory: str, stdout: Path, stderr: Path, before: Sequence[str] = ()
    ) -> Child:
        """Start `BEFORE vtare ARGUMENTS` on the other machine; what it prints lands in the two files here."""
        self._count += 1
        pid_file = f"{self.directory}/pid-{self._count}"
        program = shlex.join(["env", f"{OWNER_VARIABLE}={self._owner}", *before, self.binary, *arguments])
        wrapped = _WRAPPER.format(directory=shlex.quote(directory), program=program, pid_file=shlex.quote(pid_file))
        # Unbuffered: what a program prints is read while it runs.
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("ab", buffering=0)) for path in (stdout, stderr)]
            started = _call(self._start(wrapped, pid_file, files, stack))
        return started

    @property
    def lost(self) -> bool:
        """Whether a connection has ended that was not closed from here."""
        return any(one.connection.is_closed() for one in self._connections)

    def close(self) -> bool:
        """End the connection, and with it every program and the directory; whether they are known to have ended.

        May be called twice.
        """
        connections, self._connections = self._connections, []
        if connections:
            self._ended = False
            with suppress(PlatformFailed):
                # Removed before the connection ends, not some time after it.
                self._ended = _call(self._leave(connections))
        return self._ended

    async def _reach(self) -> None:
        import asyncssh

        try:
            await self._connect()
        except (OSError, asyncssh.Error) as error:
            raise HostLost(f"{self.login}: {printable(error) or type(error).__name__}") from error

    async def _open(self, binary: Path) -> None:
        import asyncssh

        try:
            place = shlex.quote(self.directory)
            made = await self._run(f"umask 077 && mkdir {place} && uname -m")
            if made[0] != 0:
                raise MachineCannot(f"{self.login}: cannot make {self.directory}: {printable(made[1])}")
            if made[1].strip() != os.uname().machine:
                raise MachineCannot(
                    f"{self.login} is {printable(made[1])}, the binary {binary} is for {os.uname().machine}; "
                    "name one for that machine with --binary"
                )
            mark = shlex.quote(f"{OWNER_VARIABLE}={self._owner}")
            await self._put({"end": _END.format(place=place, mark=mark).encode()}, self.directory)
            keeper = _KEEPER.format(lease=_LEASE_S, end=_end_of(self.directory))
            self._keeper = await self._connections[0].connection.create_process(keeper, encoding=None)
            checksum = hashlib.sha256()
            async with self._connections[0].connection.start_sftp_client() as files:
                await files.put(str(binary), self.binary)
                await files.chmod(self.binary, 0o755)
                async for piece in _pieces(files, self.binary, binary.stat().st_size):
                    checksum.update(piece)
        except (OSError, asyncssh.Error) as error:
            raise HostLost(f"{self.login}: {printable(error) or type(error).__name__}") from error
        if checksum.hexdigest() != (sent := digest(binary)):
            raise PlatformFailed(
                f"{self.login}: the binary arrived with SHA-256 {checksum.hexdigest()}, not {sent}; try again"
            )

    async def _connect(self) -> _Connection:
        import asyncssh

        login = {
            "port": self.login.port,
            "username": self.login.user,
            "client_keys": None if self.login.key_file is None else [str(Path(self.login.key_file).expanduser())],
            "known_hosts": None if self.login.known_hosts is None else str(Path(self.login.known_hosts).expanduser()),
            "host_key_alias": self.login.host_key_alias,
        }
        given = {key: value for key, value in login.items() if value is not None}
        opened = _Connection(await asyncssh.connect(self.login.host, connect_timeout=_TIMEOUT_S, **given))
        line = opened.connection.get_extra_info("socket")
        for option, value in (
            (socket.TCP_KEEPIDLE, _IDLE_S),
            (socket.TCP_KEEPINTVL, _BETWEEN_S),
            (socket.TCP_KEEPCNT, _PROBES),
            (socket.TCP_USER_TIMEOUT, 1000 * (_IDLE_S + _PROBES * _BETWEEN_S)),
        ):
            line.setsockopt(socket.IPPROTO_TCP, option, value)
        self._connections.append(opened)
        return opened

    def _first(self) -> Any:
        """The connection for commands and files."""
        if not self._connections:
            raise PlatformFailed(f"{self.login}: the connection has ended")
        return self._connections[0].connection

    async def _run(self, command: str, connection: Any = None) -> tuple[int, str]:
        async with asyncio.timeout(_TIMEOUT_S):
            process = await (connection or self._first()).create_process(
                command, stderr=asyncio.subprocess.STDOUT, encoding=None
            )
            answer = bytearray()
            try:
                while piece := await process.stdout.read(PIECE_BYTE):
                    answer += piece
                    if len(answer) > _MOST_ANSWER_BYTE:
                        raise PlatformFailed(
                            f"{self.login}: more than {_MOST_ANSWER_BYTE} B in answer to a command, "
                            f"beginning '{printable(answer[:80].decode(errors='replace'))}'"
                        )
                await process.wait_closed()
            finally:
                process.close()
        code = process.exit_status
        return (-1 if code is None else int(code)), answer.decode(errors="replace")

    async def _put(self, files: Mapping[str, bytes], directory: str) -> None:
        async with self._first().start_sftp_client() as client:
            await client.makedirs(directory, exist_ok=True)
            for name, content in files.items():
                async with client.open(f"{directory}/{name}", "wb") as file:
                    await client.chmod(f"{directory}/{name}", 0o600)
                    await file.write(content)

    async def _get(self, path: str, incoming: Incoming) -> None:
        import asyncssh

        try:
            async with self._first().start_sftp_client() as client:
                about = await client.lstat(path)
                if about.type != asyncssh.FILEXFER_TYPE_REGULAR:
                    raise PlatformFailed(f"{self.login}: {incoming.path.name} is not a regular file")
                incoming.announce(about.size or 0)
                async for piece in _pieces(client, path, incoming.most_byte):
                    incoming.write(piece)
        except asyncssh.Error as error:
            raise PlatformFailed(f"{self.login}: {incoming.path.name}: {printable(error)}") from error

    async def _start(self, command: str, pid_file: str, files: list[Any], opened: ExitStack) -> RemoteChild:
        import asyncssh

        self._first()
        free = [one for one in self._connections if one.programs < _MOST_PROGRAMS]
        try:
            used = free[0] if free else await self._connect()
            process = await used.connection.create_process(command, stdin=asyncssh.PIPE, encoding=None)
        except (OSError, asyncssh.Error) as error:
            raise PlatformFailed(f"{self.login}: {printable(error)}") from error
        used.programs += 1
        opened.callback(used.ended)
        return RemoteChild(self, process, pid_file, files, opened.pop_all())

    async def _leave(self, connections: list[_Connection]) -> bool:
        import asyncssh

        code = -1
        with suppress(asyncssh.Error, OSError, TimeoutError, PlatformFailed):
            code, _ = await self._run(_end_of(self.directory), connections[0].connection)
        for one in connections:
            one.connection.close()
        for one in connections:
            with suppress(asyncssh.Error, OSError, TimeoutError):
                await asyncio.wait_for(one.connection.wait_closed(), _TIMEOUT_S)
        return code == 0


def _end_of(directory: str) -> str:
    """The command that ends what runs from a directory, and removes it."""
    place = shlex.quote(directory)
    return f"if [ -f {place}/end ]; then sh {place}/end; else rm -rf {place}; fi"


@dataclass(slots=True)
class _Connection:
    """A connection, and how many programs run through it."""

    connection: Any
    programs: int = 0

    def ended(self) -> None:
        self.programs -= 1


class RemoteChild(Child):
    """A program on another machine, started through a connection and ended with it."""

    def __init__(self, machine: Machine, process: Any, pid_file: str, files: list[Any], opened: ExitStack) -> None:
        """Take over a started program, whose process number stands in a file there; what it prints goes to `files`.

        `opened` closes these.
        """
        self._machine = machine
        self._process = process
        self._pid_file = pid_file
        self._code: int | None = None
        self._ended = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._waiter = _loop().create_task(self._wait_closed(files, opened))

    def __del__(self) -> None:
        """Close the descriptor that signals the end."""
        with suppress(OSError, AttributeError):
            os.close(self._ended)

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

    async def _wait_closed(self, files: list[Any], opened: ExitStack) -> None:
        code: int | None = None
        kept = (True, True)
        with opened, suppress(Exception):
            kept = await asyncio.gather(
                self._keep(self._process.stdout, files[0], files[1]),
                self._keep(self._process.stderr, files[1], files[1]),
            )
            await self._process.wait_closed()
            code = self._process.exit_status
        # Without a code the connection is gone.
        self._code = -signal.SIGKILL if code is None or code < 0 else code_of_shell(code)
        if not all(kept):
            self._code = OUTPUT_LOST
        os.eventfd_write(self._ended, 1)

    async def _keep(self, stream: Any, file: Any, log: Any) -> bool:
        """Keep what comes of one stream. Whether all of it was kept: a program that prints too much is ended."""
        came = 0
        while piece := await stream.read(PIECE_BYTE):
            came += len(piece)
            if came > MOST_OUTPUT_BYTE:
                log.write(f"\nvtare: more than {MOST_OUTPUT_BYTE} B of output: ended\n".encode())
                # Its keeper there ends it with its input; a far end that does not is not listened to any more.
                self._process.close()
                return False
            file.write(piece)
        return True


async def _pieces(client: Any, path: str, most_byte: int) -> AsyncIterator[bytes]:
    """What a file on another machine holds: at most one piece more than `most_byte`."""
    async with client.open(path, "rb") as file:
        came = 0
        while came <= most_byte:
            piece = await file.read(PIECE_BYTE, came)
            if not piece:
                return
            came += len(piece)
            yield piece


def _loop() -> asyncio.AbstractEventLoop:
    # Threads may ask for it at the same time, and a connection belongs to one loop.
    with _MAKING:
        return _only_loop()


@cache
def _only_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="ssh", daemon=True).start()
    return loop


def _call(work: Coroutine[Any, Any, _T], longest_s: float = 5 * _TIMEOUT_S) -> _T:
    """Do something in the loop's thread, and wait for it, but not for ever."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result(longest_s)
    except (MachineCannot, PlatformFailed):
        raise
    except TimeoutError as error:
        future.cancel()
        raise PlatformFailed("over SSH: the other machine did not answer in time") from error
    except Exception as error:
        raise PlatformFailed(f"over SSH: {printable(error) or type(error).__name__}") from error
