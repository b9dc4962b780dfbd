"""The reduced campaigns of `tools/levels`: every level of the shipped plan is in its design and on its page."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from vtare.design import make_design
from vtare.plan.files import load_plan, parse_plan

PLANS = ("kirova-timers", "kirova-avb", "oliveira-rtt", "lampe-counter", "kachan-avb", "batalla")


@pytest.mark.parametrize("name", PLANS)
def test_a_reduced_campaign_meets_every_level_of_its_plan(
    tool: Callable[[str], ModuleType], root: Path, name: str
) -> None:
    levels = tool("levels")
    path = root / "python/src/vtare/plans" / f"{name}.toml"
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
            # A nested factor is not there where it does not apply.
            met = {run.factors[factor.name] for run in own if factor.name in run.factors}
            assert met == {level.label for level in factor.levels}, (experiment.name, factor.name)


def _levels_on_page(page: str) -> dict[tuple[str, str], str]:
    """Experiment and factor -> the levels that the page's first table lists as measured and as not measured."""
    table = page.partition("## Levels\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    found = {}
    for line in rows[1:]:
        experiment, factor, measured, left = (cell.strip().replace("\\", "") for cell in line.strip("| ").split(" | "))
        found[experiment, factor] = ", ".join(cell for cell in (measured, left) if cell != "none")
    return found


def _without(text: str, labels: list[str]) -> str:
    """The text without each label once; names a label that is not there."""
    for label in sorted(labels, key=len, reverse=True):
        assert label in text, f"{label} is missing in: {text}"
        text = text.replace(label, "", 1)
    return text


@pytest.mark.parametrize("name", PLANS)
def test_the_page_of_a_campaign_lists_exactly_the_levels_of_the_plan(root: Path, name: str) -> None:
    page = (root / f"bench/plans/RESULTS-{name}.md").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    factors = {
        (experiment.name, factor.name): [level.label for level in factor.levels]
        for experiment in load_plan(root / "python/src/vtare/plans" / f"{name}.toml").experiments
        for factor in experiment.factors
    }
    listed = _levels_on_page(page)
    assert listed.keys() == factors.keys()
    for factor, labels in factors.items():
        rest = _without(listed[factor], labels)
        assert set(rest) <= {",", " "}, (factor, rest)
    assert f"make measured PLANS={name}" in page
