"""The truth of an estimate: what the link carried in its window, counted in the kernel, less the cross traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from realpath.cells import Cell, Row
from realpath.cross import Bins
from realpath.others import OTHERS
from realpath.programs import NAMES
from vtare.link_counter import Account, Counters, LinkCounterError, Tap

#: Where probes and cross traffic that come to the link are counted, and what leaves it.
TAPS = {
    "probes": Tap(NAMES["router"], "rfrom"),
    "cross": Tap(NAMES["router"], "rcross"),
    "left": Tap(NAMES["to"], "vto"),
}
BIN_NS = 20_000


def link_counted() -> bool:
    """Whether the kernel counts what passes."""
    try:
        with Counters(TAPS, BIN_NS):
            return True
    except LinkCounterError as error:
        print(f"nobody counts what the link carries, its rate is taken for the truth: {error}", flush=True)
        return False


def account(counters: Counters) -> Account:
    """What was counted until now."""
    counted = counters.rest()
    return Account.of(counters.from_ns, counters.bin_ns, counted | {"came": counted["probes"] + counted["cross"]})


def judge(
    cell: Cell, kind: str, method: str, found: Sequence[dict[str, Any]], bins: Bins, link: Account | None = None
) -> Iterator[Row]:
    """Sets estimates beside the truth of their windows."""
    for one in found:
        began, until = one["began_ns"], one["began_ns"] + one["elapsed_ns"]
        seen = one["window_from_ns"] is not None and one["window_to_ns"] > one["window_from_ns"]
        window = (one["window_from_ns"], one["window_to_ns"]) if seen else (began, until)
        rate = cell.capacity * 1e6
        lost, crossed = None, bins.rate(*window)
        if link is not None and link.knows(*window):
            seconds = (window[1] - window[0]) / 1e9
            lost, crossed = link.lost(rate, *window) * 8 / seconds / rate, link.crossed(*window) * 8 / seconds
        # More than the link carries came: then nothing was available.
        truth = max(0.0, rate * (1 - (lost or 0.0)) - crossed)
        yield Row(
            cell,
            kind,
            method,
            truth,
            one["avb_bit_per_s"],
            one["low_bit_per_s"],
            one["high_bit_per_s"],
            one["at_least"],
            one["capacity_bit_per_s"],
            one["probe_byte"],
            one["elapsed_ns"] / 1e9,
            (window[1] - window[0]) / 1e9 if seen else None,
            OTHERS.share(began / 1e9, until / 1e9),
            one["stopped"],
            lost,
        )
