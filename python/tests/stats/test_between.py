"""Campaigns before and after a change: when there is a verdict, what it takes, and how often it is wrong."""

from __future__ import annotations

import io
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from json_schemas import validate
from markupsafe import escape
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "statistics"))

from campaigns import MEDIAN_NS, Truth, write_campaign

from vtare.errors import BadInput
from vtare.instruments import metric
from vtare.plan.model import Analysis
from vtare.report.compared import answer_of, commands_of, compared_page, figure_text, fixed_levels, where_of
from vtare.stats import Verdict
from vtare.summary.between import REFUSED, BetweenRow, Changed, LoneCell, RawRow, compare_stores, judge
from vtare.summary.campaigns import Shift
from vtare.summary.cells import Cell, compared_figure
from vtare.terminal.between import show_between

Make = Callable[..., Path]
Lab = Callable[..., subprocess.CompletedProcess[str]]
Sides = tuple[list[Path], list[Path]]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Write a campaign; the truth's fields are keywords."""

    def write(seed: int, **truth: Any) -> Path:
        return write_campaign(tmp_path_factory.mktemp("store") / "store", Truth(**truth), seed)

    return write


def arguments_of(sides: Sides) -> list[object]:
    before, after = sides
    further = [["--before", store] for store in before[1:]] + [["--after", store] for store in after[1:]]
    return [before[0], after[0], *(word for pair in further for word in pair)]


@pytest.fixture(scope="module")
def slower(make: Make) -> Sides:
    """Three campaigns a side, whose own offsets have an SD of 5 %; the later ones are 40 % slower."""
    offsets = np.exp(0.05 * np.random.default_rng(4).normal(size=6))
    before = [make(seed, blocks=5, samples=400, scale=offsets[seed]) for seed in range(3)]
    after = [
        make(seed, blocks=5, samples=400, scale=1.4 * offsets[seed], kernel="6.2.0-self-test") for seed in range(3, 6)
    ]
    return before, after


def test_one_campaign_on_each_side_is_described_and_gets_no_verdict(slower: Sides) -> None:
    found = compare_stores(slower[0][:1], slower[1][:1])
    assert found.refused == REFUSED
    assert "--before STORE" in REFUSED
    for row in (*found.cells, *found.tails):
        assert (row.verdict, row.change, row.p_adjusted) == ("refused", None, None)
        assert (row.ratio_low, row.ratio_high, row.reason) == (None, None, REFUSED)
        assert row.within_low < row.ratio < row.within_high
        assert row.ratio == pytest.approx(row.after / row.before)
    assert found.regressions == ()


def test_repeated_campaigns_show_a_change_and_what_else_differs(slower: Sides) -> None:
    found = compare_stores(*slower)
    assert [(row.labels["method"], row.verdict, row.change) for row in found.cells] == [
        ("usleep", "higher", "worse"), ("clock_nanosleep", "higher", "worse"),
    ]  # fmt: skip
    for row in found.cells:
        assert row.ratio == pytest.approx(row.after / row.before)
        assert row.ratio_low < 1.4 < row.ratio_high
        assert (row.family, row.family_size) == ("medians, after against before", 2)
        assert (row.n_campaigns, row.n_campaigns_before, row.n_runs) == (3, 3, 15)
        assert row.method_of_comparison == "welch"
    assert {row.tail for row in found.tails} == {"p99"}
    assert Changed("kernel", "6.1.0-self-test", "6.2.0-self-test") in found.changed
    assert not any(fact.what == "boot" for fact in found.changed)
    back = compare_stores(*reversed(slower))
    assert {row.change for row in back.cells} == {"better"}
    assert back.regressions == ()


def test_a_campaigns_figure_is_the_geometric_mean_of_its_run_figures(slower: Sides) -> None:
    from vtare.summary.measured import read_measured

    (cell, *_) = read_measured(slower[0][0]).work.cells["sleeps"]
    found = compare_stores(slower[0][:1], slower[1][:1])
    row = next(row for row in found.cells if row.labels["method"] == cell.labels["method"])
    assert row.before == pytest.approx(float(np.exp(np.mean(np.log(cell.known("median"))))))


def test_the_command_ends_with_1_on_a_regression_only_where_that_is_asked_for(lab_command: Lab, slower: Sides) -> None:
    short = lab_command("compare", *arguments_of(slower))
    assert short.stdout.startswith("2 cells: 2 worse (after / before, margin 5 %).\nchanged: kernel: 6.1.0-self-test")
    rows = [line.split() for line in short.stdout.splitlines() if line.startswith("  ")]
    assert [(row[0], row[-1]) for row in rows[:1]] == [("clock_nanosleep,", "worse")]
    plain = lab_command("compare", *arguments_of(slower), "--verbose")
    # What varies is named, with its factor; what is the same everywhere is not.
    assert "│ sleeps, method usleep " in plain.stdout
    assert plain.returncode == 0, plain.stderr
    assert "2 cells: 2 higher (" in plain.stdout
    assert "changed: kernel: 6.1.0-self-test -> 6.2.0-self-test" in plain.stdout
    assert "higher (worse)" in plain.stdout
    assert "higher, worse: p99 of sleeps, method usleep: " in plain.stdout
    assert "do not alternate: a slow drift" in plain.stdout
    assert lab_command("compare", *arguments_of(slower), "--fail-on-regression").returncode == 1
    assert lab_command("compare", *arguments_of((slower[1], slower[0])), "--fail-on-regression").returncode == 0
    told = lab_command("compare", *arguments_of(slower), "--json", "--fail-on-regression")
    assert told.returncode == 1
    document = json.loads(told.stdout)
    assert document.items() >= {"schema": "vtare.compare/2", "verdicts": {"higher": 2}, "refused": None}.items()
    assert document["worse"] >= 2
    assert document["before"] == [str(store) for store in slower[0]]
    validate(document)


def test_a_report_of_two_stores_is_their_comparison(lab_command: Lab, slower: Sides, tmp_path: Path) -> None:
    before, after = slower[0][0], slower[1][0]
    for option in ((), ("--json",)):
        one, other = lab_command("report", before, after, *option), lab_command("compare", before, after, *option)
        assert (one.returncode, one.stdout, one.stderr) == (0, other.stdout, other.stderr)
        assert one.stdout
    page = tmp_path / "page.html"
    assert f"page: {page}" in lab_command("report", before, after, "--out", page).stdout.replace("\n", "")
    assert "What changed between the campaigns?" in page.read_text(encoding="utf-8")
    refused = lab_command("report", before, after, "--format", "md")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "two stores: the comparison is a page. Leave --format out" in refused.stderr


def test_to_fail_on_a_regression_takes_two_campaigns_on_each_side(lab_command: Lab, slower: Sides) -> None:
    done = lab_command("compare", slower[0][0], slower[1][0], "--after", slower[1][1], "--fail-on-regression")
    assert (done.returncode, done.stdout) == (2, "")
    assert "1 campaign before and 2 after are too few, use 2 or more on each side" in done.stderr
    described = lab_command("compare", slower[0][0], slower[1][0])
    assert described.returncode == 0
    assert described.stdout.startswith("No verdict yet: one campaign per side is not enough.")
    again = [line for line in described.stdout.splitlines() if line.startswith("  vtare ")]
    assert [line.split()[1] for line in again] == ["run", "run", "compare"]
    assert f"{slower[0][0]}/plan.toml --store {slower[0][0]}-2" in again[0]
    described = lab_command("compare", slower[0][0], slower[1][0], "--verbose")
    assert "2 cells: 2 refused" in described.stdout
    assert "one campaign per side is not enough" in " ".join(described.stdout.split())


def test_campaigns_that_alternate_are_compared_in_pairs_from_four_on(make: Make) -> None:
    stores = [make(20 + at, blocks=4, scale=1.02**at) for at in range(8)]
    found = compare_stores(stores[::2], stores[1::2])
    assert (found.paired, found.alternated) == (True, True)
    assert {row.method_of_comparison for row in found.cells} == {"paired"}
    fewer = compare_stores(stores[:6:2], stores[1:6:2])
    assert (fewer.paired, fewer.alternated) == (False, True)
    apart = compare_stores(stores[:4], stores[4:])
    assert (apart.paired, apart.alternated) == (False, False)


def test_an_inconclusive_cell_names_the_campaigns_that_would_do(make: Make) -> None:
    offsets = np.exp(0.2 * np.random.default_rng(1).normal(size=4))
    stores = [make(40 + at, blocks=4, scale=offset) for at, offset in enumerate(offsets)]
    found = compare_stores(stores[:2], stores[2:])
    for row in found.cells:
        assert row.verdict == "inconclusive"
        assert row.campaigns_needed > 2
        assert row.reason == f"about {row.campaigns_needed} new campaigns a side are needed (80 % power for 5 %)"
    printed = io.StringIO()
    show_between(Console(width=200, file=printed), found, verbose=True)
    needed = [row.campaigns_needed for row in found.cells]
    assert [text for text in printed.getvalue().splitlines() if "To decide" in text] == [
        f"To decide {len(needed)} of the inconclusive cells, about {min(needed)} to {max(needed)} new campaigns a side "
        "are needed (80 % power for 5 %)."
    ]


def test_a_change_that_a_coarse_clock_hides_is_not_called_equivalent(make: Make) -> None:
    """A true +12.4 % of 36 ns on a lattice of 10 ns: all run medians are 40 ns, whatever step the driver states."""
    stores = [
        make(80 + at, blocks=4, scale=36.0 / MEDIAN_NS * (1.124 if at % 2 else 1.0), between=0.0, inside=0.02, step=10)
        for at in range(8)
    ]
    found = compare_stores(stores[::2], stores[1::2])
    for row in found.cells:
        assert row.verdict == "inconclusive"
        assert row.ratio_low < 1.124 < row.ratio_high
        assert row.campaigns_needed is None
        assert "the clock moves in steps of 10" in str(row.reason)


def row_of(found: Shift, experiment: str, *, campaigns_needed: int | None = None) -> RawRow:
    """A comparison of logarithms over campaigns, before it is judged."""
    assert found.low is not None
    assert found.high is not None
    ratio, low, high = (math.exp(value) for value in (found.estimate, found.low, found.high))
    row = BetweenRow(
        experiment=experiment, labels={}, quantity="miss_ns", n_campaigns=3, n_campaigns_before=3, n_runs=3,
        n_runs_before=3, after=ratio, before=1.0, ratio=ratio, ratio_low=low, ratio_high=high,
        method_of_comparison=found.method, p_value=found.p, campaigns_needed=campaigns_needed, margin_ratio=1.05,
    )  # fmt: skip
    return RawRow(row, found)


@pytest.mark.parametrize("offset", [0.0, 0.5, 1.0, 2.0])
def test_families_span_all_experiments_so_that_a_whole_comparison_rarely_errs(offset: float) -> None:
    """A/A of whole comparisons: 12 cells of two experiments, campaigns with a common offset, three a side."""
    rng = np.random.default_rng([17, int(10 * offset)])
    from vtare.summary.campaigns import shift_between

    trials, wrong = 300, 0
    for _ in range(trials):
        campaigns = rng.normal(0, offset, (6, 1)) + rng.normal(0, 1, (6, 12, 5)).mean(axis=2)
        rows = []
        for cell in range(12):
            found = shift_between(campaigns[:3, cell].tolist(), campaigns[3:, cell].tolist())
            rows.append(row_of(found, f"e{cell % 2}"))
        wrong += any(row.change is not None for row in judge(rows, "medians", "holm", Analysis(margin_percent=0.1)))
    assert wrong / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5


def test_direction_ratio_and_interval_always_agree() -> None:
    rng = np.random.default_rng(2)
    from vtare.summary.campaigns import shift_between

    rows = []
    for _ in range(500):
        here, there = (rng.normal(rng.normal(0, 1), rng.choice([0.01, 1.0]), 3).tolist() for _ in range(2))
        found = shift_between(here, there)
        rows.append(row_of(found, "e", campaigns_needed=9))
    judged = [row for row in rows for row in judge([row], "f", "none", Analysis())]
    assert {row.verdict for row in judged} >= {"higher", "lower", "inconclusive"}
    for row in judged:
        assert (row.verdict == "higher") <= (1 < row.ratio_low <= row.ratio)
        assert (row.verdict == "lower") <= (row.ratio <= row.ratio_high < 1)
        assert row.verdict == "equivalent" or row.verdict.is_different == (row.judged_low > 1 or row.judged_high < 1)
        assert (row.change == "worse") == (row.verdict == "higher")


def test_of_estimates_with_a_truth_the_error_is_compared_and_more_of_it_is_worse() -> None:
    runs = [{"quantity": "avb_bit_per_s", "n": 9, "median": 1e8, "absolute_error_percent": error} for error in (1.0, 2)]
    assert compared_figure([Cell({"method": "vtare"}, figures=[dict(run) for run in runs])]) == "absolute_error_percent"
    quantities = ("absolute_error_percent", "avb_bit_per_s", "throughput_packet_per_s", "cv", "n")
    changes = [Verdict.HIGHER.change(metric(quantity).better) for quantity in quantities]
    assert changes == ["worse", None, "better", "worse", None]
    assert Verdict.EQUIVALENT.change("less") is None
    assert figure_text("absolute_error_percent", 4.2) == "error 4.2 %"
    assert figure_text("avb_bit_per_s", 1e8) == "100 Mbit/s"


def samples_of(store: Path, at: int = 0) -> Path:
    run = pl.read_parquet(store / "design.parquet")["run_id"][at]
    return store / "runs" / str(run) / "samples.parquet"


def test_cells_that_only_one_side_has_are_listed(make: Make) -> None:
    a, b = make(1, blocks=4), make(2, blocks=4)
    for at, run in enumerate(pl.read_parquet(b / "design.parquet").iter_rows(named=True)):
        if run["method"] == "clock_nanosleep":
            samples_of(b, at).unlink()
    found = compare_stores([a], [b])
    assert [row.labels["method"] for row in found.cells] == ["usleep"]
    assert found.only_before == (LoneCell("sleeps", {"method": "clock_nanosleep", "target_ns": "1 ms"}),)
    assert found.only_after == ()
    assert len(found.left_out_after) == 4
    assert all("the file is gone" in reason for reason in found.left_out_after)


def test_stores_that_cannot_be_compared_are_refused(lab_command: Lab, make: Make, tmp_path: Path) -> None:
    a, b = make(1, blocks=4), make(2, blocks=4)
    copy = tmp_path / "copy"
    shutil.copytree(a, copy)
    with pytest.raises(BadInput, match="are the same store"):
        compare_stores([a], [a])
    with pytest.raises(BadInput, match="are the same store"):
        compare_stores([a, b], [b])
    with pytest.raises(BadInput, match="share 8 runs"):
        compare_stores([a], [b, copy])
    with pytest.raises(BadInput, match="no such store"):
        compare_stores([a], [tmp_path / "none"])
    for arguments in ((a, a), (a, tmp_path / "none"), (a, copy, "--margin", "0")):
        done = lab_command("compare", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr


def test_a_damaged_run_in_one_store_is_left_out_and_ends_with_1(lab_command: Lab, make: Make) -> None:
    a, b = make(1, blocks=6), make(2, blocks=6)
    path = samples_of(b)
    path.write_bytes(b"nothing")
    done = lab_command("compare", a, b)
    assert done.returncode == 1
    assert f"vtare: left out: {path}" in done.stderr
    assert "changed: finished runs: 12 -> 11" in done.stdout


def test_the_page_has_the_answer_every_cell_and_what_to_do_next(make: Make) -> None:
    one = compare_stores([make(1)], [make(2)])
    page = compared_page(one)
    assert answer_of(one) in page
    assert page.count('<td class="refused') + page.count("refused</td>") >= len(one.cells) > 0
    for command in commands_of(one):
        assert escape(command) in page
    several = compare_stores([make(3), make(4)], [make(5), make(6)])
    page = compared_page(several)
    fixed = fixed_levels(several.cells)
    for row in several.cells:
        assert escape(where_of(row, fixed)) in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "How to get a verdict" not in page
