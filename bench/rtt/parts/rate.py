"""The highest rate, and what the engines of one thread give at the same rates."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from figures import figure

from parts.figures import gap_error, interval
from parts.kernel import MOST, XDP, in_kernel, of
from parts.tools import in_turn
from parts.wire import PEER, SIZE, responder, run

#: Packets a second that the bare pair is asked to keep on their way at most.
WINDOW = 256
AF_XDP = "own frames (AF_XDP)"


def bare_pair(bare: Path, seconds: float) -> float:
    """Replies a second of the bare sendmmsg/recvmmsg echo pair."""
    with responder([str(bare), "echo", f"{PEER}:9000"], ready_s=0.3):
        ended = run([str(bare), "blast", f"{PEER}:9000", str(seconds), str(SIZE), str(WINDOW)])
    return float(ended.out)


def highest(key: Path, seconds: float, flags: Sequence[str], around: float) -> tuple[float, float]:
    """Most replies a second of vtare with these flags, asked for rates around the bare pair's; the share lost then."""
    best = (0.0, 0.0)
    serve = ["vtare", "serve", "--listen", "0.0.0.0:8462", "--key-file", str(key), "--cpu", "1", "--spin"]
    with responder(serve, ready_s=0.5):
        for share in (0.8, 0.9, 0.95, 1.0, 1.1, 1.3):
            asked = min(1_000_000, int(around * share))
            words = ["vtare", "rtt", PEER, "--rate", str(asked), "--size", str(SIZE), "--seconds", str(seconds)]
            ended = run([*words, *of(key), "--timeout", "100ms", "--json", *flags], cpu=None)
            if ended.code != 0:
                print(f"vtare at {asked}: {ended.err.strip()}")
                continue
            cell = json.loads(ended.out)["cells"][0]
            best = max(best, (cell["received"] / seconds, cell["lost"] / max(1, cell["sent"])))
    return best


def part_rate(key: Path, bare: Path, seconds: float, rounds: int) -> None:
    """Prints replies a second of the bare pair and of vtare, each measured between two measurements of the pair."""
    ways = {
        "one by one": ["--engine", "socket", "--no-gso"],
        "merged (GSO, GRO)": ["--engine", "socket"],
        AF_XDP: ["--engine", "af_xdp"],
    }
    bare_rates = [bare_pair(bare, seconds)]
    own: dict[str, list[tuple[float, float, float]]] = {name: [] for name in (*ways, XDP)}
    for order in in_turn(rounds, list(own)):
        for name in order:
            if name == XDP:
                cell, reason = in_kernel(key, MOST, seconds)
                if cell is None:
                    print(f"{XDP}: {reason}")
                    continue
                found = (cell["received"] / seconds, cell["lost"] / max(1, cell["sent"]))
            else:
                found = highest(key, seconds, ways[name], bare_rates[-1])
            bare_rates.append(bare_pair(bare, seconds))
            own[name].append((*found, found[0] / statistics.mean(bare_rates[-2:])))
    print(
        f"\nhighest rate, {SIZE} B, replies/s, median of {rounds}; "
        "ratio to the bare pair before and after [95 % interval]"
    )
    print(
        f"{'bare sendmmsg/recvmmsg pair':<34}{figure('bare pair/replies', statistics.median(bare_rates), '1/s'):>10.0f}"
    )
    for name, rates in own.items():
        if not rates:
            print(f"{'vtare, ' + name:<34} nothing measured")
            continue
        rate, lost = (statistics.median(found[at] for found in rates) for at in (0, 1))
        ratio, low, high = interval([found[2] for found in rates])
        if name == XDP:
            verdict = "holds" if rate >= 0.95 * MOST else f"MISSED (want {0.95 * MOST:.0f})"
        else:
            verdict = "holds" if ratio >= 0.9 else "0.90 within noise" if high >= 0.9 else "MISSED (want 0.90)"
        print(
            f"{'vtare, ' + name:<34}{figure(f'{name}/replies', rate, '1/s'):>10.0f}   "
            f"ratio {figure(f'replies, {name} / bare pair', ratio, '', (low, high)):.2f} [{low:.2f}, {high:.2f}], "
            f"lost {figure(f'{name}/lost', lost):.2%}   {verdict}"
        )
    part_engines(key, seconds, ways)


def part_engines(key: Path, seconds: float, ways: dict[str, list[str]]) -> None:
    """Prints what the engines of one thread give at the same rates, one after the other."""
    print(f"\nengines at the same rates, {SIZE} B, {seconds:g} s each, us; responder on sockets, spinning")
    heads = {"replies/s": 10, "unsent": 9, "lost": 9, "median": 9, "half IQR": 10, "p99": 10, "gap error": 20}
    print(f"{'asked':>9} {'engine':<32}" + "".join(f"{name:>{width}}" for name, width in heads.items()))
    serve = ["vtare", "serve", "--listen", "0.0.0.0:8462", "--key-file", str(key), "--cpu", "1", "--spin"]
    for rate in (1_000, 100_000, 200_000, 300_000):
        for name, flags in ways.items():
            words = ["vtare", "rtt", PEER, "--rate", str(rate), "--size", str(SIZE), "--seconds", str(seconds)]
            with responder(serve):
                ended = run([*words, *of(key), "--timeout", "100ms", "--json", *flags], cpu=None)
            if not ended.out:
                print(f"{rate:>9} {name:<32} {ended.err.strip()}")
                continue
            cell = json.loads(ended.out)["cells"][0]
            shares = [(cell["scheduled"] - cell["sent"]) / cell["scheduled"], cell["lost"] / max(1, cell["sent"])]
            trip = [cell["rtt_ns"][figure] for figure in ("median", "half_iqr", "p99")]
            shown = [
                f"{'-' if ns is None else f'{ns / 1e3:.2f}':>{width}}"
                for ns, width in zip(trip, (9, 10, 10), strict=True)
            ]
            for word, ns in zip(("median", "half IQR", "p99"), trip, strict=True):
                figure(f"engines at {rate}/s/{name}/{word}", ns and ns / 1e3, "us")
            text = (
                "".join(f"{share:>9.2%}" for share in shares)
                + "".join(shown)
                + gap_error(f"engines at {rate}/s/{name}", cell)
            )
            print(f"{rate:>9} {name:<32}{cell['received'] / seconds:>10.0f}{text}")
