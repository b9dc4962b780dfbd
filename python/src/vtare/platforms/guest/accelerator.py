"""Whether guests may run on this machine's own virtualization, found out by booting one.

`/dev/kvm` alone proves little: inside some clouds it opens and guests hang under it. So a guest is booted under KVM
with a time limit, once in the life of the host's boot. Where it does not come up, guests are emulated (TCG), and every
record states so: figures of emulated guests prove function, not performance.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.places import cache
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.qemu_machine import QemuMachine
from vtare.process import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.platforms.guest.qemu_command import GuestSpec

_DEVICE: Final = Path("/dev/kvm")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
#: A guest is up within two seconds under KVM; a busy machine gets ten times that.
PROBE_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Accelerator:
    """`name` is `kvm` or `tcg`; `reason` states why it is not `kvm`, None where it is."""

    name: str
    reason: str | None


def choose(probe: Callable[[], GuestSpec]) -> Accelerator:
    """The accelerator for guests here. `probe` gives a guest to try KVM with, where that has not been tried yet.

    Raises:
        MachineCannot: there is no such guest.
    """
    asked = as_asked()
    if asked.name != "kvm":
        return asked
    known = _recall()
    if known is None:
        known = _try(probe())
        _remember(known)
    return known


def as_asked() -> Accelerator:
    """KVM without a trial, where the plan asks for it; TCG with the reason where there is none to open."""
    if not _DEVICE.exists():
        return Accelerator("tcg", f"there is no {_DEVICE}")
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return Accelerator("tcg", f"{_DEVICE} may not be opened by this user; join the group kvm")
    return Accelerator("kvm", None)


def _try(probe: GuestSpec) -> Accelerator:
    spec = replace(probe, accelerator="kvm", network=None, vcpus=1, clock_source=None)
    machine = None
    try:
        machine = QemuMachine(spec)
        machine.wait_ready(PROBE_S)
    except GuestFailed as error:
        return Accelerator("tcg", f"a guest did not come up under KVM: {str(error).rstrip('.')}")
    finally:
        if machine is not None:
            machine.end()
    return Accelerator("kvm", None)


def _place() -> Path:
    return cache() / "kvm.json"


def _boot_id() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _recall() -> Accelerator | None:
    """What was found since this host booted; None where nothing was, or what was kept cannot be read."""
    try:
        document = json.loads(_place().read_text(encoding="utf-8"))
        if document["boot_id"] == _boot_id():
            return Accelerator(str(document["name"]), document["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _remember(found: Accelerator) -> None:
    place = _place()
    place.parent.mkdir(parents=True, exist_ok=True)
    document = {"boot_id": _boot_id(), "name": found.name, "reason": found.reason}
    write_whole(place, json.dumps(document).encode())
