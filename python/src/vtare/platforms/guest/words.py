"""A guest's place in the lab's network, and the words of its kernel's command line that are the same for all guests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtare.platforms import network

if TYPE_CHECKING:
    from vtare.platforms.network import Site


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


def words_of_all(port: str, clock_source: str | None, place: Network | None) -> list[str]:
    """What every guest's kernel is told; words with `vtare.` are for its first process (docs/guests.md)."""
    # Without self-tests of ciphers and IPv6: time to boot, and packets that nobody asked for.
    words = ["panic=-1", "rdinit=/vtare", "cryptomgr.notests", "ipv6.disable=1"]
    if clock_source is not None:
        words.append(f"clocksource={clock_source}")
    words.append(f"vtare.port={port}")
    if place is not None:
        site = place.site
        words.append(f"vtare.address={place.address}/{site.prefix_length}")
        words.append(f"vtare.mtu={site.mtu_byte}")
        neighbours = (f"{ip}@{network.mac(ip)}" for ip in (site.address, *site.peers))
        words.append(f"vtare.neighbours={','.join(neighbours)}")
        if place.queue is not None:
            words.append(f"vtare.queue={place.queue}")
    return [*words, "--", "agent", "--init"]
