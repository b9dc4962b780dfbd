"""Whole-plot factors: how their runs stand in a block, and that what is found of them is not the whole plots' noise."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vtare import stats
from vtare.campaign.results import CampaignResult
from vtare.campaign.store import Store
from vtare.design import Run, make_design, runs_of
from vtare.errors import BadInput
from vtare.plan.files import parse_plan
from vtare.plan.level import Level
from vtare.plan.model import Analysis, Experiment, Factor, Plan
from vtare.summary import contrasts, summarise
from vtare.summary.cells import Cell
from vtare.summary.factors import interactions, level_associations, whole_plot_means

PLAN = """
schema = "vtare.plan/1"
name = "plots"
question = "Which?"
blocks = 6
settle = "0 ms"
whole_plots = ["target_ns"]
[[experiment]]
name = "ways"
instrument = "sleep"
parameters = { samples = 30, seconds = "1 s" }
factors = { target_ns = ["1 ms", "2 ms", "3 ms"], method = ["usleep", "spin"] }
[[experiment]]
name = "one"
instrument = "sleep"
parameters = { samples = 30, seconds = "1 s" }
factors = { target_ns = ["1 ms", "2 ms"] }
"""


def parse(text: str) -> Plan:
    return parse_plan(text, source=Path("plots.toml"))


def test_runs_of_a_whole_plot_stand_together_in_random_order_and_all_cells_are_there() -> None:
    plan = parse(PLAN)
    runs = make_design(plan, 3)
    orders = set()
    inner = set()
    for block in range(1, 7):
        rows = [run for run in runs if run.block == block]
        plots = [target for target, _ in itertools.groupby(rows, lambda run: run.factors["target_ns"])]
        assert sorted(plots) == ["1 ms", "2 ms", "3 ms"]
        orders.add(tuple(plots))
        inner.add(tuple((r.experiment, r.factors.get("method")) for r in rows if r.factors["target_ns"] == "1 ms"))
    assert len(orders) > 1
    assert len(inner) > 1
    assert {run.run_id for run in runs} == {run.run_id for run in runs_of(parse(PLAN.replace("whole_plots", "#")))}
    assert runs == make_design(plan, 3)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            '["target"]',
            "plots.toml:7:16: whole_plots[0] is 'target'. Did you mean 'target_ns'? Use one of: t",
        ),
        ('["method", "method"]', "whole_plots[1]: factor 'method' is listed twice"),
        ('"method"', "whole_plots is 'method': use a list of factors such as"),
        ("[]", "whole_plots is []: use a list of factors such as"),
    ],
)
def test_whole_plots_are_factors_of_the_plan(names: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        parse(PLAN.replace('["target_ns"]', names, 1))
    assert message in str(error.value)


A, B = ("a1", "a2"), ("b1", "b2", "b3", "b4")
EXPERIMENT = Experiment(
    "e", "sleep", "e", {},
    tuple(Factor(n, tuple(Level(one, one) for one in levels), levels[0]) for n, levels in (("a", A), ("b", B))),
)  # fmt: skip


def campaign(rng: np.random.Generator, blocks: int, *, shift: float = 0.0, apart: float = 0.1) -> list[Cell]:
    """Run medians of a 2 x 4 experiment: the SD of runs is 5 %, that of whole plots (block and level of a) 10 %.

    `apart` is the SD of blocks, and the step between the levels of b.
    """
    logs = rng.normal(0, apart, blocks)[:, None, None] + rng.normal(0, 0.1, (blocks, 2))[:, :, None]
    logs = logs + rng.normal(0, 0.05, (blocks, 2, 4)) + apart * np.arange(4)
    logs[:, 1] += shift
    return [
        Cell(
            {"a": a, "b": b},
            figures=[{"median": float(np.exp(logs[block, i, k])), "quantity": "miss_ns"} for block in range(blocks)],
            blocks=list(range(blocks)),
        )
        for (i, a), (k, b) in itertools.product(enumerate(A), enumerate(B))
    ]


def share(found: list[bool]) -> float:
    return sum(found) / len(found)


def found(p: float | None) -> bool:
    return p is not None and p <= 0.05


@pytest.mark.parametrize("apart", [0.0, 0.1])
def test_a_whole_plot_factor_without_effect_is_found_in_5_percent_and_by_naive_tests_far_more_often(
    apart: float,
) -> None:
    rng = np.random.default_rng(11)
    naive_t, naive_tau, by_plots, by_block, crossed = [], [], [], [], []
    analysis = Analysis()
    for _ in range(150):
        cells = campaign(rng, 10, apart=apart)
        first, second = (
            {(cell.labels["b"], block): value for cell in half for block, value in cell.by_block("median").items()}
            for half in (cells[:4], cells[4:])
        )
        # As if each pair of runs were a block of its own.
        naive_t.append(found(stats.compare_runs(first, second).p))
        for shares, whole in ((naive_tau, ()), (by_plots, ("a",))):
            (row, *_) = level_associations(cells, ("a", "b"), EXPERIMENT, analysis, whole)
            shares.append(found(row.p_adjusted))
        (pair,) = contrasts.compare([cells[0], cells[4]], {"a": "a1"}, analysis, EXPERIMENT, quantum_ns=0.0)
        by_block.append(found(pair.p_adjusted))
        (both,) = interactions(cells, ("a", "b"), analysis, EXPERIMENT, ("a",))
        crossed.append(found(both.p_adjusted))
    assert share(naive_t) > 0.2
    assert share(naive_tau) > 0.2 or apart > 0.0
    assert share(by_plots) < 0.09
    assert share(by_block) < 0.1
    assert share(crossed) < 0.1


def test_an_effect_above_the_noise_of_whole_plots_is_found() -> None:
    rng = np.random.default_rng(12)
    rows = [
        level_associations(campaign(rng, 12, shift=0.4), ("a", "b"), EXPERIMENT, Analysis(), ("a",))[0]
        for _ in range(30)
    ]
    assert {(row.n_runs, row.n_level) for row in rows} == {(24, 12)}
    assert share([found(row.p_adjusted) for row in rows]) > 0.9


def test_a_whole_plot_that_lacks_a_run_has_no_mean() -> None:
    cells = campaign(np.random.default_rng(1), 3)
    cells[0].figures.pop()
    cells[0].blocks.pop()
    means = whole_plot_means(cells, "median", "a", ("a",))
    assert sorted(level for level, _ in means) == ["a1", "a1", "a2", "a2", "a2"]
    own = [cell.by_block("median")[0] for cell in cells[:4]]
    assert means[0] == ("a1", pytest.approx(float(np.exp(np.mean(np.log(own))))))


def test_an_interaction_of_whole_plot_factors_without_complete_blocks_is_refused() -> None:
    cells = campaign(np.random.default_rng(1), 3)
    (apart,) = interactions(cells, ("a", "b"), Analysis(), EXPERIMENT, ("a", "b"))
    assert apart.p_value is None
    assert "between whole plots it needs 4 blocks" in str(apart.refused)
    (mixed,) = interactions(cells, ("a", "b"), Analysis(), EXPERIMENT, ("a",))
    assert mixed.p_value is not None


def test_report_and_plan_state_what_stands_together(
    tmp_path: Path, run_campaign: Callable[[Store], CampaignResult], lab_command: Callable[..., Any]
) -> None:
    plan = replace(parse(PLAN), blocks=2)
    with Store.create(tmp_path / "store", plan, 1) as store:
        assert run_campaign(store).done == len(make_design(plan, 1))
    levels = summarise(tmp_path / "store").levels
    by_target = levels.filter((levels["factor"] == "target_ns") & (levels["experiment"] == "ways"))
    assert set(by_target["n_runs"]) == {6}
    done = lab_command("report", tmp_path / "store", "--format", "md", "--out", tmp_path / "report.md")
    assert done.returncode == 0, done.stderr
    assert "runs with the same target stand together (a whole plot)" in (tmp_path / "report.md").read_text("utf-8")
    (tmp_path / "plots.toml").write_text(PLAN, encoding="utf-8")
    shown = lab_command("plan", tmp_path / "plots.toml").stdout
    assert "whole plots: runs with the same target_ns stand together in each block\n" in shown


def test_a_store_of_a_plan_with_whole_plots_is_read_again(tmp_path: Path) -> None:
    plan = parse(PLAN)
    with Store.create(tmp_path / "store", plan, 5) as store:
        first: tuple[Run, ...] = store.runs
    with Store.open(tmp_path / "store") as store:
        assert store.runs == first
