"""Round trips at 1000 packets a second, and how the peers compare."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path

from figures import figure

from parts.figures import interval, quantile
from parts.tools import Measured, fping, in_turn, irtt, ping, sockperf, vtare
from parts.wire import PEER, RATE, SIZE, quiet, responder

#: One measurement of one tool: short, so that all tools meet the same machine within seconds.
ROUND_S = 1.0
#: Beside whom: the same kind of waiting and of stamps. irtt waits in the kernel at both ends; sockperf's sender spins
#: and its receiver waits; ping and fping end a round trip at the kernel's stamp of the reply.
BESIDE = {
    "vtare --blocking": ("irtt -i 1ms",),
    "vtare": ("irtt -i 1ms", "sockperf under-load"),
    "vtare, responder spins": ("irtt -i 1ms", "sockperf under-load"),
    "vtare --icmp, to kernel stamp": ("ping -i 0.001", "fping -p 1"),
}


def part_rtt(key: Path, seconds: float, rounds: int) -> None:
    """Prints the table of round trips and the ratios."""
    serve = ["vtare", "serve", "--listen", "0.0.0.0:8462", "--key-file", str(key), "--cpu", "1"]
    spinning = ["vtare", "serve", "--listen", "0.0.0.0:8463", "--key-file", str(key), "--cpu", "1", "--spin"]
    # All but the spinning one wait in the kernel and take nothing from each other.
    servers = [serve, ["irtt", "server", "-i", "1ms"], ["sockperf", "server", "-i", PEER, "-p", "11111"]]
    tools: dict[str, Callable[[float], Measured]] = {
        "vtare": vtare(key),
        "vtare, responder spins": vtare(key, port=8463),
        "vtare --blocking": vtare(key, "--blocking"),
        "vtare --icmp": vtare(key, "--icmp"),
        # ping and fping have no stamps of departures either, which take their part of the round trip.
        "vtare --icmp, to kernel stamp": vtare(key, "--icmp", "--tx-stamp-every", "0", to_kernel=True),
        "ping -i 0.001": ping,
        "fping -p 1": fping,
        "irtt -i 1ms": irtt,
        "sockperf under-load": sockperf,
    }
    for name in list(tools):
        if shutil.which(name.split()[0].rstrip(",")) is None:
            print(f"{name.split()[0]}: not installed, left out")
            del tools[name]
    count = max(6, round(seconds * rounds / ROUND_S))
    found: dict[str, list[Measured]] = {name: [] for name in tools}
    reasons: dict[str, str | None] = dict.fromkeys(tools)
    others = []
    with ExitStack() as stack:
        for words in servers:
            if shutil.which(words[0]) is not None:
                stack.enter_context(responder(words))
        for order in in_turn(count, list(tools)):
            others.append(quiet(2.0))
            for name in order:
                try:
                    with responder(spinning, ready_s=0.3) if "spins" in name else nullcontext():
                        measured = tools[name](ROUND_S)
                except (RuntimeError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
                    measured = Measured(reason=str(error))
                found[name].append(measured)
                reasons[name] = reasons[name] or measured.reason
    print(
        f"\nround trips, {RATE} packets/s of {SIZE} B, {count} x {ROUND_S:g} s each in turns (ABBA), us, "
        "medians of rounds"
    )
    print(f"{'tool':<32}{'median':>9}{'p99':>10}{'max':>10}{'missed slots':>14}{'CPU':>7}{'n':>8}{'time lost':>11}")
    for name, measured_rounds in found.items():
        with_trips = [one for one in measured_rounds if one.rtt_us]
        if not with_trips:
            print(f"{name:<32} nothing measured: {reasons[name]}")
            continue
        whole = Measured()
        for one in with_trips:
            whole.add(one)
        missed = max(0, whole.planned - whole.sent) / whole.planned if whole.planned else 0.0
        median, p99, most = (
            figure(f"{name}/{word}", statistics.median(quantile(one.rtt_us, share) for one in with_trips), "us")
            for word, share in (("median", 0.5), ("p99", 0.99), ("max", 1.0))
        )
        lost = f"{statistics.median(whole.lost_time):>10.1%}" if whole.lost_time else f"{'-':>10}"
        print(
            f"{name:<32}{median:>9.1f}{p99:>10.1f}{most:>10.0f}{figure(f'{name}/missed slots', missed):>13.2%}"
            f"{figure(f'{name}/CPU', whole.cpu_s / whole.wall_s):>8.0%}{len(whole.rtt_us):>8} {lost}"
        )
    noisy = sum(share > 0.1 for share in others)
    if noisy:
        print(f"noisy: other work took more than a tenth of a CPU before {noisy} of {len(others)} rounds")
    part_ratios(found)


def part_ratios(found: dict[str, list[Measured]]) -> None:
    """Prints how the peers compare, round by round, with the uncertainty."""
    print("\npeer / vtare in the same round, median of rounds [95 % interval]; above 1 the peer is slower")
    for own, peers in BESIDE.items():
        for peer in peers:
            pairs = [
                (a, b) for a, b in zip(found.get(own, []), found.get(peer, []), strict=False) if a.rtt_us and b.rtt_us
            ]
            if not pairs:
                continue
            shown, verdicts = [], []
            for name, share in (("median", 0.5), ("p99", 0.99)):
                ratio, low, high = interval([quantile(b.rtt_us, share) / quantile(a.rtt_us, share) for a, b in pairs])
                figure(f"{peer} / {own}, {name}", ratio, "", (low, high))
                verdict = "holds" if low > 1 else "MISSED" if high < 1 else "equal within noise"
                shown.append(f"{name} {ratio:.2f} [{low:.2f}, {high:.2f}]")
                verdicts.append(f"{name}: {verdict}")
            print(f"{peer:<20} / {own:<30} {shown[0]:<28}{shown[1]:<28}{'; '.join(verdicts)}")
