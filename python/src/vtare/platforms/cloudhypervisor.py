"""The `cloudhypervisor` platform: micro guests of Cloud Hypervisor, which needs KVM.

The guest boots vtare's own binary as first process, and its serial line, which the monitor has on stdin and stdout, is
the control channel.

**Unverified**: written from the monitor's documentation of its options and tested with a program that checks what it is
given and runs vtare's agent; no Cloud Hypervisor was run. The facts of every run and the report state it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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

_DRIVERS: Final = ("virtio_pci",)


class CloudHypervisorPlatform(StdioPlatform):
    """Micro guests of Cloud Hypervisor."""

    name: Final = "cloudhypervisor"
    WORDS = "a guest of Cloud Hypervisor"
    UNVERIFIED = "written from Cloud Hypervisor's documentation; no Cloud Hypervisor was run"
    PROGRAM = "cloud-hypervisor"
    SOURCE = "https://github.com/cloud-hypervisor/cloud-hypervisor/releases"

    def _command(self, attachment: GuestAttachment, directory: Path, resources: Resources) -> list[str]:
        self._make_tap(attachment)
        kernel = find_kernel("cloud")
        image = image_for(kernel, self._binary, attachment.nic, channel=_DRIVERS)
        cards = () if attachment.network is None else (attachment.network.card,)
        words = ("console=ttyS0", "loglevel=1", *words_of_all("/dev/ttyS0", None, cards))
        memory = (resources.memory_byte or USUAL_MEMORY) // MEBIBYTE
        devices = [part for card in cards for part in ("--net", f"tap={card.port},mac={card.mac}")]
        return [
            self.PROGRAM, "--kernel", str(kernel.image), "--initramfs", str(image), "--cmdline", " ".join(words),
            "--cpus", f"boot={resources.vcpus or 1}", "--memory", f"size={memory}M",
            "--serial", "tty", "--console", "off", *devices,
        ]  # fmt: skip


def leftovers() -> tuple[Leftover, ...]:
    """Directories that lab processes left."""
    return directories_left(CloudHypervisorPlatform.name)
