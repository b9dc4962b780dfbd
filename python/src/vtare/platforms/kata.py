"""The `kata` platform: containers of containerd whose runtime, Kata, boots a machine for each; it needs KVM.

`ctr` runs one from a root directory, without an image; its first process is vtare's agent, whose stdin and stdout are
the control channel. Its network is that of a namespace which the lab makes before, and which Kata bridges into the
machine.

**Unverified**: written from the documentation of containerd and Kata and tested with a program that checks what it is
given and runs vtare's agent; no Kata was run. The facts of every run and the report state it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.platforms import network
from vtare.platforms.guest.stdio_machine import StdioPlatform, directories_left
from vtare.platforms.lacks import programs, together
from vtare.platforms.rooted import BINARY, make_root

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.platforms.guest.cards import GuestAttachment
    from vtare.platforms.owner import Leftover
    from vtare.platforms.protocol import Resources

RUNTIME: Final = "io.containerd.kata.v2"
#: The program by which containerd finds a runtime of this name.
SHIM: Final = "containerd-shim-kata-v2"


class KataPlatform(StdioPlatform):
    """Containers of Kata."""

    name: Final = "kata"
    WORDS = "a container of Kata"
    #: The size of the machine is Kata's own configuration.
    OFFERED = frozenset()
    UNVERIFIED = "written from the documentation of containerd and Kata; no Kata was run"
    PROGRAM = "ctr"
    SOURCE = "containerd, with Kata from https://github.com/kata-containers/kata-containers/releases"
    IN_SITE = False

    def _missing(self, resources: Resources) -> str | None:
        shim = programs({SHIM: f"it from {self.SOURCE.partition('with Kata from ')[2]}"})
        return together(shim, super()._missing(resources))

    def _command(self, attachment: GuestAttachment, directory: Path, resources: Resources) -> list[str]:
        place = attachment.network
        inside = []
        if place is not None:
            self._removals.callback(network.detach, place.site, place.index)
            network.carry_out(network.attach(place.site, place.index))
            inside = ["--with-ns", f"network:/run/netns/{place.site.instance_namespace(place.index)}"]
        return [
            self.PROGRAM, "run", "--rm", "--runtime", RUNTIME, *inside,
            "--mount", f"type=bind,src={self._binary},dst={BINARY},options=rbind:ro",
            "--rootfs", str(make_root(directory)), attachment.name, BINARY, "agent", "--directory", "/",
        ]  # fmt: skip


def leftovers() -> tuple[Leftover, ...]:
    """Directories that lab processes left."""
    return directories_left(KataPlatform.name)
