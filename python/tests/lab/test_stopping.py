"""The stopping rule: in plans, in campaigns that stop and are resumed, and over whole stores."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "statistics"))

from campaigns import Truth, write_campaign

from vtare.campaign.executor import Campaign
from vtare.campaign.journal import Journal, Stopped
from vtare.campaign.results import CampaignResult
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.cli import main
from vtare.design import make_design
from vtare.errors import BadInput, Interrupted
from vtare.plan.files import parse_plan
from vtare.plan.model import Plan, StopRule
from vtare.summary import summarise
from vtare.summary.stopping import judge_precision

RULE = "[stop]\nprecision_percent = 5\n"


def stopping(plan: Plan, rule: str = RULE, blocks: int = 12) -> Plan:
    """The tiny plan with one cell a block and a stopping rule."""
    text = plan.text.replace("blocks = 2", f"blocks = {blocks}").replace(', { kind = "cpu", threads = 3 }', "")
    text = text.replace('["usleep", "spin"]', '["usleep"]').replace("[[experiment]]", f"{rule}\n[[experiment]]")
    return parse_plan(text, source=Path("tiny.toml"))


def test_rule_is_read_from_the_plan(tiny_plan: Plan) -> None:
    assert tiny_plan.stop is None
    assert stopping(tiny_plan).stop == StopRule(5.0, 10)
    assert stopping(tiny_plan, f"{RULE}least_blocks = 12").stop == StopRule(5.0, 12)


@pytest.mark.parametrize(
    ("rule", "blocks", "message"),
    [
        ("stop = 5", 12, r"tiny.toml:9:8: stop is 5: use a table such as \{ precision_percent = 5 \}"),
        ("[stop]", 12, "stop.precision_percent is missing: use a number between 0 and 100"),
        ("[stop]\nprecision_percent = 0", 12, "stop.precision_percent is 0: use a number between 0 and 100"),
        (f"{RULE}least_blocks = 9", 12, "stop.least_blocks is 9: use an integer from 10 to 12"),
        (f"{RULE}least_blocks = 13", 12, "stop.least_blocks is 13: use an integer from 10 to 12"),
        (f"{RULE}p_value = 0.05", 12, "stop.p_value: unknown key 'p_value': use one of: precision_percent"),
        (RULE, 10, "blocks is 10: use more than 10 with .stop."),
    ],
)
def test_bad_rule_is_refused_with_the_way_out(tiny_plan: Plan, rule: str, blocks: int, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        stopping(tiny_plan, rule, blocks)


class Judge:
    """Stops after a block; remembers when it was asked."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.asked: list[int] = []

    def __call__(self, block: int) -> str | None:
        self.asked.append(block)
        return "narrow enough" if block >= self.at else None


def run(store: Store, fake: Any, judge: Callable[[int], str | None]) -> CampaignResult:
    with StopRequest() as stop:
        return Campaign(store, fake.path, stop, precise=judge).run()


def test_campaign_stops_between_blocks_and_a_resumed_one_stays_stopped(
    tmp_path: Path, tiny_plan: Plan, fake: Any
) -> None:
    judge = Judge(11)
    with Store.create(tmp_path / "store", stopping(tiny_plan, blocks=14), 7) as store:
        result = run(store, fake, judge)
        assert (result.total, result.done, result.not_needed) == (14, 11, 3)
        assert result.stopped == Stopped(11, "narrow enough")
        assert judge.asked == [10, 11]
    with Store.open(tmp_path / "store") as store:
        again = run(store, fake, judge)
        assert (again.done, again.not_needed) == (11, 3)
        assert judge.asked == [10, 11]
    summary = summarise(tmp_path / "store")
    assert summary.stopped == Stopped(11, "narrow enough")
    assert summary.pending_runs == 0
    assert summary.design["status"].to_list() == ["done"] * 11 + ["not_needed"] * 3
    assert summary.cells["pending_runs"].to_list() == [0]
    assert not [note for note in summary.notes if note.id == "pending_runs"]


def test_interrupted_campaign_asks_again_only_for_blocks_it_has_not_begun(
    tmp_path: Path, tiny_plan: Plan, fake: Any
) -> None:
    def interrupt(block: int) -> str | None:
        raise Interrupted("stopped while judging")

    with Store.create(tmp_path / "store", stopping(tiny_plan), 7) as store:
        with pytest.raises(Interrupted):
            run(store, fake, interrupt)
        assert store.journal.stopped() is None
    judge = Judge(13)
    with Store.open(tmp_path / "store") as store:
        result = run(store, fake, judge)
    assert (result.done, result.not_needed, result.stopped) == (12, 0, None)
    assert judge.asked == [10, 11]


REPEAT = '[repeat]\nexperiment = "sleep"\nseconds = "20 s"\nmore_blocks = 3\n'


def repeating(plan: Plan, rule: str = REPEAT) -> Plan:
    """The tiny plan with two blocks of two experiments, of which one is repeated."""
    one = stopping(plan, rule, blocks=2)
    second = one.text[one.text.index("[[experiment]]") :].replace('name = "sleep"', 'name = "other"')
    return parse_plan(f"{one.text}\n{second}", source=one.source)


def test_later_blocks_hold_the_repeated_experiment_alone(tiny_plan: Plan) -> None:
    plan = repeating(tiny_plan)
    assert plan.stop == StopRule(2.5, experiment="sleep", more_blocks=3, seconds=20.0)
    found = [(run.block, run.experiment) for run in make_design(plan, 7) if run.control is None]
    assert sorted(found) == [(1, "other"), (1, "sleep"), (2, "other"), (2, "sleep")] + [(n, "sleep") for n in (3, 4, 5)]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (REPEAT.replace("sleep", "nothing"), "repeat.experiment is 'nothing'"),
        (f"{RULE}{REPEAT}", "repeat: the plan has .stop., too: keep one of the two"),
        ('[repeat]\nexperiment = "sleep"', "repeat.seconds is missing"),
    ],
)
def test_bad_repetition_is_refused(tiny_plan: Plan, rule: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        repeating(tiny_plan, rule)


def test_repetition_ends_where_it_is_decided_and_the_rest_is_not_needed(
    tmp_path: Path, tiny_plan: Plan, fake: Any
) -> None:
    judge = Judge(4)
    with Store.create(tmp_path / "store", repeating(tiny_plan), 7) as store:
        result = run(store, fake, judge)
    assert judge.asked == [2, 3, 4]
    assert (result.total, result.done, result.not_needed) == (7, 6, 1)
    assert summarise(tmp_path / "store").pending_runs == 0


def test_repetition_looks_at_its_experiment_only(tmp_path: Path) -> None:
    store = write_campaign(tmp_path / "s", Truth(blocks=11, between=0.02, analysis=RULE), 3)
    rule = StopRule(5.0, experiment="sleeps", more_blocks=4)
    assert judge_precision(store, rule).stop
    with pytest.raises(KeyError):
        judge_precision(store, replace(rule, experiment="nothing"))


def test_plan_without_a_rule_never_asks(tmp_path: Path, tiny_plan: Plan, fake: Any) -> None:
    judge = Judge(1)
    with Store.create(tmp_path / "store", stopping(tiny_plan, "", 11), 7) as store:
        assert run(store, fake, judge).done == 11
    assert judge.asked == []


def test_store_is_precise_where_all_its_intervals_are_narrow(tmp_path: Path) -> None:
    store = write_campaign(tmp_path / "s", Truth(blocks=11, between=0.02, analysis=RULE), 3)
    assert judge_precision(store, StopRule(5.0)).stop
    found = judge_precision(store, StopRule(0.5))
    assert not found.stop
    assert found.reason.startswith(
        "1 of 1 intervals are not yet within 0.5 %: sleeps: method clock_nanosleep against usleep has a half-width of"
    )
    assert "has 11 runs of the 12 that are wanted" not in found.reason


def test_a_precision_that_no_equivalence_can_follow_is_named(tmp_path: Path) -> None:
    store = write_campaign(tmp_path / "s", Truth(blocks=11, between=0.02, analysis=RULE), 3)
    wide = judge_precision(store, StopRule(8.0))
    assert wide.stop
    assert wide.reason.endswith(
        "; equivalence within 5 % needs intervals narrower than that: set precision_percent below the margin"
    )
    assert "equivalence" not in judge_precision(store, StopRule(4.5)).reason


def test_few_runs_are_never_precise(tmp_path: Path) -> None:
    store = write_campaign(tmp_path / "s", Truth(blocks=11, between=0.001, analysis=RULE), 3)
    with Journal(store / "journal.sqlite") as journal:
        journal.forget(next(iter(journal.entries())))
    found = judge_precision(store, StopRule(50.0, 11))
    assert not found.stop
    assert found.reason.endswith("has 10 runs of the 11 that are wanted")


def test_commands_and_report_show_of_the_stop(tmp_path: Path, undrawn: None) -> None:
    store = write_campaign(tmp_path / "s", Truth(blocks=11, analysis=RULE), 3)
    with Journal(store / "journal.sqlite") as journal:
        for run_id in [row["run_id"] for row in summarise(store).design.filter(block=11).iter_rows(named=True)]:
            journal.forget(run_id)
        journal.stop(Stopped(10, "narrow enough"))
    told = lab("status", store, "--json")
    assert (told["done"], told["pending"], told["not_needed"], told["runs"]) == (20, 0, 2, [])
    assert told["stopped"] == {"block": 10, "reason": "narrow enough"}
    lab("report", store)
    page = (store / "report.html").read_text(encoding="utf-8")
    assert "Stopped after block 10: narrow enough." in page
    # The runs that it spared are not missing.
    assert page.count("20 of 20 runs") == 2
    assert "of 22 runs" not in page


def lab(*arguments: object) -> Any:
    """Carry out a command of the lab in this process: its JSON, or None where it printed none."""
    out = io.StringIO()
    with patch.object(sys, "argv", ["vtare-lab", *map(str, arguments)]), redirect_stdout(out), suppress(SystemExit):
        main()
    return json.loads(out.getvalue()) if "--json" in arguments else None
