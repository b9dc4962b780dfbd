"""Errors that a person can act on: each has what is wrong, the value and the fix."""

from __future__ import annotations

import difflib
import errno
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


class VtareError(Exception):
    """Base of all errors vtare raises on purpose. `exit_code` is what the command line ends with."""

    exit_code = 2


class BadInput(VtareError):
    """The plan, a path or an option cannot be used as it is. Remedy: the message names it."""


class MachineCannot(VtareError):
    """This machine lacks what was asked for (a platform, a counter, a privilege)."""

    exit_code = 3


class HostLost(MachineCannot):
    """Another machine was not reached, or the connection to it ended. Later it may answer."""


class PlatformFailed(VtareError):
    """An instance could not be started, or does not do what it is asked: that costs the run, not the campaign."""

    exit_code = 1


class CampaignStopped(VtareError):
    """The campaign cannot go on (disk full, store gone). What was measured is kept; `vtare resume` goes on."""

    exit_code = 1


class Interrupted(VtareError):
    """The user or the system asked to stop. The running cell is dropped, all finished ones are kept."""

    exit_code = 130


#: Exit code of an error in vtare itself (EX_SOFTWARE of sysexits.h): 1 would mean that a limit was crossed.
INTERNAL: Final = 70


#: What a process may have no more of, and what raises the limit.
_LIMITS: Final = {
    errno.EMFILE: "this process may open no more files; raise its limit (`ulimit -n 4096`)",
    errno.ENFILE: "this machine may open no more files; raise /proc/sys/fs/file-max",
    errno.ENOMEM: "this process may not take the memory that it needs (see `ulimit -v`)",
    errno.EAGAIN: "no more processes or threads may be started; raise the limit (`ulimit -u`)",
}


def refusal_of(error: OSError) -> VtareError:
    """The error to show for one of the system: of this machine where a limit was reached, else of what was named."""
    if error.errno in _LIMITS:
        return MachineCannot(f"{_LIMITS[error.errno]}; nothing that was written is lost")
    named = "" if error.filename is None else f"{error.filename!s:.200}: "
    return BadInput(f"{named}{error.strerror or error}")


def nearest(found: str, wanted: Iterable[str]) -> str | None:
    """Return the nearest of `wanted`; None where none is near."""
    near = difflib.get_close_matches(found.lower(), list(wanted), n=1, cutoff=0.6)
    return near[0] if near else None


def instead_of(value: object, use: str | Iterable[str]) -> str:
    """Return `: use WHAT`, as the end of a message about `value`; of a list of names, the nearest comes first."""
    if isinstance(use, str):
        return f": use {use}"
    names = tuple(use)
    near = nearest(value, names) if isinstance(value, str) else None
    listed = f"one of: {', '.join(names)}" if names else "none: there is nothing to choose from"
    return f". Did you mean '{near}'? Use {listed}" if near else f": use {listed}"


def bad_value(value: object, use: str | Iterable[str]) -> str:
    """Return `is VALUE: use WHAT`, as the end of a message that begins with the name of the value."""
    shown = "missing" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return f"is {shown}{instead_of(value, use)}"
