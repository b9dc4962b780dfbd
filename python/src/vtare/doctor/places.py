"""Which instrument can measure on which platform here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vtare.campaign.forwarding import ForwardingPlacement, ForwardingSetup
from vtare.doctor.machine import PACKETS
from vtare.errors import BadInput
from vtare.instruments import RECORDS
from vtare.platforms import KINDS, kinds_with, open_platform, platform_class
from vtare.platforms.lacks import ALSO
from vtare.topology.links import RoutedHosts, TwoHosts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vtare.doctor.machine import Feature
    from vtare.doctor.ways import Ways

_OWNER: Final = "vtare-doctor"
#: How the reason of a platform begins whose machines are named by a plan.
_BY_PLAN: Final = "names no "


@dataclass(frozen=True, slots=True)
class Place:
    """One platform: `instruments` has why each cannot measure there, None where it can.

    `lacks` is why no instance can be made (None: one can), `command` what changes that. `by_plan`: it is reached by
    what a plan names, and cannot be looked at without one. `unverified`: why it was never compared with the real thing.
    """

    name: str
    instruments: Mapping[str, str | None]
    lacks: str | None
    command: str | None
    by_plan: bool
    unverified: str | None


def places(binary: Path, ways: Ways, around: Sequence[Feature] = ()) -> tuple[Place, ...]:
    """Look at every platform. That of qemu may boot a guest, once, to try KVM; all else starts nothing.

    What `around` lacks also keeps instruments from this machine itself.
    """
    packets = next((feature.lacks for feature in around if feature.name == PACKETS), None)
    return tuple(_place(kind, binary, ways, {"capture": packets} if kind == "host" else {}) for kind in KINDS)


def _place(kind: str, binary: Path, ways: Ways, lacking: Mapping[str, str | None]) -> Place:
    platform = platform_class(kind)
    if platform is None:
        raise BadInput(f"platform '{kind}' is not known")
    lacks = open_platform(kind, binary=binary, owner=_OWNER).missing()
    by_plan = lacks is not None and lacks.startswith(_BY_PLAN) and ALSO not in lacks
    between = {"one": None, "two": TwoHosts.missing(), "routed": RoutedHosts.missing()}
    forward = kinds_with(lambda known: known.FORWARDS is not None)
    only = f"guests that forward are {', '.join(forward)}"
    instruments = {}
    for record in RECORDS:
        if record.hosts == "ports":
            placed = ForwardingPlacement(platform=kind)
            reason = ForwardingSetup(binary, _OWNER).missing(placed) if kind in forward else only
        else:
            reason = between[record.hosts] or lacking.get(record.name)
        instruments[record.name] = lacks or reason
    command = None if lacks is None or by_plan else ways.out_of(lacks)
    return Place(kind, instruments, lacks, command, by_plan, platform.UNVERIFIED)
