"""A guest without a VMClock beside witnesses, disrupted: is a wrong UTC confirmed, or vouched for too late?

Three programs on this host stand for `vtare serve` on three hosts: they answer the same heartbeats, by this host's
CLOCK_REALTIME, which is UTC here whether or not this host is synchronized. The guest reaches them over QEMU's user
network, keeps a page as `vtare clock` does, and asks for confirmed readings.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figures import figure

HERE = Path(__file__).resolve().parent
#: The key of the stand-ins, which is no secret.
KEY = "0f" * 32
#: A heartbeat, and the longest round.
LATE_S = 0.2
#: How long a page is kept on this host.
KEPT_S = 60
#: What a witness states as its own error.
BOUND_US = 200
KINDS = ("stop", "snapshot", "migration", "step", "rate 1 %", "rate 7 %", "none")
#: What a round of this kind is not to be flagged for.
QUIET = ("step", "none")


def built(program: str = "bench-disruptions") -> Path:
    """A guest's program, static."""
    command = ["cargo", "rustc", "--quiet", "--release", "--locked", "-p", "bench-disruptions", "--bin", program]
    machine = f"{os.uname().machine}-unknown-linux-gnu"
    command += ["--target", machine, "--", "-C", "target-feature=+crt-static"]
    subprocess.run(command, cwd=HERE.parent, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
    return target / machine / "release" / program


def simulate(scenarios: int, seed: int, program: Path) -> None:
    """Runs the simulation with planted faults, and shows what readings cost."""
    done = subprocess.run([program, "simulate", str(scenarios), str(seed)], check=True, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    ours, planted = rows[0], rows[1:]
    print(f"{scenarios} scenarios from seed {seed}: {ours['disruptions']} disruptions")
    names = ("confirmed", "wrong_confirmed", "unconfirmed", "readings", "vouched", "wrong_early", "wrong_late")
    for key in (*names, "false_disruptions"):
        print(f"  {key.replace('_', ' '):>17} {figure(f'simulated/{key}', ours[key])}")
    beyond = figure("simulated/width beyond round trip, drift and statement", ours["widest_beyond_ns"], "ns")
    print(f"  widest confirmed interval beyond round trip, drift and the witnesses' own: {beyond:.0f} ns")
    found = []
    for row in planted:
        wrong = row["wrong_confirmed"] + row["wrong_late"]
        found.append(figure(f"simulated/planted {row['name']}", wrong) > 0)
        print(f"  planted {row['name']}: {wrong} wrong")
    reached = ours["wrong_confirmed"] == ours["wrong_late"] == 0 and beyond <= 0 and all(found)
    print(f"  {'reached' if reached else 'MISSED '}  no wrong interval, and each planted fault is found")
    costs = subprocess.run([program, "cost"], check=True, capture_output=True, text=True).stdout.splitlines()
    for row in map(json.loads, costs):
        ns, counters = figure(f"cost/{row['name']}", row["ns"], "ns"), figure(f"cost/{row['name']}/x", row["counters"])
        print(f"  {row['name']:<38} {ns:6.1f} ns, {counters:.2f} readings of the counter")


@dataclass
class Counts:
    """What the disruptions of one kind came to."""

    injected: int = 0
    flagged: int = 0
    confirmed: int = 0
    wrong_confirmed: int = 0
    refused: int = 0
    vouched: int = 0
    wrong_early: int = 0
    wrong_late: int = 0


@dataclass
class Reading:
    """An answer of the guest, and this host's UTC around it."""

    status: str
    earliest_ns: int
    latest_ns: int
    generation: int
    before_ns: int
    after_ns: int

    @property
    def wrong(self) -> bool:
        """UTC was outside of the interval all the time."""
        return self.latest_ns < self.before_ns or self.earliest_ns > self.after_ns


@dataclass
class Guest:
    """A guest beside witnesses."""

    start: Callable[[str, bool], Any]
    machine: Any
    files: Path
    counts: dict[str, Counts] = field(default_factory=dict)
    moves: int = 0

    def ask(self, line: str) -> Reading:
        """One answer."""
        before_ns = time.time_ns()
        self.machine.serial.sendall(line.encode() + b"\n")
        words = self.machine.lines.readline().decode().split()
        return Reading(words[0], int(words[1]), int(words[2]), int(words[3]), before_ns, time.time_ns())

    def settle(self) -> Reading:
        """The first reading that is vouched for."""
        for _ in range(200):
            found = self.ask("read")
            if found.status == "Synchronized":
                return found
            time.sleep(0.03)
        raise SystemExit(f"disruptions: the guest does not come to a confirmed line: {found}")

    def move(self) -> None:
        """Goes on in another QEMU."""
        self.moves += 1
        name = f"moved{self.moves}"
        other = self.start(name, True)
        self.machine.ask("migrate", uri=f"unix:{self.files}/{name}.migration")
        while (state := self.machine.ask("query-migrate").get("status")) != "completed":
            if state == "failed":
                raise SystemExit("disruptions: the migration failed")
            time.sleep(0.02)
        self.machine.end()
        self.machine = other

    def disrupt(self, kind: str, seconds: float) -> None:
        """One disruption."""
        if kind.startswith("rate"):
            self.ask(f"rate {10_100 if kind == 'rate 1 %' else 10_700}")
            return
        if kind == "step":
            self.ask(f"step {int(seconds * 1e9) * (-1) ** self.counts[kind].injected}")
            return
        if kind == "none":
            time.sleep(seconds)
            return
        if kind == "snapshot":
            self.machine.human("savevm before")
            time.sleep(seconds)
        self.machine.ask("stop")
        if kind == "stop":
            time.sleep(seconds)
        elif kind == "snapshot":
            self.machine.human("loadvm before")
        else:
            self.move()
        self.machine.ask("cont")

    def judge(self, kind: str, seconds: float) -> None:
        """One disruption, a confirmed reading at once, and cheap ones until a heartbeat and more have passed."""
        counts = self.counts.setdefault(kind, Counts())
        before = self.settle()
        self.disrupt(kind, seconds)
        ended = time.monotonic()
        counts.injected += 1
        flagged, confirm = False, True
        while (passed := time.monotonic() - ended) < 3 * LATE_S:
            found = self.ask("confirm" if confirm else "read")
            if confirm:
                counts.confirmed += found.status == "Confirmed"
                counts.refused += found.status != "Confirmed"
                counts.wrong_confirmed += found.status == "Confirmed" and found.wrong
            else:
                flagged |= found.status == "Disrupted" or found.generation > before.generation
                if found.status == "Synchronized":
                    counts.vouched += 1
                    # Of the reading after `passed`, which was asked for then.
                    counts.wrong_late += found.wrong and passed > LATE_S
                    counts.wrong_early += found.wrong and passed <= LATE_S
            confirm = not confirm
        counts.flagged += flagged
        if kind.startswith("rate"):
            self.ask("rate 10000")
            # That is a disruption, too, and none of the next one's.
            time.sleep(2 * LATE_S)


def disrupt(arguments: argparse.Namespace, program: Path, machine: Any) -> None:
    """All disruptions of one guest."""
    from vtare.platforms.guest import cpio, kernel
    from vtare.platforms.guest.modules import Modules

    found = kernel.find_kernel("generic")
    modules = Modules(found.modules).ordered(("virtio_pci", "virtio_net"))
    rng = random.Random(arguments.seed)
    until = time.monotonic() + 60 * arguments.most_minutes
    with three_witnesses(program) as ports, tempfile.TemporaryDirectory(prefix="vtare-disruptions-") as name:
        files = Path(name)
        entries = [*(cpio.directory(place) for place in ("dev", "proc", "sys", "modules"))]
        entries += [cpio.device("dev/console", 5, 1), cpio.file("init", program.read_bytes(), executable=True)]
        entries += [cpio.file(f"modules/{module}.ko", content) for module, content in modules]
        order = "".join(f"/modules/{module}.ko\n" for module, _ in modules)
        entries.append(cpio.file("modules/order", order.encode()))
        image = files / "image.cpio"
        image.write_bytes(cpio.archive(entries))
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(files / "snapshots.qcow2"), "1G"], check=True)
        addresses = ",".join(f"10.0.2.2:{port}" for port in ports)

        def start(label: str, incoming: bool) -> Any:
            return machine(files, label, image, found.image, vmclock=False, incoming=incoming, witnesses=addresses)

        guest = Guest(start, start("first", False), files)
        try:
            print(f"guest beside three witnesses: {guest.machine.lines.readline().decode().strip()}", flush=True)
            begun = time.monotonic()
            kinds = [KINDS[number % len(KINDS)] for number in range(arguments.witnessed)]
            rng.shuffle(kinds)
            for done, kind in enumerate(kinds):
                if time.monotonic() > until:
                    print(f"  ended by --most-minutes after {done} of {len(kinds)}", flush=True)
                    break
                # 1 ms to the longest, short ones as often as long ones.
                guest.judge(kind, 1e-3 * (arguments.longest_s / 1e-3) ** rng.random())
            hours = (time.monotonic() - begun) / 3600
        finally:
            guest.machine.end()
        show(guest.counts, hours)
        beside_threads(program, ports, KEPT_S)


@contextmanager
def three_witnesses(program: Path, ahead_ms: int = 0) -> Iterator[list[str]]:
    """Their ports; UTC is this host's CLOCK_REALTIME and `ahead_ms` more."""
    words = [str(BOUND_US), str(ahead_ms)]
    witnesses = [
        subprocess.Popen([program, "witness", str(host), *words], stdout=subprocess.PIPE, text=True)
        for host in (1, 2, 3)
    ]
    try:
        yield [witness.stdout.readline().strip() for witness in witnesses if witness.stdout]
    finally:
        for witness in witnesses:
            witness.kill()
            witness.wait()


def beside_threads(program: Path, ports: list[str], kept_s: int) -> None:
    """A page on this host: CPU time alone, and false disruptions beside 100 busy threads."""
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    for threads in (0, 100):
        words = [str(program), "keep", str(kept_s), str(threads), addresses]
        found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        name = f"page beside {threads} threads"
        cpu = figure(f"{name}/CPU", found["cpu"])
        stated = figure(f"{name}/false disruptions", found["disruptions"])
        vouched = figure(f"{name}/rounds vouched for", found["vouched"] / found["rounds"])
        shares = f"{100 * vouched:.1f} % vouched for, {100 * cpu:.2f} % of a CPU"
        print(f"  {name}: {stated} disruptions in {kept_s} s, {shares}", flush=True)


def show(counts: dict[str, Counts], hours: float) -> None:
    """Prints the counts."""
    names = ("injected", "flagged", "confirmed", "wrong_confirmed", "refused", "vouched", "wrong_early", "wrong_late")
    print("  " + f"{'':10}" + "".join(f"{name.replace('_', ' '):>17}" for name in names))
    for kind, found in sorted(counts.items()):
        cells = [figure(f"beside witnesses/{kind}/{name}", getattr(found, name)) for name in names]
        print("  " + f"{kind:10}" + "".join(f"{cell:17}" for cell in cells))
    false = sum(counts[kind].flagged for kind in QUIET if kind in counts)
    per_hour = figure("beside witnesses/false disruptions in an hour", false / hours)
    wrong = sum(found.wrong_confirmed + found.wrong_late for found in counts.values())
    print(f"  false disruptions: {false} in {60 * hours:.0f} min, {per_hour:.1f} an hour")
    text = "no wrong UTC is confirmed, and none is vouched for later than a heartbeat and a round trip"
    print(f"  {'reached' if wrong == 0 else 'MISSED '}  {text}")
