"""Statistics over whole stores: bad ones, two of them, and pilots. bench/statistics counts over 2,000."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "statistics"))

from campaigns import Truth, write_campaign
from comparison_frames import compared

from vtare.plan.files import load_plan, shipped_plans
from vtare.stats import self_test
from vtare.summary import summarise
from vtare.summary.cells import Cell
from vtare.summary.power import PowerQuestion, largest_family, needs_by_figure, needs_from_pilot, needs_from_spread
from vtare.terminal.power import show_needs

Make = Callable[..., Path]
Lab = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Write a campaign under a name; the truth's fields are keywords."""

    def write(name: str, seed: int = 1, **truth: Any) -> Path:
        return write_campaign(tmp_path / name, Truth(**truth), seed)

    return write


def samples_of(store: Path, at: int = 0) -> Path:
    run = pl.read_parquet(store / "design.parquet")["run_id"][at]
    return store / "runs" / str(run) / "samples.parquet"


def rewrite(path: Path, change: Callable[[dict[str, Any]], None], frame: pl.DataFrame | None = None) -> None:
    footer = json.loads(pl.read_parquet_metadata(path)["vtare"])
    change(footer)
    (frame if frame is not None else pl.read_parquet(path)).write_parquet(path, metadata={"vtare": json.dumps(footer)})


# --- one store ---


def test_a_campaign_with_a_known_shift_states_so_everywhere(make: Make) -> None:
    summary = summarise(make("s", blocks=8, ratio=1.3, tail_ratio=2.0, samples=1200))
    (row,) = compared(summary.comparisons).iter_rows(named=True)
    assert (row["verdict"], row["inference"], row["n_runs"]) == ("higher", "paired t", 8)
    assert row["ratio_low"] < 1.3 < row["ratio_high"]
    assert row["p_adjusted"] == row["p_value"] < 1e-4
    assert row["p_text"] == "< 1e-4"
    assert row["p_equivalent"] > 0.5
    assert (row["design"], row["n_blocks"], row["fragile"], row["decided_by"]) == ("paired", 8, False, None)
    assert row["rank_low"] < row["ratio_rank"] < row["rank_high"]
    assert row["anytime_low"] < row["ratio_low"]
    assert row["anytime_high"] > row["ratio_high"]
    assert row["runs_needed"] > 8
    tails = {tail["tail"]: tail for tail in compared(summary.tails).iter_rows(named=True)}
    assert tails["p99"]["ratio"] > 2.0
    assert (tails["p99"]["inference"], tails["p99"]["n_blocks"]) == ("paired t", 8)
    assert tails["p99"]["p_value"] < 0.01
    assert (tails["p999"]["without"], tails["p999"]["without_baseline"]) == (8, 8)
    assert tails["p999"]["refused"] == "p999 needs 2995 readings in a run, the longest has 1200"
    assert summary.levels["figure"].unique(maintain_order=True).to_list() == ["median", "half_iqr", "p99"]
    main = summary.levels.filter(pl.col("figure") == "median")
    levels = {level["level"]: level for level in main.iter_rows(named=True)}
    assert levels["usleep"]["cliffs_delta"] == -1.0
    assert levels["usleep"]["tau_b"] == pytest.approx(-levels["usleep"]["tau_bound"])
    assert summary.outliers["share"].sum() == pytest.approx(1.0)
    assert summary.outliers["pooled_share"].sum() == pytest.approx(1.0)
    assert summary.interactions.height == 0
    assert summary.runs["settled"].to_list() == [True] * 16


def test_ten_runs_a_cell_are_compared_by_the_rule_of_nine(make: Make) -> None:
    for blocks in (9, 10):
        summary = summarise(make(f"s{blocks}", blocks=blocks, ratio=1.3))
        (row,) = compared(summary.comparisons).iter_rows(named=True)
        assert (row["inference"], row["verdict"], row["freedom"]) == ("paired t", "higher", blocks - 1)
        assert row["ratio_low"] < 1.3 < row["ratio_high"]


def test_ten_percent_are_found_in_five_blocks_that_differ_by_ten_percent(make: Make) -> None:
    found = 0
    for seed in range(20):
        store = make(f"s{seed}", seed=seed, blocks=5, ratio=1.1, block=0.1, between=0.02, samples=500, memory=0.0)
        (row,) = compared(summarise(store).comparisons).iter_rows(named=True)
        found += row["verdict"] in ("higher", "lower")
    # At 95 % power fewer than 16 of 20 has a chance below 0.003.
    assert found >= 16


def test_one_run_a_cell_is_described_and_nothing_is_concluded(lab_command: Lab, make: Make) -> None:
    store = make("s", blocks=1, ratio=5.0)
    summary = summarise(store)
    (row,) = compared(summary.comparisons).iter_rows(named=True)
    assert row["ratio"] == pytest.approx(5.0, rel=0.5)
    assert (row["ratio_low"], row["p_value"], row["verdict"], row["inference"]) == (
        None,
        None,
        "inconclusive",
        "refused",
    )
    assert row["reason"] == "refused: 1 block has both cells; 4 are needed"
    assert summary.tests["refused"].null_count() == 0
    assert compared(summary.tails)["p_value"].null_count() == 2
    assert summary.cells["median_low"].null_count() == 2
    done = lab_command("report", store)
    assert done.returncode == 0, done.stderr


def test_a_a_stores_are_called_different_in_about_5_percent(tmp_path: Path) -> None:
    def differs(rng: Any) -> bool:
        store = tmp_path / "store"
        seed = int(rng.integers(2**31))
        try:
            summary = summarise(write_campaign(store, Truth(blocks=5), seed))
        finally:
            shutil.rmtree(store)
        (row,) = compared(summary.comparisons).iter_rows(named=True)
        return bool(row["p_adjusted"] <= 0.05)

    found = self_test(differs, trials=100, seed=4)
    assert found.low <= 0.07
    assert found.high >= 0.03


def test_warm_up_is_cut_from_the_figures_and_kept_in_the_samples(make: Make) -> None:
    store = make("s", blocks=4, samples=2000)
    path = samples_of(store)
    frame = pl.read_parquet(path)
    first = pl.col("index") < 200
    warm = frame.with_columns(miss_ns=pl.when(first).then(pl.col("miss_ns") * 8).otherwise("miss_ns"))
    rewrite(path, lambda footer: None, warm)
    drifting = samples_of(store, 1)
    climb = pl.read_parquet(drifting).with_columns((pl.col("miss_ns") * (1 + pl.col("index") / 500)).cast(pl.Int64))
    rewrite(drifting, lambda footer: None, climb)
    summary = summarise(store)
    rows = {row["run_id"]: row for row in summary.runs.iter_rows(named=True)}
    cut = rows[path.parent.name]
    assert 200 <= cut["warmup_n"] < 500
    assert cut["n"] == 2000 - cut["warmup_n"]
    assert cut["settled"]
    unsettled = rows[drifting.parent.name]
    assert (unsettled["warmup_n"], unsettled["settled"], unsettled["n"]) == (0, False, 2000)
    assert summary.cells["unsettled_runs"].sum() == 1
    assert any(note.id == "unsettled" and note.runs == 1 for note in summary.notes)
    assert summary.samples("sleeps").collect().height == 8 * 2000


# --- bad stores ---


def test_an_empty_store_has_a_message_and_leaves_no_report(lab_command: Lab, make: Make, tmp_path: Path) -> None:
    store = make("s", blocks=1)
    full = make("full", seed=2, blocks=4)
    (store / "journal.sqlite").unlink()
    from vtare.campaign.journal import Journal

    with Journal(store / "journal.sqlite"):
        pass
    done = lab_command("report", store)
    assert done.returncode == 2
    assert "no run is finished" in done.stderr
    assert not (store / "report.html").exists()
    for arguments in (("compare", full, store), ("compare", store, full), ("plan", "power", store)):
        done = lab_command(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert f"{store}: no run is finished" in done.stderr


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("cut", "damaged, or not written by vtare"),
        ("noise", "damaged"),
        ("schema", "its schema is 'vtare.samples/9', not 'vtare.samples/1': another version of vtare wrote it"),
        ("column", "column 'miss_ns' is missing beside method, target_ns, index, spin_ns, disturbed"),
        ("type", "column 'miss_ns' is String, not int64"),
        ("footer", "the footer lacks machine"),
    ],
)
def test_a_run_that_cannot_be_used_is_named_and_left_out_and_the_report_ends_with_1(
    lab_command: Lab, undrawn: None, make: Make, damage: str, message: str
) -> None:
    store = make("s", blocks=5)
    path = samples_of(store)
    frame = pl.read_parquet(path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "noise":
        content = bytearray(path.read_bytes())
        content[4:200] = b"\xff" * 196
        path.write_bytes(content)
    elif damage == "schema":
        rewrite(path, lambda footer: footer.update(schema="vtare.samples/9"))
    elif damage == "column":
        rewrite(path, lambda footer: None, frame.drop("miss_ns"))
    elif damage == "type":
        rewrite(path, lambda footer: None, frame.with_columns(pl.col("miss_ns").cast(pl.String)))
    else:
        rewrite(path, lambda footer: footer.pop("machine"))
    done = lab_command("report", store)
    assert done.returncode == 1
    assert f"vtare: left out: {path}" in done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert (store / "report.html").exists()
    summary = summarise(store)
    assert summary.cells["n_runs"].sum() == 9
    assert summary.failed["run_id"].to_list() == [path.parent.name]


def test_runs_of_two_schema_versions_are_not_mixed(lab_command: Lab, make: Make) -> None:
    store = make("s", blocks=5, schema="vtare.samples/9")
    done = lab_command("report", store)
    assert done.returncode == 2
    assert "no run is finished" in done.stderr
    assert done.stderr.count("its schema is 'vtare.samples/9'") == 10


# --- pilots ---


def test_a_pilot_states_how_many_runs_and_readings_it_takes(make: Make) -> None:
    pilot = make("pilot", blocks=12, between=0.05, inside=0.2, memory=0.0)
    needs = needs_from_pilot(pilot, PowerQuestion(10.0, 0.8, 0.05, 12))
    assert [one.labels["method"] for one in needs] == ["usleep", "clock_nanosleep"]
    for one in needs:
        assert one.spread_percent == pytest.approx(5.3, rel=0.5)
        assert one.spread_upper_percent is not None
        assert one.spread_percent is not None
        assert one.paired_spread_percent is not None
        assert one.spread_upper_percent > one.paired_spread_percent
        assert one.runs is not None
        assert one.runs_cautious is not None
        assert 4 <= one.runs <= one.runs_cautious <= 40
        # 1.3 s for a run of 1 s: a start costs 0.3 s, a reading 1/300 s; s1 is 0.25 of a reading, s2 0.05.
        assert one.samples_advised is not None
        assert 5 <= one.samples_advised <= 400
        assert one.comparisons == 1


def test_a_stated_spread_gives_the_numbers_of_the_formula() -> None:
    plan = load_plan(shipped_plans()["quickstart"])
    needs = needs_from_spread(plan, 5.0, PowerQuestion(10.0, 0.8, 0.05, plan.blocks))
    assert [one.experiment for one in needs] == [experiment.name for experiment in plan.experiments]
    for one, experiment in zip(needs, plan.experiments, strict=True):
        assert one.comparisons == largest_family(experiment)
        assert one.runs is not None
        assert one.runs >= 6
        assert one.found_percent is not None


def test_plan_power_is_shown_on_the_command_line(lab_command: Lab, make: Make) -> None:
    pilot = make("pilot", blocks=6)
    shown = lab_command("plan", "power", pilot, "--shift", 20)
    assert shown.returncode == 0, shown.stderr
    assert "find a shift of 20 % with power 80 % at alpha 0.05" in shown.stdout
    assert "are enough; the plan has 6." in shown.stdout
    told = json.loads(lab_command("plan", "power", "quickstart", "--pilot", pilot, "--json").stdout)
    assert (told["schema"], told["blocks"], told["pilot"]) == ("vtare.power/1", 5, str(pilot))
    assert {cell["levels"]["method"] for cell in told["cells"]} == {"usleep", "clock_nanosleep"}
    stated = json.loads(lab_command("plan", "power", "quickstart", "--spread", 5, "--json").stdout)
    assert all(cell["pilot_runs"] is None for cell in stated["cells"])
    one = lab_command("plan", "power", make("one", seed=3, blocks=1))
    assert one.returncode == 0
    assert "a spread between runs needs 2 of them, there are 1" in one.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("power", "quickstart"), "No spread is given. Write `vtare plan power quickstart"),
        (("quickstart", "--spread", "5"), "unknown option '--spread'"),
        (("power", "quickstart", "--spread", "-1"), "--spread: '-1' is not a percentage above 0"),
        (("power", "quickstart", "--spread", "5", "--chance", "100"), "--chance: '100' is not"),
        (("power", "quickstart", "--spread", "5", "--shift", "0"), "--shift: '0' is not"),
        (("power", "quickstart", "--pilot", "nowhere"), "nowhere: no such store"),
    ],
)
def test_bad_questions_about_power_are_refused(lab_command: Lab, arguments: tuple[str, ...], message: str) -> None:
    done = lab_command("plan", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_plan_of_power_has_a_row_for_each_figure_that_a_cell_is_compared_by() -> None:
    """Beside a cell whose runs a limit ended the share of time late counts, beside the other one the median."""
    rng = np.random.default_rng(3)

    def cell(method: str, share: float) -> Cell:
        runs = [
            {"quantity": "miss_ns", "n": 100, "median": median, "late_fraction": late, "completed_fraction": share}
            for median, late in zip(9e4 * rng.lognormal(0, 0.03, 6), 0.4 * rng.lognormal(0, 0.5, 6), strict=True)
        ]
        return Cell({"method": method}, figures=list(runs), blocks=list(range(6)), run_ids=[""] * 6)

    cells = [cell("usleep", 1.0), cell("adaptive", 1.0), cell("spin", 0.1)]
    question = PowerQuestion(5.0, 0.8, 0.05, 6)
    rows = needs_by_figure(cells[0], cells[1:], 2, question, "sleeps")
    assert [row.quantity for row in rows] == ["miss_ns", "late_fraction"]
    median, late = rows
    assert median.spread_percent is not None
    assert late.spread_percent is not None
    # Each row is of one figure alone: both its spreads are of the same size.
    for row, true in ((median, 3.0), (late, 65.0)):
        assert row.spread_percent is not None
        assert row.paired_spread_percent is not None
        assert true / 2.5 < row.spread_percent < 2.5 * true
        assert row.paired_spread_percent < 5 * row.spread_percent
    assert late.runs is None or (median.runs is not None and late.runs > median.runs)
    printed = io.StringIO()
    show_needs(Console(width=200, file=printed), question, rows)
    assert "│ median " in printed.getvalue() or "│ miss " in printed.getvalue()
    assert "time late" in printed.getvalue()
