"""Cards of unit costs: what they predict, and that a card of another machine is data and nothing more."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from rich.console import Console
from simulated_reasons import COUNTS, EXPLAINED, PER_TURN, Small, rounds_of
from simulated_weighing import outcome_of, weighed

from vtare.errors import BadInput, MachineCannot
from vtare.records.schema import schemas
from vtare.sentences import weigh as wording
from vtare.terminal.weigh import show_weighed
from vtare.weigh.card import CardPlatform, CostCard, Predicted, document, predict, read_card
from vtare.weigh.costs import Prices, prices
from vtare.weigh.page import weighed_page
from vtare.weigh.verdict import answer
from vtare.weigh.verdict import document as answered
from vtare.weigh.weighing import Weighed
from vtare.weigh.why import LEAST_ROUNDS, unit_costs

MACHINE = {"hostname": "other", "cpu_model": "a model"}


def card_of(*, seed: int = 1, noise: float = 0.02, rounds: int = 10, name: str = "gvisor") -> CostCard:
    """The card of a machine with one platform, on which each event costs what is planted."""
    costs = unit_costs(PER_TURN, rounds_of(np.random.default_rng(seed), rounds=rounds, noise=noise))
    return CostCard("other", "2026-11-30T06:48:26+00:00", "0.1.0", (CardPlatform(name, costs, {}),))


def predicted(card: CostCard, host_ns: float | None = 1e8) -> Predicted:
    return Predicted(tuple(predict(card, one, COUNTS) for one in card.platforms), host_ns)


def alone(card: CostCard) -> Weighed:
    """Nothing but the host was measured."""
    return Weighed(None, {}, {}, frozenset(), predicted=predicted(card))


def screen(result: Weighed) -> str:
    out = io.StringIO()
    show_weighed(Console(file=out, width=80, highlight=False, markup=False), result)
    return out.getvalue()


def test_counts_times_costs_are_what_a_platform_takes_that_was_left_out() -> None:
    (one,) = predicted(card_of(noise=0.0001)).predictions
    assert one.longer.value == pytest.approx(EXPLAINED, rel=0.01)
    assert [cause.kind for cause in one.causes] == ["system call", "file open", "program start"]
    assert predicted(card_of(noise=0.0001)).ratio(one) == pytest.approx(1 + EXPLAINED / 1e8, rel=0.01)


def test_intervals_of_predictions_hold_what_was_planted() -> None:
    many = [predicted(card_of(seed=seed)).predictions[0].longer for seed in range(400)]
    held = np.mean([one.low <= EXPLAINED <= one.high for one in many])
    assert 0.92 <= held <= 0.999, held


def test_a_kind_without_a_cost_on_the_card_is_named_and_not_taken_for_nothing() -> None:
    card = card_of()
    costs = {kind: cost for kind, cost in card.platforms[0].costs.items() if kind != "file open"}
    card = replace(card, platforms=(CardPlatform("gvisor", costs, {"file open": "read-only"}),))
    (one,) = predicted(card).predictions
    assert one.unpriced == {"file open": "read-only"}
    assert "no costs on gvisor of: files opened" in screen(alone(card))


def test_a_prediction_is_marked_as_one_on_the_screen_in_json_and_on_the_page() -> None:
    result = replace(weighed({"host": 1.0, "bubblewrap": 1.0}), predicted=predicted(card_of()))
    assert "Predicted with the card of other (2026-11-30), not measured:" in screen(result)
    assert re.search(r"\n  73\.\d ms  longer on gvisor \(95 %: .*\): 73 % slower\n", screen(result))
    shown = answered(outcome_of(result))
    jsonschema.validate(shown, schemas()["vtare.weigh/1"])
    assert [one["name"] for one in shown["platforms"]] == ["host", "bubblewrap"]
    assert shown["predicted"] is not None
    assert [one["name"] for one in shown["predicted"]["platforms"]] == ["gvisor"]
    page = weighed_page(outcome_of(result))
    assert wording.PREDICTED in page
    assert wording.PREDICTED_ABOUT in page


def test_with_the_host_alone_the_answer_is_the_prediction() -> None:
    assert answer(alone(card_of())).startswith("Predicted, not measured: against the host gvisor 7")
    nothing = replace(alone(card_of()), predicted=Predicted(reason="events cannot be counted"))
    assert answer(nothing) == wording.NOTHING
    assert "nothing is predicted: events cannot be counted" in screen(nothing)
    assert wording.PREDICTED in weighed_page(outcome_of(alone(card_of())))


def test_costs_that_differ_by_chance_only_predict_no_difference() -> None:
    pairs = [(host, host) for host, _ in rounds_of(np.random.default_rng(1))]
    card = replace(card_of(), platforms=(CardPlatform("nspawn", unit_costs(PER_TURN, pairs), {}),))
    assert answer(alone(card)) == "Predicted, not measured: against the host nspawn no clear difference."


def written(card: CostCard) -> dict[str, Any]:
    (one,) = card.platforms
    prices = Prices({one.name: one.costs}, {one.name: {}}, {})
    read: dict[str, Any] = json.loads(json.dumps(document(prices, {}, MACHINE)))
    return read


def test_a_card_that_was_written_is_read_as_it_was(tmp_path: Path) -> None:
    content = written(card_of())
    jsonschema.validate(content, schemas()["vtare.card/1"])
    (tmp_path / "card.json").write_text(json.dumps(content))
    read = read_card(tmp_path / "card.json")
    assert read.platforms == card_of().platforms
    assert (read.hostname, read.date, read.version) == ("other", content["date"], content["version"])


def change(**values: Any) -> Callable[[dict[str, Any]], None]:
    """Replace keys of the card."""
    return lambda content: content.update(values)


def change_cost(value: Any) -> Callable[[dict[str, Any]], None]:
    """Replace the cost of a system call."""
    return lambda content: content["platforms"][0]["costs_ns"].update({"system call": value})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change(schema="vtare.weigh/1"), r"'schema' is 'vtare.weigh/1': use 'vtare.card/1'"),
        (change(platforms=[]), r"'platforms' is '\[\]': use a list of 1 to 64"),
        (change(platforms=["gvisor"]), r"'platforms\[0\]' is 'gvisor': use an object"),
        (change(date=7), r"'date' is 7: use a text of 1 to 200"),
        (change(version="v" * 201), r"'version' is 'v{80}': use a text"),
        (change(machine={"hostname": ""}), r"'machine.hostname' is '': use a text"),
        (change_cost(None), r"\['system call'\]' is missing: use low <= value <= high"),
        (change_cost({"value": 1, "low": 2, "high": 3}), r"is .*'value': 1.*: use low <= value <= high"),
        (change_cost({"value": 1e13, "low": 0, "high": 1e14}), r"is .*: use low <= value <= high, .* up to 1e\+12"),
        (change_cost({"value": True, "low": 0, "high": 2}), r"is .*True.*: use low"),
        (lambda content: content["platforms"][0]["costs_ns"].update({"magic": {}}), r"is 'magic': use kinds of"),
        (lambda content: content["platforms"].append(content["platforms"][0]), r"is 'gvisor': use each name once"),
    ],
)
def test_what_is_no_card_is_refused_with_key_value_and_fix(
    damage: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    content = written(card_of())
    damage(content)
    (tmp_path / "card.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match=message) as refused:
        read_card(tmp_path / "card.json")
    assert len(str(refused.value)) < 600 + len(str(tmp_path))
    assert "`vtare check --write FILE`" in str(refused.value)


def test_words_of_a_card_carry_out_nothing(tmp_path: Path) -> None:
    content = written(card_of(name="<script>alert(1)</script>"))
    content["machine"]["hostname"] = "a\x1b[31m[red]b\nc"
    (tmp_path / "card.json").write_text(json.dumps(content))
    result = alone(read_card(tmp_path / "card.json"))
    page = weighed_page(outcome_of(result))
    assert "<script>alert(1)" not in page
    assert "<script>alert(1)" in html.unescape(page)
    shown = screen(result)
    assert "\x1b" not in shown
    assert "[red]b c (" in shown


def test_costs_are_measured_on_each_platform_and_those_without_have_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 0.0)

    def measured(runner: Small, *names: str) -> Prices:
        made: Any = runner
        return prices(made, names, until=1.0, rng=np.random.default_rng(4), show=lambda _: None)

    own = measured(Small(refuses=["nspawn"]), "host", "gvisor", "nspawn")
    assert own.costs["gvisor"].keys() == PER_TURN.keys()
    assert own.missing == {"nspawn": "no such call"}
    assert measured(Small(rounds=LEAST_ROUNDS - 1), "host", "gvisor").missing == {"gvisor": wording.NO_TIME}
    with pytest.raises(MachineCannot, match="no such call"):
        measured(Small(refuses=["host"], refuses_counting=True), "host", "gvisor")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("weigh --write card=card.json -- true", "Leave the command out"),
        ("weigh --write card=card.json --write json=a.json", "write html or json"),
        ("weigh --on host", "the command is missing"),
        ("weigh --server 80 --card card.json -- true", "--card and --server exclude each other"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: str, message: str, lab_command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "card.json").write_text(json.dumps(written(card_of())))
    done = lab_command(*words.split())
    assert done.returncode == 2
    assert message in done.stderr
