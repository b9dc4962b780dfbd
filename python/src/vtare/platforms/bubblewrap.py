"""The `bubblewrap` platform: every program of a run is one sandbox of `bwrap`, without a daemon or a first process.

What the sandboxes of one instance share is their root directory and their network namespace, which the lab makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from vtare.platforms import network
from vtare.platforms.owner import Leftover
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, Resources
from vtare.platforms.rooted import BINARY, ProgramInstance, RootedInstance, RootedPlatform, pinning, places_left

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vtare.platforms.network import Site

_TOOL: Final = "bwrap"


class BubblewrapPlatform(RootedPlatform):
    """Sandboxes of bubblewrap, as Flatpak makes them."""

    name: Final = "bubblewrap"
    WORDS = "a sandbox of bubblewrap"
    OFFERED = frozenset({"pinned"})
    TOOLS: ClassVar[Mapping[str, str]] = {_TOOL: "bubblewrap"}

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one sandbox takes: two processes of bwrap for each program."""
        return Need(memory_byte=4 << 20, processes=4, disk_byte=1 << 20)

    def _run(
        self, root: Path, site: Site | None, index: int, resources: Resources, about: dict[str, object]
    ) -> RootedInstance:
        inside = [] if site is None else ["ip", "netns", "exec", site.instance_namespace(index)]
        command = [
            # No user namespace: a responder gives its privileges up to a user that one would not have.
            *inside, *pinning(resources), _TOOL, "--unshare-ipc", "--unshare-pid", "--unshare-uts",
            *([] if inside else ["--unshare-net"]),
            "--die-with-parent", "--hostname", "vtare-bubblewrap", "--bind", str(root), "/", "--proc", "/proc",
            "--dev", "/dev", "--ro-bind", "/sys", "/sys", "--ro-bind", str(self._binary), BINARY,
        ]  # fmt: skip
        about["version"] = network.run_tool((_TOOL, "--version")).strip()
        return ProgramInstance(root, site, index, about, lambda directory: [*command, "--chdir", str(directory)])


def leftovers() -> tuple[Leftover, ...]:
    """Directories that lab processes left: the sandboxes themselves have ended with the lab."""
    return places_left(BubblewrapPlatform.name, BubblewrapPlatform.remove)
