"""The `firecracker` platform: micro guests of Firecracker, which needs KVM.

The monitor reads a file that has the bodies of its API's requests; the guest boots vtare's own binary as first process,
and its serial line, which Firecracker has on stdin and stdout, is the control channel.

**Unverified**: written from the API's schema (firecracker.yaml) and tested with a program that checks what it is given
and runs vtare's agent; no Firecracker was run. The facts of every run and the report state it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms.guest.cards import words_of_all
from vtare.platforms.guest.image import image_for
from vtare.platforms.guest.instance import MEBIBYTE
from vtare.platforms.guest.kernel import find_kernel
from vtare.platforms.guest.own_process import USUAL_MEMORY
from vtare.platforms.guest.stdio_machine import StdioPlatform, directories_left

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.platforms.guest.cards import GuestAttachment
    from vtare.platforms.owner import Leftover
    from vtare.platforms.protocol import Resources

#: The kernel's driver of Firecracker's devices.
_DRIVERS: Final = ("virtio_mmio",)


class FirecrackerPlatform(StdioPlatform):
    """Micro guests of Firecracker."""

    name: Final = "firecracker"
    WORDS = "a guest of Firecracker"
    UNVERIFIED = "written from the schema of Firecracker's API; no Firecracker was run"
    PROGRAM = "firecracker"
    SOURCE = "https://github.com/firecracker-microvm/firecracker/releases"

    def _command(self, attachment: GuestAttachment, directory: Path, resources: Resources) -> list[str]:
        self._make_tap(attachment)
        kernel = find_kernel("cloud")
        image = image_for(kernel, self._binary, attachment.nic, channel=_DRIVERS)
        file = directory / "config.json"
        file.write_text(json.dumps(config(attachment, kernel.image, image, resources)), encoding="utf-8")
        return [self.PROGRAM, "--no-api", "--config-file", str(file)]


def config(attachment: GuestAttachment, kernel: Path, image: Path, resources: Resources) -> dict[str, Any]:
    """The bodies of the requests that make a guest, each under the name of its path."""
    cards = () if attachment.network is None else (attachment.network.card,)
    words = ("console=ttyS0", "loglevel=1", "reboot=k", "pci=off", *words_of_all("/dev/ttyS0", None, cards))
    return {
        "boot-source": {
            "kernel_image_path": str(kernel),
            "initrd_path": str(image),
            "boot_args": " ".join(words),
        },
        "drives": [],
        "machine-config": {
            "vcpu_count": resources.vcpus or 1,
            "mem_size_mib": (resources.memory_byte or USUAL_MEMORY) // MEBIBYTE,
        },
        "network-interfaces": [
            {"iface_id": f"eth{number}", "guest_mac": card.mac, "host_dev_name": card.port}
            for number, card in enumerate(cards)
        ],
    }


def leftovers() -> tuple[Leftover, ...]:
    """Directories that lab processes left."""
    return directories_left(FirecrackerPlatform.name)
