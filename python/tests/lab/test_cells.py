"""Nested factors and excluded combinations: the cells that are left, what is compared, and what the report shows."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from comparison_frames import compared
from hypothesis import assume, given
from hypothesis import strategies as st

from vtare.campaign.results import CampaignResult
from vtare.campaign.store import Store
from vtare.design import check_levels, make_design, read_design, runs_of
from vtare.errors import BadInput
from vtare.plan.cells import cells_of, counterpart, is_cell
from vtare.plan.files import parse_plan
from vtare.plan.level import Level
from vtare.plan.model import Experiment, Factor, Plan
from vtare.summary import summarise

PLAN = """
schema = "vtare.plan/1"
name = "cells"
question = "Which way to sleep?"
blocks = 4
settle = "0 ms"

[[experiment]]
name = "sleep"
instrument = "sleep"
parameters = { target_ns = "1 ms", samples = 40, seconds = "1 s" }
exclude = [{ method = "usleep", load = "io" }]

[experiment.factors]
load = ["idle", "io"]
method = ["clock_nanosleep", "usleep", "adaptive"]
tolerance_ns = ["1 us", "20 us"]

[experiment.nested]
tolerance_ns = { method = "adaptive" }
"""
CELLS = [
    {"load": "idle", "method": "clock_nanosleep"},
    {"load": "idle", "method": "usleep"},
    {"load": "idle", "method": "adaptive", "tolerance_ns": "1 us"},
    {"load": "idle", "method": "adaptive", "tolerance_ns": "20 us"},
    {"load": "io", "method": "clock_nanosleep"},
    {"load": "io", "method": "adaptive", "tolerance_ns": "1 us"},
    {"load": "io", "method": "adaptive", "tolerance_ns": "20 us"},
]


def parse(text: str) -> Plan:
    return parse_plan(text, source=Path("cells.toml"))


def test_a_nested_factor_is_in_the_cells_where_it_applies_and_excluded_ones_are_left_out() -> None:
    plan = parse(PLAN)
    assert list(cells_of(plan.experiment("sleep"))) == CELLS
    runs = runs_of(plan)
    assert len(runs) == 4 * len(CELLS)
    parameters = {run.factors["method"]: run.parameters for run in runs if run.factors.get("tolerance_ns") != "1 us"}
    assert "tolerance_ns" not in parameters["usleep"]
    assert parameters["adaptive"]["tolerance_ns"] == 20_000


def test_one_factor_at_a_time_meets_a_nested_factor_where_it_applies() -> None:
    plan = parse(PLAN.replace('instrument = "sleep"', 'instrument = "sleep"\ncells = "one-at-a-time"'))
    assert list(cells_of(plan.experiment("sleep"))) == [*CELLS[:4], CELLS[4]]


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ('method = "adaptive" }', 'm_thod = "adaptive" }', "cells.toml:20:18: experiment[0].nested.tolerance_ns."
         "m_thod: unknown key 'm_thod'. Did you mean 'method'?"),
        ('method = "adaptive" }', 'method = "adaptve" }', "method is 'adaptve'. Did you mean 'adaptive'?"),
        ('tolerance_ns = { method', 'tolerance = { method', "nested.tolerance: unknown key 'tolerance'"),
        ('{ method = "adaptive" }', '"adaptive"', "nested.tolerance_ns is 'adaptive': use a table"),
        ('"adaptive" }', '"adaptive" }\nmethod = { tolerance_ns = "1 us" }', "nested: method and tolerance_ns are"),
        ("exclude = [{", "exclude = [{}, {", "exclude[0] is {}: use a table: { factor = level }"),
        ('load = "io" }]', 'load = "disk" }]', "cells.toml:12:40: experiment[0].exclude[0].load is 'disk'"),
        ('load = "io" }]', 'load = ["idle", "io"] }]', "factors.method[1]: 'usleep' is in no cell that is left by"),
        ("exclude = [{", "exclude = {", "not valid TOML"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_the_way_out(good: str, bad: str, message: str) -> None:
    assert good in PLAN
    with pytest.raises(BadInput, match=re.escape(message)):
        parse(PLAN.replace(good, bad, 1))


def test_the_counterpart_differs_in_one_factor_and_in_what_is_nested_in_it_at_its_baseline() -> None:
    experiment = parse(PLAN).experiment("sleep")
    idle = {"load": "idle"}
    usual = {**idle, "method": "adaptive", "tolerance_ns": "1 us"}
    assert counterpart(experiment, usual, "method", "usleep") == {**idle, "method": "usleep"}
    assert counterpart(experiment, {**idle, "method": "usleep"}, "method", "adaptive") == usual
    assert counterpart(experiment, {**usual, "tolerance_ns": "20 us"}, "method", "usleep") is None
    assert counterpart(experiment, {**usual, "target_ns": "1 ms"}, "load", "io") == {
        **usual, "load": "io", "target_ns": "1 ms",
    }  # fmt: skip


@given(st.data())
def test_the_cells_are_every_combination_that_is_allowed_once(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    factors = tuple(
        Factor(f"f{i}", tuple(Level(f"l{k}", k) for k in range(size)), f"l{data.draw(st.integers(0, size - 1))}")
        for i, size in enumerate(sizes)
    )
    some = st.sampled_from(factors).flatmap(
        lambda f: st.tuples(st.just(f.name), st.sets(st.sampled_from([level.label for level in f.levels]), min_size=1))
    )
    wanted = st.lists(some, min_size=1, max_size=2).map(lambda found: {name: tuple(levels) for name, levels in found})
    nested: dict[str, Any] = {}
    for i, factor in enumerate(factors[1:], 1):
        if data.draw(st.booleans()):
            # Nested in factors before it: in no circle.
            nested[factor.name] = {f"f{data.draw(st.integers(0, i - 1))}": ("l0",)}
    excluded = tuple(data.draw(st.lists(wanted, max_size=2)))
    experiment = Experiment("e", "sleep", "e", {}, factors, nested=nested, excluded=excluded)
    cells = list(cells_of(experiment))
    expected = set()
    for labels in itertools.product(*([level.label for level in factor.levels] for factor in factors)):
        cell = dict(zip((factor.name for factor in factors), labels, strict=True))
        for name, of in nested.items():
            if any(cell.get(other) not in levels for other, levels in of.items()):
                cell.pop(name, None)
        if not any(all(cell.get(n) in levels for n, levels in one.items()) for one in excluded):
            expected.add(tuple(cell.items()))
    assert {tuple(cell.items()) for cell in cells} == expected
    assert len(cells) == len(expected)
    assert all(is_cell(experiment, cell) for cell in cells)
    assume(cells)
    cell = data.draw(st.sampled_from(cells))
    name = data.draw(st.sampled_from(sorted(cell)))
    level = data.draw(st.sampled_from([level.label for level in experiment.factor(name).levels]))
    other = counterpart(experiment, cell, name, level)
    if other is not None and not excluded:
        assert is_cell(experiment, other)


def test_a_design_with_a_combination_that_the_plan_excludes_is_refused(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store", parse(PLAN.replace("exclude", "# exclude")), 1):
        pass
    with pytest.raises(BadInput, match="the combination load io, method usleep in the experiment 'sleep', which plan"):
        check_levels(read_design(tmp_path / "store/design.parquet"), parse(PLAN), tmp_path / "design.parquet")


def test_plan_states_the_cells_of_each_experiment(tmp_path: Path, lab_command: Callable[..., Any]) -> None:
    (tmp_path / "cells.toml").write_text(PLAN, encoding="utf-8")
    shown = lab_command("plan", tmp_path / "cells.toml").stdout
    assert "4 blocks of 7 cells: 28 runs" in shown
    assert "  factor tolerance_ns: 1 us, 20 us (baseline 1 us), only with method adaptive\n" in shown
    assert "  not measured: load io with method usleep\n" in shown
    document = json.loads(lab_command("plan", tmp_path / "cells.toml", "--json").stdout)
    assert document["experiments"][0]["cells"] == 7
    assert document["experiments"][0]["nested"] == {"tolerance_ns": {"method": ["adaptive"]}}
    assert document["experiments"][0]["exclude"] == [{"load": ["io"], "method": ["usleep"]}]


def test_a_campaign_compares_what_differs_in_one_factor_and_its_report_shows_it(
    tmp_path: Path, run_campaign: Callable[[Store], CampaignResult], lab_command: Callable[..., Any]
) -> None:
    plan = parse(PLAN)
    with Store.create(tmp_path / "store", plan, 1) as store:
        assert run_campaign(store).done == len(make_design(plan, 1))
    summary = summarise(tmp_path / "store")
    rows = compared(summary.comparisons).select("factor", "level", "baseline", "load", "method", "tolerance_ns").rows()
    assert sorted(map(str, rows)) == sorted(
        map(
            str,
            [
                ("method", "usleep", "clock_nanosleep", "idle", "usleep", None),
                ("method", "adaptive", "clock_nanosleep", "idle", "adaptive", "1 us"),
                ("method", "adaptive", "clock_nanosleep", "io", "adaptive", "1 us"),
                ("tolerance_ns", "20 us", "1 us", "idle", "adaptive", "20 us"),
                ("tolerance_ns", "20 us", "1 us", "io", "adaptive", "20 us"),
                *(("load", "io", "idle", "io", cell["method"], cell.get("tolerance_ns")) for cell in CELLS[4:]),
            ],
        )
    )
    tests = summary.tests.filter(pl.col("factor") == "method", pl.col("figure") == "median")
    assert sorted(len(levels) for levels in tests["levels"]) == [2, 3]
    effects = set(summary.interactions["effect"])
    assert effects == {"load x method", "load x tolerance_ns"}
    done = lab_command("report", tmp_path / "store", "--out", tmp_path / "report.html")
    assert done.returncode == 0, done.stderr
