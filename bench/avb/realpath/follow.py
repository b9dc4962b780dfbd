"""How soon `vtare avb --follow` shows that the cross traffic changed."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from figures import figure

from realpath.cells import Asked, Cell
from realpath.cross import cross
from realpath.methods import responder
from realpath.path import PEER, shape
from realpath.programs import start
from realpath.truth import LinkCounter


def follow(asked: Asked) -> None:
    """How long `--follow` takes to show a new value, when the cross traffic changes in a step."""
    print("\n--follow: time from a step of the cross traffic to the first value within 10 % of the new truth, s")
    for capacity, here, then in ((300, 50, 200), (300, 200, 50), (1000, 100, 500)):
        cell, after = Cell(capacity, here), Cell(capacity, then)
        shape(cell, asked.bucket)
        took = []
        for _ in range(asked.rounds):
            with tempfile.TemporaryDirectory() as name, responder(asked.key):
                took.append(step(cell, after, asked.key, Path(name), asked.counted))
        shown = ", ".join("never" if one is None else f"{one:.1f}" for one in took)
        for number, one in enumerate(took, 1):
            figure(f"--follow, {cell} to {after}/time in round {number}", one, "s")
        late = [one for one in took if one is None or one > 3]
        print(f"{cell} to {after}: {shown}; expected 3{'  MISSED' if late else ''}", flush=True)


def step(before: Cell, after: Cell, key: Path, place: Path, counted: bool) -> float | None:
    """One step: until the first value of a window behind it that is within 10 % of the truth of that window."""
    words = ("vtare", "avb", PEER, "--follow", "--json-stream", "--seconds", "14", "--cpu", "0", "--key-file", str(key))
    with LinkCounter() if counted else nullcontext() as counter:
        with cross(before, "smooth", place):
            process = start("from", 0, *words)
            seen: list[tuple[float, dict[str, Any]]] = []

            def read() -> None:
                assert process.stdout is not None
                for text in process.stdout:
                    seen.append((time.monotonic(), json.loads(text)))

            reader = threading.Thread(target=read)
            reader.start()
            time.sleep(5)
        with cross(after, "smooth", place):
            changed = time.monotonic() - 0.3
            reader.join()
        process.communicate()
        link = None if counter is None else counter.account()
    rate = after.capacity * 1e6
    for at, one in seen:
        value, window = one["avb_bit_per_s"], one["window_s"]
        if value is None or window is None or window[1] <= window[0]:
            continue
        begin, end = ((at - one["elapsed_s"] + edge) * 1e9 for edge in window)
        truth = rate - after.cross * 1e6
        if link is not None and link.knows(begin, end):
            truth = rate - (link.lost(rate, begin, end) + link.crossed(begin, end)) * 8e9 / (end - begin)
        if begin / 1e9 > changed and abs(value - truth) <= 0.1 * truth:
            return at - changed
    return None
