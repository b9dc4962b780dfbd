"""The lab's own factors as a table: name, reader of its levels, instruments, and the setup to which it applies.

Every other factor of a plan is a parameter of its instrument. A new factor is a line here, and the code that obeys it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from vtare.instruments.model import Hosts
from vtare.plan import readers
from vtare.plan.readers import LevelReader, choice, cpu, instance, integer, platform, rate, responder
from vtare.quantities import symbol_of
from vtare.topology.guest_slots import MOST_GUESTS, SWITCHES
from vtare.topology.path import ARRIVALS, BOTTLENECKS, TIMERS

CAPTURE: Final = "capture"
CAPTURE_OFF: Final = "off"
CAPTURE_ON: Final = "on"
#: `on` is the hook that `vtare capture` prefers on this machine; the others force one.
CAPTURES: Final = (CAPTURE_OFF, CAPTURE_ON, "tc", "packet")
ICMP: Final = "icmp"
#: As many as Batalla et al. had.
DEFAULT_GUESTS: Final = 12
#: What the lab gives a run between two ports with guests of its own.
PORT_PARAMETERS: Final = frozenset(("tx_port", "rx_port", "flow"))


class AppliesTo(Enum):
    """Where a factor means something."""

    EVERY_RUN = "every run"
    TWO_HOSTS = "two hosts of the lab"
    PATH = "the path between two hosts of the lab, whose truth it knows"
    FORWARDING = "guests of the lab that forward"
    PARAMETERS = "several parameters of the instrument at once"


@dataclass(frozen=True, slots=True)
class FactorSpec:
    """One factor of the lab. `about` is what it states, `hosts` is None where it goes with every instrument.

    `unit` is what its levels count in, None where they are words, or its name states the unit.
    """

    name: str
    read: LevelReader
    about: str
    hosts: tuple[Hosts, ...] | None = None
    applies_to: AppliesTo = AppliesTo.EVERY_RUN
    unit: str | None = None

    def goes_with(self, hosts: Hosts) -> bool:
        """Whether an experiment of an instrument that needs such hosts may have it."""
        return self.hosts is None or hosts in self.hosts


_TWO = AppliesTo.TWO_HOSTS
_PATH = AppliesTo.PATH
_FORWARDING = AppliesTo.FORWARDING
_BOTH: tuple[Hosts, ...] = ("two", "routed")
_PAIR: tuple[Hosts, ...] = ("two",)
_ROUTED: tuple[Hosts, ...] = ("routed",)
_PORTS: tuple[Hosts, ...] = ("ports",)
_SIDES: Final = ("sender", "responder")

FACTORS: Final = (
    FactorSpec("load", readers.load, "What else runs on the machine that measures."),
    FactorSpec("platform", platform, "What the instrument runs in."),
    FactorSpec("vcpus", instance("vcpus"), "Virtual CPUs of an instance."),
    FactorSpec("memory", instance("memory"), "Memory of an instance."),
    FactorSpec("affinity", instance("affinity"), "CPUs of the host that an instance stays on, or 'off'."),
    FactorSpec("nic", instance("nic"), "The model of a guest's network card."),
    FactorSpec("guest_clock", instance("guest_clock"), "The clock source of a guest's kernel."),
    FactorSpec("disk", instance("disk"), "The size of a guest's virtual disk, or 'none'."),
    FactorSpec("background", instance("background"), "How many other instances run meanwhile."),
    FactorSpec("background_load", readers.background_load, "What each of them does."),
    FactorSpec("background_platform", platform, "The platform of the instances in the background."),
    FactorSpec(
        "background_memory",
        instance("background_memory"),
        "Memory of each of them; 'fit' is that of the sender, or what there is room for.",
    ),
    FactorSpec(
        "responder_platform", responder, "What the responder runs in; 'same' is the sender's platform.", _BOTH, _TWO
    ),
    FactorSpec(
        CAPTURE, choice(*CAPTURES), "Whether packets are captured on the hosts, and by which hook.", _PAIR, _TWO
    ),
    FactorSpec("load_side", choice(*_SIDES), "The side that has the load.", _BOTH, _TWO),
    FactorSpec("responder", choice("blocking", "spinning"), "How the responder waits for packets.", _BOTH, _TWO),
    FactorSpec("responder_cpu", cpu, "The CPU of the responder.", _BOTH, _TWO),
    FactorSpec("background_side", choice(*_SIDES), "The side that has the instances in the background.", _BOTH, _TWO),
    FactorSpec("bottleneck", choice(*BOTTLENECKS), "What makes the capacity of the path.", _ROUTED, _PATH),
    FactorSpec("capacity", rate(1000), "The capacity of the path.", _ROUTED, _PATH, "bit/s"),
    FactorSpec("capacity_steps", readers.steps, "A capacity that changes: rates with their durations.", _ROUTED, _PATH),
    FactorSpec("cross", rate(0), "The rate of the cross traffic.", _ROUTED, _PATH, "bit/s"),
    FactorSpec("cross_arrivals", choice(*ARRIVALS), "How the cross traffic arrives.", _ROUTED, _PATH),
    FactorSpec("cross_cpu", cpu, "The CPU of the source of the cross traffic.", _ROUTED, _PATH),
    FactorSpec("delay", readers.delay, "The delay that the path adds.", _ROUTED, _PATH, "ns"),
    FactorSpec("loss", readers.loss, "The share of packets that the path loses.", _ROUTED, _PATH, "1"),
    FactorSpec("mtu_byte", readers.mtu, "The largest IP packet of the path.", _ROUTED, _PATH),
    FactorSpec("guests", integer(1, MOST_GUESTS), "How many guests forward.", _PORTS, _FORWARDING),
    FactorSpec("switch", choice(*SWITCHES), "What joins the guests with the ports.", _PORTS, _FORWARDING),
    FactorSpec("guest_cpu", cpu, "The CPU of the guests.", _PORTS, _FORWARDING),
    FactorSpec(
        "timers",
        choice(*TIMERS),
        "The clock and the sleeps of the sender, both at once.",
        _ROUTED,
        AppliesTo.PARAMETERS,
    ),
)
BY_NAME: Final = {spec.name: spec for spec in FACTORS}


def _names(applies_to: AppliesTo) -> tuple[str, ...]:
    return tuple(spec.name for spec in FACTORS if spec.applies_to is applies_to)


#: Factors of every run; of two hosts, of the path between them and of guests that the lab sets up.
LAB_FACTORS: Final = _names(AppliesTo.EVERY_RUN)
TWO_HOST_FACTORS: Final = _names(_TWO)
PATH_FACTORS: Final = _names(_PATH)
GUEST_FACTORS: Final = _names(_FORWARDING)
#: The factor that sets several parameters of its instrument at once.
(TIMERS_FACTOR,) = _names(AppliesTo.PARAMETERS)
#: Factors whose levels are names of platforms.
PLATFORM_FACTORS: Final = tuple(spec.name for spec in FACTORS if spec.read in (platform, responder))
#: Every factor that is no parameter of an instrument.
OWN_FACTORS: Final = tuple(BY_NAME)


def factors_of(hosts: Hosts) -> tuple[str, ...]:
    """The lab's own factors that an experiment of an instrument with such hosts may have."""
    return tuple(spec.name for spec in FACTORS if spec.goes_with(hosts))


def symbol_of_key(key: str) -> str | None:
    """The unit that the levels of a factor, or the parts of a run, count in; None where they are no quantity.

    >>> symbol_of_key("target_ns"), symbol_of_key("capacity"), symbol_of_key("load")
    ('ns', 'bit/s', None)
    """
    return BY_NAME[key].unit or symbol_of(key) if key in BY_NAME else symbol_of(key)


def has_far_end(hosts: Hosts) -> bool:
    """Whether the lab can be the far end of such an instrument."""
    return any(spec.applies_to is _TWO and spec.goes_with(hosts) for spec in FACTORS)


def can_forward(hosts: Hosts) -> bool:
    """Whether the lab can set up guests that forward for such an instrument."""
    return any(spec.applies_to is _FORWARDING and spec.goes_with(hosts) for spec in FACTORS)
