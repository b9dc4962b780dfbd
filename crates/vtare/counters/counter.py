r"""The counter function in Python: a program that `vtare counter --language python` starts and exchanges lines with.

It counts: steps of Marsaglia's xorshift64 (13, 7, 17) from state 1, the same as the programs in the other languages. It
reads CLOCK_MONOTONIC after each chunk of steps and reports the time of each chunk; everything else (order, figures,
files) is done by vtare. README.md has the protocol between the two. Python 3.7 or later, no package.

    printf '1000 3\n3 1\n' | python3 counter.py
"""

import json
import signal
import sys
from resource import RUSAGE_THREAD, getrusage
from time import monotonic_ns, thread_time_ns

MASK = 0xFFFF_FFFF_FFFF_FFFF
#: Of CPU time: the CPU's clock rises, and the interpreter specialises its instructions.
WARM_UP_NS = 50_000_000
#: Least length of one timing while the speed is sought, and how many there are; the fastest tenth is undisturbed.
ROUND_NS = 200_000
ROUNDS = 600


def count(state: int, steps: int) -> int:
    """The state after `steps` steps. Whole numbers here have no end, so each step cuts them to 64 bits."""
    for _ in range(steps):
        state ^= (state << 13) & MASK
        state ^= state >> 7
        state ^= (state << 17) & MASK
    return state


def time_of(steps: int) -> int:
    """How long `steps` steps take, in ns."""
    begin = monotonic_ns()
    count(1, steps)
    return monotonic_ns() - begin


def steps_per_ms() -> float:
    """The machine speed index: steps in a millisecond of the undisturbed machine."""
    steps, begin = 100, thread_time_ns()
    while thread_time_ns() - begin < WARM_UP_NS:
        count(1, steps)
    while time_of(steps) < ROUND_NS:
        steps *= 2
    spans = sorted(time_of(steps) for _ in range(ROUNDS))
    return steps * 1e6 / spans[ROUNDS // 10]


def call(chunk_steps: int, chunks: int, marks: "list[int]") -> str:
    """One call, and the line that reports its times."""
    state = 1
    switches = getrusage(RUSAGE_THREAD).ru_nivcsw
    cpu = thread_time_ns()
    marks[0] = monotonic_ns()
    for chunk in range(1, chunks + 1):
        state = count(state, chunk_steps)
        marks[chunk] = monotonic_ns()
    cpu = thread_time_ns() - cpu
    switches = getrusage(RUSAGE_THREAD).ru_nivcsw - switches
    spans = (str(marks[chunk] - marks[chunk - 1]) for chunk in range(1, chunks + 1))
    return f"{state} {cpu} {switches} {' '.join(spans)}\n"


def main() -> None:
    """Report the speed of this machine, then carry out what comes."""
    # vtare is interrupted as well, and reports that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    about = {
        "schema": "vtare.counter-program/1",
        "language": "python",
        "runtime": f"{sys.implementation.name} {sys.version.split()[0]}",
        "steps_per_ms": steps_per_ms(),
    }
    print(json.dumps(about), flush=True)
    first = sys.stdin.readline().split()
    if not first:
        return
    chunk_steps, most_chunks = map(int, first)
    marks = [0] * (most_chunks + 1)
    for line in iter(sys.stdin.readline, ""):
        sys.stdout.writelines([call(chunk_steps, int(chunks), marks) for chunks in line.split()])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
