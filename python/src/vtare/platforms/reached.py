"""Machines that a platform makes elsewhere and then reaches over SSH: what clouds, ESXi and VirtualBox share."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from vtare.errors import MachineCannot
from vtare.platforms.protocol import PlatformFailed
from vtare.platforms.ssh import NO_BRIDGE, SshInstance, SshPlatform

if TYPE_CHECKING:
    from collections.abc import Mapping
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


def refuse_site(site: Site | None) -> None:
    """Such a machine is no part of a topology of the lab.

    Raises:
        MachineCannot: it was asked for behind a bridge of the lab.
    """
    if site is not None:
        raise MachineCannot(NO_BRIDGE)
