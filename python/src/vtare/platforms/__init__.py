"""Platforms: where runs execute. One file per kind of machine.

A platform starts instances, an instance starts the binary in them. The executor knows nothing else of a platform, so a
new one is one file that fulfils the two protocols below, and its line in `open_platform`. Instances that are to talk to
each other are started at a `Site`: one server of a topology (`vtare.links`), with a bridge to attach them to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from vtare.errors import BadInput
from vtare.platforms.host import HostPlatform
from vtare.platforms.netns import NetnsPlatform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.child import Child
    from vtare.platforms.network import Site

__all__ = ["PLATFORMS", "Instance", "Platform", "open_platform"]

#: Every platform that a plan may name. Those that this version cannot start are skipped and counted.
PLATFORMS: Final = ("host", "netns", "docker", "lxc", "qemu")


class Instance(Protocol):
    """One started machine, container or guest (for `host`: the host itself)."""

    @property
    def name(self) -> str:
        """What to call it in messages."""
        ...

    @property
    def address(self) -> str | None:
        """Its address in the lab's network; None where it was started at no site."""
        ...

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> Child:
        """Start `vtare ARGUMENTS` in the instance; what it prints lands in the two files, on the controller.

        Every file in `directory` is visible to the program under the same path (a platform without a shared file
        system copies it in). Raises OSError where the program cannot be started.
        """
        ...

    def fetch(self, directory: Path) -> None:
        """Bring what the program left in `directory` to the same path on the controller. Call after the child's end."""
        ...

    def facts(self) -> Mapping[str, object]:
        """Facts about the instance that its own footer cannot know (accelerator, NIC model, network device)."""
        ...

    def capture_interface(self) -> str | None:
        """The host-side interface through which the instance's packets pass, or None where there is none."""
        ...


class Platform(Protocol):
    """A kind of machine that can be started."""

    @property
    def name(self) -> str:
        """Its level in plans."""
        ...

    def missing(self) -> str | None:
        """Why this machine cannot give the platform, or None where it can. Its cells are then skipped and counted."""
        ...

    def start(self, instances: int, site: Site | None = None) -> Sequence[Instance]:
        """Start so many instances, attached to the site's bridge where one is given, and return once all are ready.

        Raises OSError or MachineCannot where that fails; `stop` then removes what was made.
        """
        ...

    def stop(self) -> None:
        """End every instance. May be called twice, and after a failed `start`."""
        ...


class _NotYet:
    """A platform that plans may name and this version cannot start."""

    def __init__(self, name: str) -> None:
        self.name = name

    def missing(self) -> str | None:
        return "this version of vtare cannot start it yet"

    def start(self, instances: int, site: Site | None = None) -> Sequence[Instance]:
        raise BadInput(f"platform '{self.name}': {self.missing()}")

    def stop(self) -> None:
        pass


def open_platform(name: str, *, binary: Path, owner: str) -> Platform:
    """Return the platform of this name. `owner` begins the name of everything it makes.

    Raises:
        BadInput: there is no such platform.
    """
    if name == "host":
        return HostPlatform(binary)
    if name == "netns":
        return NetnsPlatform(binary, owner)
    if name in PLATFORMS:
        return _NotYet(name)
    raise BadInput(f"platform '{name}' is not known to this version; wanted one of: {', '.join(PLATFORMS)}")
