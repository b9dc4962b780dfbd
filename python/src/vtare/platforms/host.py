"""The host platform: the binary runs as a plain process, on this machine or on one server of a topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.platforms import network
from vtare.platforms.base import BasePlatform, Layer
from vtare.platforms.child import Child, start_child
from vtare.platforms.netns import start_in_namespace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Resources


class HostInstance:
    """This machine, or one server of a topology. Files are shared with the program: `fetch` has nothing to do."""

    def __init__(self, binary: Path, site: Site | None = None) -> None:
        """Use this `vtare` binary."""
        self._binary = binary
        self._site = site
        self.name = "host" if site is None else site.namespace

    @property
    def address(self) -> str | None:
        """The server's address on its bridge; None for the machine itself."""
        return None if self._site is None else self._site.address

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """Start the binary as a process that dies with this one. See `Instance.start`."""
        if self._site is None:
            return start_child([str(self._binary), *arguments], directory=directory, stdout=stdout, stderr=stderr)
        return start_in_namespace(
            self._site.namespace, self._binary, arguments, directory=directory, stdout=stdout, stderr=stderr
        )

    def fetch(self, directory: Path, expected: Mapping[str, int]) -> None:
        """Do nothing: the program wrote to `directory` itself."""

    def facts(self) -> Mapping[str, object]:
        """Facts of the server's bridge; nothing of the machine itself, whose facts are in each run's footer."""
        return {} if self._site is None else {"device": network.interface_facts(self.name, self._site.bridge)}

    def capture_interface(self) -> str | None:
        """The bridge on which the process has its address; None on the machine itself, which has no such interface."""
        return None if self._site is None else self._site.bridge


class HostPlatform(BasePlatform[HostInstance]):
    """The bare host: always there, one instance, nothing to start or stop."""

    name: Final = "host"
    LAYER = Layer.HOST
    FURNISHED = True
    TRIED_WITH_ALL = False
    WORDS = "the host"

    def _missing(self, resources: Resources) -> str | None:
        return None

    def _make(self, index: int, site: Site | None, resources: Resources) -> HostInstance:
        # The host is one machine, or one server of a topology.
        if index:
            raise ValueError(f"the host is one machine, {index + 1} instances were asked for")
        return HostInstance(self._binary, site)
