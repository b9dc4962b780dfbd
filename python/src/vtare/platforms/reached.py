"""Machines that a platform makes elsewhere and then reaches over SSH: what clouds, ESXi and VirtualBox share."""

from __future__ import annotations

import time
from abc import abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING, ClassVar, Final

from vtare.errors import BadInput, MachineCannot, PlatformFailed
from vtare.platforms.base import BasePlatform, Layer
from vtare.platforms.endpoint_names import refusal
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, Resources
from vtare.platforms.ssh import CONNECTION, SshInstance, SshPlatform, refuse_site

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Settings

#: A system that has its address may still be starting its sshd.
LISTENS_S: Final = 300.0
_AGAIN_S: Final = 0.5


class MachineConnections:
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
        # It is deleted as a whole, and its own platform keeps a note of it.
        way.noted = False
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
                        f"{name}: nobody answers at {address} after {LISTENS_S:.0f} s ({error}): start sshd, "
                        "started with the system"
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


class MadePlatform(BasePlatform[SshInstance]):
    """A platform whose machines are made for a run, reached over SSH, and deleted after it."""

    LAYER = Layer.MACHINE
    BOOTS = True
    FURNISHED = True
    TRIED_WITH_ALL = False
    #: Settings of the platform itself; what is left states how to reach a machine, as `ssh` takes it.
    OWN: ClassVar[tuple[str, ...]] = ()

    def _checked(self, settings: dict[str, str | int]) -> dict[str, str | int]:
        """The platform's own settings; those of the way in go to `MachineConnections`."""
        own = {key: settings.pop(key) for key in self.OWN if key in settings}
        for key, value in own.items():
            if (reason := refusal(key, value)) is not None:
                raise BadInput(f"platform '{self.name}': {key}: {reason}")
        self._reached = MachineConnections(self._binary, self._owner, settings)
        return own

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What a connection takes here; what a machine takes is its host's."""
        return CONNECTION

    def _make_all(self, indices: range, site: Site | None, resources: Resources) -> Sequence[SshInstance]:
        """Make machines and connect to each; they stand behind no bridge of the lab."""
        refuse_site(site)
        return self._make_machines(indices, resources)

    def _make(self, index: int, site: Site | None, resources: Resources) -> SshInstance:
        return self._make_all(range(index, index + 1), site, resources)[0]

    def stop(self) -> None:
        """End the connections, then delete the machines."""
        try:
            self._reached.leave()
        finally:
            super().stop()

    @abstractmethod
    def _make_machines(self, indices: range, resources: Resources) -> Sequence[SshInstance]:
        """Make a machine for each of these, the call that deletes it in `_removals` before there is one; reach it."""


def unnamed(settings: Container[object], wanted: Iterable[str]) -> str | None:
    """Which of these settings a plan leaves out, in words; None where none."""
    lacking = [key for key in wanted if key not in settings]
    if not lacking:
        return None
    keys = ", ".join(f"`{key}`" for key in lacking)
    return f"names no {', '.join(lacking)}; add {keys} to the plan's table of this platform"
