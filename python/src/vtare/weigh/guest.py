"""A guest that boots, runs one program on the files that it is offered, and powers off.

The files come read-only by 9p; what is written stays in the guest's memory. Its errors and what the program prints are
those of QEMU.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Final

from vtare.errors import MachineCannot
from vtare.platforms.guest import cpio
from vtare.platforms.guest.instance import LEAST_MEMORY, MEBIBYTE
from vtare.platforms.guest.modules import CHANNEL_DRIVERS, Modules
from vtare.platforms.guest.qemu_command import PROGRAM
from vtare.sentences import weigh as wording

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vtare.platforms.guest.kernel import Kernel
    from vtare.platforms.protocol import Resources

#: The distribution's small kernel for clouds need not have 9p.
FLAVOUR: Final = "generic"
INITRAMFS: Final = "initramfs"
#: What its first process runs, in the directory of a guest.
REQUEST: Final = "request"
_DRIVERS: Final = (*CHANNEL_DRIVERS, "9pnet_virtio", "9p", "overlay")
_DIRECTORIES: Final = ("bin", "files", "dev", "proc", "sys", "modules", "layer", "new", "mnt")
#: Where nobody limits it. What a guest does not touch takes nothing.
_MEMORY: Final = 1024 * MEBIBYTE
#: QEMU's own, with 64 MiB of translated code.
_OWN_MEMORY: Final = 128 * MEBIBYTE
#: A program that prints more than its ports hold waits until it is read, so that powering off loses nothing.
_INIT: Final = """#!/bin/busybox sh
b=/bin/busybox
set -e
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
for one in @MODULES@; do $b insmod /modules/$one.ko; done
until [ "$(echo /dev/vport*p2)" != '/dev/vport*p2' ]; do $b usleep 10000; done
exec </dev/null >"$(echo /dev/vport*p1)" 2>"$(echo /dev/vport*p2)"
files=trans=virtio,version=9p2000.L,ro,msize=524288,cache=loose
$b mount -t 9p -o $files root /files
$b mount -t tmpfs layer /layer
$b mkdir /layer/upper /layer/work
$b mount -t overlay -o lowerdir=/files,upperdir=/layer/upper,workdir=/layer/work root /new
for one in proc sys dev; do $b mount --move /$one /new/$one; done
$b mkdir -p /new/run /new/dev/pts /new/dev/shm
$b mount -t tmpfs run /new/run
$b mount -t devpts devpts /new/dev/pts
$b mount -t tmpfs shm /new/dev/shm
$b ip link set lo up
$b mount -t 9p -o $files request /mnt
$b cp $b /mnt/request /new/run
set +e
$b env -i $b chroot /new /run/busybox sh /run/request
$b poweroff -f
"""


def initramfs(kernel: Kernel, busybox: Path) -> bytes:
    """The first files of a guest with this kernel: busybox, and the modules for what it is offered.

    Raises:
        MachineCannot: the kernel has no such modules.
    """
    modules = Modules(kernel.modules).ordered(_DRIVERS)
    script = _INIT.replace("@MODULES@", " ".join(name for name, _ in modules))
    return cpio.archive(
        [
            *(cpio.directory(name) for name in _DIRECTORIES),
            cpio.device("dev/console", 5, 1),
            cpio.file("bin/busybox", busybox.read_bytes(), executable=True),
            cpio.file("init", script.encode(), executable=True),
            *(cpio.file(f"modules/{name}.ko", content) for name, content in modules),
        ]
    )


def request(program: Sequence[str], directory: str, environment: Mapping[str, str]) -> str:
    """The shell script that becomes the program, in a directory and with these variables alone."""
    variables = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
    return f"{variables}cd {shlex.quote(directory)} && exec {shlex.join(program)}\n"


def words(
    accelerator: str, kernel: Kernel, place: Path, root: Path, directory: Path, resources: Resources
) -> list[str]:
    """The command that runs a guest; its request lies in a directory of its own.

    Raises:
        MachineCannot: the memory is too little for a guest.
    """
    emulated = accelerator == "tcg"
    cpus = resources.pinned or os.sched_getaffinity(0)
    memory = _MEMORY if resources.memory_byte is None else resources.memory_byte - _OWN_MEMORY
    if memory < LEAST_MEMORY[FLAVOUR]:
        raise MachineCannot(wording.guest_needs((LEAST_MEMORY[FLAVOUR] + _OWN_MEMORY) // MEBIBYTE))
    shared = "security_model=none,readonly=on,multidevs=remap"
    return [
        PROGRAM, "-machine", "q35,usb=off", "-accel", "tcg,tb-size=64" if emulated else accelerator,
        "-cpu", "max" if emulated else "host", "-smp", str(len(cpus)), "-m", f"{memory // MEBIBYTE}M",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(kernel.image), "-initrd", str(place / INITRAMFS),
        "-append", "console=ttyS0 quiet no_timer_check panic=-1", "-serial", f"file:{directory / 'console'}",
        "-device", "virtio-serial-pci",
        *(word for number in (1, 2) for word in (
            "-chardev", f"file,id=out{number},path=/dev/fd/{number},append=on",
            "-device", f"virtserialport,chardev=out{number},nr={number}",
        )),
        "-virtfs", f"local,path={root},mount_tag=root,{shared}",
        "-virtfs", f"local,path={directory},mount_tag=request,{shared}",
    ]  # fmt: skip
