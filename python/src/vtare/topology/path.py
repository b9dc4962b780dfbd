"""The path of an experiment on available bandwidth: sender - router - receiver, its bottleneck on the router's egress.

A `PathSpec` is the path as data; the functions here turn it into the commands that make it. The truth is well defined
only because of their details: the shaper counts IP bytes (`stab overhead -14` takes the Ethernet header off), and its
bucket is the least with which the kernel keeps the rate. Measured with two bursts a rate: with half of it 300 Mbit/s
were 225 (docs/methods/avb-lab.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms.network import Step
from vtare.quantities import QuantityError, parse, unit_of, write

if TYPE_CHECKING:
    from collections.abc import Mapping

BOTTLENECKS: Final = ("tbf", "htb", "link")
#: Cross traffic by the program iperf3 (UDP), in the bursts of its own timer; all other arrivals are `vtare load net`'s.
IPERF3: Final = "iperf3"
#: Those whose mean over a run is the rate that was asked for; with `onoff` that takes far longer.
EVEN_ARRIVALS: Final = ("constant", "poisson")
ARRIVALS: Final = (*EVEN_ARRIVALS, "onoff", IPERF3)
#: Whose clock and sleeps the sender's trains are timed by: the parameters of `avb` that each level sets. `os` is what a
#: program without a timing library does, `vtare` the instrument's default.
TIMERS: Final[dict[str, dict[str, str]]] = {
    "os": {"clock": "os", "sleep": "usleep"},
    "vtare": {"clock": "vtare", "sleep": "spin"},
}
DEFAULT_MTU_BYTE: Final = 1500
_ETHERNET_BYTE: Final = 14
#: Links from this rate on, bit/s, get packets in groups.
_GROUPED_BIT_PER_S: Final = 1_000_000_000
#: Time that a token bucket holds at the least: timers of the kernel are no finer.
_BUCKET_NS: Final = 72_000
_QUEUE_PACKETS: Final = 1000
_QUEUE_NS: Final = 10_000_000
_RATE: Final = unit_of("rate_bit_per_s")
_SECOND: Final = unit_of("seconds")


@dataclass(frozen=True, slots=True)
class Phase:
    """A capacity and how long it lasts."""

    bit_per_s: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class PathSpec:
    """What lies between sender and receiver. Rates are of IP packets with headers.

    `phases` come round again; a steady capacity is one phase. `delay_ns` holds each way, `loss_fraction` on the way
    forward, before the queue. `mtu_stated` is whether the plan states the MTU: else machines that it names keep theirs.
    """

    bottleneck: str
    phases: tuple[Phase, ...]
    cross_bit_per_s: int = 0
    cross_arrivals: str = "constant"
    cross_cpu: int | None = None
    delay_ns: int = 0
    loss_fraction: float = 0.0
    mtu_byte: int = DEFAULT_MTU_BYTE
    mtu_stated: bool = False

    @property
    def steady_bit_per_s(self) -> int | None:
        """The capacity where it does not change, else None."""
        return self.phases[0].bit_per_s if len(self.phases) == 1 else None

    @property
    def most_bit_per_s(self) -> int:
        """The highest capacity."""
        return max(phase.bit_per_s for phase in self.phases)

    @property
    def bucket_byte(self) -> int:
        """Depth of the token bucket: two packets and a little, or what the kernel's timers need."""
        return self.bucket_at(self.most_bit_per_s)

    def bucket_at(self, bit_per_s: int) -> int:
        """The depth that a bucket needs at this rate."""
        return max(2 * (self.mtu_byte + 100), bit_per_s * _BUCKET_NS // 8_000_000_000)

    @property
    def queue_byte(self) -> int:
        """Room of the bottleneck's queue: a thousand packets, or 10 ms."""
        return max(_QUEUE_PACKETS * self.mtu_byte, self.most_bit_per_s * _QUEUE_NS // 8_000_000_000)

    def document(self) -> dict[str, Any]:
        """The path as `topology.json` has it."""
        return {
            "bottleneck": self.bottleneck,
            "phases": [{"bit_per_s": phase.bit_per_s, "duration_ns": phase.duration_ns} for phase in self.phases],
            "cross_bit_per_s": self.cross_bit_per_s,
            "cross_arrivals": self.cross_arrivals,
            "delay_ns": self.delay_ns,
            "loss_fraction": self.loss_fraction,
            "mtu_byte": self.mtu_byte,
            "bucket_byte": None if self.bottleneck == "link" else self.bucket_byte,
            "queue_byte": self.queue_byte,
        }

    @classmethod
    def of_document(cls, found: Mapping[str, Any]) -> PathSpec:
        """Read back what `document` wrote. Raises KeyError or TypeError where it is none."""
        phases = tuple(Phase(int(phase["bit_per_s"]), int(phase["duration_ns"])) for phase in found["phases"])
        return cls(
            bottleneck=str(found["bottleneck"]),
            phases=phases,
            cross_bit_per_s=int(found["cross_bit_per_s"]),
            cross_arrivals=str(found["cross_arrivals"]),
            delay_ns=int(found["delay_ns"]),
            loss_fraction=float(found["loss_fraction"]),
            mtu_byte=int(found["mtu_byte"]),
        )


def read_steps(text: str) -> tuple[Phase, ...]:
    """Read `2 Gbit/s:10 s, 7 Gbit/s:10 s`.

    Raises:
        QuantityError: with the value found and what is wanted.
    """
    phases = []
    for part in text.split(","):
        rate, colon, duration = part.partition(":")
        if not colon:
            raise QuantityError(f"'{part.strip()}' is no RATE:TIME, such as \"2 Gbit/s:10 s\"")
        phases.append(Phase(read_rate(rate.strip(), least=1000), int(_parse_seconds(duration.strip()) * 10**9)))
    if len(phases) < 2 or all(a.bit_per_s == b.bit_per_s for a, b in pairwise(phases)):
        raise QuantityError(f"'{text}' does not change: use at least two rates, or 'capacity' for a steady one")
    return tuple(phases)


def _parse_seconds(text: str) -> Decimal:
    assert _SECOND is not None
    value = parse(text, _SECOND)
    if value < Decimal("0.001"):
        raise QuantityError(f"'{text}' is too short: use 1 ms or more")
    return value


def read_rate(text: str, *, least: int) -> int:
    """Read a rate in whole bit/s. Raises QuantityError where it is none, or below `least`."""
    assert _RATE is not None
    value = parse(text, _RATE)
    if value != int(value) or value < least:
        raise QuantityError(f"'{text}' is not a rate in whole bit/s: use {least} or more")
    return int(value)


def rate_label(bit_per_s: int) -> str:
    """A rate the way a plan writes it."""
    assert _RATE is not None
    return "0 Mbit/s" if bit_per_s == 0 else write(Decimal(bit_per_s), _RATE)


def steps_label(phases: tuple[Phase, ...]) -> str:
    """Phases the way a plan writes them."""
    assert _SECOND is not None
    return ", ".join(
        f"{rate_label(phase.bit_per_s)}:{write(Decimal(phase.duration_ns) / 10**9, _SECOND)}" for phase in phases
    )


def steps_of(path: PathSpec, egress: str, forward: str, back: str) -> tuple[list[Step], list[Step], list[Step]]:
    """Steps for the devices of a path: the router's egress, and where packets leave for the router, there and back."""
    return (
        shape_steps(path, egress),
        netem_steps(path, forward, forward=True),
        netem_steps(path, back, forward=False),
    )


def shape_steps(path: PathSpec, device: str) -> list[Step]:
    """Steps that put the kernel's shaper on a device; none where `vtare link` is the bottleneck."""
    if path.bottleneck == "link":
        return []
    rate = path.phases[0].bit_per_s
    if path.bottleneck == "tbf":
        return [rate_step(path, device, rate, verb="add")]
    size = _size_words(path)
    return [
        _tc("qdisc", "add", "dev", device, "root", "handle", "1:", *size, "htb", "default", "1"),
        rate_step(path, device, rate, verb="add"),
        _tc("qdisc", "add", "dev", device, "parent", "1:1", "handle", "10:", "bfifo", "limit",
            str(path.queue_byte)),
    ]  # fmt: skip


def rate_step(path: PathSpec, device: str, bit_per_s: int, *, verb: str = "change") -> Step:
    """The step that sets the shaper's rate, at first (`add`) or while it works (`change`)."""
    # Else a bucket of the highest rate would be a burst of many packets at the lowest.
    bucket = str(path.bucket_at(bit_per_s))
    rated = f"{_rate_as_counted(path, bit_per_s)}bit"
    if path.bottleneck == "htb":
        rate = ("rate", rated, "ceil", rated, "burst", bucket, "cburst", bucket)
        return _tc("class", verb, "dev", device, "parent", "1:", "classid", "1:1", "htb", *rate)
    size = _size_words(path)
    words = ("tbf", "rate", rated, "burst", bucket, "limit", str(path.queue_byte))
    return _tc("qdisc", verb, "dev", device, "root", "handle", "1:", *size, *words)


def _size_words(path: PathSpec) -> tuple[str, ...]:
    """What makes the shaper count IP bytes, where packets come one by one.

    With a size table the kernel counts a group of packets (UDP_SEGMENT, TCP) as one buffer, which holds their headers
    once: three of 1500 B count 4444 B, and the link is 1.3 % faster than its rate. Groups are sent on fast links: there
    the kernel counts each packet of a group as a frame, and `_rate_as_counted` is the rate of such frames.
    """
    return () if path.most_bit_per_s >= _GROUPED_BIT_PER_S else ("stab", "overhead", str(-_ETHERNET_BYTE))


def _rate_as_counted(path: PathSpec, bit_per_s: int) -> int:
    """The rate in what the shaper counts, bit/s: IP bytes, or frames of the largest packets."""
    if _size_words(path):
        return bit_per_s
    return bit_per_s * (path.mtu_byte + _ETHERNET_BYTE) // path.mtu_byte


def netem_steps(path: PathSpec, device: str, *, forward: bool) -> list[Step]:
    """Steps for delay and loss where the bottleneck is the kernel's: netem, which not every kernel has.

    `device` is where packets leave for the router, forward or back.
    """
    words = ["limit", str(10 * _QUEUE_PACKETS)]
    words += ["delay", f"{path.delay_ns / 1000:g}us"] if path.delay_ns else []
    words += ["loss", f"{100 * path.loss_fraction:g}%"] if path.loss_fraction and forward else []
    if path.bottleneck == "link" or len(words) == 2:
        return []
    return [_tc("qdisc", "add", "dev", device, "root", "netem", *words)]


def link_arguments(path: PathSpec, inward: str, outward: str, log: str) -> list[str]:
    """The arguments of `vtare link` between the router's two interfaces."""
    words = ["link", inward, outward]
    if path.steady_bit_per_s is not None:
        words += ["--ab-rate", str(path.steady_bit_per_s)]
    else:
        steps = ",".join(f"{phase.bit_per_s}:{phase.duration_ns}ns" for phase in path.phases)
        words += ["--ab-rate-steps", steps]
    words += ["--ab-buffer", f"{path.queue_byte}B"]
    words += ["--delay", f"{path.delay_ns}ns"] if path.delay_ns else []
    words += ["--ab-loss", f"{100 * path.loss_fraction:g}%"] if path.loss_fraction else []
    return [*words, "--log", log, "--json"]


def _tc(*words: str) -> Step:
    return Step(("tc", *words))
