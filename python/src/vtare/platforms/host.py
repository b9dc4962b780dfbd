"""The host platform: the binary runs as a plain process, on this machine or on one server of a topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.platforms import network
from vtare.platforms.child import Child, start_child
from vtare.platforms.netns import start_in_namespace
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, Resources, Settings, no_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.network import Site


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


class HostPlatform:
    """The bare host: always there, one instance, nothing to start or stop."""

    name: Final = "host"

    def __init__(self, binary: Path, owner: str = "", settings: Settings | None = None) -> None:
        """Use this `vtare` binary; the host makes nothing and has no settings."""
        no_settings("host", settings)
        self._binary = binary

    def missing(self, resources: Resources = DEFAULT_RESOURCES) -> str | None:
        """Return None: the host is always there, as it is."""
        reason = resources.beyond(frozenset())
        return None if reason is None else f"the host {reason}"

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """Return nothing: it is there."""
        return Need()

    def start(
        self,
        instances: int,
        site: Site | None = None,
        resources: Resources = DEFAULT_RESOURCES,
        *,
        first: int = 0,
    ) -> Sequence[HostInstance]:
        """Return the host, or one server of a topology. There is only one of it.

        Raises:
            ValueError: more than one instance was asked for.
        """
        if instances != 1:
            raise ValueError(f"the host is one machine, {instances} instances were asked for")
        return [HostInstance(self._binary, site)]

    def stop(self) -> None:
        """Do nothing: there is nothing to stop."""
