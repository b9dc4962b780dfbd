"""Tests of whole factors on figures of runs: which figures, which levels differ, and how often nothing is called so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vtare import stats
from vtare.plan.level import Level
from vtare.plan.model import Analysis, Experiment, Factor
from vtare.summary.cells import Cell
from vtare.summary.factors import TESTED_FIGURES, RankTestRow, level_associations, rank_tests

ANALYSIS = Analysis()
TIMER = Experiment("timer", "timer", "timer", {}, ())


def cells(figures: dict[str, dict[str, list[float]]]) -> list[Cell]:
    """Cells of the levels of `platform`; each figure is a list, one for each block."""
    made = []
    for level, by_figure in figures.items():
        blocks = range(len(next(iter(by_figure.values()))))
        runs: list[dict[str, Any]] = [{name: values[block] for name, values in by_figure.items()} for block in blocks]
        made.append(Cell({"platform": level}, figures=list(runs), blocks=list(blocks)))
    return made


def drawn(rng: np.random.Generator, blocks: int, *, median: float = 1.0, most: float = 1.0) -> dict[str, list[float]]:
    return {
        "median": (median * rng.lognormal(0, 0.01, blocks)).tolist(),
        "half_iqr": rng.lognormal(0, 0.1, blocks).tolist(),
        "min": rng.lognormal(0, 0.01, blocks).tolist(),
        "max": (most * rng.lognormal(0, 0.1, blocks)).tolist(),
    }


def by_figure(made: list[Cell]) -> dict[str, RankTestRow]:
    return {row.figure: row for row in rank_tests(made, ("platform",), ANALYSIS, TIMER)}


def pairs(row: RankTestRow) -> set[tuple[str, str]]:
    return {(pair.less, pair.more) for pair in row.pairs}


def test_each_figure_names_the_levels_that_differ_in_it() -> None:
    rng = np.random.default_rng(5)
    found = by_figure(
        cells({"docker": drawn(rng, 12, median=1.2), "host": drawn(rng, 12), "xen": drawn(rng, 12, most=9.0)})
    )
    assert list(found) == ["median", *TESTED_FIGURES]
    assert {row.test for row in found.values()} == {"friedman"}
    assert pairs(found["median"]) == {("host", "docker"), ("xen", "docker")}
    assert pairs(found["max"]) == {("host", "xen"), ("docker", "xen")}
    assert pairs(found["half_iqr"]) == pairs(found["min"]) == set()
    assert all(pair.p_adjusted <= ANALYSIS.alpha for row in found.values() for pair in row.pairs)


def test_where_a_block_lacks_a_level_the_groups_are_tested_without_blocks() -> None:
    rng = np.random.default_rng(6)
    shorter = {name: values[:-1] for name, values in drawn(rng, 12, median=1.2).items()}
    found = by_figure(cells({"docker": shorter, "host": drawn(rng, 12), "xen": drawn(rng, 12)}))
    assert found["median"].test == "kruskal_wallis"
    assert pairs(found["median"]) == {("host", "docker"), ("xen", "docker")}


def test_a_figure_that_a_run_lacks_is_not_tested_and_the_main_one_is() -> None:
    rng = np.random.default_rng(7)
    made = cells({"docker": drawn(rng, 8), "host": drawn(rng, 8)})
    made[0].figures[3] = {**made[0].figures[3], "half_iqr": None}
    assert set(by_figure(made)) == {"median", "min", "max"}


@pytest.mark.parametrize("figure", ["median", *TESTED_FIGURES])
def test_equal_levels_are_called_different_in_at_most_about_5_percent(figure: str) -> None:
    rng = np.random.default_rng(8)
    names = ("a", "b", "c")
    alarms = sum(bool(by_figure(cells({name: drawn(rng, 6) for name in names}))[figure].pairs) for _ in range(200))
    # Above 22 of 200 has a chance below 0.001 where 5 % are called so.
    assert alarms <= 22


def test_a_factor_is_one_family_over_all_its_figures() -> None:
    """Four figures of equal levels: about 5 % of campaigns at most claim that a factor matters, not 15 to 22 %."""
    rng = np.random.default_rng(9)
    names = ("a", "b", "c")
    alarms = 0
    for _ in range(200):
        found = by_figure(cells({name: drawn(rng, 6) for name in names}))
        assert len({row.family for row in found.values()}) == 1
        alarms += any(row.p_adjusted is not None and row.p_adjusted <= 0.05 for row in found.values())
    assert alarms <= 22


def test_levels_of_a_factor_are_one_family_over_all_parts_of_a_run() -> None:
    """Three arguments, no effect; numbers and names alike are adjusted over the arguments."""
    rng = np.random.default_rng(10)
    numbers = Factor("load", (Level("1", 1), Level("2", 2), Level("4", 4)), "1")
    named = Factor("load", (Level("1", "x"), Level("2", "y"), Level("4", "z")), "1")
    for factor in (numbers, named):
        experiment = Experiment("e", "sleep", "e", {}, (factor,))
        made = [
            Cell({"load": load, "target_ns": target}, figures=[{"median": value} for value in rng.normal(9, 1, 6)],
                 blocks=list(range(6)))
            for load in ("1", "2", "4") for target in ("a", "b", "c")
        ]  # fmt: skip
        rows = level_associations(made, ("load",), experiment, ANALYSIS)
        assert {row.adjustment for row in rows} == {"bh"}
        assert len({row.family for row in rows}) == 1
        wanted = stats.adjust([row.p_value for row in rows], family="f", adjustment="bh")
        assert [row.p_adjusted for row in rows] == pytest.approx([p.adjusted for p in wanted])
