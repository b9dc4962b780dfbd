"""Change the capacity of a kernel shaper in steps, and note when.

A process of its own, so that it can die without the lab, and be noticed. It writes `ready` to stderr once the first
phase holds and works until SIGTERM. Each line of its log (`vtare.capacity/1`) is a change: the rate, and the two times
on CLOCK_MONOTONIC between which the kernel took it over. It sleeps until a change is due and takes no CPU time between.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from vtare.path import PathSpec, rate_step

CAPACITY_SCHEMA: Final = "vtare.capacity/1"
_SECOND_NS: Final = 1_000_000_000


def write_job(path: Path, spec: PathSpec, *, namespace: str, device: str, log: Path) -> None:
    """Write what the process shall do."""
    job = {"path": spec.document(), "namespace": namespace, "device": device, "log": str(log)}
    path.write_text(json.dumps(job), encoding="utf-8")


def work(job: dict[str, Any]) -> int:
    """Change the rate until SIGTERM; 1 where a change failed."""
    spec = PathSpec.of_document(job["path"])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    due_ns, number = time.monotonic_ns(), 0
    with Path(job["log"]).open("w", encoding="utf-8") as log:
        while True:
            phase = spec.phases[number % len(spec.phases)]
            step = rate_step(spec, job["device"], phase.bit_per_s)
            before_ns = time.monotonic_ns()
            words = ("ip", "netns", "exec", job["namespace"], *step.words)
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            after_ns = time.monotonic_ns()
            if done.returncode != 0:
                print(f"`{step}`: {done.stderr.strip()}", file=sys.stderr)
                return 1
            row = {"bit_per_s": phase.bit_per_s, "from_monotonic_ns": before_ns, "to_monotonic_ns": after_ns}
            log.write(f"{json.dumps({'schema': CAPACITY_SCHEMA, **row})}\n")
            log.flush()
            if number == 0:
                print("ready", file=sys.stderr, flush=True)
            number += 1
            due_ns += phase.duration_ns
            left_ns = max(0, due_ns - time.monotonic_ns())
            if signal.sigtimedwait({signal.SIGTERM, signal.SIGINT}, left_ns / _SECOND_NS) is not None:
                return 0


def main() -> None:
    """Do the job that the first argument names."""
    sys.exit(work(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
