"""Programs that the lab starts, how they ended, and files that appear whole or not at all.

Every program of this machine starts here: tools, which are waited for, and what runs beside the lab (`start`), which
`vtare.platforms.child` watches and ends.
"""

from __future__ import annotations

import logging
import os
import secrets
import shlex
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.errors import VtareError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO

PIPE: Final = subprocess.PIPE
NOWHERE: Final = subprocess.DEVNULL
Process = subprocess.Popen[bytes]
TimeoutExpired = subprocess.TimeoutExpired

_LOG = logging.getLogger(__name__)
_TOOL_S: Final = 20.0
#: Above it, the exit code that a shell reports is that of a signal; vtare itself ends with 130 when interrupted.
_INTERRUPTED: Final = 130


class ToolFailed(VtareError):
    """A tool is missing, failed or hung. `code` is None where it did not end by itself; `output` is what it printed."""

    exit_code = 1

    def __init__(self, words: Sequence[str], reason: str, code: int | None = None, output: str = "") -> None:
        """Name the command and the reason."""
        super().__init__(f"`{shlex.join(words)}`: {reason}")
        self.reason = reason
        self.code = code
        self.output = output


def where_the_lab_is() -> dict[str, str]:
    """Return the environment in which another Python finds this package where this process found it."""
    home = str(Path(__file__).parents[1])
    return {"PYTHONPATH": os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])}


def run_tool(
    words: Sequence[str],
    *,
    timeout_s: float = _TOOL_S,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a tool to its end and return what it prints on stdout.

    `environment` is added to that of this process. The command and its duration are logged at the level DEBUG.

    Raises:
        ToolFailed: it is missing, ended with a non-zero exit code, or did not end within `timeout_s` seconds.
    """
    output = tool_output(words, timeout_s=timeout_s, directory=directory, environment=environment)
    return output.decode(errors="replace")


def tool_output(
    words: Sequence[str],
    *,
    timeout_s: float = _TOOL_S,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """Run a tool to its end as `run_tool` does and return the bytes that it prints on stdout.

    Raises:
        ToolFailed: as `run_tool`.
    """
    begin = time.monotonic()
    try:
        done = subprocess.run(
            words,
            cwd=directory,
            env=_environment(environment),
            capture_output=True,
            timeout=timeout_s,
            stdin=NOWHERE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolFailed(words, str(error)) from error
    _LOG.debug("%s: %s in %.3f s", shlex.join(words), ending_text(done.returncode), time.monotonic() - begin)
    if done.returncode != 0:
        output = (done.stderr or done.stdout).decode(errors="replace")
        raise ToolFailed(words, " ".join(output.split()) or ending_text(done.returncode), done.returncode, output)
    return done.stdout


def start(
    words: Sequence[str],
    *,
    stdin: IO[bytes] | int = NOWHERE,
    stdout: IO[bytes] | int = NOWHERE,
    stderr: IO[bytes] | int = NOWHERE,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    buffered: bool = True,
    group: bool = False,
    session: bool = False,
    before: Callable[[], None] | None = None,
) -> Process:
    """Start a program that runs beside the lab; whoever starts it ends it.

    `environment` is added to that of this process. The program leads its own process group or session where asked, so
    that a Ctrl-C at the terminal does not reach it. `before` runs in the new process, which then becomes the program:
    it must not import or look up anything.

    Raises:
        OSError: the program cannot be started.
    """
    started = subprocess.Popen(
        words,
        bufsize=-1 if buffered else 0,
        cwd=directory,
        env=_environment(environment),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        process_group=0 if group else None,
        start_new_session=session,
        preexec_fn=before,
    )
    _LOG.debug("%s: started as process %d", shlex.join(words), started.pid)
    return started


def _environment(more: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if more is None else {**os.environ, **more}


def ending_text(code: int) -> str:
    """How a program ended, in words, from its exit code or minus the number of the signal that ended it.

    Example:
        >>> ending_text(-9), ending_text(3)
        ('signal 9', 'exit code 3')
    """
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def code_of_shell(code: int) -> int:
    """The exit code of a program whose end a shell, or a daemon like one, reports: minus the signal's number, if any.

    Example:
        >>> code_of_shell(137), code_of_shell(130), code_of_shell(3)
        (-9, 130, 3)
    """
    return code if code <= _INTERRUPTED else 128 - code


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside it, fsync, and rename it into place. A link there is replaced.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    # A name that nobody can know beforehand, and a file that is made here: whoever prepared the directory cannot
    # have laid a link there.
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}.partial")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Bring a file, or the entries of a directory, to the disk. Raises OSError where the system refuses."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
