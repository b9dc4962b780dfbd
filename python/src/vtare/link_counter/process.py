"""Count what passes a link during a run of the lab.

A process of its own, as the other helpers of a run are. It writes `ready` to stderr once it counts and works until
SIGTERM; then it leaves `link_counter.parquet` and, in any case, `link_counter.json`: whether it counted, and why not.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.link_counter.account import LINK_COUNTER, LINK_COUNTER_LOG, LINK_COUNTER_SCHEMA, NAMES, write_account
from vtare.link_counter.counters import Counters, LinkCounterError, Tap

if TYPE_CHECKING:
    from collections.abc import Mapping

LINK_COUNTER_DOCUMENT: Final = f"{LINK_COUNTER}.json"
_LOOK_S: Final = 1.0


def write_job(path: Path, taps: Mapping[str, Tap], *, bin_ns: int) -> None:
    """Write what the process shall do; it leaves its files beside the job."""
    job = {"taps": {name: asdict(tap) for name, tap in taps.items()}, "bin_ns": bin_ns}
    path.write_text(json.dumps(job), encoding="utf-8")


def work(job: Mapping[str, Any], directory: Path) -> None:
    """Count until SIGTERM."""
    # Libraries have threads of their own by now, which a blocked signal would reach.
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())

    def report(why_not: str | None) -> None:
        facts = {"schema": LINK_COUNTER_SCHEMA, "counted": why_not is None, "reason": why_not}
        (directory / LINK_COUNTER_DOCUMENT).write_text(json.dumps(facts), encoding="utf-8")
        print("ready", file=sys.stderr, flush=True)

    try:
        counters = Counters({name: Tap(**tap) for name, tap in job["taps"].items()}, job["bin_ns"])
    except LinkCounterError as error:
        report(str(error))
        ended.wait()
        return
    with counters:
        report(None)
        pieces = [counters.read()]
        while not ended.wait(_LOOK_S):
            pieces.append(counters.read())
        pieces.append(counters.rest())
    counted = {name: [piece[name] for piece in pieces] for name in NAMES}
    write_account(directory / LINK_COUNTER_LOG, counters.from_ns, counters.bin_ns, counted)


def main() -> None:
    """Do the job that the first argument names."""
    path = Path(sys.argv[1])
    work(json.loads(path.read_text(encoding="utf-8")), path.parent)
