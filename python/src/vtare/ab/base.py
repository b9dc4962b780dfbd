"""One command at two commits: `--base REF` in a git worktree of its own, and the working directory as it is."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.ab.commands import Command
from vtare.errors import BadInput
from vtare.process import ToolFailed, run_tool
from vtare.stored.paths import plain_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BUILD_S: Final = 3600.0
_GIT_S: Final = 300.0


@contextmanager
def at_base(
    ref: str, build: str | None, command: Command, show: Callable[[str], None]
) -> Iterator[tuple[Command, Command]]:
    """Yield the command at a commit and here, after `build` has run on both sides; the worktree goes in the end.

    Raises:
        BadInput: this is no git repository, there is no such commit, or a build failed.
    """
    try:
        top, prefix = run_tool(["git", "rev-parse", "--show-toplevel", "--show-prefix"]).splitlines()
        commit = run_tool(["git", "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}"]).strip()
    except ToolFailed as error:
        raise BadInput(
            f"--base {ref}: {error.reason}. Run it in a git repository, with a commit that it has"
        ) from error
    with tempfile.TemporaryDirectory(prefix="vtare-base-") as place:
        tree = Path(place, "tree")
        try:
            run_tool(["git", "-C", top, "worktree", "add", "--detach", str(tree), commit], timeout_s=_GIT_S)
            there, here = tree / prefix, Path(top, prefix)
            if not there.is_dir():
                raise BadInput(f"--base {ref}: it has no directory {prefix}. Run the command in one that both have")
            for directory in (there, here) if build else ():
                show(f"{build} in {directory}")
                _built(build or "", directory)
            yield _within(there, command, f"{command.text} ({ref})"), _within(here, command, command.text)
        finally:
            with suppress(ToolFailed):
                run_tool(["git", "-C", top, "worktree", "remove", "--force", str(tree)], timeout_s=_GIT_S)


def _built(build: str, directory: Path) -> None:
    try:
        run_tool(["sh", "-c", build], timeout_s=_BUILD_S, directory=directory)
    except ToolFailed as error:
        said = plain_line(error.output[-500:].strip() or error.reason)
        raise BadInput(f"--build '{plain_line(build)}' failed in {directory}: {said}") from error


def _within(directory: Path, command: Command, text: str) -> Command:
    """The command in a directory: both sides are started in the same way."""
    return Command(
        ("sh", "-c", f"cd {shlex.quote(str(directory))} && exec {shlex.join(command.words)}"), plain_line(text)
    )
