"""`vtare plan`: what a plan takes, and what is missing for it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vtare.campaign.allowance import expected_byte
from vtare.design import expected_run_s, make_design
from vtare.plan.files import parse_plan

Lab = Callable[..., Any]

PLAN = """
schema = "vtare.plan/1"
name = "two"
question = "?"
blocks = 3
control = true
[[experiment]]
name = "ways"
instrument = "sleep"
parameters = { target_ns = "1 ms", samples = 100, seconds = "1 s" }
factors = { platform = ["host", "esxi"], method = ["usleep", "spin"] }
[[experiment]]
name = "clocks"
instrument = "timer"
"""


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(PLAN, encoding="utf-8")
    return path


def test_plan_states_cells_runs_time_and_size_of_each_experiment(two: Path, lab_command: Lab) -> None:
    shown = lab_command("plan", two).stdout
    assert "3 blocks of 5 cells and 9 control runs: 24 runs, about " in shown
    assert " GB of samples; the seed is drawn at the start" in shown
    assert "\nways (sleep): ways\n  4 cells, 12 runs, about " in shown
    assert "\nclocks (timer): clocks\n  1 cell, 3 runs, about " in shown
    assert "issing" not in shown
    document = json.loads(lab_command("plan", two, "--json").stdout)
    assert (document["runs"], document["missing"]) == (24, None)
    plan = parse_plan(PLAN, source=two)
    runs = make_design(plan, 0)
    assert document["expected_s"] == pytest.approx(sum(expected_run_s(run, plan) for run in runs))
    assert document["most_byte"] == sum(expected_byte(run, expected_run_s(run, plan)) for run in runs)
    assert [one["runs"] for one in document["experiments"]] == [12, 3]


def test_what_is_missing_is_named_with_the_runs_that_it_costs(two: Path, lab_command: Lab, fake: Any) -> None:
    shown = lab_command("plan", "check", two, "--binary", fake.path).stdout
    assert "Missing here; these runs would be skipped:\n  6 runs, the first: ways, platform esxi, method " in shown
    assert ": platform esxi: names no " in shown
    (lack,) = json.loads(lab_command("plan", "check", two, "--binary", fake.path, "--json").stdout)["missing"]
    assert lack["runs"] == 6
    assert lack["reason"].startswith("platform esxi: names no ")
    two.write_text(PLAN.replace(', "esxi"', ""), encoding="utf-8")
    assert "\nNothing is missing here.\n" in lab_command("plan", "check", two, "--binary", fake.path).stdout


def test_what_is_missing_on_hosts_names_the_host(two: Path, lab_command: Lab, fake: Any) -> None:
    two.write_text(
        PLAN.replace("[[experiment]]", '[hosts]\nsender = "left"\n[platforms.left]\nkind = "cloud"\n[[experiment]]', 1)
        .replace('platform = ["host", "esxi"], ', ""),
        encoding="utf-8",
    )  # fmt: skip
    shown = lab_command("plan", "check", two, "--binary", fake.path).stdout
    assert "Missing on the hosts of the plan, as far as is known without a connection; these runs" in shown
    assert "  24 runs, the first: " not in shown
    assert ": platform left: names no " in shown


def test_what_runs_lack_on_a_fleet_names_its_hosts_and_their_reasons(two: Path, lab_command: Lab, fake: Any) -> None:
    two.write_text(PLAN.replace('platform = ["host", "esxi"], ', ""), encoding="utf-8")
    hosts = two.with_name("hosts.toml")
    tables = [f'[hosts.{name}]\nkind = "host"\nnamespace = "vtare-not-there-{name}"' for name in "ab"]
    hosts.write_text("\n".join(['schema = "vtare.hosts/1"', *tables]), encoding="utf-8")
    words = ("plan", "show", two, "--on", hosts, "--binary", fake.path)
    assert "\n2 hosts: 2 can be sender, 2 can be responder\n" in lab_command(*words).stdout
    assert [one["answers"] for one in json.loads(lab_command(*words, "--json").stdout)["fleet"]] == [None, None]
    shown = lab_command("plan", "check", *words[2:]).stdout
    assert "\nb (namespace vtare-not-there-b): " in shown
    assert "Missing on the hosts that answer; these runs would be skipped:\n  18 runs, the first: " in shown
    assert ": too few hosts answer: without a, b\n" in shown
    document = json.loads(lab_command("plan", "check", *words[2:], "--json").stdout)
    assert [one["answers"] for one in document["fleet"]] == [False, False]
    assert [lack["runs"] for lack in document["missing"]] == [18]
    refused = lab_command("plan", "check", two, "--on", "simulated:4")
    assert (refused.returncode, "Give a file of hosts" in refused.stderr) == (2, True)


def test_schema_and_missing_stand_where_they_mean_something(lab_command: Lab, two: Path) -> None:
    assert json.loads(lab_command("plan", "schema").stdout)["title"] == "A plan of vtare"
    refused = lab_command("plan", "schema", two)
    assert refused.returncode == 2
    assert "Got unexpected extra argument" in refused.stderr
    assert "PLAN is missing" in lab_command("plan", "check").stderr
    assert lab_command("plan", two, "--schema").returncode == 2
    assert lab_command("plan", "--missing").returncode == 2


def test_a_design_of_ten_thousand_runs_is_planned_in_two_seconds_of_cpu(tmp_path: Path) -> None:
    levels = ", ".join(f'"{n} us"' for n in range(1, 101))
    text = PLAN.replace("blocks = 3", "blocks = 25").replace('target_ns = "1 ms", ', "")
    text = text.replace('platform = ["host", "esxi"]', f'platform = ["host", "netns"], target_ns = [{levels}]')
    begin = time.process_time()
    plan = parse_plan(text, source=tmp_path / "big.toml")
    runs = make_design(plan, 1)
    assert len(runs) == 25 * (400 + 1 + 3)
    sum(expected_run_s(run, plan) for run in runs)
    assert time.process_time() - begin < 2.0
