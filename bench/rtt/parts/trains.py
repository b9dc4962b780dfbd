"""The error of the gaps of one-way trains, and what limits them."""

from __future__ import annotations

import json
from pathlib import Path

from figures import figure

from parts.figures import pair
from parts.wire import PEER, responder, run

#: How trains are sent.
WAYS = ("one by one", "large sends")


def limit(alone: dict[str, float], together: dict[str, float], gap_us: float) -> str:
    """What keeps trains from their gaps, in words."""
    cost_us = alone["send_cost_ns"] / 1e3
    # A sender that is too slow for the gap moves its train as one that was stopped does.
    stalls = int(together["moves"] if cost_us > gap_us else alone["moves"] + together["moves"])
    words = []
    if cost_us > gap_us:
        words.append(f"one send takes {cost_us:.1f} us")
    elif alone["reached"] < 0.99 and not alone["moves"]:
        words.append("the sender, between its sends")
    if stalls:
        words.append(f"the machine: {stalls} stalls moved a train")
    if not together["gso"]:
        words.append("no large sends (UDP_SEGMENT)")
    return ", ".join(words) or "nothing"


def part_trains(key: Path, program: Path, seconds: float) -> None:
    """Prints how well one-way trains hold their gaps at the sender, one by one and with large sends."""
    print("\npacing of one-way trains at the sender, error of the gap between calls, us (median, half of the")
    print("interquartile range), share of the rate asked for; large sends take as many packets a call as the gap needs")
    heads = f"{'one by one':>20} {'rate':>6} {'large sends':>20} {'rate':>6} {'a call':>7}"
    print(f"{'gap':>6} {'payload':>8}  {heads}  limited by")
    serve = ["vtare", "serve", "--listen", "0.0.0.0:8462", "--key-file", str(key), "--cpu", "1"]
    for gap_us, size in ((120.0, 1472), (12.0, 1472), (7.2, 8972), (7.2, 64), (1.2, 1472), (1.2, 64)):
        found: list[dict[str, float]] = []
        with responder(serve):
            for burst in ("1", "0"):
                words = [
                    str(program),
                    "train",
                    f"{PEER}:8462",
                    str(key),
                    str(int(gap_us * 1000)),
                    str(size),
                    str(seconds),
                ]
                ended = run([*words, burst, "0"], cpu=None)
                if ended.code != 0:
                    print(f"{gap_us:>6} {size:>8}  {ended.err.strip()}")
                    break
                found.append(json.loads(ended.out))
        if len(found) < 2:
            continue
        alone, together = found
        columns = [
            pair(at, it["median_ns"] / 1e3, it["half_iqr_ns"] / 1e3)
            + f" {figure(f'{at}/reached', it['reached']):>6.0%}"
            for at, it in zip((f"trains, {gap_us} us, {size} B/{way}" for way in WAYS), found, strict=True)
        ]
        cause = limit(alone, together, gap_us)
        print(f"{gap_us:>6} {size:>8}  {columns[0]} {columns[1]} {together['burst_packet']:>7}  {cause}")
