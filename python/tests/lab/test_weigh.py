"""What `vtare weigh` makes of runs on platforms: the order, the sentences, the screen and the limits."""

from __future__ import annotations

import html
import io
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import jsonschema
import numpy as np
import pytest
from rich.console import Console
from simulated_reasons import explained
from simulated_weighing import Planted, outcome_of, weighed

from vtare.ab.commands import Command
from vtare.ab.compare import Asked, compare
from vtare.ab.readings import Reading
from vtare.ab.trials import MachineTime, Measured
from vtare.cli.options import Size
from vtare.errors import BadInput, MachineCannot
from vtare.platforms.host import work_directory
from vtare.records.schema import schemas
from vtare.sentences import weigh as wording
from vtare.terminal.weigh import show_weighed
from vtare.weigh import group, layer
from vtare.weigh.page import weighed_page
from vtare.weigh.runner import FIGURES, MEMORY, OUTSIDE, START, STOP, WHOLE
from vtare.weigh.verdict import (
    answer,
    document,
    ranked,
    read_platform_limit,
    rows,
)
from vtare.weigh.weighing import OfCommand, Weighed, names_of, read_platforms
from vtare.weigh.why import Why

SCREEN = Path(__file__).parents[1] / "screens/weigh.txt"
TRIALS = 400


class Alike(Planted):
    """The same on every platform, each figure with a noise of its own."""

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        took = {name: Reading(name, (1e6 * self._noisy(),)) for name in (START, WHOLE, STOP, OUTSIDE, MEMORY)}
        run = Measured(
            begin_ns=0, wall_ns=1e8 * self._noisy(), user_ns=5e7 * self._noisy(), system_ns=0,
            most_resident_byte=int(9e6 * self._noisy()), least_byte=3_000_000, readings=took,
        )  # fmt: skip
        return [run], MachineTime(None, None, None, None, 1)


def test_the_cheapest_platform_is_named_where_its_interval_is_apart() -> None:
    result = weighed({"host": 1.0, "gvisor": 2.1, "bubblewrap": 1.0, "podman": 1.2})
    assert result.compared is not None
    assert [result.compared.commands[one.command].text for one in ranked(result.compared)] == [
        "bubblewrap",
        "podman",
        "gvisor",
    ]
    text = answer(result)
    assert text.startswith("bubblewrap costs least: against the host the same within 5 %; podman ")
    assert "gvisor 2.11\N{MULTIPLICATION SIGN} the time" in text


@pytest.mark.parametrize(("factor", "words"), [(0.8, "20 % faster"), (1.3, "30 % slower"), (1.0, "same within 5 %")])
def test_a_single_platform_has_its_cost(factor: float, words: str) -> None:
    assert words in answer(weighed({"host": 1.0, "nspawn": factor}, noise=0.0005))


def test_platforms_whose_intervals_overlap_are_too_close_to_call() -> None:
    text = answer(weighed({"host": 1.0, "nspawn": 1.2, "bubblewrap": 1.2, "gvisor": 3.0}))
    assert text.startswith("Too close to call between ")
    assert "gvisor" not in text.partition(".")[0]


def test_too_few_runs_give_no_order_and_no_cost() -> None:
    result = weighed({"host": 1.0, "nspawn": 1.5, "podman": 1.0}, rounds=3)
    assert answer(result).startswith("Too close to call between ")
    assert "Against the host" not in answer(result)
    assert document(outcome_of(result))["answer"]["status"] == "open"


def test_the_screen_of_80_columns_is_as_agreed() -> None:
    result = weighed({"host": 1.0, "gvisor": 2.1, "bubblewrap": 1.01, "podman": 1.2})
    reasons = Why({}, (explained("gvisor"),), {"podman": "not enough time was left. Raise --max-time"})
    result = Weighed(
        result.compared,
        {"docker": "no Docker daemon"},
        {"nspawn": "sh: job: not found"},
        frozenset({"gvisor"}),
        reasons,
        "debian:13",
    )
    out = io.StringIO()
    console = Console(file=out, width=80, highlight=False, markup=False)
    show_weighed(console, result)
    # How long it took is not planted.
    lines = ["ROUNDS" if " rounds in " in line else line for line in out.getvalue().splitlines()]
    if os.environ.get("VTARE_BLESS"):
        SCREEN.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == SCREEN.read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= 80


def test_memory_below_that_of_the_measuring_program_is_no_value() -> None:
    result = weighed({"host": 1.0, "nspawn": 1.0}, rounds=8, peak=3_100_000)
    runs = [run for one in document(outcome_of(result))["platforms"] for run in one["runs"]]
    assert {run["peak memory"] for run in runs} == {None}
    assert {run["memory in all"] for run in runs} == {4e6, 6e6}
    assert all((run["wall time"] or 0) > 0 for run in runs)


def test_a_limit_of_a_platform_is_crossed_not_crossed_or_open() -> None:
    names = ["host", "gvisor", "docker"]
    result = weighed({"host": 1.0, "gvisor": 2.1})
    texts = ("gvisor wall slower by 20 %", "gvisor wall slower by 200 %", "gvisor start slower", "docker wall slower")
    limits = [read_platform_limit(text, names) for text in texts]
    assert [limit.state(result) for limit in limits] == ["crossed", "not crossed", "crossed", "open"]
    reasons = Why({"system call": 10_000.0}, (explained("gvisor"),))
    result = Weighed(result.compared, {}, {}, frozenset(), reasons)
    shown = document(outcome_of(result, limits))
    jsonschema.validate(shown, schemas()["vtare.weigh/1"])
    assert shown["limits"][0] == {"text": texts[0], "state": "crossed"}


def test_the_page_shows_what_the_screen_shows_and_carries_out_nothing() -> None:
    result = weighed({"host": 1.0, "gvisor": 2.1, "bubblewrap": 1.0})
    assert result.compared is not None
    result = replace(
        result, refused={"nspawn": "sh: <b>job</b>: not found"}, why=Why({}, (explained("gvisor", noise=0.001),), {})
    )
    hostile = Command(("job",), "job <script>alert(1)</script>")
    page = weighed_page(outcome_of(result, command=hostile))
    assert "<script>alert(1)" not in page
    assert "<b>job</b>" not in page
    shown = html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\u00a0", " ")
    for line in rows(result):
        for cell in line:
            assert cell in shown, (line, cell)
    assert answer(result) in shown
    for text in (wording.EVENTS["system call"][1], wording.NOT_EXPLAINED, "sh: <b>job</b>: not found"):
        assert text in shown


def test_runs_end_once_the_limits_of_wall_time_are_decided() -> None:
    factors = {"host": 1.0, "gvisor": 2.1, "docker": 1.0}
    limit = read_platform_limit("gvisor wall slower by 20 %", list(factors))
    assert limit.is_watched
    words = {"memory": MEMORY, "peak": "peak memory"}
    named = {word: read_platform_limit(f"docker {word} higher by 20 %", list(factors)).figure for word in words}
    assert named == words
    assert not read_platform_limit("gvisor start slower by 20 %", list(factors)).is_watched
    names, pairs = [Command((name,), name) for name in factors], []
    for asks_margin in (True, False):
        asked = Asked(
            design="interleaved", most_pairs=200, limits=(OfCommand(limit.limit, 1),), asks_margin=asks_margin
        )
        compared = compare(Planted(factors), names, FIGURES, asked, rng=np.random.default_rng(2))
        assert limit.state(Weighed(compared, {}, {}, frozenset())) == "crossed"
        pairs.append(len(compared.pairs))
    # That docker costs nothing takes longer to show, and nobody asked for it.
    assert pairs[0] > pairs[1]


@pytest.mark.parametrize(
    "text", ["slower", "xen wall slower", "host wall slower", "gvisor weight slower", "gvisor wall by 5 %"]
)
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is no limit"):
        read_platform_limit(text, ["host", "gvisor"])


@pytest.mark.thorough
def test_the_host_beside_itself_differs_no_more_often_than_stated() -> None:
    """Wall time: in at most 5 of 100 comparisons on any platform; every other figure of a platform: in 5 of 100."""
    names = ("host", "host (2)", "host (3)", "host (4)")
    commands, asked = [Command((name,), name) for name in names], Asked(design="interleaved", most_pairs=24)
    wall, others = [], []
    for seed in range(TRIALS):
        runner = Alike(dict.fromkeys(names, 1.0), noise=0.05, seed=seed)
        compared = compare(runner, commands, FIGURES, asked, rng=np.random.default_rng(seed))
        wall.append(any(one.is_different for one in compared.primary))
        others += [one.is_different for one in compared.others]
    # What 5 % of these trials are, but for 1 case in 1000.
    assert np.mean(wall) <= 0.05 + 3.1 * np.sqrt(0.05 * 0.95 / TRIALS)
    assert 0.03 <= np.mean(others) <= 0.07


def test_platforms_are_read_with_the_host_in_front() -> None:
    assert read_platforms("gvisor, nspawn") == ["host", "gvisor", "nspawn"]
    assert names_of(read_platforms("host,host")) == ["host", "host (2)"]
    assert read_platform_limit("host (2) wall slower", ["host", "host (2)"]).platform == "host (2)"
    with pytest.raises(BadInput, match="'qemo' is no platform"):
        read_platforms("host,qemo")


def test_a_control_group_counts_and_ends_what_was_started_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "_ROOTS", (tmp_path / "none", tmp_path))
    monkeypatch.setattr(group, "_MEMORY", tmp_path / "none")
    monkeypatch.setattr(group, "_SYSTEMD", tmp_path / "systemd")
    monkeypatch.setattr(group, "_EMPTY_S", 0.05)
    monkeypatch.setattr(group, "kernel_text", _kernel_text)
    (tmp_path / "cgroup.controllers").touch()
    made = group.Group(3)
    (place,) = tmp_path.glob("vtare-*-weigh-group-3")
    assert made.used_ns() is None
    (place / "cpu.stat").write_text("usage_usec 1500\nuser_usec 1000\n")
    assert made.used_ns() == 1_500_000
    with made.around_start():
        assert (place / "cgroup.procs").read_text() == str(os.getpid())
    assert (tmp_path / "cgroup.procs").read_text() == str(os.getpid())
    # Whoever was interrupted inside has left it before it is removed.
    interrupted = group.Group(5)
    (tmp_path / "cgroup.procs").write_text("")
    inside = interrupted.around_start()
    inside.__enter__()
    # What systemd-nspawn made goes as well.
    again = tmp_path / "systemd" / next(tmp_path.glob("*-5")).name
    (again / "payload").mkdir(parents=True)
    assert again.name in [one.name for one in group.leftovers()]
    with monkeypatch.context() as here:
        # Which would write a file, and none is in a directory that the kernel removes.
        here.setattr(group, "_kill", lambda place: None)
        interrupted.close()
    assert not again.exists()
    assert (tmp_path / "cgroup.procs").read_text() == str(os.getpid())
    shutil.rmtree(next(tmp_path.glob("*-5")))
    # While it holds this process, nothing in it is killed.
    made.end()
    assert not (place / "cgroup.kill").exists()
    (place / "cgroup.procs").write_text("")
    made.end()
    assert (place / "cgroup.kill").read_text() == "1"
    assert [one.name for one in group.leftovers()] == [place.name]
    assert "still runs" in str(group.leftovers()[0].kept_because)
    monkeypatch.setattr(group, "_ROOTS", (tmp_path / "none",))
    without = group.Group(4)
    with without.around_start():
        pass
    without.end()
    without.close()
    assert (without.used_ns(), group.leftovers()) == (None, ())


def test_memory_is_limited_by_either_version_of_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second, first = tmp_path / "unified", tmp_path / "memory"
    second.mkdir()
    first.mkdir()
    (second / "cgroup.controllers").touch()
    monkeypatch.setattr(group, "_ROOTS", (second,))
    monkeypatch.setattr(group, "_MEMORY", first)
    monkeypatch.setattr(group, "_EMPTY_S", 0.05)
    monkeypatch.setattr(group, "kernel_text", _kernel_text)
    group.Group(1, 5_000_000)
    assert (second / "cgroup.subtree_control").read_text() == "+memory"
    assert [one.read_text() for one in second.glob("vtare-*/memory.max")] == ["5000000"]
    # Where version 1 has the memory, the CPU time is counted in version 2 all the same.
    (first / "memory.limit_in_bytes").touch()
    (first / "own").mkdir()
    both = group.Group(2, 6_000_000)
    (place,) = first.glob("vtare-*")
    assert (place / "memory.limit_in_bytes").read_text() == "6000000"
    with both.around_start():
        assert [(one / "cgroup.procs").read_text() for one in (place, *second.glob("*-2"))] == [str(os.getpid())] * 2
    assert (first / "own/cgroup.procs").read_text() == (second / "cgroup.procs").read_text() == str(os.getpid())
    assert len(group.leftovers()) == 3
    monkeypatch.setattr(group, "_ROOTS", ())
    monkeypatch.setattr(group, "_MEMORY", tmp_path / "none")
    with pytest.raises(MachineCannot, match="cannot keep --memory"):
        group.Group(3, 5_000_000)


@pytest.mark.parametrize("version", [1, 2])
def test_memory_is_counted_from_what_was_there_in_either_version(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, first = tmp_path / "unified", tmp_path / "memory"
    for path in (second, first / "own"):
        path.mkdir(parents=True)
    (second / "cgroup.controllers").touch()
    if version == 1:
        (first / "memory.limit_in_bytes").touch()
    monkeypatch.setattr(group, "_ROOTS", (second,))
    monkeypatch.setattr(group, "_MEMORY", first)
    monkeypatch.setattr(group, "kernel_text", _kernel_text)
    made = group.Group(1)
    # No such file: a kernel that does not count it.
    with made.most_memory() as risen:
        assert risen() is None
    peak, now = ("max_usage_in_bytes", "usage_in_bytes") if version == 1 else ("peak", "current")
    (place,) = (first if version == 1 else second).glob("vtare-*")
    (place / f"memory.{peak}").write_text("9000000")
    (place / f"memory.{now}").write_text("1000000")
    with made.most_memory() as risen:
        assert (place / f"memory.{peak}").read_text().startswith("0")
        (place / f"memory.{peak}").write_text("5000000")
        assert risen() == 4_000_000


@pytest.mark.parametrize("size", ["0", "many", "5 ms"])
def test_what_is_no_size_is_refused(size: str) -> None:
    with pytest.raises(click.exceptions.BadParameter):
        Size().convert(size, None, None)
    assert Size().convert("1.5 GiB", None, None) == 3 << 29


def _kernel_text(name: str) -> str | None:
    if name == "proc/self/cgroup":
        return "4:memory:/own\n0::/\n"
    return Path(name).read_text() if Path(name).exists() else None


def test_directories_of_killed_runs_are_removed_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(layer, "leftovers", tuple)
    # No process has so high a number.
    (tmp_path / "vtare-99999999-1-work-a" / "out0").mkdir(parents=True)
    with work_directory() as own:
        layer.remove_leftovers()
        assert [str(path) for path in tmp_path.iterdir()] == [own]
