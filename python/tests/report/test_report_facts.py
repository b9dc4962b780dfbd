"""Facts of a machine and the meaning that the report gives them."""

from __future__ import annotations

from dataclasses import replace
from html import unescape
from typing import Any

import polars as pl
import pytest
from conftest import Reported
from synthetic_store import CLOCK, MACHINE

from vtare.report import needs
from vtare.report.facts import Fact, facts_of
from vtare.report.method import paragraph_for_a_paper
from vtare.summary.model import MachineFacts


def facts(machine: dict[str, Any] | None = None, clock: dict[str, Any] | None = None, **rest: Any) -> dict[str, Fact]:
    measured: dict[str, Any] = {"residual_ppm_max": 0.002, "load_average_max": 1.5, "steal_ns": 0, **rest}
    found = facts_of(
        MachineFacts(
            hostname="h",
            platform="host",
            runs=3,
            machine={**MACHINE, **(machine or {})},
            clock={**CLOCK, **(clock or {})},
            program={},
            **measured,
        )
    )
    return {fact.name: fact for fact in found}


@pytest.mark.parametrize("source", ["hpet", "acpi_pm", "jiffies"])
def test_a_slow_clock_source_is_a_warning_with_the_way_out(source: str) -> None:
    fact = facts({"clock_source": source})["kernel clock source"]
    assert fact.warns
    assert "tsc would be better" in fact.meaning


@pytest.mark.parametrize("source", ["tsc", "arch_sys_counter", "kvm-clock"])
def test_a_fast_clock_source_is_none(source: str) -> None:
    assert not facts({"clock_source": source})["kernel clock source"].warns


def test_a_clock_that_is_not_trusted_states_why() -> None:
    fact = facts(clock={"trusted": False, "reasons": ["offset between CPUs 900 ns"]})["clock used"]
    assert fact.warns
    assert fact.value == "tsc, not trusted"
    assert fact.meaning == "offset between CPUs 900 ns"


def test_no_stolen_time_in_a_guest_is_no_proof() -> None:
    assert "no proof" in facts()["stolen time"].meaning
    assert "no proof" not in facts({"hypervisor": None})["stolen time"].meaning


def test_stolen_time_is_a_warning() -> None:
    fact = facts(steal_ns=250_000_000)["stolen time"]
    assert fact.warns
    assert fact.value == "250 ms"


def test_unknown_facts_state_so_and_are_not_zero() -> None:
    shown = facts({"hz": None, "timer_slack_ns": None, "smt": None}, residual_ppm_max=None, steal_ns=None)
    for name in ("timer tick", "timer slack", "calibration residual", "stolen time", "SMT"):
        assert shown[name].value == "n/a (not reported by the system)", name


def test_the_residual_is_shown_as_error_of_a_second() -> None:
    assert facts(residual_ppm_max=2.5)["calibration residual"].meaning.startswith(
        "a measured second is wrong by 2.50 \N{MICRO SIGN}s"
    )


def test_the_tick_names_how_long_two_phase_sleep_spins() -> None:
    assert "last 4.00 ms" in facts({"hz": 250})["timer tick"].meaning


def test_limits_of_a_container_are_listed() -> None:
    assert facts({"cgroup": {"cpu_max": "100000 100000", "cpuset": None}})["limits"].value == "cpu_max 100000 100000"


def test_a_cell_with_runs_of_two_kinds_is_named_once(five_runs: Reported) -> None:
    """A cell stands in as many comparisons as it has factors, and is the baseline of others: it has one name."""
    words = "runs of two kinds: those of blocks 1, 2 are 2 times the others"
    rows = tuple(
        replace(row, modes=words, modes_baseline=words)
        for row in five_runs.summary.comparisons
        if row.experiment == "sleeps"
    )
    lines = [line for line in needs.sensitive(replace(five_runs.summary, comparisons=rows)) if "two kinds" in line]
    names = [line.split(":")[0] for line in lines]
    assert len(names) == len(set(names)) == 6
    assert "sleeps, load idle, method usleep" in names


def test_a_paragraph_for_a_paper_states_version_plan_seed_and_runs(five_runs: Reported) -> None:
    summary = five_runs.summary
    text = paragraph_for_a_paper(summary)
    done = summary.design.filter(pl.col("status") == "done").height
    assert text.startswith("Measured with vtare ")
    for part in (f"plan {summary.plan.name}, seed {summary.seed}", f"{done} runs in {summary.plan.blocks} randomised"):
        assert part in text
    assert "adjusted by Holm" in text
    assert text in unescape(five_runs.html)
