"""Real kills: `kill -9` on the lab in every phase, Ctrl-C once and twice. Nothing here is simulated but the binary."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vtare.campaign.journal import Journal
from vtare.campaign.results import CampaignResult
from vtare.campaign.store import Store
from vtare.plan.model import Plan

pytestmark = pytest.mark.fault

Run = Callable[[Store], CampaignResult]

CRASHING = """
import os, signal, sys
from pathlib import Path
from vtare.campaign.executor import Campaign
from vtare.campaign.files import Files
from vtare.campaign.journal import Journal
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.plan.files import load_plan

operation, moment, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
plan, store, binary = (Path(a) for a in sys.argv[4:])

def die(name):
    global left
    if name == operation:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

def deadly(cls, method):
    def wrapped(*args, **kw):
        if moment == "before":
            die(method)
        if moment == "half" and method == operation:
            if left == 0:
                args[1].write_bytes(args[2][:7])
            die(method)
        result = getattr(cls, method)(*args, **kw)
        if moment == "after":
            die(method)
        return result
    return wrapped

class Deadly(Files):
    pass

for method in ("make_directory", "write", "sync_tree", "publish"):
    setattr(Deadly, method, deadly(Files, method))
Journal.record = deadly(type("J", (), {"record": Journal.record}), "record")

with Store.create(store, load_plan(plan), 7, files=Deadly()) as opened, StopRequest() as stop:
    Campaign(opened, binary, stop).run()
"""

#: Operation, moment, how many times it may pass first (the store's own making counts), runs that must be kept.
POINTS = [
    ("make_directory", "after", 3, 1),
    ("write", "half", 3, 1),
    ("write", "after", 3, 1),
    ("write", "half", 4, 1),
    ("write", "after", 4, 1),
    ("sync_tree", "before", 2, 1),
    ("publish", "before", 2, 1),
    ("publish", "after", 2, 1),
    ("record", "before", 1, 1),
    ("record", "after", 1, 2),
]


@pytest.mark.parametrize(("operation", "moment", "passes", "kept"), POINTS)
def test_kill_at_this_point_loses_at_most_the_running_cell(
    tmp_path: Path, tiny_plan: Plan, fake: Any, run_campaign: Run, operation: str, moment: str, passes: int, kept: int
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(tiny_plan.text.replace("blocks = 2", "blocks = 1"))
    store_path = tmp_path / "store"
    script = tmp_path / "crash.py"
    script.write_text(textwrap.dedent(CRASHING))
    command = [sys.executable, script, operation, moment, str(passes), plan, store_path, fake.path]
    killed = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    with Journal(store_path / "journal.sqlite", read_only=True) as journal:
        before = journal.entries()
    assert [entry.status for entry in before.values()] == ["done"] * kept
    inodes = {run_id: (store_path / "runs" / run_id).stat().st_ino for run_id in before}
    with Store.open(store_path) as store:
        result = run_campaign(store)
        assert result.done == 4
        assert result.removed_leftovers <= 1
        assert {entry.attempts for entry in store.journal.entries().values()} == {1}
        assert not list((store_path / "runs").glob(".tmp-*"))
    # Finished runs were not touched, let alone measured again.
    assert {run_id: (store_path / "runs" / run_id).stat().st_ino for run_id in before} == inodes


@pytest.mark.parametrize("operation", ["make_directory", "write", "sync_tree", "publish"])
def test_kill_while_the_store_is_made_leaves_no_store_and_the_name_free(
    tmp_path: Path, tiny_plan: Plan, fake: Any, operation: str
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(tiny_plan.text)
    script = tmp_path / "crash.py"
    script.write_text(textwrap.dedent(CRASHING))
    command = [sys.executable, script, operation, "before", "0", plan, tmp_path / "store", fake.path]
    killed = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "store").exists()
    Store.create(tmp_path / "store", tiny_plan, 7).__exit__(None, None, None)
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def start_lab(tmp_path: Path, plan: Plan, fake: Any) -> subprocess.Popen[bytes]:
    """Start `vtare-lab run` and return once its instrument hangs."""
    (tmp_path / "plan.toml").write_text(plan.text)
    command = [
        sys.executable, "-m", "vtare.cli", "run", tmp_path / "plan.toml",
        "--store", tmp_path / "store", "--binary", fake.path, "--seed", "7",
    ]  # fmt: skip
    lab = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until((fake.directory / "hanging").exists)
    return lab


def wait_until(happened: Callable[[], bool], limit_s: float = 30.0) -> None:
    deadline = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A killed orphan may stay a zombie where nobody reaps it (a container without init).
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"


def children(fake: Any) -> list[int]:
    loads = [int(path.stem.removeprefix("load-")) for path in fake.directory.glob("load-*.pid")]
    return [*loads, int((fake.directory / "measuring.pid").read_text())]


def test_kill_during_a_run_takes_the_children_along_and_resume_goes_on(
    tmp_path: Path, tiny_plan: Plan, fake: Any, run_campaign: Run
) -> None:
    fake.behave(hang="spin")
    lab = start_lab(tmp_path, tiny_plan, fake)
    pids = children(fake)
    assert len(pids) == 2
    lab.kill()
    lab.communicate()
    wait_until(lambda: all(is_gone(pid) for pid in pids))
    assert len(list((tmp_path / "store" / "runs").glob(".tmp-*"))) == 1
    with Journal(tmp_path / "store" / "journal.sqlite", read_only=True) as journal:
        before = journal.entries()
    fake.behave()
    with Store.open(tmp_path / "store") as store:
        result = run_campaign(store)
        assert (result.done, result.removed_leftovers) == (8, 1)
        assert {run_id: store.journal.entries()[run_id] for run_id in before} == before


@pytest.mark.usefixtures("hangup_ends")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_stop_signal_ends_cleanly_and_states_how_to_go_on(
    tmp_path: Path, tiny_plan: Plan, fake: Any, number: signal.Signals
) -> None:
    fake.behave(hang="spin")
    lab = start_lab(tmp_path, tiny_plan, fake)
    lab.send_signal(number)
    out, err = lab.communicate(timeout=30)
    assert lab.returncode == 130
    assert out == b""
    assert f"resume with: vtare resume {tmp_path / 'store'}" in err.decode()
    assert b"Traceback" not in err
    # The load ended in order: it removed its own mark.
    assert not list(fake.directory.glob("load-*.pid"))
    assert not list((tmp_path / "store" / "runs").glob(".tmp-*"))


def test_second_stop_signal_forces_a_program_that_will_not_end(tmp_path: Path, tiny_plan: Plan, fake: Any) -> None:
    fake.behave(hang="spin", stubborn="spin")
    lab = start_lab(tmp_path, tiny_plan, fake)
    pids = children(fake)
    lab.send_signal(signal.SIGINT)
    # Signals of one kind merge while one is pending, so the second waits until the first was handled; nothing shows
    # that from outside but a signal number that is no longer pending.
    wait_until(lambda: not pending(lab.pid, signal.SIGINT))
    lab.send_signal(signal.SIGINT)
    # Far below the 10 s that a program is given to end by itself would be a timed assertion; that it ends at all, with
    # a program that ignores SIGTERM, is the point.
    lab.communicate(timeout=30)
    assert lab.returncode == 130
    wait_until(lambda: all(is_gone(pid) for pid in pids))


def pending(pid: int, number: signal.Signals) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(("SigPnd:", "ShdPnd:")) and int(line.split()[1], 16) >> (number - 1) & 1:
            return True
    return False
