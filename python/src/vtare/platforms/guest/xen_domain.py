"""One paravirtual guest under Xen: its configuration for `xl`, and its life from creation to destruction."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vtare.platforms.child import start_child
from vtare.platforms.guest import xen_tools
from vtare.platforms.guest.cards import words_of_all
from vtare.platforms.guest.channel import Terminal
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.instance import MEBIBYTE
from vtare.platforms.guest.machine import TAIL_BYTE, RunningGuest, chosen_cpus, how, readable

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.platforms.child import ProcessChild
    from vtare.platforms.guest.cards import Card, Network
    from vtare.platforms.guest.disk import Disk

#: The guest's end of its console, which is the control channel.
_PORT: Final = "/dev/hvc0"
#: The guest's disk, as both sides call it.
_DISK: Final = "xvda"
#: On a console of this kind the kernel takes Ctrl-O for the beginning of a command to itself ("magic SysRq"), reboot
#: among them, and for a byte like any other when it comes twice (drivers/tty/hvc/hvc_console.c, `hvc_poll`).
_SYSRQ: Final = b"\x0f"
#: From `xl create` to a terminal of the guest's console.
_CONSOLE_S: Final = 180.0
_LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class DomainSpec:
    """One guest. `directory` is its own: the configuration for `xl`, its output, and the scripts that `xl` runs.

    It stands in `network`, behind the bridge of a site; or it has `cards` of its own whose ends on the host go to
    `namespace`, and `forwards` what comes in by one of them and is for another network.
    """

    name: str
    directory: Path
    kernel: Path
    initramfs: Path
    memory_byte: int
    vcpus: int = 1
    pinned: tuple[int, ...] | None = None
    clock_source: str | None = None
    network: Network | None = None
    cards: tuple[Card, ...] = ()
    namespace: str | None = None
    forwards: bool = False
    disk: Disk | None = None

    @property
    def config(self) -> Path:
        """The configuration for `xl`."""
        return self.directory / "domain.cfg"

    @property
    def all_cards(self) -> tuple[Card, ...]:
        """Its network cards."""
        return self.cards if self.network is None else (self.network.card,)

    @property
    def scripts(self) -> dict[Path, str]:
        """What `xl` runs: for each card when the host's end of it is there, and to attach the disk."""
        if self.network is not None:
            site = self.network.site
            return {self.directory / "join": script(self.network.card, site.namespace, site.bridge), **self._of_disk}
        inside = self.namespace or ""
        joins = {self.directory / f"join{n}": script(card, inside, None) for n, card in enumerate(self.cards)}
        return {**joins, **self._of_disk}

    @property
    def _of_disk(self) -> dict[Path, str]:
        return {} if self.disk is None else {self.disk_script: disk_script(self.disk)}

    @property
    def disk_script(self) -> Path:
        """What `xl` runs to have the guest's disk as a block device, and to be rid of it."""
        return self.directory / "attach"

    @property
    def vcpu_cpus(self) -> list[int] | None:
        """The CPU on which each vCPU stays, round and round; None where none was asked for."""
        return None if self.pinned is None else chosen_cpus(self.vcpus, self.pinned)


def kernel_command_line(spec: DomainSpec) -> str:
    """The command line of the guest's kernel."""
    # The console is the control channel too: after its boot the kernel states there that it panics, and nothing else.
    disk = None if spec.disk is None else _DISK
    words = words_of_all(_PORT, spec.clock_source, spec.all_cards, forwards=spec.forwards, disk=disk)
    return " ".join(("console=hvc0", "loglevel=1", *words))


def config(spec: DomainSpec) -> str:
    """The text of an xl.cfg(5)."""
    # A string of xl.cfg(5) has the escapes that JSON has for the characters that names and paths are made of.
    told: dict[str, object] = {
        "name": spec.name,
        "type": "pv",
        "kernel": str(spec.kernel),
        "ramdisk": str(spec.initramfs),
        "cmdline": kernel_command_line(spec),
        "memory": spec.memory_byte // MEBIBYTE,
        "vcpus": spec.vcpus,
        **{f"on_{event}": "destroy" for event in ("poweroff", "reboot", "crash", "watchdog")},
    }
    if spec.vcpu_cpus is not None:
        told["cpus"] = [str(cpu) for cpu in spec.vcpu_cpus]
    if spec.all_cards:
        told["vif"] = [
            f"mac={card.mac},script={place}" for card, place in zip(spec.all_cards, spec.scripts, strict=False)
        ]
    if spec.disk is not None:
        told["disk"] = [f"format=raw,vdev={_DISK},access=rw,script={spec.disk_script},target={spec.disk.file}"]
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in told.items())


def script(card: Card, namespace: str, bridge: str | None) -> str:
    """The script that moves the host's end of a card into a namespace under the port's name, and behind a bridge."""
    inside, port = shlex.quote(namespace), shlex.quote(card.port)
    joined = "" if bridge is None else f"ip -n {inside} link set dev {port} master {shlex.quote(bridge)} up\n"
    return (
        "#!/bin/sh\n"
        "# Called by xl with the name of the device in $vif and its place in the store in $XENBUS_PATH.\n"
        "set -e\n"
        '[ "$1" = online ] || exit 0\n'
        f'ip link set dev "$vif" netns {inside} name {port}\n'
        f"ip -n {inside} link set dev {port} mtu {card.mtu_byte}\n"
        f"{joined}"
        'xenstore-write "$XENBUS_PATH/hotplug-status" connected\n'
    )


def disk_script(disk: Disk) -> str:
    """The script that gives blkback a guest's disk as a loop device, and frees the device once the guest is gone."""
    file, direct = shlex.quote(str(disk.file)), "on" if disk.direct else "off"
    return (
        "#!/bin/sh\n"
        "# Called by xl with the place of the disk in the store in $XENBUS_PATH.\n"
        "set -e\n"
        "PATH=$PATH:/usr/sbin:/sbin\n"
        'case "$1" in\n'
        "add)\n"
        f"    loop=$(losetup --find --show --direct-io={direct} {file})\n"
        '    xenstore-write "$XENBUS_PATH/node" "$loop"\n'
        '    xenstore-write "$XENBUS_PATH/physical-device" "$(stat -L -c %t:%T "$loop")"\n'
        '    xenstore-write "$XENBUS_PATH/hotplug-status" connected\n'
        "    ;;\n"
        # Where blkback still has it open, the kernel detaches it when that closes it.
        'remove) losetup --detach "$(xenstore-read "$XENBUS_PATH/node")" ;;\n'
        "esac\n"
    )


class XenDomain(RunningGuest):
    """A created guest.

    `xl` stays in the foreground until the guest is gone, so that a guest that ends by itself is removed at once and its
    console closed; it dies with the lab, the guest does not.
    """

    def __init__(self, spec: DomainSpec) -> None:
        """Have `xl` create the guest. It dies with the lab, so call this in the thread that lives longest.

        Raises:
            GuestFailed: its directory cannot be made or `xl` cannot be started.
        """
        super().__init__(spec.name, spec.directory, spec.network)
        self.spec = spec
        self._log = spec.directory / "log"
        try:
            spec.directory.mkdir(mode=0o700)
            spec.config.write_text(config(spec), encoding="utf-8")
            if spec.disk is not None:
                spec.disk.make()
            for place, text in spec.scripts.items():
                place.write_text(text, encoding="utf-8")
                place.chmod(0o700)
            self._process: ProcessChild = start_child(
                (xen_tools.PROGRAM, "create", "-F", str(spec.config)),
                directory=spec.directory,
                stdout=self._log,
                stderr=self._log,
            )
        except OSError as error:
            raise GuestFailed(f"guest {spec.name}: {error}") from error

    @property
    def process(self) -> ProcessChild:
        """`xl create`, which ends with the guest."""
        return self._process

    def ended(self) -> str | None:
        """See `RunningGuest.ended`."""
        code = self._process.returncode
        return None if code is None else f"`xl create` ended with {how(code)}"

    def _open_channel(self) -> Terminal:
        deadline = time.monotonic() + _CONSOLE_S
        while True:
            place = xen_tools.console_of(self.spec.name)
            if place is not None:
                try:
                    return Terminal(place, doubled=_SYSRQ)
                except OSError as error:
                    raise GuestFailed(
                        f"guest {self.spec.name}: its console {place}: {error.strerror}; {self.last_words()}"
                    ) from error
            if self.ended() is not None:
                raise GuestFailed(f"guest {self.spec.name}: {self.last_words()}")
            if time.monotonic() > deadline:
                raise GuestFailed(
                    f"guest {self.spec.name}: has no console after {_CONSOLE_S:.0f} s (does xenconsoled run?); "
                    f"{self.last_words()}"
                )
            time.sleep(_LOOK_S)

    def end(self) -> None:
        """Destroy the guest and remove its files. May be called twice.

        Raises:
            XenError: it cannot be destroyed.
        """
        # First, so that nobody goes on to create what is destroyed.
        self._process.kill()
        try:
            xen_tools.destroy(self.spec.name)
        finally:
            if self._agent is not None:
                self._agent.close()
            shutil.rmtree(self.spec.directory, ignore_errors=True)

    def last_words(self) -> str:
        """How `xl` ended, what it reported, and what the guest's kernel reported last."""
        self._process.wait(0.5)
        try:
            reported = xen_tools.reason_in(self._log.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            reported = ""
        noise = b"" if self._agent is None else self._agent.noise
        state = self.ended() or "xl still waits for its end"
        return "; ".join(part for part in (state, reported, readable(noise)[-TAIL_BYTE:]) if part)
