"""The `nspawn` platform: every program of a run is a container of `systemd-nspawn`, which needs no systemd as init.

What the containers of one instance share is their root directory and their network namespace, which the lab makes.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, ClassVar, Final

from vtare.platforms import network
from vtare.platforms.owner import Leftover
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, Resources
from vtare.platforms.rooted import BINARY, ProgramInstance, RootedInstance, RootedPlatform, pinning, places_left

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vtare.platforms.network import Site

_TOOL: Final = "systemd-nspawn"


class NspawnPlatform(RootedPlatform):
    """Containers of systemd-nspawn."""

    name: Final = "nspawn"
    #: Limits of memory and CPU time are those of a unit of systemd, which containers without it do not get.
    OFFERED = frozenset({"pinned"})
    TOOLS: ClassVar[Mapping[str, str]] = {_TOOL: "systemd-container"}

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        """What one container takes: nspawn and its first process for each program."""
        return Need(memory_byte=16 << 20, processes=4, disk_byte=1 << 20)

    def _run(
        self, root: Path, site: Site | None, index: int, resources: Resources, about: dict[str, object]
    ) -> RootedInstance:
        inside = None if site is None else site.instance_namespace(index)
        # By this directory nspawn recognises the root of a system.
        (root / "usr").mkdir(exist_ok=True)
        command = [
            # Several containers at a time have one root directory, as several programs in one container would.
            # What lies in /tmp lies on the disk, as on other platforms.
            *pinning(resources), "env", "SYSTEMD_NSPAWN_LOCK=0", "SYSTEMD_NSPAWN_TMPFS_TMP=0",
            _TOOL, "--quiet", "--register=no", "--keep-unit",
            "--as-pid2", "--pipe", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
            f"--directory={root}", f"--bind-ro={self._binary}:{BINARY}", "--hostname=vtare-nspawn",
            "--private-network" if inside is None else f"--network-namespace-path=/run/netns/{inside}",
        ]  # fmt: skip
        about["version"] = network.run_tool((_TOOL, "--version")).partition("\n")[0]

        def words(directory: Path) -> list[str]:
            # Each container has a name of its own on this machine; inside, all have the same.
            return [*command, f"--machine=vtare-{secrets.token_hex(6)}", f"--chdir={directory}"]

        return ProgramInstance(root, site, index, about, words)


def leftovers() -> tuple[Leftover, ...]:
    """Directories that lab processes left: the containers themselves have ended with the lab."""
    return places_left(NspawnPlatform.name, NspawnPlatform.remove)
