"""Counter programs in other languages: built once, laid beside the runs that call for them, and kept by no store."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from vtare.campaign.executor import Campaign
from vtare.campaign.one_host import OneHostSetup
from vtare.campaign.programs import BROUGHT_MEMORY_BYTE, CounterPrograms, language_of, room_for
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.design import Run, make_design
from vtare.errors import MachineCannot
from vtare.plan.files import parse_plan
from vtare.platforms.protocol import DEFAULT_RESOURCES, Resources

PLAN = """
schema = "vtare.plan/1"
name = "languages"
question = "Which language runs evenly?"
blocks = 2
settle = "0 ms"

[[experiment]]
name = "counter"
instrument = "counter"
parameters = { batches = 10, calls = 3, max_exponent = 1, unit_ms = "0.05 ms" }

[experiment.factors]
language = ["rust", "c", "java"]
"""


LAB = """
[platforms.lab]
kind = "qemu"
"""
PLACE = Path("languages.toml")


def run_of(language: str, **parameters: object) -> Run:
    plan = parse_plan(PLAN, source=PLACE)
    found = next(run for run in make_design(plan, 1) if run.factors["language"] == language)
    found.parameters.update(parameters)
    return found


def journal(store: Path) -> list[tuple[str, str | None]]:
    with sqlite3.connect(store / "journal.sqlite") as connection:
        return connection.execute("SELECT status, reason FROM runs").fetchall()


def campaign(tmp_path: Path, fake: Any) -> Path:
    path = tmp_path / "store"
    plan = parse_plan(PLAN, source=PLACE)
    with Store.create(path, plan, 1) as store, StopRequest() as stop:
        Campaign(store, fake.path, stop).run()
    return path


def test_each_language_is_built_once_and_no_store_keeps_its_program(tmp_path: Path, fake: Any) -> None:
    store = campaign(tmp_path, fake)
    assert [status for status, _ in journal(store)] == ["done"] * 6
    assert sorted((fake.directory / "built").read_text().split()) == ["c", "java"]
    assert list(store.rglob("counter-program")) == []


def test_a_language_that_cannot_be_built_is_skipped_with_the_command_that_installs_it(
    tmp_path: Path, fake: Any
) -> None:
    fake.behave(unbuildable="java")
    rows = journal(campaign(tmp_path, fake))
    assert sorted(status for status, _ in rows) == ["done"] * 4 + ["skipped"] * 2
    reasons = {reason for status, reason in rows if status == "skipped"}
    assert reasons == {"language java: found no compiler; install one with `apt-get install it`"}


def python_run() -> Run:
    run = run_of("java")
    run.parameters["language"] = "python"
    return run


def test_instances_with_nothing_but_the_static_binary_run_c_and_java_only(tmp_path: Path, fake: Any) -> None:
    programs = CounterPrograms(fake.path)
    for language in ("c", "java"):
        with programs.beside(run_of(language), "docker", "docker", tmp_path) as placed:
            assert Path(placed.parameters["program"]).stat().st_mode & 0o100
    with (
        pytest.raises(MachineCannot, match=r"language python on platform docker: .* host, netns, .*ssh, cloud"),
        programs.beside(python_run(), "docker", "docker", tmp_path),
    ):
        pass
    assert list(tmp_path.glob("counter-program")) == []


def test_java_brings_its_virtual_machine_to_all_but_instances_with_the_programs_of_this_machine(
    tmp_path: Path, fake: Any
) -> None:
    programs = CounterPrograms(fake.path)
    for kind in ("host", "netns", "lxc", "qemu", "ssh", "cloud"):
        with programs.beside(run_of("java"), kind, kind, tmp_path):
            pass
    assert (fake.directory / "built").read_text().split() == ["java", "java+runtime"]


def test_a_guest_whose_memory_no_one_chose_gets_enough_for_java(tmp_path: Path, fake: Any) -> None:
    java, chosen = run_of("java"), Resources(memory_byte=96 << 20)
    for kind in ("qemu", "xen"):
        assert room_for(java, kind, DEFAULT_RESOURCES) == Resources(memory_byte=BROUGHT_MEMORY_BYTE)
    for run, kind, resources in (
        (run_of("c"), "qemu", DEFAULT_RESOURCES),
        (java, "host", DEFAULT_RESOURCES),
        (java, "docker", DEFAULT_RESOURCES),
        (java, "qemu", chosen),
    ):
        assert room_for(run, kind, resources) is resources
    with (
        pytest.raises(MachineCannot, match="has 96 MiB of memory, its virtual machine needs 256 MiB"),
        CounterPrograms(fake.path).beside(java, "qemu", "qemu", tmp_path, chosen.memory_byte),
    ):
        pass
    java.factors["platform"] = "lab"
    setup = OneHostSetup(fake.path, "vtare-1-1", {"lab": {"kind": "qemu"}})
    experiment = parse_plan(PLAN.replace('["rust", "c", "java"]', '["java"]\nplatform = ["lab"]') + LAB, source=PLACE)
    assert setup.wanted(java, experiment.experiments[0]).resources.memory_byte == BROUGHT_MEMORY_BYTE


def test_a_program_that_the_plan_names_is_left_alone(tmp_path: Path, fake: Any) -> None:
    run = run_of("java", program="/opt/counter.jar")
    with CounterPrograms(fake.path).beside(run, "docker", "docker", tmp_path) as placed:
        assert placed is run


def test_only_the_counter_has_languages() -> None:
    assert language_of("counter", {"language": "java"}) == "java"
    assert language_of("counter", {"language": "rust"}) is None
    assert language_of("counter", {}) is None
    assert language_of("timer", {}) is None
