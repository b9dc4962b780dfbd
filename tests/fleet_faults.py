"""Faults drawn by a seed on real campaigns over fleets of this machine, and what became of the runs.

What runs on each host is also observed from outside, in /proc: the journal is not trusted to know of an overlap.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fleet_machines import HUB, NAMES, Dask, Hosts, bridged_hosts, children_of, sources, start_scheduler
from machines import PLAN_HEAD, ROUTED, Sshd, sleeps_plan, three_machines, wait_until

from vtare.campaign.journal import Journal
from vtare.campaign.verify import verify
from vtare.fleet.host_use import overlaps
from vtare.platforms import network

PAIRS = """
[[experiment]]
name = "rtt"
instrument = "rtt"
parameters = { rate_packet_per_s = "1 kpacket/s", seconds = "0.2 s" }
"""
#: Faults in one campaign: it has runs enough for all of them.
IN_ONE = 5
#: How long a host is cut off: nobody notices, or everybody does (a dead connection is noticed after 25 s).
CUTS_S = (1.0, 3.0, 35.0)
#: What is left on a host ends within a minute (docs/guide/fleet.md).
LEFT_S = 120.0
LAB_S = 600.0

#: A lab process that makes what a store lacks. After SIGUSR1 it is killed behind a number of operations on its store.
LAB = """
import os, signal, sys
from pathlib import Path
from vtare.campaign.files import Files
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.fleet.named_fleet import fleet_campaign, open_fleet
from vtare.plan.files import parse_plan
plan, path, binary = map(Path, sys.argv[1:4])
on, steps = sys.argv[4], int(sys.argv[5])
left = None

def arm(*_):
    global left
    left = steps

def step():
    global left
    if left is not None:
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

class Dying(Files):
    pass

def dying(name):
    def operation(self, *arguments):
        step()
        found = getattr(Files, name)(self, *arguments)
        step()
        return found
    return operation

for name in ("make_directory", "write", "sync_tree", "publish", "remove_tree"):
    setattr(Dying, name, dying(name))
signal.signal(signal.SIGUSR1, arm)
parsed = parse_plan(plan.read_text(), source=plan)
workers = open_fleet(on, parsed, path)
there = path.exists()
with (Store.open(path, files=Dying()) if there else Store.create(path, parsed, 5, files=Dying())) as store:
    with StopRequest() as stop:
        print(fleet_campaign(store, workers, binary, stop).run())
"""


@dataclass
class Found:
    """What became of campaigns with faults. `wrong` is empty where the fleet works as it should."""

    faults: Counter[str] = field(default_factory=Counter)
    campaigns: int = 0
    runs: int = 0
    done: int = 0
    #: Runs that a campaign kept as failed or skipped (their hosts were lost twice); `vtare resume` made them then.
    again: int = 0
    labs: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Count what another found, too."""
        self.faults += other.faults
        for name in ("campaigns", "runs", "done", "again", "labs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wrong += other.wrong


@dataclass
class Fleet:
    """Hosts, how a lab process is started that uses them, and what can happen to them."""

    on: str
    #: Each campaign has the next of these plans.
    plans: Sequence[str]
    #: What a lab command begins with: where it has to run.
    inside: Sequence[str]
    #: Each carries out a fault and returns whether there was something to be hit.
    faults: Mapping[str, Callable[[subprocess.Popen[bytes], random.Random], bool]]
    #: What is left on the hosts, in words.
    left: Callable[[], list[str]]


@contextmanager
def in_namespaces(place: Path) -> Iterator[Fleet]:
    """Four namespaces of this machine, each with a worker process."""
    with bridged_hosts(place) as hosts:
        yield Fleet(
            str(hosts.file),
            (_sleeps(10) + PAIRS,),
            (),
            {
                "worker killed": _kill_worker,
                "link down": lambda _, drawn: _link_down(hosts, drawn.choice(NAMES), drawn.uniform(0.1, 3.0)),
            },
            list,
        )


@contextmanager
def over_ssh(place: Path, *, agents: bool = False) -> Iterator[Fleet]:
    """Three machines over SSH, each of which reaches the others; with an agent on each, if asked."""
    python = place / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={sources()} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with three_machines(place / "ssh") as machines:
        lines = ['schema = "vtare.hosts/1"']
        for role, machine in machines.items():
            lines += [f"[hosts.{role}]"]
            settings = {"address": ROUTED[role], **machine.settings(), **({"agent": str(python)} if agents else {})}
            lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        path = place / "fleet.toml"
        path.write_text("\n".join(lines) + "\n")
        every = list(machines.values())

        def left() -> list[str]:
            found = [f"{m.namespace}: {p.name}" for m in every for p in m.work.iterdir()]
            return found + [f"{m.namespace}: process {pid}" for m in every for pid in m.processes()]

        worker = (
            {
                "agent killed": lambda _, drawn: _kill_agent(drawn.choice(every), drawn, b"--resources"),
                "freezer or watchdog killed": lambda _, drawn: _kill_agent(drawn.choice(every), drawn, b"-I"),
            }
            if agents
            else {"worker killed": _kill_worker}
        )
        yield Fleet(
            str(path),
            (_sleeps(8),) if agents else (_sleeps(8), _sleeps(8), _pairs(10)),
            (),
            {
                **worker,
                "connection cut": lambda _, drawn: _cut_connection(drawn.choice(every)),
                "host cut off": lambda _, drawn: _cut_off(drawn.choice(every), drawn.choice(CUTS_S)),
                "packets dropped": lambda _, drawn: _drop(drawn.choice(every), drawn.uniform(1.0, 4.0)),
            },
            left,
        )


def _sleeps(blocks: int) -> str:
    return sleeps_plan(blocks, "0.2 s")


def _pairs(blocks: int) -> str:
    return PLAN_HEAD.replace("blocks = 1", f"blocks = {blocks}") + PAIRS


def _link_down(hosts: Hosts, name: str, lasts_s: float) -> bool:
    for state in ("down", "up"):
        network.run_tool(("ip", "-n", f"{hosts.prefix}-{name}", "link", "set", "eth0", state))
        time.sleep(lasts_s if state == "down" else 0.0)
    return True


def _kill_worker(lab: subprocess.Popen[bytes], drawn: random.Random) -> bool:
    workers = children_of(lab.pid)
    with suppress(ProcessLookupError):
        if workers:
            os.kill(drawn.choice(workers), signal.SIGKILL)
    return bool(workers)


def _kill_agent(machine: Sshd, drawn: random.Random, word: bytes) -> bool:
    """Kill a process with this word in its command: an agent, or one of those that stop it and let it go on."""
    found = []
    for pid in machine.processes():
        with suppress(OSError):
            if word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(pid)
    with suppress(ProcessLookupError):
        if found:
            os.kill(drawn.choice(found), signal.SIGKILL)
    return bool(found)


def _cut_connection(machine: Sshd) -> bool:
    machine.cut()
    return True


def _cut_off(machine: Sshd, lasts_s: float) -> bool:
    machine.silence()
    time.sleep(lasts_s)
    machine.unsilence()
    return True


def _drop(machine: Sshd, lasts_s: float) -> bool:
    """Let a machine lose a third of its packets on the way to the lab and back."""
    rules = (
        "add table inet vtare; add chain inet vtare in { type filter hook input priority 0; }; "
        "add rule inet vtare in iifname ssh0 numgen random mod 100 < 33 drop"
    )
    network.run_tool(("ip", "netns", "exec", machine.namespace, "nft", rules))
    time.sleep(lasts_s)
    network.run_tool(("ip", "netns", "exec", machine.namespace, "nft", "delete table inet vtare"))
    return True


@contextmanager
def on_dask(place: Path) -> Iterator[Fleet]:
    """A scheduler of Dask and two workers, each on its host, which are started again when they end."""
    with bridged_hosts(place) as hosts:
        dask = Dask.of(hosts, place)
        try:
            yield Fleet(
                f"dask://{HUB}:8786",
                (_sleeps(20),),
                hosts.inside("hub"),
                {
                    "Dask scheduler killed": lambda _, __: _restart_scheduler(dask, hosts, place),
                    "Dask worker killed": lambda _, drawn: _restart_worker(dask, drawn.randrange(2)),
                    "freezer or watchdog killed": lambda _, drawn: _kill_freezer(dask, drawn),
                },
                list,
            )
        finally:
            dask.end()


def _restart_scheduler(dask: Dask, hosts: Hosts, place: Path) -> bool:
    dask.scheduler.kill()
    dask.scheduler.wait()
    dask.scheduler = start_scheduler(hosts, place)
    # A worker ends with its scheduler.
    for number in range(len(dask.workers)):
        _restart_worker(dask, number)
    return True


def _restart_worker(dask: Dask, number: int) -> bool:
    dask.workers[number].kill()
    dask.workers[number].wait()
    dask.workers[number] = dask.start_worker(NAMES[number])
    return True


def _kill_freezer(dask: Dask, drawn: random.Random) -> bool:
    """Kill one of the processes that stop the workers while they measure and let them go on."""
    watchdogs = [pid for worker in dask.workers for pid in children_of(worker.pid, "watchdog.py")]
    found = [*watchdogs, *(pid for watchdog in watchdogs for pid in children_of(watchdog, "watchdog.py"))]
    with suppress(ProcessLookupError):
        if found:
            os.kill(drawn.choice(found), signal.SIGKILL)
    return bool(found)


class Observer:
    """Looks at what runs in each network namespace, and keeps where two runs were in one."""

    def __init__(self) -> None:
        """Look from now on."""
        self.overlaps: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            by_host: dict[str, dict[str, int]] = {}
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
                found = _run_of(pid)
                if found is not None:
                    by_host.setdefault(found[0], {})[found[1]] = pid
            for host, runs in by_host.items():
                # Seen one after another: one may have ended before the other began.
                alive = [run for run, pid in runs.items() if _run_of(pid) == (host, run)]
                if len(alive) > 1:
                    self.overlaps.append(f"{host}: {' beside '.join(sorted(alive))}")


def _run_of(pid: int) -> tuple[str, str] | None:
    """The network namespace and the attempt of a process that measures, or answers to one that does."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if words[0].endswith(b"vtare") and words[1:2] in ([b"measure"], [b"serve"], [b"load"]):
            attempt = os.path.basename(os.readlink(f"/proc/{pid}/cwd"))
            if attempt.startswith(".tmp-"):
                return os.readlink(f"/proc/{pid}/ns/net"), attempt
    return None


def inject(fleet: Fleet, place: Path, vtare: Path, number: int, seed: int) -> Found:
    """Campaigns on a fleet, with faults drawn by a seed until there were that number."""
    found, drawn = Found(), random.Random(seed)
    kinds = ("lab killed", "lab killed while it writes", *fleet.faults)
    waiting = [kinds[i % len(kinds)] for i in range(number)]
    drawn.shuffle(waiting)
    while waiting and len(found.wrong) < 5:
        plan = fleet.plans[found.campaigns % len(fleet.plans)]
        one = _Campaign(fleet, plan, place / f"campaign-{found.campaigns}", vtare, drawn)
        hit = one.run(waiting[:IN_ONE])
        for kind in hit:
            waiting.remove(kind)
        one.found.faults.update(hit)
        found.add(one.found)
        if not hit and not one.found.wrong:
            found.wrong.append(f"{one.place}: no fault was injected in time")
    return found


class _Campaign:
    def __init__(self, fleet: Fleet, plan: str, place: Path, vtare: Path, drawn: random.Random) -> None:
        self.place = place
        self.found = Found(campaigns=1)
        self._fleet = fleet
        self._vtare = vtare
        self._drawn = drawn
        self._store, self._plan, self._tmp = place / "store", place / "plan.toml", place / "tmp"
        self._tmp.mkdir(parents=True)
        self._plan.write_text(plan)
        self._taken = 0
        #: The checksums of the runs that were seen to be done.
        self._seen: dict[str, tuple[int, bytes]] = {}

    def run(self, kinds: Sequence[str]) -> list[str]:
        """Make a campaign with these faults; those that it met."""
        hit = []
        with Observer() as observer:
            lab = self._start()
            for kind in kinds:
                wait_until("a run is made", partial(self._at_work_or_over, lab), LAB_S)
                time.sleep(self._drawn.uniform(0.0, 0.8))
                if lab.poll() is not None:
                    break
                if kind == "lab killed":
                    lab.kill()
                elif kind == "lab killed while it writes":
                    lab.send_signal(signal.SIGUSR1)
                    lab.wait(LAB_S)
                elif not self._fleet.faults[kind](lab, self._drawn):
                    continue
                if kind.startswith("lab killed"):
                    if lab.wait() != -signal.SIGKILL:
                        break
                    lab = self._restarted()
                hit.append(kind)
            self._to_the_end(lab)
            undone = self._undone()
            if undone and not self.found.wrong:
                self.found.again += undone
                self._to_the_end(self._start())
        self._check(observer)
        return hit

    def _start(self) -> subprocess.Popen[bytes]:
        self.found.labs += 1
        self._taken = self._taken_so_far()
        words = [sys.executable, "-c", LAB, self._plan, self._store, self._vtare, self._fleet.on]
        environment = {
            "PYTHONPATH": sources(), "XDG_STATE_HOME": str(self.place / "state"), "TMPDIR": str(self._tmp),
        }  # fmt: skip
        with (self.place / f"lab-{self.found.labs}").open("wb") as log:
            return subprocess.Popen(
                [*self._fleet.inside, *map(str, words), str(self._drawn.randrange(1, 60))],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **environment},
            )  # fmt: skip

    def _restarted(self) -> subprocess.Popen[bytes]:
        for path in self._store.glob("runs/*/files.sha256"):
            if not path.parent.name.startswith("."):
                self._seen.setdefault(path.parent.name, _print_of(path))
        return self._start()

    def _at_work_or_over(self, lab: subprocess.Popen[bytes]) -> bool:
        """Whether this lab process has given hosts to a run, or has ended."""
        return lab.poll() is not None or self._taken_so_far() > self._taken

    def _taken_so_far(self) -> int:
        with suppress(Exception), Journal(self._store / "journal.sqlite", read_only=True) as journal:
            return sum(event.kind == "taken" for event in journal.host_events())
        return 0

    def _undone(self) -> int:
        with Journal(self._store / "journal.sqlite", read_only=True) as journal:
            return sum(entry.status != "done" for entry in journal.entries().values())

    def _to_the_end(self, lab: subprocess.Popen[bytes]) -> None:
        try:
            code = lab.wait(LAB_S)
        except subprocess.TimeoutExpired:
            lab.kill()
            code = lab.wait()
        if code != 0:
            log = (self.place / f"lab-{self.found.labs}").read_text(errors="replace")
            self._wrong(f"lab process {self.found.labs} ended with {code}: {log[-1500:]}")

    def _wrong(self, what: str) -> None:
        self.found.wrong.append(f"{self.place}: {what}")

    def _check(self, observer: Observer) -> None:
        """Nothing is lost or there twice, no host had two runs at a time, and nothing is left."""
        checked = verify(self._store)
        self.found.runs, self.found.done = checked.total, len(checked.conditions.whole)
        for problem in (*checked.problems(), *checked.strangers, *observer.overlaps[:5]):
            self._wrong(problem)
        if self.found.done != checked.total:
            self._wrong(f"{self.found.done} of {checked.total} runs are there")
        with Journal(self._store / "journal.sqlite", read_only=True) as journal:
            for line in overlaps(journal.host_events()):
                self._wrong(line)
        for run_id, earlier in self._seen.items():
            if _print_of(self._store / "runs" / run_id / "files.sha256") != earlier:
                self._wrong(f"run {run_id} was done, and was made again")
        deadline = time.monotonic() + LEFT_S
        while (left := self._left()) and time.monotonic() < deadline:
            time.sleep(0.5)
        for line in left[:5]:
            self._wrong(f"left behind: {line}")

    def _left(self) -> list[str]:
        notes = [str(path.relative_to(self.place)) for path in (self.place / "state").glob("vtare/ssh/*.json")]
        files = [str(path.relative_to(self.place)) for path in self._tmp.glob("vtare-*")]
        return [*notes, *files, *self._fleet.left()]


def _print_of(manifest: Path) -> tuple[int, bytes]:
    """What distinguishes one attempt's files from another's."""
    with suppress(FileNotFoundError):
        return manifest.stat().st_ino, hashlib.sha256(manifest.read_bytes()).digest()
    return 0, b""


#: The fleets, and the share of all faults that each gets.
FLEETS: dict[str, tuple[float, Callable[[Path], AbstractContextManager[Fleet]]]] = {
    "namespaces": (0.4, in_namespaces),
    "ssh": (0.2, over_ssh),
    "dask": (0.3, on_dask),
    "agents": (0.1, partial(over_ssh, agents=True)),
}
