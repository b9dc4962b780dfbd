"""Faults drawn by seed around a store: VTARE_FAULTS of them (3; `make test-faults FAULTS=500`), by VTARE_FAULT_SEED.

After each: what was finished is still there, byte by byte, unless the fault itself changed it; nothing half-written is
left; nothing hangs; no traceback; and where a command cannot go on, its message names a command that can. Then the
store is repaired and its campaign goes on to its end.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from agent_end import guest, on_the_line

from vtare.campaign import children
from vtare.campaign.results import CampaignResult
from vtare.campaign.store import Store
from vtare.campaign.verify import verify
from vtare.cli import campaigns
from vtare.errors import PlatformFailed
from vtare.plan.files import parse_plan
from vtare.plan.model import Plan
from vtare.platforms.guest import request
from vtare.platforms.guest.frames import Frame, Kind
from vtare.platforms.guest.instance import GuestFiles

pytestmark = pytest.mark.fault

Campaign = Callable[[Store], CampaignResult]
Command = Callable[..., subprocess.CompletedProcess[str]]

#: A command that takes longer hangs.
LIMIT_S: Final = 120.0
FAULTS: Final = int(os.environ.get("VTARE_FAULTS", "3"))
TWO_HOSTS: Final = Path(__file__).parents[1] / "two_hosts.toml"
SEED: Final = int(os.environ.get("VTARE_FAULT_SEED", "20261126"))


def _unwritten(store: Path) -> tuple[Path, list[str], list[str]]:
    """In place of a report: nothing is written."""
    return store, [], []


class Lab:
    """The lab's commands on one store, as processes, and what the faults of its helpers need."""

    def __init__(
        self, place: Path, fake: Any, campaign: Campaign, command: Command, undo: ExitStack, *, reports: bool
    ) -> None:
        self.store, self.plan = place / "store", place / "plan.toml"
        self.fake, self.campaign, self.command, self.undo = fake, campaign, command, undo
        self.patch = undo.enter_context(pytest.MonkeyPatch.context())
        self.reports = reports
        if not reports:
            undo.enter_context(pytest.MonkeyPatch.context()).setattr(
                campaigns, "_write_report", lambda store: (store, [], [])
            )

    def start(self, *words: str, before: Callable[[], None] | None = None, code: str = "pass") -> subprocess.Popen[str]:
        """A command, in a process that a call prepares, behind some code of its own."""
        code += (
            ""
            if self.reports
            else "\nfrom vtare.cli import campaigns\ncampaigns._write_report = lambda at: (at, [], [])"
        )
        line = [sys.executable, "-c", f"{code}\nfrom vtare.cli import main\nmain()", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, preexec_fn=before)

    def run(self, *words: str) -> tuple[int, str]:
        """A command in this process, which has loaded all modules."""
        signal.alarm(int(LIMIT_S))
        try:
            done = self.command(*words)
        finally:
            signal.alarm(0)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    def begin(self) -> tuple[str, ...]:
        return ("run", str(self.plan), "--store", str(self.store), "--binary", str(self.fake.path), "--seed", "7")

    def resume(self) -> tuple[str, ...]:
        return ("resume", str(self.store), "--binary", str(self.fake.path))

    def anew(self, draw: random.Random, code: str = "pass") -> subprocess.Popen[str]:
        """A campaign in a store of its own that has gone on for some time."""
        shutil.rmtree(self.store)
        process = self.start(*self.begin(), code=code)
        time.sleep(draw.uniform(0.3, 4.0))
        return process


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a command that must end by itself, and what it prints."""
    out, err = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in err, err
    return process.returncode, out + err


def content(store: Path) -> dict[str, str]:
    """Each finished run of a store, by what its files hold."""
    found = {}
    for run in sorted((store / "runs").glob("[!.]*")):
        files = sorted(path for path in run.iterdir() if path.is_file())
        found[run.name] = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    return found


def a_file(draw: random.Random, store: Path) -> Path:
    return draw.choice(sorted(path for path in store.rglob("*") if path.is_file()))


def flip(draw: random.Random, lab: Lab) -> None:
    """One bit of one file is another one."""
    path = a_file(draw, lab.store)
    data = bytearray(path.read_bytes() or b"\0")
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def cut(draw: random.Random, lab: Lab) -> None:
    """A file is shorter than it was."""
    path = a_file(draw, lab.store)
    os.truncate(path, draw.randrange(path.stat().st_size + 1))


def lose(draw: random.Random, lab: Lab) -> None:
    """A file, or a run, is gone."""
    path = draw.choice([a_file(draw, lab.store), *sorted((lab.store / "runs").iterdir())])
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def strew(draw: random.Random, lab: Lab) -> None:
    """Something that is no run lies among them."""
    path = lab.store / "runs" / draw.choice([".tmp-0123456789abcdef", "0123456789abcdef", "note.txt"])
    path.mkdir()
    (path / "samples.parquet").write_bytes(draw.randbytes(64))


def kill(draw: random.Random, lab: Lab) -> None:
    """SIGKILL at any time of a campaign."""
    process = lab.anew(draw)
    process.kill()
    process.communicate(timeout=LIMIT_S)


def interrupt(draw: random.Random, lab: Lab) -> None:
    """A signal that asks for the end, at any time."""
    process = lab.anew(draw)
    process.send_signal(draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
    code, said = ended(process)
    assert code in (0, 130, -signal.SIGHUP, -signal.SIGTERM, -signal.SIGINT), said


def child(draw: random.Random, lab: Lab) -> None:
    """The instrument, or the load beside it, is killed."""
    process = lab.anew(draw)
    for file in (lab.fake.directory / "measuring.pid", *lab.fake.directory.glob("load-*.pid")):
        with suppress(OSError, ValueError):
            pid = int(file.read_text() or file.stem.removeprefix("load-"))
            if str(lab.fake.path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
    code, said = ended(process)
    assert code == 0 or "vtare" in said, said


def full(draw: random.Random, lab: Lab) -> None:
    """No file may grow above a few kB."""
    shutil.rmtree(lab.store)
    most = draw.randrange(1_000, 60_000)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    code, said = ended(lab.start(*lab.begin(), before=limit))
    assert code == 0 or ":" in said, said


def disk(draw: random.Random, lab: Lab) -> None:
    """A file system is full, and later is not."""
    place = lab.store.parent / "disk"
    place.mkdir()
    size = f"size={draw.randrange(16, 1200)}k"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", size, "vtare-test", place], capture_output=True).returncode:
        full(draw, lab)
        return
    lab.undo.callback(subprocess.run, ["umount", place], check=True)
    shutil.rmtree(lab.store)
    lab.store = place / "store"
    code, said = lab.run(*lab.begin())
    assert code == 0 or "No space left" in said or "vtare" in said, said
    subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)


#: Where control groups of version 1 bound the writes to a device, whoever writes.
WRITES: Final = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device")


def a_slow_disk(place: Path, write_per_s: int, undo: ExitStack) -> Callable[[], object] | None:
    """A file system on a device that takes few writes a second, and what ends that; none where none can be made."""
    image = place.with_suffix(".img")
    with image.open("wb") as file:
        file.truncate(16 << 20)
    if subprocess.run(["mkfs.ext4", "-qF", image], capture_output=True, check=False).returncode:
        return None
    loop = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
    if loop.returncode:
        return None
    device = Path(loop.stdout.strip())
    undo.callback(subprocess.run, ["losetup", "--detach", device], check=True)
    number = Path("/sys/block", device.name, "dev").read_text("ascii").strip()
    place.mkdir()
    if not WRITES.exists() or subprocess.run(["mount", device, place], capture_output=True, check=False).returncode:
        return None
    undo.callback(subprocess.run, ["umount", place], check=True)
    _write(WRITES, f"{number} {write_per_s}")
    fast = partial(_write, WRITES, f"{number} 0")
    undo.callback(fast)
    return fast


def slow(draw: random.Random, lab: Lab) -> None:
    """The disk takes a few writes a second; half of the time the lab is killed at it.

    Where no such disk can be made, everything that is brought to the disk takes up to half a second.
    """
    place, before = lab.store.parent / "slow", "pass"
    fast = a_slow_disk(place, draw.randrange(20, 200), lab.undo)
    if fast is None:
        pause = f"time.sleep(random.random() * {draw.uniform(0.02, 0.5)})"
        before = f"import os, random, time\nreal = os.fsync\nos.fsync = lambda file: ({pause}, real(file))[1]"
    else:
        shutil.copytree(lab.store, place / "store")
        lab.store = place / "store"
    process = lab.anew(draw, before)
    if draw.random() < 0.5:
        process.kill()
        process.communicate(timeout=LIMIT_S)
    else:
        code, said = ended(process)
        assert code == 0, said
    if fast is not None:
        fast()


def read_only(draw: random.Random, lab: Lab) -> None:
    """A store that nobody may write to is named, and shown."""
    lose(draw, lab)
    if subprocess.run(["mount", "--bind", lab.store, lab.store], capture_output=True).returncode:
        return
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", lab.store], check=True)
        before = content(lab.store)
        code, said = lab.run(*lab.resume())
        assert code != 0, said
        assert "Read-only file system" in said or "read-only" in said or "vtare" in said, said
        lab.run("status", str(lab.store))
        assert content(lab.store) == before
    finally:
        subprocess.run(["umount", lab.store], check=True)


@contextmanager
def memory(byte: int) -> Iterator[Callable[[], None]]:
    """What a process calls to have no more memory than that, with all that it starts: a control group, or a limit."""
    for place, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        group = Path("/sys/fs/cgroup") / place / f"vtare-fault-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / name).exists():
                (group / name).write_text(str(byte))
                # 0 is the process that writes.
                yield partial(_write, group / "cgroup.procs", "0")
                return
        finally:
            _remove(group)
    yield partial(resource.setrlimit, resource.RLIMIT_AS, (8 * byte, 8 * byte))


def _remove(group: Path) -> None:
    """Remove a control group. What loses its lab ends a moment after it; what is there after that is left over."""
    end = time.monotonic() + 10.0
    while time.monotonic() < end:
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)
    left = [Path(f"/proc/{pid}/cmdline").read_text() for pid in (group / "cgroup.procs").read_text().split()]
    raise AssertionError(f"left in {group}: {left}")


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def small(draw: random.Random, lab: Lab) -> None:
    """There is too little memory, at any time: the kernel ends the lab or what it started."""
    shutil.rmtree(lab.store)
    with memory(draw.randrange(8, 160) << 20) as before:
        process = lab.start(*lab.begin(), before=before)
        _, err = process.communicate(timeout=LIMIT_S)
    if process.returncode >= 0:
        # Memory that runs out while modules are loaded is Python's own error: there is no lab yet.
        assert "Traceback" not in err or "MemoryError" in err or "ImportError" in err, err


def clock(draw: random.Random, lab: Lab) -> None:
    """The clock of the day is set, forwards or backwards, while a campaign runs."""
    after, step = draw.uniform(0.2, 2.0), draw.choice([-1, 1]) * 10 ** draw.uniform(0.0, 7.5)
    now = f"real() + ({step} if time.monotonic() - began > {after} else 0.0)"
    process = lab.anew(draw, f"import time\nreal, began = time.time, time.monotonic()\ntime.time = lambda: {now}")
    code, said = ended(process)
    assert code == 0, said


def delete(draw: random.Random, lab: Lab) -> None:
    """The store is deleted under a campaign."""
    process = lab.anew(draw)
    shutil.rmtree(lab.store, ignore_errors=True)
    code, said = ended(process)
    assert code == 0 or "store" in said, said
    shutil.rmtree(lab.store, ignore_errors=True)


def journal(draw: random.Random, lab: Lab) -> None:
    """Some of the journal's bytes are others, or it is shorter."""
    path = lab.store / "journal.sqlite"
    data = bytearray(path.read_bytes())
    begin = draw.randrange(len(data))
    if draw.random() < 0.3:
        del data[begin:]
    else:
        piece = draw.randbytes(min(draw.randrange(1, 5000), len(data) - begin))
        data[begin : begin + len(piece)] = piece
    path.write_bytes(data)


def edit(draw: random.Random, lab: Lab) -> None:
    """The plan in the store is another one."""
    path = lab.store / "plan.toml"
    text = path.read_text()
    old, new = draw.choice([("300", "301"), ("blocks", "stages"), ("spin", "usleep"), ("tiny", "other"), ("0 ms", "x")])
    path.write_text(draw.choice([text.replace(old, new), text + "\n# seen\n", text * 2, ""]))


def two(draw: random.Random, lab: Lab) -> None:
    """Two labs want one store: one goes on, the other names why it does not."""
    first = lab.anew(draw)
    code, said = lab.run(*lab.resume())
    assert code == 0 or "vtare" in said or not lab.store.exists(), said
    ended(first)


#: What the responder or a capture does wrong: the daemon is killed, cannot start, is silent; its file is garbage.
HELPERS: Final = [
    ("serve", how) for how in ("dies", "fails", "cannot", "mute")
] + [
    ("capture", f"{how}:{side}")
    for how in ("dies", "fails", "cannot", "mute", "garbage")
    for side in ("sender", "responder")
]  # fmt: skip


def peer(draw: random.Random, lab: Lab) -> None:
    """The responder, or a capture beside it, vanishes in mid run; the campaign goes on once it is back."""
    what, how = draw.choice(HELPERS)
    if how.startswith("mute"):
        lab.patch.setattr(children, "READY_S", 1.0)
    text = TWO_HOSTS.read_text("utf-8").replace("blocks = 3", "blocks = 1").replace(', "docker"', "")
    place = lab.store.with_name("two")
    lab.fake.behave(**{what: how})
    with Store.create(place, parse_plan(text, source=TWO_HOSTS), draw.randrange(1000)) as store:
        first = lab.campaign(store)
        assert first.failed + first.skipped > 0
        assert not list((place / "runs").glob(".tmp-*"))
    lab.patch.undo()
    lab.fake.behave()
    with Store.open(place) as store:
        again = lab.campaign(store)
        assert (again.failed, again.skipped) == (0, 0)
    assert verify(place).sound


def garbage(draw: random.Random, lab: Lab) -> None:
    """A guest's agent sends anything, cut anywhere, or is gone."""
    lab.patch.setattr(request, "ANSWER_S", 0.3)

    def answer(frame: Frame) -> bytes:
        frames = [
            Frame(draw.choice(list(Kind)), draw.choice([frame.job, draw.randrange(2**32)]), draw.randbytes(90))
            for _ in range(draw.randrange(4))
        ]
        line = draw.randbytes(draw.randrange(60)) + on_the_line(frames)
        return line[: draw.randrange(len(line) + 1)]

    place = lab.store.with_name("from-guest")
    place.mkdir()
    hello = draw.choice([None, b"", b"{}", b"[", draw.randbytes(50)])
    with guest(answer, hello=hello) as agent:
        for step in (lambda: agent.hello(0.3), agent.facts, lambda: GuestFiles(agent).fetch(place, {"a": 1000})):
            with suppress(PlatformFailed):
                step()
    assert [path.name for path in place.iterdir()] in ([], ["a"])


KINDS: Final = (
    kill, disk, peer, flip, cut, lose, strew, interrupt, full, two, slow, read_only, child, small, clock, delete,
    journal, edit, garbage,
)  # fmt: skip


@pytest.mark.parametrize("number", range(FAULTS))
@pytest.mark.usefixtures("fake_hosts")
def test_a_fault_loses_nothing_and_leaves_a_way_out(
    tmp_path: Path,
    eight_runs: Path,
    tiny_plan: Plan,
    fake: Any,
    run_campaign: Campaign,
    lab_command: Command,
    number: int,
) -> None:
    # Each kind comes up in turn, so that few faults are of many kinds.
    kind = KINDS[number % len(KINDS)]
    draw = random.Random(SEED * 1_000_003 + number)
    with ExitStack() as undo:
        # A report takes longer than all else; faults around it have tests of their own.
        lab = Lab(tmp_path, fake, run_campaign, lab_command, undo, reports=draw.random() < 0.05)
        lab.plan.write_text(tiny_plan.text.replace("blocks = 2", "blocks = 1"))
        shutil.copytree(eight_runs, lab.store)
        one_fault(kind, draw, lab)


def one_fault(kind: Callable[[random.Random, Lab], None], draw: random.Random, lab: Lab) -> None:
    """A fault in a finished store, what must hold after it, and the campaign to its end."""
    before = content(lab.store)
    kind(draw, lab)
    if not lab.store.exists():
        # It ended before there was a store: the name is free.
        code, said = lab.run(*lab.begin())
        assert code == 0, said
        return
    after = content(lab.store)
    untouched = {run: held for run, held in before.items() if after.get(run) == held}
    code, said = lab.run(*lab.resume())
    if code != 0:
        # What cannot go on names the way out: a repair, another copy of the plan or the design, or a new store.
        assert "vtare" in said, (kind.__doc__, said)
        lab.run("verify", str(lab.store), "--repair")
        code, said = lab.run(*lab.resume())
        assert code == 0 or "vtare" in said, (kind.__doc__, said)
    kept = content(lab.store)
    assert {run: kept.get(run) for run in untouched} == untouched, (kind.__doc__, said)
    if code == 0:
        assert sorted(path.name for path in (lab.store / "runs").glob(".tmp-*")) == [], (kind.__doc__, said)
        assert verify(lab.store).sound, kind.__doc__
