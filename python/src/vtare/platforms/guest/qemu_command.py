"""The command that runs one guest under QEMU, as data: what is asked for in, words out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vtare.platforms.guest.cards import words_of_all

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.platforms.guest.cards import Card, Network
    from vtare.platforms.guest.disk import Disk

PROGRAM: Final = "qemu-system-x86_64"
#: The name of the control channel's virtio port, as `vtare agent` looks for it.
PORT_NAME: Final = "org.vtare.agent"
_MEBIBYTE: Final = 1 << 20
#: Model -> QEMU's name of the device, where the two differ.
_DEVICES: Final = {"virtio": "virtio-net-pci"}


@dataclass(frozen=True, slots=True)
class GuestSpec:
    """One guest. `directory` is its own: sockets and the console's log lie there.

    It stands in `network`, behind the bridge of a site; or it has `cards` of its own whose taps QEMU makes
    in `namespace`, and `forwards` what comes in by one of them and is for another network.
    """

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
    cards: tuple[Card, ...] = ()
    namespace: str | None = None
    forwards: bool = False
    disk: Disk | None = None

    @property
    def all_cards(self) -> tuple[Card, ...]:
        """Its network cards, in the order in which its kernel finds them."""
        return self.cards if self.network is None else (self.network.card,)

    @property
    def tap_namespace(self) -> str | None:
        """The network namespace in which its taps are, and so QEMU; None for that of this process."""
        return self.namespace if self.network is None else self.network.site.namespace

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
        """What the guest's kernel states."""
        return self.directory / "console"


def kernel_command_line(spec: GuestSpec) -> str:
    """The command line of the guest's kernel; `vtare.` words are for its first process (docs/internals/guests.md)."""
    # Without a timer check: on a busy host an emulated timer may not tick within the time that the kernel gives it
    # before it panics.
    own = ("console=ttyS0", "quiet", "no_timer_check")
    disk = None if spec.disk is None else "vda"
    cards = spec.all_cards
    return " ".join((*own, *words_of_all(PORT_NAME, spec.clock_source, cards, forwards=spec.forwards, disk=disk)))


def command(spec: GuestSpec) -> list[str]:
    """QEMU's command line. It runs in the network namespace where the guest's taps are."""
    tcg = spec.accelerator == "tcg"
    inside = [] if spec.tap_namespace is None else ["ip", "netns", "exec", spec.tap_namespace]
    words = [
        *(*inside, PROGRAM),
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
    if spec.disk is not None:
        # What the guest forces to its disk is forced to the host's; in between nothing is.
        cache = f"cache.direct={'on' if spec.disk.direct else 'off'},cache.no-flush=off"
        drive = f"file={spec.disk.file},if=none,id=disk,format=raw,discard=unmap,{cache}"
        words += ["-drive", drive, "-device", "virtio-blk-pci,drive=disk"]
    return [*words, *(word for number, card in enumerate(spec.all_cards) for word in _card(spec, number, card))]


def _card(spec: GuestSpec, number: int, card: Card) -> Sequence[str]:
    vhost = ",vhost=on" if spec.vhost and card.nic == "virtio" else ""
    device = _DEVICES.get(card.nic, card.nic)
    # Without its boot ROM: nothing is booted from the network.
    return (
        *("-netdev", f"tap,id=net{number},ifname={card.port},script=no,downscript=no{vhost}"),
        *("-device", f"{device},netdev=net{number},mac={card.mac},romfile="),
    )
