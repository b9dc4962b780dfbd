"""Hostile input in a control group of little memory: refused, or read within it; the kernel ends nothing."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import polars as pl
import pytest
from machines import sleeps_plan

pytestmark = [pytest.mark.attack, pytest.mark.thorough, pytest.mark.e2e]

GROUPS: Final = Path("/sys/fs/cgroup")
MOST_BYTE: Final = 256 << 20
LARGE_BYTE: Final = 400 << 20


class Group:
    """A control group of `MOST_BYTE`, version 1 or 2."""

    def __init__(self) -> None:
        controlled = GROUPS / "cgroup.controllers"
        if os.geteuid() != 0:
            pytest.skip("control groups need root")
        if (GROUPS / "memory").is_dir():
            self._place, limit = GROUPS / "memory", "memory.limit_in_bytes"
        elif controlled.is_file() and "memory" in controlled.read_text().split():
            self._place, limit = GROUPS, "memory.max"
        else:
            pytest.skip("no control group of memory here")
        self._place /= f"vtare-memory-{os.getpid()}"
        self._place.mkdir()
        (self._place / limit).write_text(str(MOST_BYTE))

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """Carry out a command in the group."""
        script = f'echo $$ >{self._place}/cgroup.procs; exec "$@"'
        return subprocess.run(
            ["sh", "-c", script, "sh", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=200, check=False,
        )  # fmt: skip

    @property
    def kills(self) -> int:
        """How many processes of it the kernel ended for want of memory."""
        for name in ("memory.oom_control", "memory.events"):
            if (self._place / name).is_file():
                return int(dict(line.split() for line in (self._place / name).read_text().splitlines())["oom_kill"])
        raise AssertionError("no account of kills")

    def remove(self) -> None:
        """Remove it."""
        self._place.rmdir()


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    made = Group()
    yield made
    made.remove()


def sparse(path: Path, begin: bytes) -> Path:
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(LARGE_BYTE)
    return path


def rows(path: Path, columns: tuple[str, ...], count: int) -> Path:
    """A small file that unfolds to `count` rows."""
    frame = pl.DataFrame({name: pl.zeros(count, pl.Int64, eager=True) for name in columns})
    footer = {"schema": "vtare.samples/1", "run": {"instrument": "rtt"}, "result": {"cells": []}}
    frame.write_parquet(path, metadata={"vtare": json.dumps(footer)}, compression="zstd")
    assert path.stat().st_size < 4_000_000
    return path


def commands(place: Path, store: Path, binary: str) -> dict[str, list[str]]:
    """Name -> a command with hostile input."""
    ab = [binary, "ab", "-q", "--pairs", "6", "--design", "interleaved"]
    (place / "ones").write_text("1\n" * 8_000_000)
    (place / "array").write_text("[" + "1," * 7_900_000 + "1]")
    (place / "objects").write_text("[" + '{"a":[]},' * 1_700_000 + "{}]")
    capture = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 0xFFFFFFFF, 1) + struct.pack(
        "<IIII", 1, 0, 1 << 31, 1 << 31
    )
    bomb = rows(place / "bomb.parquet", ("flow", "sequence", "due_ns", "sent_ns", "received_ns"), 40_000_000)
    run_samples = next(store.glob("runs/*/samples.parquet"))
    rows(run_samples, ("index", "miss_ns"), 60_000_000)

    def twice(how: str, text: str) -> list[str]:
        return [*ab, "--metric", f"m={how}", "--", text, "--", text]

    return {
        "ab of 400 MB": twice("([0-9]+)", f"head -c {LARGE_BYTE} /dev/zero"),
        "ab of 400 MB of errors": twice("([0-9]+)", f"head -c {LARGE_BYTE} /dev/zero >&2"),
        "ab of 8 million numbers": twice("all:([0-9]+)", f"cat {place}/ones"),
        "ab of 8 million numbers of JSON": twice("json:[0]", f"cat {place}/array"),
        "ab of 1.7 million objects": twice("google-benchmark", f"cat {place}/objects"),
        "a baseline of 400 MB": [*ab, "--against", str(sparse(place / "base.json", b"{")), "--", "true"],
        "a plan of 400 MB": [binary, "plan", str(sparse(place / "plan.toml", b'schema = "'))],
        "hosts of 400 MB": [binary, "fleet", "check", str(sparse(place / "hosts.toml", b'schema = "'))],
        "samples of 40 million rows": [binary, "overhead", str(bomb), "--sender-capture", str(bomb)],
        "a store with 60 million rows": [binary, "verify", str(store)],
        "a report of 60 million rows": [binary, "report", str(store), "--format", "json"],
        "a run file of 400 MB": [binary, "measure", str(sparse(place / "run.json", b'{"schema": "'))],
        "peers of 400 MB": [binary, "rtt", "--peers", str(sparse(place / "peers", b"x"))],
        "a capture of 400 MB": [binary, "capture", "--read", str(sparse(place / "zeros.pcap", capture[:24]))],
        "a capture with a packet of 2 GB": [binary, "capture", "--read", str(sparse(place / "long.pcap", capture))],
    }  # fmt: skip


def test_hostile_input_in_a_group_of_256_mb_is_refused_or_read_within_it(
    group: Group, tmp_path: Path, vtare: Path, record_property: Callable[[str, object], None]
) -> None:
    wrong: dict[str, object] = {}
    (tmp_path / "small.toml").write_text(sleeps_plan(2, "0.1 s"))
    store = tmp_path / "store"
    subprocess.run([vtare, "run", "-q", tmp_path / "small.toml", "--store", store], check=True, timeout=200)
    made = commands(tmp_path, store, str(vtare))
    for name, words in made.items():
        before = group.kills
        done = group.run(words)
        told = re.sub(r"\s+", " ", done.stderr)[-300:]
        if group.kills != before or done.returncode not in (0, 1, 2, 3) or "Traceback" in done.stderr:
            wrong[name] = (done.returncode, group.kills - before, told)
        elif done.returncode != 0 and not (told + done.stdout).strip():
            wrong[name] = (done.returncode, "no reason")
    assert wrong == {}
    record_property("attack", f"ATTACK {len(made)} hostile inputs in a group of 256 MB: survived, none killed")
