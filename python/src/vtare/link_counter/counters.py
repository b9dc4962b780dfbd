"""Programs of the kernel (BPF, `tc`) that add up the bytes of IP that come in at a device, bin by bin.

75 ns a packet, 82 ns where a port is looked for (a million runs each by BPF_PROG_TEST_RUN, on the machine of
docs/avb.md), no copies, nothing wakes up. Wanted: root, x86-64 or arm64, a kernel with BPF and `clsact`.
Source of the instructions and of bpf(2): the kernel's documentation of BPF.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import socket
import struct
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from vtare.errors import MachineCannot
from vtare.process import ToolFailed, run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from numpy.typing import NDArray

#: bpf(2), by architecture.
_SYSCALL: Final = {"x86_64": 321, "aarch64": 280}
_MAP_CREATE, _PROG_LOAD, _OBJ_PIN = 0, 5, 6
_ARRAY, _MMAPABLE, _SCHED_CLS = 2, 1 << 10, 3
_LOOKUP, _KTIME = 1, 5
#: Places in `struct __sk_buff`.
_LEN, _GSO_SEGS = 0, 164
#: Places of the protocol and of the port of the destination in a frame of IPv4 without options.
_PROTOCOL, _PORT = 23, 36
#: Headers of Ethernet; with it, of a UDP datagram and of a TCP segment with time stamps. A group of packets
#: (UDP_SEGMENT, TCP segmentation) has them once.
_ETHERNET_BYTE, _UDP_HEADERS_BYTE, _TCP_HEADERS_BYTE = 14, 42, 66
#: The packet goes on its way, past the other programs at the device (TC_ACT_UNSPEC).
_GO_ON: Final = -1

#: Bins of a map: a ring, which is read long before it comes round (52 s at 50 us).
_BINS: Final = 1 << 20
#: A program that was begun in a bin has ended so long after it, ns, even where its processor was taken away.
_LAG_NS: Final = 200_000_000


class LinkCounterError(MachineCannot):
    """This kernel does not count for us; the message states why."""


@dataclass(frozen=True, slots=True)
class Tap:
    """What comes in at a device: all of it, or only what goes to a port of UDP."""

    namespace: str
    device: str
    port: int | None = None


class Counters:
    """Counts what comes in at each of some taps, by name, until it is closed; a context manager."""

    def __init__(self, taps: Mapping[str, Tap], bin_ns: int) -> None:
        """Begin to count.

        Raises:
            LinkCounterError: the kernel takes no such program, or the devices are not there.
        """
        self.bin_ns = bin_ns
        #: When the first bin begins, ns on CLOCK_MONOTONIC.
        self.from_ns = time.monotonic_ns()
        self._maps: dict[str, mmap.mmap] = {}
        self._devices = list(dict.fromkeys((tap.namespace, tap.device) for tap in taps.values()))
        self._read = 0
        place = Path(tempfile.mkdtemp(prefix="vtare-link-counter-"))
        try:
            # Programs are handed to tc by name; once they are attached the names may go.
            _run("mount", "-t", "bpf", "bpf", str(place))
            for namespace, device in self._devices:
                _quiet("tc", "-n", namespace, "qdisc", "del", "dev", device, "clsact")
                _run("tc", "-n", namespace, "qdisc", "add", "dev", device, "clsact")
            for name, tap in taps.items():
                self._maps[name] = self._attach(tap, place / name)
        except BaseException:
            self.close()
            raise
        finally:
            _quiet("umount", str(place))
            with suppress(OSError):
                place.rmdir()

    def _attach(self, tap: Tap, pinned: Path) -> mmap.mmap:
        counts = _bpf(_MAP_CREATE, struct.pack("<5I", _ARRAY, 4, 8, _BINS, _MMAPABLE).ljust(72, b"\0"))
        try:
            program = _load(_program(counts, self.from_ns, self.bin_ns, tap.port))
            try:
                name = ctypes.create_string_buffer(os.fsencode(pinned))
                _bpf(_OBJ_PIN, struct.pack("<QI", ctypes.addressof(name), program).ljust(24, b"\0"))
            finally:
                os.close(program)
            place = ("dev", tap.device, "ingress")
            _run("tc", "-n", tap.namespace, "filter", "add", *place, "bpf", "da", "object-pinned", str(pinned))
            return mmap.mmap(counts, _BINS * 8)
        finally:
            os.close(counts)

    def read(self) -> dict[str, NDArray[np.uint64]]:
        """Bytes in each bin that is over and was not read before, by tap; to be called every 20 s or so."""
        until = max(self._read, (time.monotonic_ns() - self.from_ns - _LAG_NS) // self.bin_ns)
        until = min(until, self._read + _BINS)
        places = np.arange(self._read, until) % _BINS
        self._read = until
        found = {}
        for name, counts in self._maps.items():
            view = np.frombuffer(counts, dtype=np.uint64)
            found[name] = view[places]
            view[places] = 0
            del view
        return found

    def rest(self) -> dict[str, NDArray[np.uint64]]:
        """The same, up to this moment: waits until its bin may be read."""
        time.sleep((_LAG_NS + self.bin_ns) / 1e9)
        return self.read()

    def close(self) -> None:
        """Take the programs away."""
        for namespace, device in self._devices:
            _quiet("tc", "-n", namespace, "qdisc", "del", "dev", device, "clsact")
        for counts in self._maps.values():
            counts.close()
        self._maps.clear()

    def __enter__(self) -> Self:
        """Return the counters, which count already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them."""
        self.close()


def _program(counts: int, from_ns: int, bin_ns: int, port: int | None) -> bytes:
    """Adds the bytes of IP of a packet, or of a group of packets, to the bin of this moment."""
    to_this_port = [] if port is None else [_op(0x28, value=_PORT), _op(0x55, value=port, to="out")]
    return _assembled([
        _op(0xBF, 6, 1),  # r6 = the packet
        *to_this_port,
        _op(0xB7, 7, value=_UDP_HEADERS_BYTE),  # r7 = headers of each packet of a group
        _op(0x30, value=_PROTOCOL),
        _op(0x55, value=socket.IPPROTO_TCP, to="counted"),
        _op(0xB7, 7, value=_TCP_HEADERS_BYTE),
        _op(0x85, value=_KTIME, name="counted"),
        *_wide(1, 0, from_ns),
        _op(0x1F, 0, 1),  # r0 = time since the begin
        _op(0x37, 0, value=bin_ns),
        _op(0x97, 0, value=_BINS),  # the bin's place in the ring
        _op(0x63, 10, 0, -4),
        _op(0xBF, 2, 10),
        _op(0x07, 2, value=-4),
        *_wide(1, 1, counts),
        _op(0x85, value=_LOOKUP),
        _op(0x15, 0, to="out"),
        _op(0x61, 1, 6, _LEN),  # r1 = bytes of the frame
        _op(0x61, 2, 6, _GSO_SEGS),  # r2 = packets in it
        _op(0x25, 2, value=1, to="group"),
        _op(0xB7, 2, value=1),
        _op(0xBF, 3, 2, name="group"),
        _op(0x27, 3, value=_ETHERNET_BYTE),
        _op(0x07, 2, value=-1),
        _op(0x2F, 2, 7),
        _op(0x0F, 1, 2),
        _op(0x1F, 1, 3),
        _op(0xDB, 0, 1),  # *r0 += r1, whole
        _op(0xB7, 0, value=_GO_ON, name="out"),
        _op(0x95),
    ])  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Op:
    """An instruction: code, registers, offset, number; `to`: the name of the one that it jumps to, `name`: its own."""

    code: int
    target: int
    source: int
    offset: int
    value: int
    to: str | None
    name: str | None


def _op(
    code: int,
    target: int = 0,
    source: int = 0,
    offset: int = 0,
    *,
    value: int = 0,
    to: str | None = None,
    name: str | None = None,
) -> _Op:
    return _Op(code, target, source, offset, value, to, name)


def _wide(target: int, source: int, value: int) -> tuple[_Op, _Op]:
    """Loads 64 bits: two instructions' places."""
    low, high = (struct.unpack("<i", struct.pack("<I", half))[0] for half in (value & 0xFFFFFFFF, value >> 32))
    return _op(0x18, target, source, value=low), _op(0, value=high)


def _assembled(program: list[_Op]) -> bytes:
    places = {op.name: place for place, op in enumerate(program) if op.name}
    code = b""
    for place, op in enumerate(program):
        offset = op.offset if op.to is None else places[op.to] - place - 1
        code += struct.pack("<BBhi", op.code, op.target | op.source << 4, offset, op.value)
    return code


def _load(code: bytes) -> int:
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"Dual MIT/GPL")
    log = ctypes.create_string_buffer(1 << 16)
    addresses = [ctypes.addressof(buffer) for buffer in (instructions, licence, log)]
    attributes = struct.pack("<2I2Q2IQ", _SCHED_CLS, len(code) // 8, *addresses[:2], 1, len(log), addresses[2])
    try:
        return _bpf(_PROG_LOAD, attributes.ljust(120, b"\0"))
    except LinkCounterError as error:
        reported = log.value.decode(errors="replace").strip().rsplit("\n", 1)[-1]
        raise LinkCounterError(f"{error}: {reported}" if reported else str(error)) from None


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise LinkCounterError(f"bpf(2) has no known number on {platform.machine()}, known: {', '.join(_SYSCALL)}")
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    found = int(ctypes.CDLL(None, use_errno=True).syscall(number, command, buffer, len(attributes)))
    if found < 0:
        raise LinkCounterError(f"bpf(2), command {command}: {os.strerror(ctypes.get_errno())}")
    return found


def _run(*words: str) -> None:
    try:
        run_tool(words)
    except ToolFailed as error:
        raise LinkCounterError(str(error)) from error


def _quiet(*words: str) -> None:
    with suppress(ToolFailed):
        run_tool(words)
