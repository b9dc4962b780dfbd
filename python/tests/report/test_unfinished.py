"""Reports of a campaign that still runs: intervals that hold however often they are read."""

from __future__ import annotations

from pathlib import Path

from synthetic_store import PLAN, Recipe, write_store

from vtare.campaign.journal import Entry
from vtare.campaign.store import Store
from vtare.plan.files import parse_plan
from vtare.report.content import content_of
from vtare.summary import summarise

ANYTIME = "ratio_at_every_look"


def test_comparisons_of_an_unfinished_campaign_have_an_interval_that_holds_at_every_look(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", Recipe(blocks=9, pending_from_block=8))
    summary = summarise(store)
    table = content_of(summary, figures=False).section("verdicts").tables()[0]
    names = [column.key for column in table.columns]
    wider = 0
    for row in table.rows:
        plain, anytime = (row[names.index(name)].raw for name in ("ratio", ANYTIME))
        if "[" in anytime:
            ends = [[float(end) for end in raw.partition("[")[2].rstrip("]").split("..")] for raw in (plain, anytime)]
            assert ends[1][0] <= ends[0][0] <= ends[0][1] <= ends[1][1], (plain, anytime)
            wider += 1
    assert wider > 0


def test_a_finished_campaign_is_read_once_and_has_no_such_column(tmp_path: Path) -> None:
    summary = summarise(write_store(tmp_path / "store", Recipe(blocks=5)))
    table = content_of(summary, figures=False).section("verdicts").tables()[0]
    assert ANYTIME not in [column.key for column in table.columns]


def test_headings_name_the_level_of_the_plan(tmp_path: Path) -> None:
    plan = PLAN.format(blocks=6, targets='["1 ms"]') + "\n[analysis]\nalpha = 0.1\n"
    content = content_of(summarise(write_store(tmp_path / "store", Recipe(plan_text=plan))), figures=False)
    headings = [column.label for table in content.tables() for column in table.columns if "%)" in column.label]
    ratios = [heading for heading in headings if heading.startswith(("ratio", "difference"))]
    assert ratios
    assert all("90 %" in heading for heading in ratios), ratios


def test_an_experiment_of_which_no_run_is_there_has_a_row_without_figures(tmp_path: Path) -> None:
    text = PLAN.format(blocks=2, targets='["1 ms"]') + '\n[[experiment]]\nname = "far"\ninstrument = "rtt"\n'
    plan = parse_plan(text, source=tmp_path / "plan.toml")
    with Store.create(tmp_path / "store", plan, 1) as store:
        for run in store.runs:
            store.journal.record(Entry(run.run_id, "skipped", None, "no host answers", None, None))
    content = content_of(summarise(tmp_path / "store"), figures=False)
    far = content.section("experiment-far").tables()
    assert len(far[0].rows) == 1
    assert "no host answers" in str([table.rows for table in content.section("steadiness").tables()])
