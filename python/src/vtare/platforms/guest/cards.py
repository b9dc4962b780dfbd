"""A guest's place in the lab's network, and the words of its kernel's command line that are the same for all guests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtare.platforms import network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.platforms.network import Site


@dataclass(frozen=True, slots=True)
class Card:
    """One network card: its model, the host's end of it, and what the guest gives to its interface.

    `address` has the length of its network behind it, `queue` is the queue discipline that the guest gives it.
    """

    nic: str
    port: str
    mac: str
    address: str
    mtu_byte: int
    neighbours: tuple[tuple[str, str], ...]
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class Network:
    """A guest's place behind a site's bridge."""

    site: Site
    index: int
    nic: str
    queue: str | None = None

    @property
    def address(self) -> str:
        """The guest's address."""
        return self.site.instance_address(self.index)

    @property
    def port(self) -> str:
        """The bridge port in front of it, in the site's namespace: the host's end of its card."""
        return self.site.port(self.index)

    @property
    def card(self) -> Card:
        """The card of a guest there."""
        site = self.site
        neighbours = tuple((ip, network.mac(ip)) for ip in (site.address, *site.peers))
        address = f"{self.address}/{site.prefix_length}"
        return Card(self.nic, self.port, network.mac(self.address), address, site.mtu_byte, neighbours, self.queue)


@dataclass(frozen=True, slots=True)
class GuestAttachment:
    """How one guest is attached: behind the bridge of a site, or with cards of its own and taps in a namespace."""

    name: str
    network: Network | None = None
    cards: tuple[Card, ...] = ()
    namespace: str | None = None
    forwards: bool = False

    @property
    def nic(self) -> str | None:
        """The model of its cards; None where it has none."""
        return self.cards[0].nic if self.cards else None if self.network is None else self.network.nic


def words_of_all(
    port: str, clock_source: str | None, cards: Sequence[Card], *, forwards: bool = False, disk: str | None = None
) -> list[str]:
    """The command line of every guest's kernel; `vtare.` words are for its first process (docs/internals/guests.md)."""
    # Without self-tests of ciphers and IPv6: time to boot, and packets that nobody asked for.
    words = ["panic=-1", "rdinit=/vtare", "cryptomgr.notests", "ipv6.disable=1"]
    if clock_source is not None:
        words.append(f"clocksource={clock_source}")
    words.append(f"vtare.port={port}")
    words += ["vtare.forward=1"] if forwards else []
    words += [f"vtare.disk={disk}"] if disk is not None else []
    for card in cards:
        # The only card is eth0; of several, each is identified by its hardware address.
        words += [f"vtare.device={card.mac}"] if len(cards) > 1 else []
        words += [f"vtare.address={card.address}", f"vtare.mtu={card.mtu_byte}"]
        if card.neighbours:
            words.append(f"vtare.neighbours={','.join(f'{ip}@{mac}' for ip, mac in card.neighbours)}")
        if card.queue is not None:
            words.append(f"vtare.queue={card.queue}")
    return [*words, "--", "agent", "--init"]
