"""The micro guest's initramfs: vtare's own static binary as the first process, and the modules for its devices."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.errors import MachineCannot
from vtare.places import cache
from vtare.platforms.guest import cpio
from vtare.platforms.guest.disk import DRIVERS as DISK_FILE_SYSTEM
from vtare.platforms.guest.kernel import Kernel
from vtare.platforms.guest.modules import CHANNEL_DRIVERS, NIC_DRIVERS, QUEUE_DRIVERS, Modules
from vtare.process import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

_ELF: Final = b"\x7fELF"
_INTERPRETER: Final = 3
_KEPT_IMAGES: Final = 16


def image_for(
    kernel: Kernel,
    binary: Path,
    nic: str | None,
    channel: Sequence[str] = CHANNEL_DRIVERS,
    queue: str | None = None,
    disk: str | None = None,
) -> Path:
    """The initramfs for guests with this kernel, binary, card, queue and disk; made where it is not there yet.

    Raises:
        MachineCannot: the binary is not static, or the kernel lacks a driver.
    """
    program = binary.read_bytes()
    if is_dynamic(program):
        raise MachineCannot(
            f"{binary} needs shared libraries, which a micro guest does not have: use the static binary, "
            "as `make install` and the wheel have it"
        )
    card = [NIC_DRIVERS[nic]] if nic is not None else []
    drivers = [*channel, *card, *([QUEUE_DRIVERS[queue]] if queue is not None else [])]
    drivers += [disk, *DISK_FILE_SYSTEM] if disk is not None else []
    booted = kernel.image.stat()
    made_of = (kernel.release, booted.st_size, booted.st_mtime_ns, *drivers)
    name = hashlib.sha256(program + repr(made_of).encode()).hexdigest()[:24]
    place = cache() / "images"
    path = place / f"{name}.cpio"
    if not path.is_file():
        content = initramfs(program, Modules(kernel.modules).ordered(drivers))
        place.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
        _forget_old(place)
    else:
        path.touch()
    return path


def initramfs(program: bytes, modules: Sequence[tuple[str, bytes]]) -> bytes:
    """The archive. `/vtare` is the first process; `/modules/order` lists what it loads, in order."""
    places = [f"/modules/{name}.ko" for name, _ in modules]
    return cpio.archive(
        [
            *(cpio.directory(name) for name in ("dev", "proc", "sys", "tmp", "modules")),
            # Else the first process has nowhere to state why it could not begin.
            cpio.device("dev/console", 5, 1),
            cpio.file("vtare", program, executable=True),
            *(cpio.file(place[1:], content) for place, (_, content) in zip(places, modules, strict=True)),
            cpio.file("modules/order", "".join(f"{place}\n" for place in places).encode()),
        ]
    )


def is_dynamic(program: bytes) -> bool:
    """Whether an ELF program asks for an interpreter, which a static one does not."""
    if not program.startswith(_ELF):
        return False
    wide = program[4] == 2
    table = int.from_bytes(program[0x20:0x28] if wide else program[0x1C:0x20], "little")
    size, count = (int.from_bytes(program[at : at + 2], "little") for at in ((0x36, 0x38) if wide else (0x2A, 0x2C)))
    kinds = (program[table + size * n : table + size * n + 4] for n in range(count))
    return any(int.from_bytes(kind, "little") == _INTERPRETER for kind in kinds)


def _forget_old(place: Path) -> None:
    """Keep the images used last: each build of the binary makes new ones."""
    images = sorted(place.glob("*.cpio"), key=lambda path: path.stat().st_mtime)
    for old in images[:-_KEPT_IMAGES]:
        old.unlink(missing_ok=True)
