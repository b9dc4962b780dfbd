"""Clients of one real `vtare serve` on loopback, and what `vtare clock` costs at its ten heartbeats a second.

Each client is a thread with a socket of its own that asks once a second, at its own moment; beyond 1,000 clients each
thread stands for several of them. Round trips include the wake-ups of all these threads; a request without an answer
before the next one is lost.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from figures import figure

#: How long clients ask, and how long the daemon is watched.
ASKED_S, WATCHED_S = 20, 20
#: Of a CPU, at ten heartbeats a second.
GOAL = 0.001
#: The key of `witnessed`.
KEY = "0f" * 32


def cpu_s(process: int) -> float:
    """CPU time of all threads of a process, from the scheduler's own account."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def first_send_s() -> float:
    """CPU time of one sendto to nobody after 100 ms of sleep, median: what no daemon with ten heartbeats avoids."""
    spent = []
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to,
    ):
        to.bind(("127.0.0.1", 0))
        nobody = to.getsockname()
        for _ in range(50):
            time.sleep(0.1)
            begun_ns = time.thread_time_ns()
            line.sendto(bytes(80), nobody)
            spent.append((time.thread_time_ns() - begun_ns) / 1e9)
    return statistics.median(spent)


def started(stack: ExitStack, *words: str) -> subprocess.Popen[str]:
    """A program that ends with the stack."""
    environment = {**os.environ, "VTARE_KEY": KEY}
    program = subprocess.Popen(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def end() -> None:
        program.terminate()
        program.wait(30)

    stack.callback(end)
    return program


def measure(clients: int, program: Path) -> None:
    """Both, one after the other."""
    with ExitStack() as stack:
        serve = started(stack, "vtare", "serve", "--json", "--listen", "127.0.0.1:0")
        assert serve.stdout is not None
        address = json.loads(serve.stdout.readline())["listen"]
        before_s, begun_s = cpu_s(serve.pid), time.monotonic()
        words = [str(program), "clients", str(clients), str(ASKED_S), address]
        row = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        share = (cpu_s(serve.pid) - before_s) / (time.monotonic() - begun_s)
    name = f"{clients} clients of one witness"
    answered = figure(f"{name}/answered", row["answered"] / row["asked"])
    simulated = ", simulated by 1,000 sockets" if clients > 1_000 else ""
    print(f"{name}{simulated}, one heartbeat a second each, {ASKED_S} s")
    print(f"  answered: {100 * answered:.3f} % of {row['asked']}")
    if row["answered"]:
        median_us, p99_us = (figure(f"{name}/round trip/{key}", row[f"{key}_us"], "us") for key in ("median", "p99"))
        print(f"  round trip: median {median_us:.0f} us, p99 {p99_us:.0f} us")
    print(f"  CPU of the witness: {100 * figure(f'{name}/CPU of the witness', share):.2f} % of one")
    print(f"  {'reached' if answered == 1.0 else 'MISSED '}  every heartbeat is answered")
    with ExitStack() as stack:
        page = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "utc"
        ports = []
        for host in (1, 2, 3):
            witness = started(stack, str(program), "witness", str(host), "200", "0")
            assert witness.stdout is not None
            ports.append(witness.stdout.readline().strip())
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        keeper = started(stack, "vtare", "clock", "--quiet", "--witness", addresses, "--page", str(page))
        time.sleep(2)
        before_s, begun_s = cpu_s(keeper.pid), time.monotonic()
        time.sleep(WATCHED_S)
        share = (cpu_s(keeper.pid) - before_s) / (time.monotonic() - begun_s)
    print(f"vtare clock beside three witnesses on loopback, ten heartbeats a second, {WATCHED_S} s")
    print(f"  CPU: {100 * figure('vtare clock/CPU', share):.3f} % of one")
    print(f"  {'reached' if share <= GOAL else 'MISSED '}  at most {100 * GOAL:.1f} % of a CPU")
    if share > GOAL:
        floor = figure("first send/CPU", 10 * first_send_s())
        print(f"  of it the first send after 100 ms of sleep, which no daemon avoids: {100 * floor:.3f} %")
