"""The slots of guests: their names, addresses and the switch's ports in front of them, all known beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: What joins guests and tester (`switches.py`).
SWITCHES: Final = ("linux", "ovs")
#: Guests that one topology may have: each has the last byte of its addresses of its own.
MOST_GUESTS: Final = 250
#: The tester's ports: the one that sends, the one that receives.
TX_PORT, RX_PORT = "p0", "p1"
BRIDGE_IN, BRIDGE_OUT = "brin", "brout"
_IN, _OUT = "in0", "out0"


@dataclass(frozen=True, slots=True)
class GuestInterface:
    """One of the two interfaces of a guest.

    `device` is its name where the lab names it, `address` has the length of its network behind it; `port` of `bridge`
    is the switch's port in front of it.
    """

    device: str
    mac: str
    address: str
    neighbours: tuple[tuple[str, str], ...]
    port: str
    bridge: str


@dataclass(frozen=True, slots=True)
class GuestSlot:
    """The place of one guest: its name, and its interface towards either bridge."""

    name: str
    interfaces: tuple[GuestInterface, GuestInterface]


def guest_slot(owner: str, mark: str, index: int) -> GuestSlot:
    """The slot of the guest with this index, from 0. `mark` separates its ports from those of other campaigns."""
    behind = ((guest_address(index), tester_mac(1)),)
    return GuestSlot(
        f"{owner}-d{index}",
        (
            GuestInterface(_IN, guest_mac(index, 1), f"198.18.1.{index + 1}/16", (), f"i{mark}{index}", BRIDGE_IN),
            GuestInterface(
                _OUT, guest_mac(index, 2), f"198.19.1.{index + 1}/16", behind, f"o{mark}{index}", BRIDGE_OUT
            ),
        ),
    )


def guest_address(index: int) -> str:
    """The address of the flow through the guest with this index, from 0: it lies behind the guest."""
    return f"198.19.0.{index + 1}"


def guest_mac(index: int, side: int) -> str:
    """The hardware address of a guest's interface: side 1 faces the bridge in, side 2 the bridge out."""
    return f"02:76:c6:{side:02x}:00:{index + 1:02x}"


def tester_mac(port: int) -> str:
    """The hardware address of the tester's port 0 or 1."""
    return f"02:76:c6:00:00:{port + 1:02x}"
