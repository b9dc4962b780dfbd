"""Real paths drawn at random: one link or two, what shapes each, and the cross traffic."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

#: Rates of links, bit/s of IP; the emulator carries frames one by one on a CPU that it shares, so it is given less.
RATES = {"tbf": (1e7, 1e9), "htb": (1e7, 1e9), "police": (1e7, 1e9), "link": (1e7, 1e8)}
#: What may stand before another link: the emulator is the last wire to the receiver.
FIRST = ("tbf", "htb", "police")
#: Depth of buckets, s; that of the share of shapers that are deep, as those of providers often are; and the bytes of a
#: frame, which a bucket holds at least.
DEPTH_S, DEEP_S = (10e-6, 2e-3), (2e-3, 20e-3)
DEEP = 1 / 3
FRAME_BYTE = 1514
#: A policer holds nothing, so with fewer frames than this in its bucket it passes no two packets that meet.
POLICED_FRAMES = 4
#: How much faster the other of two links is: within 20 %, or not.
NEAR, APART = (1.0, 1.2), (1.5, 4.0)
TWO_LINKS = 0.4
#: Cross traffic: kinds, share of the narrow link, and the most that its sender makes here, bit/s.
CROSS = ("none", "constant", "onoff", "iperf3")
SHARE, MOST_CROSS = (0.1, 0.85), 5e8
#: Idle buckets: Mbit/s, and us of depth.
IDLE = [(rate, depth) for rate in (100, 350, 500, 1000) for depth in (25, 200)]


@dataclass(frozen=True)
class Link:
    """One link: what shapes it, its rate of IP packets of 1500 B, and what its bucket holds (none: the emulator)."""

    kind: str
    bit_per_s: int
    depth_byte: int | None

    def __str__(self) -> str:
        depth = "" if self.depth_byte is None else f" of {self.depth_byte} B"
        return f"{self.kind}{depth} at {self.bit_per_s / 1e6:.1f}M"


@dataclass(frozen=True)
class Drawn:
    """A path: its links in their order, and the cross traffic, which comes to both or to the last one alone."""

    links: tuple[Link, ...]
    group: str
    cross: str
    cross_bit_per_s: int
    through_all: bool

    @property
    def is_deep(self) -> bool:
        """Whether a bucket among its links holds more than those of most hosts."""
        return any(link.depth_byte and link.depth_byte * 8 > DEEP_S[0] * link.bit_per_s for link in self.links)

    @property
    def polices(self) -> bool:
        """Whether a policer is among its links."""
        return any(link.kind == "police" for link in self.links)

    def __str__(self) -> str:
        links = ", then ".join(str(link) for link in self.links)
        if self.cross == "none":
            return f"{links}; idle"
        where = " at the last link" if len(self.links) > 1 and not self.through_all else ""
        return f"{links}; {self.cross} {self.cross_bit_per_s / 1e6:.1f}M{where}"


def even_in_log(rng: random.Random, low: float, high: float) -> float:
    """A number whose logarithm is uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def bucket(rng: random.Random, kind: str, bit_per_s: float) -> Link:
    """A link of this kind and rate, with a depth drawn for it."""
    least = FRAME_BYTE * (POLICED_FRAMES if kind == "police" else 1)
    deep = kind != "police" and rng.random() < DEEP
    depth_byte = max(least, round(even_in_log(rng, *(DEEP_S if deep else DEPTH_S)) * bit_per_s / 8))
    return Link(kind, round(bit_per_s), None if kind == "link" else depth_byte)


def draw(rng: random.Random) -> Drawn:
    """A path."""
    kind = rng.choice(list(RATES))
    low, high = RATES[kind]
    rate = even_in_log(rng, low, high)
    links: tuple[Link, ...] = (bucket(rng, kind, rate),)
    group = kind
    if rng.random() < TWO_LINKS:
        near = rng.random() < 0.5
        other = rng.uniform(*(NEAR if near else APART)) ** rng.choice((-1, 1)) * rate
        first = bucket(rng, rng.choice(FIRST), min(max(other, RATES["tbf"][0]), RATES["tbf"][1]))
        links = (first, *links)
        group = "two near" if near else "two apart"
    cross = rng.choice(CROSS)
    narrow = min(link.bit_per_s for link in links)
    share = rng.uniform(*SHARE)
    rate = 0 if cross == "none" else round(min(share * narrow, MOST_CROSS))
    return Drawn(links, group, cross, rate, rng.random() < 0.5)
