"""What instruments need of this machine beside a platform: rights, kernel options, sizes, programs, libraries.

Where the kernel can be asked for the thing itself, it is asked: a socket is opened, a program of two instructions is
loaded. What is asked for is given back at once.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.doctor.ways import for_this_user, kvm_command, pip_install
from vtare.kernel_files import capabilities, kernel_number, kernel_text
from vtare.sentences import doctor as wording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vtare.doctor.ways import Ways

_CAPABILITIES: Final = {
    "cap_net_admin": 12, "cap_net_raw": 13, "cap_ipc_lock": 14, "cap_sys_nice": 23, "cap_perfmon": 38, "cap_bpf": 39,
}  # fmt: skip
#: CAP_PERFMON beside the two that load a program: without it the kernel refuses differences of pointers.
_LOAD: Final = ("cap_net_admin", "cap_bpf", "cap_perfmon")
#: The feature that `vtare capture` cannot do without.
PACKETS: Final = "raw packets"
_AF_XDP: Final = 44
_BUFFER_BYTE: Final = 16 << 20
_BPF_CALL: Final = {"x86_64": 321, "aarch64": 280}
_PROGRAMS: Final = {
    "cc": "vtare counter --language c",
    "javac": "vtare counter --language java",
    "qemu-nbd": "vtare load nbd",
    "ethtool": "vtare run with throughput experiments",
    "ovs-vsctl": "the level openvswitch of switch",
}
_LIBRARIES: Final = {
    "asyncssh": ("asyncssh", "the platforms ssh, cloud, esxi, virtualbox"),
    "docker": ("docker", "the platform docker"),
    "libcloud": ("apache-libcloud", "the platform cloud"),
    "pyVmomi": ("pyvmomi", "the platform esxi"),
    "qemu.qmp": ("qemu.qmp", "pinned vCPUs of guests of qemu"),
    "prometheus_client": ("prometheus-client", "vtare watch --metrics"),
    "distributed": ("distributed", "vtare run --on dask:// or slurm:, agents"),
}


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing that something needs: `lacks` is why it is not there (None: it is), `command` what gets it."""

    name: str
    used_by: str
    lacks: str | None = None
    command: str | None = None


def features(binary: Path, ways: Ways) -> tuple[Feature, ...]:
    """Look at all of them, for this user and this binary. Nothing is changed."""
    held = _held(binary)
    known = (*_rights(binary, held), *_kernel(), *_programs(ways), *_libraries())
    return tuple(one if one.command is None else replace(one, command=for_this_user(one.command)) for one in known)


def _held(binary: Path) -> int:
    """The capabilities that the binary has when this user starts it: the process's own and those of the file."""
    held = capabilities()
    with suppress(OSError):
        # struct vfs_cap_data: magic and flags, then permitted and inheritable, the low and the high half of each.
        data = os.getxattr(binary, "security.capability")
        _, low, _, high, _ = struct.unpack_from("<5I", data)
        held |= low | high << 32
    return held


def _rights(binary: Path, held: int) -> Iterator[Feature]:
    def lacking(*names: str) -> list[str]:
        return [name for name in names if not held >> _CAPABILITIES[name] & 1]

    def feature(name: str, used_by: str, *needed: str, then: Callable[[], str | None]) -> Feature:
        without = lacking(*needed)
        if without:
            # What the file has stays: `setcap` replaces all of it.
            kept = [name for name, number in _CAPABILITIES.items() if held >> number & 1 or name in needed]
            grant = f"sudo setcap {','.join(kept)}+ep {binary}"
            return Feature(name, used_by, wording.without_rights(without), grant)
        # A right of the file is not one of this process, which therefore cannot ask the kernel.
        return Feature(name, used_by, then() if os.geteuid() == 0 else None)

    yield _ping(lacking)
    packets = "vtare link, throughput, capture --hook packet"
    yield feature(PACKETS, packets, "cap_net_raw", then=lambda: _refused(socket.AF_PACKET, socket.SOCK_RAW))
    yield feature(
        "frames in shared memory (AF_XDP)", "vtare rtt --engine af_xdp", *_LOAD, "cap_net_raw", "cap_ipc_lock",
        then=lambda: _refused(_AF_XDP, socket.SOCK_RAW),
    )  # fmt: skip
    yield feature(
        "programs in the kernel (BPF)", "vtare rtt --engine xdp, capture --hook tc, serve --xdp",
        *_LOAD, then=_bpf_refused,
    )  # fmt: skip
    realtime = "vtare sleep --fifo, avb --fifo"
    yield feature("real-time priority", realtime, "cap_sys_nice", then=_priority_refused)


def _priority_refused() -> str | None:
    """Why root gets no real-time priority; None where it got one, which is given back."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError as error:
        return wording.no_realtime(error.strerror)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return None


def _ping(lacking: Callable[..., list[str]]) -> Feature:
    name, used_by = "ICMP", "vtare rtt --icmp"
    if not lacking("cap_net_raw") or _refused(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) is None:
        return Feature(name, used_by)
    group = os.getegid()
    return Feature(name, used_by, wording.NO_PING_GROUP, f'sudo sysctl -w net.ipv4.ping_group_range="{group} {group}"')


def _refused(family: int, kind: int, protocol: int = 0) -> str | None:
    try:
        socket.socket(family, kind, protocol).close()
    except OSError as error:
        return wording.socket_refused(error.strerror)
    return None


def _bpf_refused() -> str | None:
    """Why a program for network interfaces cannot be loaded; None where one was, which is gone again."""
    number = _BPF_CALL.get(platform.machine())
    if number is None:
        return wording.no_programs_for(platform.machine())
    # r0 = XDP_PASS; exit
    code = ctypes.create_string_buffer(bytes.fromhex("b700000002000000 9500000000000000"), 16)
    licence = ctypes.create_string_buffer(b"GPL")
    # union bpf_attr of BPF_PROG_LOAD: type (6, XDP), number of instructions, their address, the licence's.
    attributes = ctypes.create_string_buffer(
        struct.pack("<IIQQ", 6, 2, ctypes.addressof(code), ctypes.addressof(licence)), 128
    )
    kernel = ctypes.CDLL(None, use_errno=True)
    descriptor = kernel.syscall(number, 5, attributes, len(attributes))
    if descriptor < 0:
        return wording.no_bpf(os.strerror(ctypes.get_errno()))
    os.close(descriptor)
    return None


def _kernel() -> Iterator[Feature]:
    cpus = len(os.sched_getaffinity(0))
    yield Feature(
        "two CPUs", "round trips and bandwidth on this machine alone, loads beside a measurement",
        None if cpus > 1 else wording.ONE_CPU,
    )  # fmt: skip
    yield _clock_source()
    pressure = Path("/proc/pressure/cpu").exists()
    yield Feature(
        "pressure of CPUs and disks", "the causes in vtare noise and check",
        None if pressure else wording.NO_PRESSURE,
    )  # fmt: skip
    most = kernel_number("proc/sys/net/core/rmem_max")
    enough = os.geteuid() == 0 or (most is not None and most >= _BUFFER_BYTE)
    yield Feature(
        "large receive buffers", "vtare serve, rtt and avb at high rates",
        None if enough else wording.small_buffer(most, _BUFFER_BYTE),
        None if enough else f"sudo sysctl -w net.core.rmem_max={_BUFFER_BYTE}",
    )  # fmt: skip
    latency = Path("/dev/cpu_dma_latency")
    reachable = os.access(latency, os.W_OK)
    lacks = wording.not_writable(latency) if latency.exists() else wording.there_is_no(latency)
    yield Feature("no deep idle states", "--dma-latency", None if reachable else lacks,
                  "sudo vtare ..." if latency.exists() and not reachable else None)  # fmt: skip
    kvm = Path("/dev/kvm")
    usable = os.access(kvm, os.R_OK | os.W_OK)
    load = kvm_command()
    lacks = wording.KVM_CLOSED if kvm.exists() else wording.there_is_no(kvm) if load else wording.NO_VIRTUALIZATION
    yield Feature("KVM", "guests of qemu at the speed of hardware",
                  None if usable else lacks,
                  None if usable else "sudo usermod -aG kvm $USER" if kvm.exists() else load)  # fmt: skip


def _clock_source() -> Feature:
    place = "/sys/devices/system/clocksource/clocksource0"
    name, used_by = "a clock source that programs read without a system call", "all figures of time"
    current, offered = (kernel_text(f"{place}/{which}_clocksource".lstrip("/")) for which in ("current", "available"))
    if not current or offered is None:
        return Feature(name, used_by, wording.not_readable(place))
    fast = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")
    if current.strip() in fast:
        return Feature(name, used_by)
    best = next((source for source in fast if source in offered.split()), None)
    command = None if best is None else f"echo {best} | sudo tee {place}/current_clocksource"
    return Feature(name, used_by, wording.slow_clock_source(current.strip()), command)


def _programs(ways: Ways) -> Iterator[Feature]:
    for program, used_by in _PROGRAMS.items():
        there = shutil.which(program) is not None
        command = None if there else ways.install(ways.packages.get(program))
        yield Feature(f"the program {program}", used_by, None if there else wording.NOT_ON_PATH, command)


def _libraries() -> Iterator[Feature]:
    for module, (package, used_by) in _LIBRARIES.items():
        try:
            there = find_spec(module) is not None
        except ModuleNotFoundError:
            there = False
        command = None if there else pip_install(package)
        yield Feature(f"the Python library {package}", used_by, None if there else wording.NOT_INSTALLED, command)
