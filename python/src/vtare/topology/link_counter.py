"""What a shaped link of the lab really carried: bytes that came to it and left it, counted inside the kernel.

A token bucket keeps its rate only while its timer is on time. Where the hypervisor takes a processor away for longer
than the bucket lasts, tokens are lost, and capacity with them; and a source of cross traffic that stalls between
its own account and the link has sent what did not yet come. An estimate is right if it states what the link could carry
in its window, so that is what the truth must be made of: with both counted at the link, estimates that had seemed off
by 4 Mbit/s of 300 were within 0.3 of it.

`vtare link-counter` adds up bytes of IP in bins on CLOCK_MONOTONIC, with small programs in the kernel at the ingress of
the devices around the link; `Account` states what that means for a window.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from vtare.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from vtare.platforms.protocol import Server
    from vtare.topology.clock_relation import ClockRelation

#: The stem of the files that it leaves: NAME.parquet and NAME.json.
LINK_COUNTER: Final = "link_counter"
LINK_COUNTER_LOG: Final = f"{LINK_COUNTER}.parquet"
#: The same for what left the link, where another machine counts it.
BEHIND_THE_LINK: Final = f"{LINK_COUNTER}-left"
#: What is counted: all that comes to the link, the cross traffic in it, and what leaves the link.
CAME, CROSS, LEFT = NAMES = ("came", "cross", "left")

#: A busy time of fewer bins states nothing of the capacity: it begins and ends within a packet.
_LEAST_BINS: Final = 20
#: What has left the link may wait so long, ns, before it is counted: its processor has other work.
_CAUGHT_UP_NS: Final = 5_000_000
#: The queue holds what the link sends in this number of bins at least, while the link counts as busy.
_BUSY_BINS: Final = 1.5


@dataclass(frozen=True, slots=True)
class CountingPlace:
    """A server where packets of the bottleneck are counted, the stem of the files that this leaves, and the devices.

    `taps` are those of `vtare link-counter` (docs/internals/contract.md).
    """

    server: Server
    stem: str
    taps: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Account:
    """Bytes of IP until each edge between two bins; `came` without what a full queue dropped."""

    from_ns: int
    bin_ns: int
    came: NDArray[np.float64]
    cross: NDArray[np.float64]
    left: NDArray[np.float64]

    @classmethod
    def of(cls, from_ns: int, bin_ns: int, counted: Mapping[str, NDArray[Any]], *, unsure_ns: float = 0.0) -> Self:
        """The account of bins: bytes in each, under each of `NAMES`.

        What was dropped at a full queue came and never leaves: `came` is less by these bytes from then on. On two
        clocks, which are `unsure_ns` apart at most, a packet may seem to leave before it came: a queue that is shorter
        for so long only is none.
        """
        import numpy as np
        from scipy.ndimage import grey_closing

        came, cross, left = (np.concatenate([[0.0], np.cumsum(counted[name].astype(np.float64))]) for name in NAMES)
        queue = came - left
        if unsure_ns:
            queue = grey_closing(queue, size=3 + 2 * int(unsure_ns // bin_ns))
        dropped = np.minimum.accumulate(queue[::-1])[::-1]
        return cls(from_ns, bin_ns, came - dropped, cross, left)

    def knows(self, begin_ns: float, end_ns: float) -> bool:
        """Whether all of a window was counted."""
        return self.from_ns <= begin_ns <= end_ns <= self.from_ns + self.bin_ns * (len(self.left) - 1)

    def crossed(self, begin_ns: float, end_ns: float) -> float:
        """Bytes of cross traffic that came to the link between two times."""
        return self._between(self.cross, begin_ns, end_ns)

    def carried(self, begin_ns: float, end_ns: float) -> float:
        """Bytes that left the link between two times."""
        return self._between(self.left, begin_ns, end_ns)

    def _between(self, until: NDArray[np.float64], begin_ns: float, end_ns: float) -> float:
        import numpy as np

        low, high = np.interp([self._place(it) for it in (begin_ns, end_ns)], np.arange(len(until)), until)
        return float(high - low)

    def lost(self, bit_per_s: float, begin_ns: float, end_ns: float) -> float:
        """Bytes that a link of this rate did not carry in a window's time, although its queue was full enough.

        The link is looked at while that left it which had come in the window. Where the queue grew meanwhile, that
        takes longer than the window: then what was lost counts by its share of that time. A bucket that was full gives
        more than the rate at first: that is no gain. What left is counted where it comes in at the next device, which
        may be late: then it seems lost at the end of a window, and is made up for behind it.
        """
        lost, _, looked_ns = self.lost_while_busy(bit_per_s, begin_ns, end_ns)
        carries = bit_per_s / 8e9 * (end_ns - begin_ns)
        return min(carries, lost * (end_ns - begin_ns) / looked_ns) if looked_ns else 0.0

    def lost_while_busy(self, bit_per_s: float, begin_ns: float, end_ns: float) -> tuple[float, float, float]:
        """Bytes lost, how long, ns, the queue was full enough to show it, and how long the link was looked at."""
        import numpy as np

        first, last = self._leaves(begin_ns), self._leaves(end_ns)
        if last - first < _LEAST_BINS:
            return 0.0, 0.0, 0.0
        in_a_bin = bit_per_s / 8e9 * self.bin_ns
        until = min(last + _CAUGHT_UP_NS // self.bin_ns, len(self.left) - 1)
        busy = (self.came - self.left)[first:until] >= _BUSY_BINS * in_a_bin
        edges = np.flatnonzero(np.diff(np.concatenate([[False], busy, [False]]).astype(np.int8)))
        lost, busy_ns = 0.0, 0.0
        for begin, end in zip(edges[::2] + first, edges[1::2] + first, strict=True):
            inside = min(end, last)
            if inside - begin < _LEAST_BINS:
                continue
            short = np.arange(end - begin + 1) * in_a_bin - (self.left[begin : end + 1] - self.left[begin])
            # What is made up for later was delayed behind the link, and not lost: no link is faster than its rate.
            for_good = np.minimum.accumulate(short[::-1])[::-1]
            lost += float(for_good[inside - begin] - for_good[0])
            busy_ns += float((inside - begin) * self.bin_ns)
        return max(0.0, lost), busy_ns, float((last - first) * self.bin_ns)

    def _place(self, at_ns: float) -> float:
        return min(max((at_ns - self.from_ns) / self.bin_ns, 0.0), len(self.left) - 1.0)

    def _leaves(self, at_ns: float) -> int:
        """The edge by which that has left which had come by a time: the queue is first in, first out."""
        import numpy as np

        place = self._place(at_ns)
        before = np.interp(place, np.arange(len(self.came)), self.came)
        return max(int(place), min(int(np.searchsorted(self.left, before)), len(self.left) - 1))


def read_account(path: Path) -> Account:
    """Read the log of one program that counted all.

    Raises:
        BadInput: it is damaged.
    """
    return Account.of(*_read(path, NAMES))


def read_joined(ends: Sequence[tuple[Path, ClockRelation]]) -> Account:
    """Read the logs of two machines, the router's and that of the one behind it, into an account by the sender's clock.

    Bins of one fall between those of the other: what it counted is taken to have come evenly within a bin.

    Raises:
        BadInput: one is damaged.
    """
    import numpy as np

    grid: NDArray[np.float64] | None = None
    joined: dict[str, NDArray[np.float64]] = {}
    from_ns = bin_ns = 0
    for (path, relation), names in zip(ends, ((CAME, CROSS), (LEFT,)), strict=True):
        began_ns, length_ns, counted = _read(path, names)
        edges = relation.on_senders(began_ns + length_ns * np.arange(len(counted[names[0]]) + 1.0))
        if grid is None:
            from_ns, bin_ns = round(float(edges[0])), length_ns
            grid = from_ns + bin_ns * np.arange(len(edges), dtype=np.float64)
        for name in names:
            total = np.concatenate([[0.0], np.cumsum(counted[name].astype(np.float64))])
            joined[name] = np.diff(np.interp(grid, edges, total))
    # Between two machines, each relation is that unsure; bins that fall between bins are as unsure as one.
    unsure_ns = bin_ns + sum(relation.bound_ns for _, relation in ends)
    return Account.of(from_ns, bin_ns, joined, unsure_ns=unsure_ns)


def _read(path: Path, names: Sequence[str]) -> tuple[int, int, dict[str, NDArray[Any]]]:
    """When the first bin began, how long each is, and the bytes in it under each of these names."""
    import polars as pl

    try:
        facts = json.loads(pl.read_parquet_metadata(path)["vtare"])
        frame = pl.read_parquet(path)
        counted = {name: frame[f"{name}_byte"].to_numpy() for name in names}
        if any(frame[f"{name}_byte"].null_count() for name in names):
            raise ValueError(f"{' and '.join(names)} not counted")
        return int(facts["from_monotonic_ns"]), int(facts["bin_ns"]), counted
    except (OSError, KeyError, ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise BadInput(f"{path}: damaged, or not left by the link counter of a run ({error}); measure again") from error
