"""The error of the gaps between packets, of vtare's engines and of iperf3."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from parts.capture import capturing, gaps_of
from parts.figures import gap_error, share, spread
from parts.kernel import in_kernel, of
from parts.wire import PEER, Ended, responder, run

#: Gaps in us, with the payload of each packet in bytes.
PACED = ((120.0, 1472), (12.0, 1472), (7.2, 8972), (1.2, 1472))


def ended_words(ended: Ended) -> str:
    """Why a run gave nothing."""
    return ended.err.strip() or f"ended with {ended.code}"


def part_pacing(key: Path, seconds: float) -> None:
    """Prints the error of the gaps of vtare and of iperf3."""
    can_capture, iperf = shutil.which("tcpdump") is not None, shutil.which("iperf3") is not None
    if not (can_capture and iperf):
        print("tcpdump or iperf3: not installed; iperf3's pacing is left out")
    print(
        f"\npacing: error of the gap between packets, us (median, half of the interquartile range), {seconds:g} s each"
    )
    names = ("sockets, at sender", "sockets, captured", "AF_XDP, at sender", "XDP, at sender", "iperf3, captured")
    heads = [f"{name:>20}" for name in names]
    print(f"{'gap':>6} {'payload':>8}  {'  '.join(heads)}  {'sockets':>8} {'AF_XDP':>8} {'XDP':>8}  reached")
    print("AF_XDP and XDP with payloads of at most 1472 B")
    for gap_us, size in PACED:
        at = f"pacing, {gap_us} us, {size} B"
        serve = ["vtare", "serve", "--listen", "0.0.0.0:8462", "--key-file", str(key), "--cpu", "1", "--spin"]
        words = [
            "vtare",
            "rtt",
            PEER,
            "--gap",
            f"{int(gap_us * 1000)}ns",
            "--size",
            str(size),
            "--seconds",
            str(seconds),
        ]
        words += [*of(key), "--engine", "socket", "--timeout", "100ms", "--no-gso", "--json"]
        with responder(serve):
            ended = run(words, cpu=None)
            cell = json.loads(ended.out).get("cells", [None])[0] if ended.out else None
            own_frames = ["af_xdp" if word == "socket" else word for word in words]
            own_frames[own_frames.index("--size") + 1] = str(min(size, 1472))
            own = run(own_frames, cpu=None)
            framed = json.loads(own.out)["cells"][0] if own.out else None
        if cell is None:
            print(f"{gap_us:>6} {size:>8}  {ended.err.strip()}")
            continue
        sender = gap_error(f"{at}/sockets", cell)
        captured = peer = f"{'-':>10}{'-':>10}"
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            if can_capture:
                with responder([*serve[:-1]]), capturing(place, 8462) as file:
                    run(words, cpu=None)
                captured = spread(f"{at}/sockets, captured", gaps_of(file), gap_us)
            if can_capture and iperf:
                rate = int(size * 8 / gap_us * 1e6)
                with responder(["iperf3", "-s"]), capturing(place, 5201) as file:
                    run(["iperf3", "-c", PEER, "-u", "-b", str(rate), "-l", str(size), "-t", str(max(1, int(seconds)))])
                peer = spread(f"{at}/iperf3, captured", gaps_of(file), gap_us)
        inner, refused = in_kernel(key, 0, seconds, "--gap", f"{int(gap_us * 1000)}ns", size=min(size, 1472))
        shown, reached = [sender, captured], [share(f"{at}/sockets", cell, gap_us)]
        for name, found in (("AF_XDP", framed), ("XDP", inner)):
            shown.append(f"{'-':>10}{'-':>10}" if found is None else gap_error(f"{at}/{name}", found))
            reached.append("-" if found is None else share(f"{at}/{name}", found, gap_us))
        columns = "  ".join([*shown, peer])
        print(f"{gap_us:>6} {size:>8}  {columns}  {' '.join(f'{text:>8}' for text in reached)}")
        for name, found, reason in (("AF_XDP", framed, ended_words(own)), ("XDP", inner, refused)):
            if found is None:
                print(f"{'':>15}  {name}: {reason}")
