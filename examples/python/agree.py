"""Reads vtare's clock between two readings of the kernel's, paces a loop, and prints the results of both.

Ends with 1 where a reading lies further from the kernel's clock than the library states, or a wait ended early.
"""

from __future__ import annotations

import math
import sys
import time

from vtare import clock

READINGS = 1000


def main() -> int:
    """Compare, pace, report."""
    outside = 0
    for _ in range(READINGS):
        before = time.monotonic_ns()
        ours = clock.now_ordered_ns()
        after = time.monotonic_ns()
        bound = math.ceil(clock.info().error_bound_ns)
        outside += not before - bound <= ours <= after + bound
    info = clock.info()
    print(f"source {info.source}, stated error {info.error_bound_ns:.0f} ns: {outside} of {READINGS} readings outside")

    clock.set_sleep_policy("adaptive")
    early = 0
    beat = clock.ticker(200_000)
    for _ in range(10):
        deadline = beat.next_ns
        beat.wait()
        early += clock.now_ordered_ns() < deadline
    print(f"10 periods of 200 us, {beat.missed} missed; {clock.last_sleep()}")
    return 1 if outside or early else 0


if __name__ == "__main__":
    sys.exit(main())
