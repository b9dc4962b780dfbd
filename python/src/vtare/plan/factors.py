"""The words of a plan: the lab's own factors, and the levels that they take."""

from __future__ import annotations

from typing import Final

from vtare.forwarders import SWITCHES
from vtare.guests import RESOURCE_FACTORS
from vtare.path import ARRIVALS, BOTTLENECKS, TIMERS

LOAD_KINDS: Final = ("idle", "cpu", "io")
CAPTURE_OFF: Final = "off"
CAPTURE_ON: Final = "on"
#: `on` is the hook that `vtare capture` prefers on this machine; the others force one.
CAPTURES: Final = (CAPTURE_OFF, CAPTURE_ON, "tc", "packet")
ICMP: Final = "icmp"
#: Factors of the lab itself, for every experiment; and those of an experiment between two hosts of the lab's own.
LAB_FACTORS: Final = (
    "load", "platform", *RESOURCE_FACTORS, "background", "background_load", "background_platform",
)  # fmt: skip
TWO_HOST_FACTORS: Final = (
    "responder_platform", "capture", "load_side", "responder", "responder_cpu", "background_side",
)  # fmt: skip
#: Factors of the path of an `avb` experiment, whose truth the lab knows (vtare.path).
PATH_FACTORS: Final = (
    "bottleneck", "capacity", "capacity_steps", "cross", "cross_arrivals", "cross_cpu", "delay", "loss", "mtu_byte",
)  # fmt: skip
#: Factors of the guests of a `throughput` experiment: how many, what joins them, and the CPU that takes frames to them.
GUEST_FACTORS: Final = ("guests", "switch", "guest_cpu")
#: As many as Batalla et al. had.
DEFAULT_GUESTS: Final = 12
#: A factor that sets several parameters of `avb` at once.
TIMERS_FACTOR: Final = "timers"
#: Instruments whose far end the lab can be, with the factors that each then has.
FAR_END_FACTORS: Final[dict[str, tuple[str, ...]]] = {
    "rtt": TWO_HOST_FACTORS,
    "avb": ("responder_platform", "load_side", "responder", "responder_cpu", "background_side", *PATH_FACTORS),
}
#: Factors whose levels are names of platforms.
PLATFORM_FACTORS: Final = ("platform", "responder_platform", "background_platform")
#: Every factor that is no parameter of an instrument.
OWN_FACTORS: Final = (*LAB_FACTORS, *TWO_HOST_FACTORS, *PATH_FACTORS, *GUEST_FACTORS, TIMERS_FACTOR)
#: Factors whose levels are numbers of CPUs.
CPU_FACTORS: Final = ("responder_cpu", "cross_cpu", "guest_cpu")
#: What the lab gives a `throughput` run through guests of its own.
PORT_PARAMETERS: Final = frozenset(("tx_port", "rx_port", "flow"))
#: Factors whose levels are words, with the words.
CHOICES: Final = {
    "bottleneck": BOTTLENECKS,
    "cross_arrivals": ARRIVALS,
    TIMERS_FACTOR: tuple(TIMERS),
    "capture": CAPTURES,
    "load_side": ("sender", "responder"),
    "background_side": ("sender", "responder"),
    "responder": ("blocking", "spinning"),
    "switch": SWITCHES,
}
