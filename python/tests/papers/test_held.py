"""The table of the papers' results: each names what is really in the plans and the tree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from vtare.papers.catalogue import PAPERS
from vtare.papers.held import ROWS, STATES, HeldRow, rows_of
from vtare.papers.pages import PLANS, page, pages
from vtare.plan.files import find_plan, load_plan, shipped_plans

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


def test_each_paper_has_its_results_on_its_page_and_their_number_on_the_first() -> None:
    plans = frozenset(shipped_plans())
    for paper in PAPERS:
        text = page(paper.name, plans=plans)
        assert rows_of(paper.name)
        assert all(f"| {row.shown} | {row.system} |" in text for row in rows_of(paper.name))
    counts = Counter(row.state for row in ROWS)
    assert counts["whole"] >= 26
    assert f"Of {len(ROWS)} results" in pages(plans=plans)["README.md"]
    assert (
        f"{counts['whole']} whole, {counts['partly']} partly, {counts['impossible']} impossible"
        in (pages(plans=plans)["README.md"])
    )
