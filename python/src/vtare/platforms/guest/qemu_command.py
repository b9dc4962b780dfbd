"""The command that runs one guest under QEMU, as data: what is asked for in, words out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vtare.platforms import network
from vtare.platforms.guest.words import words_of_all

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.platforms.guest.words import Network

PROGRAM: Final = "qemu-system-x86_64"
#: The name of the control channel's virtio port, as `vtare agent` looks for it.
PORT_NAME: Final = "org.vtare.agent"
_MEBIBYTE: Final = 1 << 20
#: Model -> QEMU's name of the device, where the two differ.
_DEVICES: Final = {"virtio": "virtio-net-pci"}


@dataclass(frozen=True, slots=True)
class GuestSpec:
    """One guest. `directory` is its own: sockets and the console's log lie there."""

    name: str
    directory: Path
    kernel: Path
    initramfs: Path
    accelerator: str
    machine: str = "q35"
    vcpus: int = 1
    memory_byte: int = 128 * _MEBIBYTE
    clock_source: str | None = None
    network: Network | None = None
    vhost: bool = False

    @property
    def agent_socket(self) -> Path:
        """The host's end of the control channel."""
        return self.directory / "agent"

    @property
    def monitor_socket(self) -> Path:
        """QEMU's monitor (QMP)."""
        return self.directory / "qmp"

    @property
    def console(self) -> Path:
        """What the guest's kernel says."""
        return self.directory / "console"


def kernel_command_line(spec: GuestSpec) -> str:
    """What the guest's kernel is told; words with `vtare.` are for its first process (docs/guests.md)."""
    # Without a timer check: on a busy host an emulated timer may not tick within the time that the kernel gives it
    # before it panics.
    own = ("console=ttyS0", "quiet", "no_timer_check")
    return " ".join((*own, *words_of_all(PORT_NAME, spec.clock_source, spec.network)))


def command(spec: GuestSpec) -> list[str]:
    """QEMU's command line. It runs in the network namespace of the guest's site, where its tap is."""
    tcg = spec.accelerator == "tcg"
    words = [
        *([PROGRAM] if spec.network is None else ["ip", "netns", "exec", spec.network.site.namespace, PROGRAM]),
        *("-name", f"{spec.name},debug-threads=on"),
        *("-machine", f"{spec.machine},usb=off" if spec.machine != "microvm" else "microvm"),
        # 32 MiB of translated code hold all that a micro guest runs.
        *("-accel", "tcg,tb-size=32" if tcg else spec.accelerator),
        *("-cpu", "max" if tcg else "host"),
        *("-smp", str(spec.vcpus)),
        *("-m", f"{spec.memory_byte // _MEBIBYTE}M"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-kernel", str(spec.kernel), "-initrd", str(spec.initramfs)),
        *("-append", kernel_command_line(spec)),
        *("-serial", f"file:{spec.console}"),
        *(
            "-chardev",
            f"socket,id=qmp,path={spec.monitor_socket},server=on,wait=off",
            "-mon",
            "chardev=qmp,mode=control",
        ),
        *("-device", "virtio-serial-pci"),
        *("-chardev", f"socket,id=agent,path={spec.agent_socket},server=on,wait=off"),
        *("-device", f"virtserialport,chardev=agent,name={PORT_NAME}"),
    ]
    return words if spec.network is None else [*words, *_card(spec, spec.network)]


def _card(spec: GuestSpec, place: Network) -> Sequence[str]:
    vhost = ",vhost=on" if spec.vhost and place.nic == "virtio" else ""
    device = _DEVICES.get(place.nic, place.nic)
    # Without its boot ROM: nothing is booted from the network.
    return (
        *("-netdev", f"tap,id=net0,ifname={place.port},script=no,downscript=no{vhost}"),
        *("-device", f"{device},netdev=net0,mac={network.mac(place.address)},romfile="),
    )
