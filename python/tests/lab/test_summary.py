from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from comparison_frames import compared

from vtare.campaign.results import CampaignResult
from vtare.campaign.store import Store
from vtare.design import Run as RunRow
from vtare.errors import BadInput
from vtare.plan.factors import FACTORS
from vtare.plan.model import Plan
from vtare.samples import RunFile, other_clocks, refuse_mixture
from vtare.stats import Verdict
from vtare.summary import Summary, summarise
from vtare.summary.cells import CELL_COLUMNS, ControlRow, OutlierRow, control_drift
from vtare.summary.contrasts import ComparisonRow
from vtare.summary.factors import ComparedLevel, Differing, InteractionRow, LevelRow, RankTestRow
from vtare.summary.figures import FIGURE_COLUMNS
from vtare.summary.rows import columns_of, frame_of, rows_of

Run = Callable[[Store], CampaignResult]


@pytest.fixture(scope="module")
def summary(finished: Path) -> Summary:
    return summarise(finished)


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A store of one's own to break."""
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def only(frame: pl.DataFrame, **wanted: str) -> dict[str, Any]:
    rows = frame.filter(*(pl.col(key) == value for key, value in wanted.items()))
    assert rows.height == 1
    return rows.row(0, named=True)


def test_frames_have_the_described_columns(summary: Summary) -> None:
    assert set(FIGURE_COLUMNS) <= set(summary.runs.columns)
    assert set(CELL_COLUMNS) <= set(summary.cells.columns)
    assert set(columns_of(ComparisonRow)) <= set(compared(summary.comparisons).columns)
    assert set(columns_of(RankTestRow)) == set(summary.tests.columns)
    assert set(columns_of(OutlierRow)) <= set(summary.outliers.columns)
    assert set(columns_of(InteractionRow)) == set(summary.interactions.columns)
    assert set(columns_of(LevelRow)) == set(summary.levels.columns)
    assert set(columns_of(ControlRow)) == set(summary.controls.columns)
    assert summary.keys == {
        "sleep": ("load", "method", "target_ns"),
        "timer": ("source",),
        "counter": ("argument",),
        "noise": ("cpu",),
    }


def test_no_column_of_figures_has_the_name_of_a_factor() -> None:
    """It would take the place of the factor's levels in every plan that has it."""
    factors = {factor.name for factor in FACTORS}
    rows = (ComparisonRow, RankTestRow, OutlierRow, InteractionRow, LevelRow, ControlRow)
    columns = {*FIGURE_COLUMNS, *CELL_COLUMNS, *(name for row in rows for name in columns_of(row))}
    assert len(columns) > 100
    assert columns & factors == set()


def test_figures_of_a_run_are_those_of_its_file(summary: Summary, finished: Path) -> None:
    row = summary.runs.filter(pl.col("experiment") == "sleep").row(0, named=True)
    raw = pl.read_parquet(finished / "runs" / row["run_id"] / "samples.parquet")["miss_ns"].to_numpy()
    assert row["n"] == len(raw)
    assert row["median"] == float(np.median(raw))
    assert row["half_iqr"] == pytest.approx(float(np.subtract(*np.quantile(raw, [0.75, 0.25]))) / 2)
    assert row["p99"] == pytest.approx(float(np.quantile(raw, 0.99)))
    assert row["p999"] is None
    assert row["disturbed_fraction"] == pytest.approx(1 / 300)
    assert row["cpu_fraction"] == 0.02


def test_histogram_rows_of_the_timer_are_weighed(summary: Summary) -> None:
    row = summary.runs.filter(pl.col("experiment") == "timer", pl.col("source") == "vtare").row(0, named=True)
    assert (row["n"], row["median"], row["max"], row["min"]) == (20_001, 10.0, 5000.0, 10.0)
    assert row["mean"] == pytest.approx((18_000 * 10 + 2_000 * 20 + 5000) / 20_001)
    assert row["p999"] == 20.0
    series_s = (18_000 * 10 + 2_000 * 20 + 5000) / 1e9
    assert row["threshold_ns"] == 1000
    assert row["exceed_per_s"] == pytest.approx(1 / series_s)
    assert row["exceed_fraction"] == pytest.approx(1 / 20_001)
    # A histogram has lost its order.
    assert (row["lag1"], row["n_eff"]) == (None, None)
    series = summary.runs.filter(pl.col("experiment") == "sleep")
    assert series.filter(pl.col("n_eff") > pl.col("n")).height == 0
    assert series["lag1"].null_count() == 0


def test_figures_that_an_instrument_does_not_have_are_null_not_zero(summary: Summary) -> None:
    timer = summary.runs.filter(pl.col("experiment") == "timer").row(0, named=True)
    assert [timer[name] for name in ("cv", "cpu_fraction", "lost_fraction", "method", "load")] == [None] * 5
    noise = summary.runs.filter(pl.col("experiment") == "noise").row(0, named=True)
    assert (noise["lost_fraction"], noise["gaps_per_s"], noise["p99"], noise["exceed_per_s"]) == (
        0.02,
        25.0,
        None,
        None,
    )
    counter = summary.runs.filter(pl.col("experiment") == "counter").row(0, named=True)
    assert 0.001 < counter["cv"] < 0.1
    assert summary.runs.filter(pl.col("experiment") == "counter")["argument"].unique().sort().to_list() == [
        "1",
        "2",
        "4",
    ]


def test_cell_figures_stand_on_runs(summary: Summary) -> None:
    cell = only(summary.cells, experiment="sleep", load="idle", method="usleep")
    runs = summary.runs.filter(
        pl.col("experiment") == "sleep", pl.col("load") == "idle", pl.col("method") == "usleep"
    )["median"].to_list()  # fmt: skip
    assert (cell["n_runs"], cell["n"]) == (3, 900)
    assert cell["median"] == sorted(runs)[1]
    # Three runs give no 95 % interval: their range is shown, and labelled with what it covers.
    assert (cell["median_low"], cell["median_high"]) == (min(runs), max(runs))
    assert (cell["interval_method"], cell["interval_level"]) == ("order statistics", 0.75)
    assert (cell["failed_runs"], cell["skipped_runs"], cell["pending_runs"]) == (0, 0, 0)
    # In the plan's order of levels, controls left out.
    sleep = summary.cells.filter(pl.col("experiment") == "sleep")
    assert sleep.select("load", "method").rows() == [
        ("idle", "usleep"), ("idle", "spin"), ("cpu 3", "usleep"), ("cpu 3", "spin"),
    ]  # fmt: skip
    assert "control" not in summary.cells["experiment"].to_list()


def test_comparison_is_with_the_cell_that_differs_only_in_that_factor(summary: Summary) -> None:
    row = only(compared(summary.comparisons), experiment="sleep", load="cpu 3", method="spin", factor="method")
    idle = only(summary.cells, experiment="sleep", load="cpu 3", method="usleep")
    spin = only(summary.cells, experiment="sleep", load="cpu 3", method="spin")
    assert (row["level"], row["baseline"], row["verdict"]) == ("spin", "usleep", "inconclusive")
    assert row["ratio"] == pytest.approx(spin["median"] / idle["median"], rel=0.1)
    assert (row["median"], row["median_baseline"]) == (spin["median"], idle["median"])
    # 3 blocks: the runs are described and nothing is concluded.
    assert (row["inference"], row["ratio_low"], row["p_value"]) == ("refused", None, None)
    assert row["reason"] == "refused: 3 blocks have both cells; 4 are needed"
    assert row["difference"] == pytest.approx(spin["median"] - idle["median"], rel=0.1)
    assert row["cliffs_delta"] == -1.0
    # Arguments of the counter function are bound to differ: they are never compared.
    assert compared(summary.comparisons).filter(pl.col("experiment") == "counter").height == 0
    assert compared(summary.comparisons).filter(pl.col("experiment") == "sleep").height == 4
    assert compared(summary.comparisons).filter(pl.col("experiment") == "timer").height == 1


def test_timer_cells_are_compared_by_the_cost_of_loops_not_by_steps_of_the_clock(summary: Summary) -> None:
    row = only(compared(summary.comparisons), experiment="timer", factor="source")
    cells = {r["source"]: r for r in summary.cells.filter(pl.col("experiment") == "timer").iter_rows(named=True)}
    assert row["quantity"] == "read_cost_ns"
    assert row["ratio"] == pytest.approx(
        cells["vtare"]["read_cost_ns"] / cells["clock_monotonic"]["read_cost_ns"], rel=0.01
    )
    assert 0.4 < row["ratio"] < 0.43
    assert cells["vtare"]["read_cost_low_ns"] <= cells["vtare"]["read_cost_ns"] <= cells["vtare"]["read_cost_high_ns"]
    assert cells["vtare"]["median"] == 10.0
    assert summary.cells.filter(pl.col("experiment") == "sleep")["read_cost_ns"].null_count() == 4


def test_summary_of_the_same_store_is_the_same(summary: Summary, finished: Path) -> None:
    again = summarise(finished)
    assert again.comparisons == summary.comparisons
    assert again.cells.equals(summary.cells)


def test_whole_factors_have_interactions_levels_and_outliers(summary: Summary) -> None:
    crossed = only(summary.interactions, experiment="sleep")
    assert (crossed["effect"], crossed["n_runs"], crossed["dimensions"]) == ("load x method", 12, 1)
    assert crossed["family"] == "sleep: interactions"
    levels = summary.levels.filter((pl.col("experiment") == "sleep") & (pl.col("figure") == "median"))
    assert levels.select("factor", "level").rows() == [
        ("load", "idle"), ("load", "cpu 3"), ("method", "usleep"), ("method", "spin"),
    ]  # fmt: skip
    assert levels["n_level"].to_list() == [6, 6, 6, 6]
    spin = only(summary.levels, experiment="sleep", level="spin", figure="median")
    assert spin["cliffs_delta"] == -1.0
    assert spin["tau_b"] == pytest.approx(-spin["tau_bound"])
    # Every reading of a cell is scored once, and the outliers of an experiment are shared out among its cells.
    outliers = summary.outliers.filter(pl.col("experiment") == "sleep")
    assert outliers["n"].to_list() == [900] * 4
    shares = outliers["share"].drop_nulls()
    assert shares.sum() == pytest.approx(1.0) or outliers["outliers"].sum() == 0


def test_tails_are_compared_by_the_rule_of_all_and_refused_where_there_are_too_few(summary: Summary) -> None:
    tails = compared(summary.tails).filter(pl.col("experiment") == "sleep", pl.col("tail") == "p99")
    assert tails.height == 4
    assert tails["ratio"].null_count() == 0
    assert tails["p_value"].null_count() == 4
    assert all("3 blocks have both cells; 4 are needed" in text for text in tails["refused"])
    long = compared(summary.tails).filter(pl.col("experiment") == "sleep", pl.col("tail") == "p999")
    assert set(long["refused"]) == {"p999 needs 2995 readings in a run, the longest has 300"}


def test_two_levels_in_three_blocks_can_never_be_significant_and_the_test_states_so(summary: Summary) -> None:
    rows = summary.tests.filter(pl.col("experiment") == "sleep")
    assert rows.group_by("figure").len().sort("figure").rows() == [
        ("half_iqr", 4),
        ("max", 4),
        ("median", 4),
        ("min", 4),
    ]
    assert rows["p_value"].null_count() == rows.height
    tested = rows.filter(~pl.col("refused").str.starts_with("all levels are equal"))
    assert all("least possible p is 0.25" in text for text in tested["refused"])
    assert set(tested["figure"]) >= {"median"}
    assert set(rows["pairs"].list.len()) == {0}


def test_machine_loads_and_notes_come_from_footers_and_load_documents(summary: Summary) -> None:
    (machine,) = summary.machines
    assert (machine.hostname, machine.runs, machine.steal_ns) == (
        "fake",
        summary.design.height,
        20 * summary.design.height,
    )
    assert machine.residual_ppm_max == 0.002
    assert [(load.kind, load.threads) for load in summary.loads] == [("idle", 0), ("cpu 3", 3)]
    assert [(note.id, note.runs) for note in summary.notes if note.id == "slack_kept"] == [
        ("slack_kept", summary.design.height)
    ]


def test_raw_samples_come_lazily_with_keys_value_and_weight(summary: Summary) -> None:
    frame = summary.samples("timer")
    assert isinstance(frame, pl.LazyFrame)
    rows = frame.filter(pl.col("source") == "vtare").collect()
    assert rows["weight"].sum() == 3 * 20_001
    assert rows["value"].unique().sort().to_list() == [10.0, 20.0, 5000.0]
    assert summary.samples("sleep").collect()["target_ns"].unique().to_list() == ["1 ms"]
    assert {"load", "method", "block", "run_id"} <= set(summary.samples("sleep").collect_schema().names())


def test_derived_file_holds_the_runs_and_may_be_deleted(copy: Path) -> None:
    (copy / "summary.parquet").unlink(missing_ok=True)
    made = summarise(copy)
    assert pl.read_parquet(copy / "summary.parquet").equals(made.runs)
    assert not list(copy.glob("*.partial"))


def first_run(store: Path, experiment: str) -> Path:
    design = pl.read_parquet(store / "design.parquet").filter(pl.col("experiment") == experiment)
    return store / "runs" / design["run_id"][0] / "samples.parquet"


def test_corrupted_file_is_named_and_left_out(copy: Path) -> None:
    path = first_run(copy, "sleep")
    path.write_bytes(path.read_bytes()[:-20])
    made = summarise(copy)
    (row,) = made.failed.iter_rows(named=True)
    assert str(path) in row["reason"]
    assert any(note.id == "left_out" and str(path) in note.text for note in made.notes)
    assert made.cells.filter(pl.col("experiment") == "sleep")["n_runs"].sum() == 11
    assert made.cells["failed_runs"].sum() == 1
    assert path.parent.name not in made.samples("sleep").collect()["run_id"].to_list()


def test_file_damaged_behind_its_footer_is_named_and_left_out(copy: Path) -> None:
    path = first_run(copy, "sleep")
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    made = summarise(copy)
    (row,) = made.failed.iter_rows(named=True)
    assert "damaged" in row["reason"]
    assert path.parent.name not in made.samples("sleep").collect()["run_id"].to_list()


def rewrite(path: Path, change: Callable[[dict[str, Any]], None], drop: str | None = None) -> None:
    footer = json.loads(pl.read_parquet_metadata(path)["vtare"])
    change(footer)
    frame = pl.read_parquet(path)
    frame = frame if drop is None else frame.drop(drop)
    frame.write_parquet(path, metadata={"vtare": json.dumps(footer)})


@pytest.mark.parametrize(
    ("part", "key", "words"),
    [
        ("machine", "kernel", "kernel differs: '"),
        ("machine", "cpu_model", "CPU differs"),
        ("program", "version", "program version differs"),
    ],
)
def test_runs_of_another_machine_or_program_are_not_pooled(copy: Path, part: str, key: str, words: str) -> None:
    rewrite(first_run(copy, "sleep"), lambda footer: footer[part].update({key: "other"}))
    with pytest.raises(BadInput, match="must not be pooled") as error:
        summarise(copy)
    assert words in str(error.value)
    assert "'other' in 1 runs" in str(error.value)


def test_a_run_on_another_clock_source_costs_itself_and_not_the_report(copy: Path) -> None:
    odd = first_run(copy, "sleep")
    before = summarise(copy)
    rewrite(odd, lambda footer: footer["machine"].update({"clock_source": "hpet"}))
    after = summarise(copy)
    (problem,) = after.sample_set.problems
    assert problem.run_id == odd.parent.name
    assert "its kernel kept time by 'hpet'" in problem.reason
    assert "guest_clock" in problem.reason
    assert odd.parent.name in after.failed["run_id"].to_list()
    assert after.runs.height < before.runs.height
    assert len(after.comparisons) == len(before.comparisons)


def on_clock(run_id: str, clock_source: str, position: int = 0, **factors: str) -> RunFile:
    run = RunRow(position, 1, 1, run_id, "e", "timer", None, factors, {})
    return RunFile(run, Path(run_id), {"machine": {"clock_source": clock_source, "kernel": "6.1"}}, None)


def test_clock_sources_may_differ_between_levels_of_the_factor_that_sets_them_and_not_within_one() -> None:
    levels = {"tsc": "tsc", "hpet": "hpet", "default": "tsc"}
    files = [
        on_clock(f"{level}-{number}", source, platform="qemu", guest_clock=level)
        for level, source in levels.items()
        for number in range(2)
    ]
    others = [on_clock("plain", "kvm-clock", platform="qemu"), on_clock("host", "acpi_pm")]
    assert other_clocks([*files, *others]) == []
    (odd,) = other_clocks([*files, on_clock("odd", "tsc", platform="qemu", guest_clock="hpet")])
    assert odd.run_id == "odd"
    assert "kept time by 'tsc', that of 2 other runs on platform 'qemu' with guest_clock 'hpet' by 'hpet'" in odd.reason
    # A kernel with two CPUs may drop the TSC that one with one CPU keeps.
    cpus = [on_clock(f"{n}-{i}", {"1": "tsc", "2": "hpet"}[n], platform="qemu", vcpus=n) for n in "12" for i in "ab"]
    assert other_clocks(cpus) == []
    # What the factor does not set must agree all the same.
    files[0].footer["machine"]["kernel"] = "6.2"
    with pytest.raises(BadInput, match="platform 'qemu' must not be pooled: their kernel differs"):
        refuse_mixture(files)


def test_of_two_clock_sources_with_as_many_runs_the_earlier_one_counts() -> None:
    files = [on_clock("later", "hpet", 7, platform="qemu"), on_clock("first", "tsc", 2, platform="qemu")]
    assert [problem.run_id for problem in other_clocks(files)] == ["later"]


def test_file_without_a_column_of_the_contract_is_left_out(copy: Path) -> None:
    rewrite(first_run(copy, "sleep"), lambda footer: None, drop="miss_ns")
    (row,) = summarise(copy).failed.iter_rows(named=True)
    assert "column 'miss_ns' is missing" in row["reason"]


def test_untrusted_clock_and_interrupted_runs_are_stated(copy: Path) -> None:
    rewrite(first_run(copy, "sleep"), lambda footer: footer["clock"].update(trusted=False, reasons=["two sockets"]))
    rewrite(first_run(copy, "timer"), lambda footer: footer.update(interrupted=True))
    notes = {note.id: note for note in summarise(copy).notes}
    assert notes["clock_not_trusted"].text == "The CPU counter was not trusted: two sockets"
    assert notes["interrupted"].runs == 1


def test_unfinished_campaign_is_summarised_with_what_is_missing(
    tmp_path: Path, tiny_plan: Plan, fake: Any, run_campaign: Run
) -> None:
    with Store.create(tmp_path / "store", tiny_plan, 7) as store:
        empty = summarise(tmp_path / "store")
        assert (empty.pending_runs, empty.runs.height, empty.cells["n_runs"].to_list()) == (8, 0, [0, 0, 0, 0])
        assert empty.cells["median"].null_count() == 4
        fake.behave(fail='"spin"')
        run_campaign(store)
    made = summarise(tmp_path / "store")
    assert made.failed.height == 4
    assert set(made.failed["exit_code"]) == {4}
    assert made.cells.filter(pl.col("method") == "spin").select("n_runs", "failed_runs").rows() == [(0, 2), (0, 2)]
    assert any(note.id == "failed_runs" and note.runs == 4 for note in made.notes)
    with pytest.raises(BadInput, match="no finished run"):
        empty.samples("sleep")


def control(block: int, median: float) -> ControlRow:
    return ControlRow(
        block=block, control="open", run_id=f"{block}", part="p", quantity="miss_ns", median=median, half_iqr=2.0
    )


def test_control_drifts_beyond_three_half_iqr_and_not_before() -> None:
    rows = [control(block, 100.0) for block in range(1, 6)]
    inside = control_drift([*rows, control(6, 106.0)], quantum_ns=0.0)
    beyond = control_drift([*rows, control(6, 106.1)], quantum_ns=0.0)
    assert [row.drifted for row in inside] == [False] * 6
    assert [row.drifted for row in beyond] == [False] * 5 + [True]
    assert beyond[0].limit == 6.0
    # A spread of 0 means "below the quantum": one tick of the clock is no drift.
    flat = [replace(row, half_iqr=0.0) for row in [*rows, control(6, 110.0)]]
    assert not any(row.drifted for row in control_drift(flat, quantum_ns=10.0))
    assert any(row.drifted for row in control_drift(flat, quantum_ns=3.0))


def test_rows_come_out_of_their_frame_as_they_went_in() -> None:
    row = ComparisonRow(
        experiment="e", instrument="sleep", labels={"load": "cpu"}, quantity="miss_ns", factor="load", level="cpu",
        baseline="idle", n_runs=3, n_runs_baseline=2, ratio=1.5, family="f", adjustment="bh",
        verdict=Verdict.INCONCLUSIVE,
        tail="p99",
    )  # fmt: skip
    frame = frame_of(ComparisonRow, [row], ("load", "platform"))
    assert frame["platform"].to_list() == [None]
    assert rows_of(ComparisonRow, frame) == [row]
    tested = RankTestRow(
        experiment="e", factor="load", where=(ComparedLevel("method", "usleep"),), figure="median", test="friedman",
        statistic=1.0, p_value=0.2, p_adjusted=None, p_text="0.2", family="f", adjustment="holm", exact=None, n_runs=4,
        levels=("idle", "cpu"), pairs=(Differing("idle", "cpu", 0.01),), refused=None,
    )  # fmt: skip
    assert rows_of(RankTestRow, frame_of(RankTestRow, [tested])) == [tested]


def test_summary_of_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such store"):
        summarise(tmp_path / "none")
