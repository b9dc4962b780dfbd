"""The commands that are compared, as they were typed."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vtare.errors import BadInput
from vtare.stored.paths import plain_line

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Command:
    """One of them: `words` are started; `text` is how it is named, a line without control characters."""

    words: tuple[str, ...]
    text: str


def read_commands(typed: Sequence[str], *, least: int = 2) -> tuple[Command, ...]:
    """Return the commands: `A -- B -- C`, or one word each. One word with blanks or other signs goes to `sh -c`.

    >>> [command.words for command in read_commands(["gzip -1 x | wc", "--", "gzip", "-9", "x"])]
    [('sh', '-c', 'gzip -1 x | wc'), ('gzip', '-9', 'x')]

    Raises:
        BadInput: fewer than `least` commands, or one without a word.
    """
    parts: list[list[str]] = [[]]
    if "--" in typed:
        for word in typed:
            if word == "--":
                parts.append([])
            else:
                parts[-1].append(word)
    else:
        parts = [[word] for word in typed]
    if len(parts) < least or not all(parts) or not all(part[0].strip() for part in parts):
        raise BadInput(
            f"too few commands ({sum(map(bool, parts))}): name {least} or more, none of them empty: "
            "vtare ab -- 'A' -- 'B'"
        )
    return tuple(_command(part) for part in parts)


#: Commands that only a shell has.
_BUILTINS: Final = frozenset({
    ".", "alias", "bg", "break", "builtin", "cd", "command", "continue", "declare", "dirs", "disown", "eval", "exec",
    "exit", "export", "fc", "fg", "function", "hash", "help", "history", "jobs", "let", "local", "logout", "popd",
    "pushd", "read", "readonly", "return", "set", "shift", "shopt", "source", "suspend", "time", "times", "trap",
    "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
})  # fmt: skip


def _is_builtin(word: str) -> bool:
    return word in _BUILTINS and shutil.which(word) is None


def _command(words: Sequence[str]) -> Command:
    if len(words) > 1:
        if _is_builtin(words[0]):
            raise BadInput(
                f"'{words[0]}' is a builtin of the shell and no program. Quote the command, so that it goes to sh: "
                f"{shlex.quote(shlex.join(words))}"
            )
        return Command(tuple(words), plain_line(shlex.join(words)))
    (text,) = words
    try:
        plain = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"the command {text!r} is not one that a shell can read: {error}") from error
    # What is the same without a shell does without: its start would be in every figure.
    if shlex.join(plain) == text.strip() and plain and "=" not in plain[0] and not _is_builtin(plain[0]):
        return Command(tuple(plain), plain_line(text))
    return Command(("sh", "-c", text), plain_line(text))
