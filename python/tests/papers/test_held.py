"""The table of the papers' results: each names what is really in the plans and the tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtare.papers.held import ROWS, STATES, HeldRow
from vtare.papers.pages import PLANS
from vtare.plan.files import find_plan, load_plan

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.paper}-{row.shown}-{row.system}")
def test_a_result_names_levels_of_a_shipped_plan_and_tests_of_the_tree(row: HeldRow) -> None:
    assert row.state in STATES
    assert all((ROOT / test).is_file() for test in row.tests), row.tests
    if row.plan is None:
        # What no plan holds is held by a test, or by nothing, and says why.
        assert not row.levels
        assert row.experiment is None
        assert bool(row.tests) is (row.state == "whole")
    else:
        assert row.plan in PLANS[row.paper]
        experiment = load_plan(find_plan(row.plan)).experiment(str(row.experiment))
        for factor, labels in row.levels.items():
            assert set(labels) <= {level.label for level in experiment.factor(factor).levels}, factor
        assert row.levels
    assert row.state == "whole" or row.why
