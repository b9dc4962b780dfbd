"""A topology of guests that forward: bridge in, N guests, bridge out, between two ports of a tester.

    tester --p0====[switch: bridge in ]--in0 guest 1 out0--[ bridge out]====p1-- tester
                            |           in0 guest 2 out0       |
                            +---------- ...           ---------+

It is the set-up of Batalla et al. without a hardware tester. The tester is a namespace with two ports; the switch is
another one, with a Linux bridge on either side, or Open vSwitch. Every flow carries the hardware address of its
guest, so that the bridge in front separates the guests; every guest routes what is for its own address of
198.19.0.0/16 (kept for such tests by RFC 2544) to the tester's second port. Addresses and neighbours are static, and
the bridges know which address is behind which port: nobody else gets a frame, and nobody has to learn.

What a guest *is* is behind `Guests` (`kinds.py`): network namespaces, those of containers, or machines under QEMU;
what joins them behind `Switch` (`switches.py`); the topology around them is in `topology.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.forwarders.slots import MOST_GUESTS, RX_PORT, SWITCHES, TX_PORT, GuestInterface, GuestSlot
from vtare.lazy import attributes

if TYPE_CHECKING:
    from vtare.forwarders.kinds import ContainerGuests, Guests, MachineGuests, NamespaceGuests, forwarding_guests
    from vtare.forwarders.switches import switch_here
    from vtare.forwarders.topology import ForwardingTopology

__all__ = [
    "MOST_GUESTS",
    "RX_PORT",
    "SWITCHES",
    "TX_PORT",
    "ContainerGuests",
    "ForwardingTopology",
    "GuestInterface",
    "GuestSlot",
    "Guests",
    "MachineGuests",
    "NamespaceGuests",
    "forwarding_guests",
    "switch_here",
]

__getattr__ = attributes(
    __name__,
    {
        "kinds": ("ContainerGuests", "Guests", "NamespaceGuests", "MachineGuests", "forwarding_guests"),
        "switches": ("switch_here",),
        "topology": ("ForwardingTopology",),
    },
)
