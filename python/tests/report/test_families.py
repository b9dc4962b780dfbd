"""A report states how many families of tests it holds, and rarely claims anything where nothing differs."""

from __future__ import annotations

import sys
from pathlib import Path

from conftest import Reported

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "statistics"))

from campaigns import Truth, write_campaign

from vtare.report.content import content_of
from vtare.report.families import false_claims, families_of
from vtare.report.method import caveats_of
from vtare.report.tables import test_table as table_of_tests
from vtare.summary import summarise

REPORTS = 24


def test_the_report_states_its_families_and_the_false_claims_to_expect(five_runs: Reported) -> None:
    summary, layouts = five_runs.summary, five_runs.content.layouts
    found = families_of(summary, layouts)
    (sentence,) = false_claims(summary, layouts)
    assert f"holds {len(found)} families of tests" in sentence
    assert f"about {0.05 * len(found):.2g} of them" in sentence
    assert sentence in caveats_of(summary, layouts)
    # Timers: load and source; sleeps: load and method.
    assert "of which 4 are main comparisons" in sentence
    frames = (summary.tests, summary.interactions, summary.levels)
    rows = (*summary.comparisons, *summary.tails, *summary.layers)
    names = {row.family for row in rows if row.p_adjusted is not None}
    names |= {name for frame in frames for name in frame.drop_nulls("p_adjusted")["family"].unique().to_list()}
    assert {family.name for family in found} == names
    assert sum(family.claims for family in found) > 0


def test_whole_factors_have_one_family_each(five_runs: Reported) -> None:
    table = table_of_tests(five_runs.summary)
    assert table is not None
    keys = [column.key for column in table.columns]
    families: dict[tuple[str, str], set[str]] = {}
    for row in table.rows:
        experiment, factor, family = (row[keys.index(name)].raw for name in ("experiment", "factor", "family"))
        families.setdefault((experiment, factor), set()).add(family)
    assert {len(names) for names in families.values()} == {1}


def test_reports_of_campaigns_without_any_difference_rarely_claim_one(tmp_path: Path) -> None:
    """A/A stores of 3 loads x 3 methods; `bench/statistics` makes more of them."""
    first_screen = whole = expected = 0.0
    for at in range(REPORTS):
        truth = Truth(blocks=6, samples=60, loads=3, methods=3)
        summary = summarise(write_campaign(tmp_path / str(at), truth, 1000 + at))
        content = content_of(summary, figures=False)
        assert content.main is not None
        words = ("worse", "better", "higher", "lower")
        claims = [row for row in content.main.rows if any(cell.kind in words for cell in row)]
        first_screen += bool(claims)
        found = families_of(summary, content.layouts)
        whole += sum(family.claims > 0 for family in found)
        expected += 0.05 * len(found)
    # 10 % and what is stated, give or take three standard errors.
    assert first_screen <= 0.1 * REPORTS + 3 * (0.09 * REPORTS) ** 0.5
    assert whole <= expected + 3 * expected**0.5 * 2
