"""The truth of an estimate: what the link carried in its window, counted in the kernel, less the cross traffic."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import polars as pl

from realpath.cells import Cell, Row
from realpath.cross import Bins
from realpath.others import OTHERS
from realpath.programs import NAMES, ended, ready
from vtare.topology.link_counter import CAME, CROSS, LEFT, LINK_COUNTER, LINK_COUNTER_LOG, Account

#: Where probes and cross traffic that come to the link are counted, and what leaves it.
TAPS = {
    # Probes alone: cross traffic comes in at a device of its own.
    CAME: {"namespace": NAMES["router"], "device": "rfrom"},
    CROSS: {"namespace": NAMES["router"], "device": "rcross"},
    LEFT: {"namespace": NAMES["to"], "device": "vto"},
}
BIN_NS = 20_000


def link_counted() -> bool:
    """Whether the kernel counts what passes."""
    with LinkCounter() as counter:
        why_not = counter.why_not
    if why_not is not None:
        print(f"nobody counts what the link carries, its rate is taken for the truth: {why_not}", flush=True)
    return why_not is None


class LinkCounter:
    """`vtare link-counter` at the path, which counts until its account is asked for; a context manager."""

    def __init__(self, taps: dict[str, dict[str, Any]] = TAPS, apart: bool = True) -> None:
        """Start to count; `apart`: cross traffic comes in at a device of its own, and not among what came."""
        self._apart = apart
        self._files = tempfile.TemporaryDirectory(prefix="vtare-real-")
        self._place = Path(self._files.name)
        job = self._place / "job.json"
        job.write_text(json.dumps({"taps": taps, "bin_ns": BIN_NS}), encoding="utf-8")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(["vtare", "link-counter", str(job)], stdout=pipe, stderr=pipe, text=True)
        OTHERS.own.add(self._process.pid)
        ready(self._process)

    @property
    def why_not(self) -> str | None:
        """Why this kernel does not count; None where it counts."""
        reason: str | None = json.loads((self._place / f"{LINK_COUNTER}.json").read_text(encoding="utf-8"))["reason"]
        return reason

    def account(self) -> Account:
        """What was counted until now; it counts no longer."""
        ended(self._process)
        log = self._place / LINK_COUNTER_LOG
        facts = json.loads(pl.read_parquet_metadata(log)["vtare"])
        frame = pl.read_parquet(log)
        counted = {name: frame[f"{name}_byte"].to_numpy() for name in (CAME, CROSS, LEFT)}
        if self._apart:
            counted[CAME] = counted[CAME] + counted[CROSS]
        return Account.of(facts["from_monotonic_ns"], facts["bin_ns"], counted)

    def __enter__(self) -> Self:
        """Return the counter, which counts already."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, and remove its files."""
        if self._process.returncode is None:
            ended(self._process)
        self._files.cleanup()


def window_of(one: dict[str, Any]) -> tuple[tuple[int, int], bool]:
    """The time, ns, that an estimate is the mean of, and whether it states it; else all of its time."""
    if one["window_from_ns"] is not None and one["window_to_ns"] > one["window_from_ns"]:
        return (one["window_from_ns"], one["window_to_ns"]), True
    return (one["began_ns"], one["began_ns"] + one["elapsed_ns"]), False


def judge(
    cell: Cell, kind: str, method: str, found: Sequence[dict[str, Any]], bins: Bins, link: Account | None = None
) -> Iterator[Row]:
    """Sets estimates beside the truth of their windows."""
    for one in found:
        began, until = one["began_ns"], one["began_ns"] + one["elapsed_ns"]
        window, seen = window_of(one)
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
