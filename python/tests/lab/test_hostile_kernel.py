"""The lab over a /proc and a /sys that somebody else made: a container's, another kernel's, or none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vtare import kernel_files
from vtare.campaign.capacity import free_capacity
from vtare.campaign.surroundings import Surroundings
from vtare.doctor.machine import features
from vtare.doctor.ways import Ways
from vtare.kernel_files import capabilities, free_memory_byte, kernel_number, kernel_text

pytestmark = pytest.mark.attack

READ = (
    "proc/self/status", "proc/self/cgroup", "proc/meminfo", "proc/loadavg", "proc/stat", "proc/cpuinfo",
    "proc/sys/net/core/rmem_max", "proc/sys/kernel/pid_max", "proc/sys/kernel/threads-max",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "sys/devices/system/clocksource/clocksource0/available_clocksource",
)  # fmt: skip


def endless(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "empty": lambda path: path.touch(),
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 40),
    "no numbers": lambda path: path.write_text(f"{path.name} x y z\nCapEff: zz\nMemAvailable: many kB\n0:::\n"),
    "large numbers": lambda path: path.write_text(
        f"CapEff: {'f' * 400}\n{'9' * 5000}\nMemAvailable: {'9' * 5000} kB\n"
    ),
    "endless": endless,
    "a pipe": lambda path: os.mkfifo(path),
    "a directory": lambda path: path.mkdir(),
    "a link to nothing": lambda path: path.symlink_to("/nonexistent"),
}


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tree of which every file that the lab reads is of this kind."""
    for name in READ:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        HOSTILE[request.param](tmp_path / name)
    monkeypatch.setattr(kernel_files, "ROOT", tmp_path)
    return str(request.param)


def test_nothing_waits_nothing_fails_and_what_is_not_stated_is_none(hostile: str, fake: object) -> None:
    assert len(kernel_text("proc/stat") or "") <= 1 << 20
    assert kernel_number("proc/sys/kernel/pid_max") is None
    assert capabilities() >= 0
    assert free_memory_byte() >= 0
    assert free_capacity().processes > 0
    assert Surroundings().seen()["others_cores"] is None
    names = {one.name: one for one in features(fake.path, Ways())}  # type: ignore[attr-defined]
    assert names["a clock source that programs read without a system call"].lacks is not None


@pytest.mark.parametrize("version", [1, 2])
def test_files_that_a_group_holds_in_memory_are_no_memory_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    controller, total, limit, used = {
        1: ("memory", "total_", "memory.limit_in_bytes", "memory.usage_in_bytes"),
        2: ("", "", "memory.max", "memory.current"),
    }[version]
    group = tmp_path / "sys/fs/cgroup" / controller / "here"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{5 if controller else 0}:{controller}:/here\n")
    (group / limit).write_text("1000\n")
    (group / used).write_text("900\n")
    monkeypatch.setattr(kernel_files, "ROOT", tmp_path)
    assert free_memory_byte() == 100
    (group / "memory.stat").write_text(f"anon 5\n{total}inactive_file 300\n{total}active_file 20\n")
    assert free_memory_byte() == 420


def test_doctor_without_proc_names_the_command_that_mounts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab_command: Callable[..., Any], fake: Any
) -> None:
    monkeypatch.setattr(kernel_files, "ROOT", tmp_path)
    done = lab_command("doctor", "--binary", fake.path)
    assert done.returncode == 3
    assert "mount -t proc proc /proc" in done.stderr
