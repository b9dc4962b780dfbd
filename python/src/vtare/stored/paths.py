"""Names and files of a store that somebody else may have made: no path leads out of it, no link is followed.

What is checked here is a store at rest. Whoever can change a store while it is read can change its figures, too.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, Final, Literal

from vtare.errors import BadInput

Kind = Literal["file", "directory", "symbolic link", "special file"]

#: The most that a plan or a JSON document of a store may have.
MOST_TEXT_BYTE: Final = 64 << 20
#: What `vtare watch` keeps in its directory.
HISTORY: Final = "history.sqlite"
_RUN_ID: Final = re.compile(r"[0-9a-f]{16}")
#: Control characters but tab and line feed: on a terminal they would be commands.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
#: Commands to GitHub Actions: `::error file=x::text`.
_COMMAND: Final = re.compile(
    "::(?=(?:error|warning|notice|debug|group|endgroup|add-mask|add-path|set-output|set-env|save-state|stop-commands"
    r"|echo)\b[^\n]*::)",
    re.IGNORECASE,
)


def is_run_id(text: object) -> bool:
    """Whether this is the id of a run: 16 hexadecimal digits, which name one directory and lead nowhere else."""
    return isinstance(text, str) and _RUN_ID.fullmatch(text) is not None


def require_run_id(text: object, path: Path) -> None:
    """Refuse a file with a run id that vtare never makes.

    Raises:
        BadInput: it is none.
    """
    if not is_run_id(text):
        raise BadInput(
            f"{path}: the run id {text!r} is not 16 hexadecimal digits: vtare did not write this file; do not use a "
            "store that you do not trust"
        )


def kind_of(path: Path) -> Kind | None:
    """What stands at a path, without following a link; None where nothing does.

    Raises:
        OSError: the path is too long, or a directory above it cannot be searched.
    """
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _kind(mode)


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symbolic link" if stat.S_ISLNK(mode) else "special file"


def open_regular(path: Path) -> int:
    """Open an regular file for reading; return its descriptor. A link is not followed, a FIFO does not block.

    Raises:
        OSError: it is missing, cannot be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "found no regular file", str(path))
    return descriptor


def read_regular(path: Path, most_byte: int = MOST_TEXT_BYTE) -> bytes:
    """Read an regular file of at most `most_byte` bytes.

    Raises:
        OSError: it is missing, cannot be read, is no regular file, or is larger.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        content = file.read(most_byte + 1)
    if len(content) > most_byte:
        raise OSError(errno.EFBIG, f"found more than {most_byte} B; {most_byte} B are allowed", str(path))
    return content


def read_named(path: Path, most_byte: int = MOST_TEXT_BYTE) -> bytes:
    """Read a file that a person names, of at most `most_byte` bytes. Links are followed; nothing is waited for.

    An input that this process was started with is read, too: `/dev/stdin`, or `/dev/fd/63` for `<(...)` in a shell.

    Raises:
        OSError: it is missing, cannot be read, is no regular file, or is larger.
    """
    own_input = path == Path("/dev/stdin") or path.is_relative_to("/dev/fd")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if own_input else os.O_NONBLOCK))
    if not own_input and not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file; copy its content into one", str(path))
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(most_byte + 1)
    if len(content) > most_byte:
        raise OSError(errno.EFBIG, f"it is larger than {most_byte >> 20} MiB, the most that is read", str(path))
    return content


def odd_entry(directory: Path) -> str | None:
    """Why a directory is not one of regular files and directories alone, in words; None where it is.

    Raises:
        OSError: the directory cannot be listed.
    """
    kind = kind_of(directory)
    if kind != "directory":
        return f"is {_with_article(kind)}, not a directory"
    waiting = [directory]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    kind = _kind(entry.stat(follow_symlinks=False).st_mode)
                    name = os.path.relpath(entry.path, directory)
                    return f"holds {_with_article(kind)}, {name!r}, which is not followed"
    return None


def _with_article(kind: Kind | None) -> str:
    return "missing" if kind is None else f"a {kind}"


def parse_json(content: str | bytes) -> Any:
    """Return a JSON document.

    Raises:
        ValueError: it is none, or is nested too deep.
    """
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def is_watched(store: Path) -> bool:
    """Whether `vtare watch` keeps this directory."""
    return (store / HISTORY).exists()


def plain_text(text: str) -> str:
    r"""The text with each control character, and each that changes the direction of writing, as U+FFFD.

    So is the first colon of a command to a CI service (`::error::`), which it carries out where it begins a line.

    >>> ascii(plain_text("a\x07::error file=x::b fe80::1"))
    "'a\\ufffd\\ufffd:error file=x::b fe80::1'"
    """
    return _CONTROL.sub("\ufffd", _COMMAND.sub("\ufffd:", text))


def plain_line(text: str) -> str:
    """The plain text as one line: line breaks and tabs become blanks. See `plain_text`."""
    return plain_text(" ".join(text.split()))


def plain_values(value: Any) -> Any:
    """A JSON value in which every text is plain. See `plain_text`."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, list):
        return [plain_values(item) for item in value]
    if isinstance(value, dict):
        return {plain_text(key): plain_values(item) for key, item in value.items()}
    return value
