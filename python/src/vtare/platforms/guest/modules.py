"""Kernel modules for a micro guest: which ones a driver needs, in the order in which they must be loaded.

A module states its dependencies itself (`depends=` in its `.modinfo`), so no `modules.dep` is needed: packages that
were unpacked but not installed have none.
"""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
from typing import TYPE_CHECKING, Final

from vtare.errors import MachineCannot
from vtare.process import tool_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

#: Model of a network card -> its drivers. Not all kernels have all: Debian's cloud kernel has no e1000 and no 8139.
NIC_DRIVERS: Final[Mapping[str, str]] = {
    "virtio": "virtio_net",
    "vmxnet3": "vmxnet3",
    "e1000": "e1000",
    "e1000e": "e1000e",
    "rtl8139": "8139cp",
    "igb": "igb",
    "ne2k_pci": "ne2k_pci",
    "pcnet": "pcnet32",
    "tulip": "tulip",
    "netfront": "xen_netfront",
}
#: The card of a paravirtual guest under Xen, which no emulator offers.
NETFRONT: Final = "netfront"
#: The models that an emulator offers.
EMULATED_NICS: Final = tuple(nic for nic in NIC_DRIVERS if nic != NETFRONT)
#: What the control channel of an emulated machine needs.
CHANNEL_DRIVERS: Final = ("virtio_pci", "virtio_console")
#: What a guest's virtual disk needs: virtio-blk, or Xen's.
VIRTIO_DISK: Final = "virtio_blk"
XEN_DISK: Final = "xen_blkfront"
#: Queue discipline of a guest's network card -> its module. Both keep launch times (SO_TXTIME).
QUEUE_DRIVERS: Final[Mapping[str, str]] = {"fq": "sch_fq", "etf": "sch_etf"}
_SUFFIX: Final = re.compile(r"\.ko(\.(?P<packed>xz|gz|zst))?$")
_DEPENDS: Final = re.compile(rb"\0depends=([^\0]*)\0")


class Modules:
    """The modules of one kernel."""

    def __init__(self, directory: Path) -> None:
        """Look through a directory such as `/lib/modules/6.1.0-13-amd64`."""
        self.directory = directory
        paths = (path for path in sorted(directory.rglob("*.ko*")) if _SUFFIX.search(path.name))
        self._paths = {_plain(_SUFFIX.sub("", path.name)): path for path in paths}
        listed = directory / "modules.builtin"
        text = listed.read_text(encoding="utf-8") if listed.is_file() else ""
        self._built_in = {_plain(line.rpartition("/")[2].removesuffix(".ko")) for line in text.splitlines()}

    def has(self, name: str) -> bool:
        """Whether the kernel has this driver, as a module or built in."""
        return _plain(name) in self._paths or _plain(name) in self._built_in

    def ordered(self, names: Iterable[str]) -> list[tuple[str, bytes]]:
        """The modules that these drivers need, each after those it needs itself, as name and content.

        Raises:
            MachineCannot: this kernel has no such driver.
        """
        return in_order(names, self._read, self._built_in)

    def _read(self, name: str) -> bytes:
        path = self._paths.get(name)
        if path is None:
            raise MachineCannot(f"the kernel in {self.directory} has no driver '{name}'; name another kernel")
        return _unpacked(path)


def in_order(names: Iterable[str], read: Callable[[str], bytes], built_in: Iterable[str]) -> list[tuple[str, bytes]]:
    """Modules with all they depend on, dependencies first. `read` gives the content of one by its plain name."""
    there = set(built_in)
    contents: dict[str, bytes] = {}

    def take(name: str) -> None:
        if name in contents or name in there:
            return
        content = read(name)
        for needed in depends(content):
            take(needed)
        contents[name] = content

    for name in names:
        take(_plain(name))
    return list(contents.items())


def depends(content: bytes) -> list[str]:
    """The modules that a module names as its dependencies, by plain name."""
    stated = _DEPENDS.search(content)
    words = stated.group(1).decode("ascii", errors="replace").split(",") if stated else []
    return [_plain(word) for word in words if word]


def _plain(name: str) -> str:
    """The kernel takes `-` and `_` in the names of modules for the same."""
    return name.replace("-", "_")


def _unpacked(path: Path) -> bytes:
    """A module's content as the kernel takes it."""
    match path.suffix:
        case ".xz":
            return lzma.decompress(path.read_bytes())
        case ".gz":
            return gzip.decompress(path.read_bytes())
        case ".zst":
            if shutil.which("zstd") is None:
                raise MachineCannot(f"{path} is packed with zstd, and the program 'zstd' is missing; install zstd")
            return tool_output(("zstd", "-dcq", str(path)))
        case _:
            return path.read_bytes()
