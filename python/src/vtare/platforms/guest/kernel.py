"""The kernel that micro guests are booted with: one that is named, or the distribution's, fetched but not installed.

Debian's cloud kernel is small and boots fastest, but has no driver for e1000 and rtl8139. So guests get the cloud
kernel where no model of a network card is asked for or it has that driver, else the ordinary one. A plan that compares
models should name one kernel for all of them (`[platforms.qemu] kernel = "generic"`).
"""

from __future__ import annotations

import lzma
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.errors import MachineCannot
from vtare.places import cache
from vtare.platforms.guest.modules import NETFRONT
from vtare.process import ToolFailed, run_tool, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The machine's name for itself -> Debian's name for it.
_ARCHITECTURES: Final = {"x86_64": "amd64"}
#: Flavour -> package that depends on the newest kernel of it.
_PACKAGES: Final = {"cloud": "linux-image-cloud-amd64", "generic": "linux-image-amd64"}
FLAVOURS: Final = tuple(_PACKAGES)
_FETCH_S: Final = 600.0
_HEADER_MAGIC: Final = b"HdrS"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel to boot: its image and the directory of its modules (`.../lib/modules/RELEASE`)."""

    image: Path
    modules: Path

    @property
    def release(self) -> str:
        """Its release, such as `6.1.0-13-cloud-amd64`."""
        return self.modules.name


def flavour_for(nic: str | None, wanted: str | None = None) -> str:
    """Which flavour a guest gets: the one asked for, else the smallest that has its card's driver."""
    if wanted is not None:
        return wanted
    return "cloud" if nic in (None, "virtio", "vmxnet3", NETFRONT) else "generic"


def missing_kernel(flavour: str) -> str | None:
    """Why this machine has no kernel of a flavour and cannot get one, in words, or None. Fetches nothing."""
    if _named() is not None or _unpacked_packages(flavour):
        return None
    if os.uname().machine not in _ARCHITECTURES:
        return f"no kernel for guests is known for {os.uname().machine}; name one with VTARE_GUEST_KERNEL"
    lacking = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
    if not lacking:
        return None
    return (
        f"no kernel for guests can be fetched without {' and '.join(lacking)}; name a kernel with "
        "VTARE_GUEST_KERNEL=/boot/vmlinuz-RELEASE (its modules in /lib/modules/RELEASE)"
    )


def find_kernel(flavour: str) -> Kernel:
    """The kernel of this flavour: named by VTARE_GUEST_KERNEL, kept from before, or fetched now.

    Raises:
        MachineCannot: there is none and none can be fetched.
    """
    named = _named()
    if named is not None:
        return named
    kept = _unpacked_packages(flavour)
    if not kept:
        reason = missing_kernel(flavour)
        if reason is not None:
            raise MachineCannot(reason)
        _fetch(flavour)
        kept = _unpacked_packages(flavour)
    if not kept:
        raise MachineCannot(f"the package {_PACKAGES[flavour]} was fetched but holds no kernel; see {_place(flavour)}")
    return kept[-1]


def _named() -> Kernel | None:
    """The kernel of VTARE_GUEST_KERNEL with its modules beside it (`../lib/modules/RELEASE`) or in `/lib/modules`."""
    text = os.environ.get("VTARE_GUEST_KERNEL")
    if not text:
        return None
    image = Path(text)
    release = image.name.removeprefix("vmlinuz-").removeprefix("vmlinux-")
    for modules in (image.parent.parent / "lib/modules" / release, Path("/lib/modules") / release):
        if image.is_file() and modules.is_dir():
            return Kernel(bootable(image, cache() / "kernels"), modules)
    raise MachineCannot(
        f"VTARE_GUEST_KERNEL is {image}: use a kernel vmlinuz-RELEASE whose modules are in "
        f"/lib/modules/RELEASE or in {image.parent.parent}/lib/modules/RELEASE"
    )


def _place(flavour: str) -> Path:
    return cache() / "kernels" / flavour


def _unpacked_packages(flavour: str) -> list[Kernel]:
    """The kernels of one flavour that were fetched before, oldest first."""
    kernels = []
    for image in sorted(_place(flavour).glob("*/boot/vmlinuz-*"), key=lambda path: path.stat().st_mtime):
        modules = image.parent.parent / "lib/modules" / image.name.removeprefix("vmlinuz-")
        if modules.is_dir():
            kernels.append(Kernel(bootable(image, image.parent), modules))
    return kernels


def _fetch(flavour: str) -> None:
    """Fetch the newest kernel package with the distribution's own client and unpack it, without installing it."""
    place = _place(flavour)
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place, prefix=".fetch-") as text:
        work = Path(text)
        # apt fetches as a user of its own, who must be able to write here; else it warns and fetches as root.
        work.chmod(0o755)
        listed = _run(("apt-cache", "depends", "--important", _PACKAGES[flavour]), work)
        packages = [line.split()[-1] for line in listed.splitlines() if "Depends: linux-image-" in line]
        if not packages:
            raise MachineCannot(f"the package {_PACKAGES[flavour]} is not known here; run `apt-get update`")
        _run(("apt-get", "download", packages[0]), work)
        (fetched,) = work.glob("*.deb")
        _run(("dpkg-deb", "-x", str(fetched), str(work / "root")), work)
        target = place / packages[0]
        shutil.rmtree(target, ignore_errors=True)
        (work / "root").rename(target)


def _run(command: tuple[str, ...], directory: Path) -> str:
    try:
        return run_tool(command, directory=directory, timeout_s=_FETCH_S)
    except ToolFailed as error:
        raise MachineCannot(f"cannot get a kernel for guests: `{' '.join(command)}`: {error.reason[-300:]}") from error


def bootable(image: Path, beside: Path) -> Path:
    """The image to boot: of a kernel packed with xz, which takes an emulated CPU many seconds, the unpacked ELF file.

    The unpacked file is kept in `beside` under the image's name with `vmlinux-` in front.
    """
    unpacked = beside / f"vmlinux-{image.name.removeprefix('vmlinuz-')}"
    if unpacked.is_file():
        return unpacked
    content = elf_in(image.read_bytes())
    if content is None:
        return image
    beside.mkdir(parents=True, exist_ok=True)
    write_whole(unpacked, content)
    return unpacked


#: The beginning of a packed payload -> what unpacks it. LZ4 unpacks fast enough inside the guest.
_UNPACK: Final[Mapping[bytes, Callable[[bytes], bytes]]] = {
    b"\xfd7zXZ\0": lambda data: lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data),
}


def elf_in(image: bytes) -> bytes | None:
    """The kernel's ELF file inside a bzImage (kernel documentation, x86/boot), or None where it need not be out."""
    if image[0x202:0x206] != _HEADER_MAGIC:
        return None
    sectors = image[0x1F1] or 4
    offset, length = (int.from_bytes(image[at : at + 4], "little") for at in (0x248, 0x24C))
    begin = (sectors + 1) * 512 + offset
    payload = image[begin : begin + length]
    for magic, unpack in _UNPACK.items():
        if payload.startswith(magic):
            content = unpack(payload)
            return content if content.startswith(b"\x7fELF") else None
    return None
