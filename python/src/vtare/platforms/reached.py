"""Machines that a platform makes elsewhere and then reaches over SSH: what clouds, ESXi and VirtualBox share."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from vtare.errors import MachineCannot
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, PlatformFailed, Resources
from vtare.platforms.ssh import CONNECTION, SshInstance, SshPlatform, refuse_site

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Settings

#: A system that has its address may still be starting its sshd.
LISTENS_S: Final = 300.0
_AGAIN_S: Final = 0.5


class Reached:
    """The connections to machines that one platform has made; `login` are settings as `ssh` takes them.

    `host` may be left out: it is the machine's own address, else another way to it.
    """

    def __init__(self, binary: Path, owner: str, login: Settings) -> None:
        """Check the settings; nothing is connected yet.

        Raises:
            BadInput: a setting is unknown or of the wrong kind.
        """
        self._binary = binary
        self._owner = owner
        self._login = dict(login)
        self._ways: list[SshPlatform] = []
        self._unreached = SshPlatform(binary, owner, {"host": "later", **self._login})

    def missing(self) -> str | None:
        """Why no machine can be reached from here, or None."""
        return self._unreached.missing()

    def reach(self, name: str, address: str, about: Mapping[str, object], interface: str | None = None) -> SshInstance:
        """Connect to a machine as soon as it answers. `about` are its facts, `interface` is where the host sees it.

        Raises:
            MachineCannot: it lets nobody in.
            PlatformFailed: nobody answers in time.
        """
        way = SshPlatform(self._binary, self._owner, {"host": address, **self._login})
        deadline = time.monotonic() + LISTENS_S
        while True:
            try:
                instance = way.start(1)[0]
                break
            except MachineCannot as error:
                # Refused, unreachable, or silent: its sshd may only be starting. Any other answer is an answer.
                if not isinstance(error.__cause__, OSError):
                    raise
                if time.monotonic() > deadline:
                    raise PlatformFailed(
                        f"{name}: nobody answers at {address} after {LISTENS_S:.0f} s ({error}); wanted sshd, started "
                        "with the system"
                    ) from error
                time.sleep(_AGAIN_S)
        self._ways.append(way)
        instance.describe(name, about, interface)
        return instance

    def leave(self) -> None:
        """End all connections. May be called twice."""
        ways, self._ways = self._ways, []
        with ExitStack() as stack:
            for way in ways:
                stack.callback(way.stop)


class MadePlatform(ABC):
    """A platform whose machines are made for a run, reached over SSH, and deleted after it."""

    def __init__(self, name: str, binary: Path, owner: str, login: Settings) -> None:
        """Use this binary; `owner` begins the names of machines; `login` are settings as `ssh` takes them.

        Raises:
            BadInput: a setting is unknown or of the wrong kind.
        """
        self.name = name
        self._owner = owner
        self._reached = Reached(binary, owner, login)
        self._made: list[str] = []

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What a connection takes here; what a machine takes is its host's."""
        return CONNECTION

    def start(
        self,
        instances: int,
        site: Site | None = None,
        resources: Resources = DEFAULT_RESOURCES,
        *,
        first: int = 0,
    ) -> Sequence[SshInstance]:
        """Make so many machines and connect to each. See `Platform.start`; they stand behind no bridge of the lab.

        Raises:
            MachineCannot: the machines' host or provider refuses or is short of something, or one lets nobody in.
            PlatformFailed: a machine did not come up.
        """
        refuse_site(site)
        return self._make(range(first, first + instances), resources)

    def stop(self) -> None:
        """Delete every machine made here."""
        made, self._made = self._made, []
        with ExitStack() as stack:
            for name in made:
                stack.callback(self._delete, name)
            stack.callback(self._reached.leave)

    @abstractmethod
    def _make(self, indices: range, resources: Resources) -> Sequence[SshInstance]:
        """Make a machine for each of these, its name in `_made` before there is one, and reach it."""

    @abstractmethod
    def _delete(self, name: str) -> None:
        """Delete the machine of this name; one that is gone is fine."""


def unnamed(settings: Container[object], wanted: Iterable[str]) -> str | None:
    """Which of these settings a plan leaves out, in words; None where none."""
    for key in wanted:
        if key not in settings:
            return f"names no {key}; add `{key}` to the plan's table of this platform"
    return None
