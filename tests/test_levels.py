"""The reduced campaigns of `tools/levels`: every level of the shipped plan is in its design."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from vtare.design import make_design
from vtare.plan import load_plan, parse_plan

PLANS = ("kirova-timers", "kirova-avb", "oliveira-rtt", "lampe-counter", "kachan-avb", "batalla")


@pytest.mark.parametrize("name", PLANS)
def test_a_reduced_campaign_meets_every_level_of_its_plan(
    tool: Callable[[str], ModuleType], root: Path, name: str
) -> None:
    levels = tool("levels")
    path = root / "plans" / f"{name}.toml"
    shorter = levels.reduced(name, tomllib.loads(path.read_text(encoding="utf-8")))
    plan = parse_plan("\n".join(f"{key} = {levels.toml(value)}" for key, value in shorter.items()), source=path)
    whole = load_plan(path)
    assert [experiment.name for experiment in plan.experiments] == [one.name for one in whole.experiments]
    runs = make_design(plan, 1)
    assert len(runs) < len(make_design(whole, 1)) / 5
    for experiment in whole.experiments:
        assert experiment.name in levels.REDUCED[name][1]
        own = [run for run in runs if run.experiment == experiment.name]
        for factor in experiment.factors:
            met = {run.factors[factor.name] for run in own}
            assert met == {level.label for level in factor.levels}, (experiment.name, factor.name)
