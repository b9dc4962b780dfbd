"""Runs that their time limit ended: what they completed is stated, and no median of survivors ranks first."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from comparison_frames import compared
from page import cell
from synthetic_store import MISS_NS, PLAN, Recipe, write_store

from vtare import stats
from vtare.instruments import instrument
from vtare.report.content import Content, content_of
from vtare.report.plain import markdown
from vtare.sentences.template import plain as words_of
from vtare.summary import Summary, completion, summarise

METHODS = '["usleep", "clock_nanosleep", "two_phase", "adaptive", "spin"]'


@dataclass(frozen=True)
class Made:
    """A store's summary, the tables of its report, and the report's words."""

    summary: Summary
    content: Content
    words: str


def made_of(directory: Path, recipe: Recipe) -> Made:
    summary = summarise(write_store(directory / "store", recipe))
    content = content_of(summary, figures=False)
    return Made(summary, content, markdown(content).replace("\u00a0", " ").replace("**", "").replace("\\_", "_"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Five blocks of sleeps; under the busy threads spin and two_phase complete 5 % of 400, most of them on time."""
    text = PLAN.format(blocks=5, targets='["1 ms"]')
    text = re.sub(r'method = \["usleep".*?\]', f"method = {METHODS}", text).replace(
        "samples = 400 }", 'samples = 400, seconds = "0.5 s" }'
    )
    start, _, sleeps = text.partition("[[experiment]]")
    plan = start + "[[experiment]]" + sleeps.split("[[experiment]]")[1]
    medians = {load: dict(by_method) for load, by_method in MISS_NS.items()}
    medians["cpu"] |= {"spin": 95.0, "two_phase": 110.0, "usleep": 2.4e5, "clock_nanosleep": 2.1e5}
    recipe = Recipe(plan_text=plan, miss_ns=medians, capped={"spin": (20, 0.4), "two_phase": (26, 0.3)})
    return made_of(tmp_path_factory.mktemp("capped"), recipe)


def test_a_cell_states_the_share_of_readings_that_was_completed(made: Made) -> None:
    spin = cell(made.summary, load="cpu", method="spin")
    assert (spin["asked"], spin["completed"], spin["capped_runs"]) == (2000, 100, 5)
    assert spin["completed_fraction"] == pytest.approx(0.05)
    usual = cell(made.summary, load="cpu", method="usleep")
    assert (usual["completed_fraction"], usual["capped_runs"]) == (1.0, 0)
    # Its median is the least of all; the time that it spent late is not.
    assert spin["median"] < 200 < usual["median"]
    assert spin["late_fraction"] > 0.9 > usual["late_fraction"]
    assert spin["late_fraction_low"] <= spin["late_fraction"] <= spin["late_fraction_high"]


def test_the_limit_of_time_bounds_what_was_asked_for() -> None:
    group = pl.DataFrame({"value": [1e6] * 50, "target_ns": [10_000_000] * 50})
    counted = stats.tally(np.full(50, 1e6))
    # 100 sleeps of 10 ms fill a second: 50 are half of them, and each took 11 ms.
    found = completion.figures(instrument("sleep"), group, counted, {"samples": 300, "seconds": 1.0}, 1e7)
    assert (found.asked, found.completed_fraction) == (100, 0.5)
    assert found.late_fraction == pytest.approx(1 / 11)
    unlimited = completion.figures(instrument("sleep"), group, counted, {"samples": 50, "seconds": None}, 1e7)
    assert (unlimited.asked, unlimited.completed_fraction) == (50, 1.0)
    assert (found.above_100us, found.above_1ms) == (1.0, 0.0)
    none = completion.figures(
        instrument("sleep"), group.clear(), stats.tally(np.array([])), {"samples": 9, "seconds": 1.0}, 1e7
    )
    assert (none.completed_fraction, none.late_fraction, none.above_1ms) == (0.0, None, None)


def test_a_capped_cell_is_compared_by_the_time_spent_late(made: Made) -> None:
    rows = compared(made.summary.comparisons).filter(
        (pl.col("load") == "cpu") & (pl.col("method") == "spin") & (pl.col("factor") == "method")
    )
    (row,) = rows.iter_rows(named=True)
    assert row["quantity"] == "late_fraction"
    # Its median is a thousandth of that of usleep; its time late is more.
    assert row["ratio"] > 1
    whole = compared(made.summary.comparisons).filter((pl.col("load") == "cpu") & (pl.col("method") == "adaptive"))
    assert set(whole["quantity"].to_list()) == {"miss_ns"}


def test_no_capped_method_is_ranked_least_by_its_median(made: Made) -> None:
    words = made.words
    assert "With 100 busy threads, the least miss" not in words
    least = re.search(r"With 100 busy threads, the least time late is that of (\w+)", words)
    late = {
        row["method"]: row["late_fraction"] for row in made.summary.cells.filter(pl.col("load") == "cpu").to_dicts()
    }
    assert least is not None
    assert least.group(1) == min(late, key=lambda method: late[method])


def test_a_sentence_states_the_share_completed(made: Made) -> None:
    words = made.words
    assert "of the sleeps asked for, " in words
    assert "spin completed 5.00 % (100 of 2000)" in words
    assert "two_phase completed 6.50 % (130 of 2000)" in words


def test_the_answer_uses_figures_that_capped_runs_have(tmp_path: Path) -> None:
    report = made_of(tmp_path, Recipe(capped={"usleep": (25, 0.9)}))
    row = cell(report.summary, experiment="sleeps", load="cpu", method="usleep")
    assert row["capped_runs"] == 5
    answered = " ".join(words_of(sentence) for sentence in report.content.answer.sentences)
    assert "With 100 busy threads, it is late for " in answered
    assert "of its time with usleep" in answered
    assert "Of the sleeps asked for, usleep completed 6.25 % (125 of 2000)." in answered


def test_exceedances_stand_in_a_table_with_intervals(made: Made) -> None:
    table = next(table for table in made.content.tables() if table.id == "exceedances-sleeps")
    keys = [column.key for column in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    spin = next(row for row in rows if (row["load"].text, row["method"].text) == ("cpu", "spin"))
    runs = made.summary.runs.filter((pl.col("load") == "cpu") & (pl.col("method") == "spin"))
    assert spin["above_1ms"].order == pytest.approx(float(runs["above_1ms"].mean()))  # type: ignore[arg-type]
    assert "(" in spin["above_1ms"].text
    assert spin["completed"].text.replace("\u00a0", " ") == "5.00 % (100 of 2000)"
    assert [column.label for column in table.columns if column.key == "above_1ms"] == ["P(miss > 1\u00a0ms)"]
    assert "readings above common thresholds" in made.words


def test_a_tail_states_how_many_runs_have_it(made: Made) -> None:
    table = next(table for table in made.content.tables() if table.id == "tails-sleeps")
    keys = [column.key for column in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    spin = [row for row in rows if row["where"].text == "spin" and row["change"].text == "load: cpu against idle"]
    assert {row["runs"].text for row in spin} == {"0 of 5 / 5 of 5", "0 of 5 / 0 of 5"}


def test_a_tail_of_which_some_runs_have_no_p99_is_shown_by_its_exceedances(tmp_path: Path) -> None:
    text = PLAN.format(blocks=5, targets='["1 ms"]')
    text = re.sub(r'method = \["usleep".*?\]', 'method = ["usleep"]', text)
    made = made_of(tmp_path, Recipe(plan_text=text, capped={"usleep": (25, 0.4)}))
    busy = cell(made.summary, experiment="sleeps", load="cpu", method="usleep")
    answered = " ".join(words_of(sentence) for sentence in made.content.answer.sentences)
    assert busy["above_1ms"] == 1.0
    assert "It is more than 1 ms late in 100 % of sleeps, 0 % with idle (0 of 5 runs have a p99)" in answered
    assert "Its p99 is" not in answered


def test_a_ratio_of_times_late_is_not_stated_as_one_of_medians(tmp_path: Path) -> None:
    text = PLAN.format(blocks=5, targets='["1 ms"]')
    text = re.sub(r'method = \["usleep".*?\]', 'platform = ["host", "qemu"]\nmethod = ["usleep"]', text)
    summary = summarise(write_store(tmp_path / "store", Recipe(plan_text=text, platform_factor={"qemu": 3.0})))
    # As where a time limit ended runs on the slower platform early.
    by_time = replace(summary, comparisons=tuple(replace(row, quantity="late_fraction") for row in summary.comparisons))
    for one, ending in ((summary, ""), (by_time, " as much time late")):
        answered = " ".join(words_of(sentence) for sentence in content_of(one, figures=False).answer.sentences)
        found = re.search(r"Elsewhere: qemu [\d.]+\N{MULTIPLICATION SIGN} \([\d. to]+\)( as much time late)?", answered)
        assert found is not None, answered
        assert (found[1] or "") == ending


def test_the_shift_table_calls_no_quantile_of_survivors_higher(made: Made) -> None:
    (table,) = (table for table in made.content.tables() if table.id.startswith("shift-"))
    keys = [column.key for column in table.columns]
    capped = [row for row in table.rows if row[keys.index("where")].raw in ("spin", "two_phase")]
    capped = [row for row in capped if "cpu" in row[keys.index("change")].text]
    assert len(capped) == 2
    for row in capped:
        quantiles = [cell for cell, key in zip(row, keys, strict=True) if key.startswith("ratio_")]
        assert {cell.kind for cell in quantiles} == {"missing"}
        assert all("the readings that were completed" in cell.text for cell in quantiles)
    others = [row for row in table.rows if row not in capped]
    assert any(cell.kind == "worse" for row in others for cell in row)
