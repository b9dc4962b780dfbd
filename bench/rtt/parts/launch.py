"""The error of the gaps that the kernel's queue holds by launch times."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parts.capture import capturing, gaps_of
from parts.figures import gap_error, share, spread
from parts.kernel import of
from parts.pacing import PACED, ended_words
from parts.wire import HERE, PEER, inside, responder, run


@contextmanager
def launching() -> Iterator[str | None]:
    """A queue that keeps launch times in front of the wire (fq); gives the reason where this kernel has none."""
    done = subprocess.run(
        inside(HERE, ["tc", "qdisc", "replace", "dev", "va", "root", "fq"], None),
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        yield None if done.returncode == 0 else " ".join(done.stderr.split()) or f"tc ended with {done.returncode}"
    finally:
        words = ["tc", "qdisc", "del", "dev", "va", "root"]
        subprocess.run(inside(HERE, words, None), capture_output=True, check=False)


def part_launch_times(key: Path, seconds: float) -> None:
    """Prints the error of the gaps that the kernel's queue holds by launch times (SO_TXTIME)."""
    print("\npacing by launch times (vtare rtt --pacing txtime), error of the gap between packets, us (median, half of")
    print("the interquartile range), by the kernel's stamps of departures and captured at the far end")
    with launching() as reason:
        if reason is not None:
            print(f"skipped: no fq queue in this kernel: {reason}")
            return
        print(
            f"{'gap':>6} {'payload':>8}  {'by kernel stamps':>20}  {'captured':>20}  {'reached':>8}  handed over before"
        )
        for gap_us, size in PACED:
            at = f"launch times, {gap_us} us, {size} B"
            serve = ["vtare", "serve", "--listen", "0.0.0.0:8462", "--key-file", str(key), "--cpu", "1"]
            words = [
                "vtare",
                "rtt",
                PEER,
                "--gap",
                f"{int(gap_us * 1000)}ns",
                "--size",
                str(size),
                "--pacing",
                "txtime",
            ]
            words += ["--seconds", str(seconds), *of(key), "--timeout", "100ms", "--no-gso", "--json"]
            captured = f"{'-':>10}{'-':>10}"
            with responder(serve):
                ended = run([*words, "--tx-stamp-every", "1"], cpu=None)
                if shutil.which("tcpdump") is not None:
                    with tempfile.TemporaryDirectory() as name:
                        with capturing(Path(name), 8462) as file:
                            run(words, cpu=None)
                        captured = spread(f"{at}/captured", gaps_of(file), gap_us)
            cell = json.loads(ended.out).get("cells", [None])[0] if ended.out else None
            if cell is None:
                print(f"{gap_us:>6} {size:>8}  {ended_words(ended)}")
                continue
            pacing = cell["pacing"]
            ahead = f"{pacing['handed_ahead_least_ns'] / 1e3:.0f} to {pacing['handed_ahead_most_ns'] / 1e3:.0f} us"
            print(f"{gap_us:>6} {size:>8}  {gap_error(at, cell)}  {captured}  {share(at, cell, gap_us):>8}  {ahead}")
