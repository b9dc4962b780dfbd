"""The shift function: a band that holds, and a figure that shows where a distribution moves."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from conftest import Reported

from vtare.report import shifts
from vtare.report.content import content_of, layouts_of
from vtare.summary.shift import ORDER, shift_function

NAMES = {probability: name for name, probability in ORDER.items()}


def runs_of(rng: np.random.Generator, blocks: int, *, tail: float = 1.0) -> dict[int, dict[str, float]]:
    """Quantiles of runs of 200 lognormal readings, a tenth of them `tail` times as long."""
    found = {}
    for block in range(blocks):
        x = np.exp(rng.normal(0, 0.05) + 0.3 * rng.normal(size=200))
        x[rng.random(200) < 0.1] *= tail
        found[block] = {name: float(np.quantile(x, p)) for name, p in ORDER.items()}
    return found


@pytest.mark.parametrize("blocks", [4, 5, 10])
def test_the_band_holds_all_quantiles_at_once(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    trials = 150
    held = 0
    for _ in range(trials):
        found = shift_function(runs_of(rng, blocks), runs_of(rng, blocks), rng=rng)
        assert [shift.probability for shift in found] == list(ORDER.values())
        held += all(shift.low <= 1 <= shift.high for shift in found)
    assert held / trials >= 0.93 - 3 * (0.05 * 0.95 / trials) ** 0.5


def test_a_tail_that_grows_shows_at_its_quantiles_alone() -> None:
    rng = np.random.default_rng(1)
    found = {NAMES[s.probability]: s for s in shift_function(runs_of(rng, 10, tail=5.0), runs_of(rng, 10), rng=rng)}
    assert found["p99"].low > 1.5
    assert found["q25"].low < 1 < found["q25"].high
    assert shift_function(runs_of(rng, 3), runs_of(rng, 3), rng=rng) == ()


def test_a_quantile_that_is_not_above_0_or_not_in_all_runs_is_left_out() -> None:
    rng = np.random.default_rng(2)
    here, there = runs_of(rng, 5), runs_of(rng, 5)
    here[1]["q05"] = -1.0
    del there[2]["p99"]
    found = [NAMES[shift.probability] for shift in shift_function(here, there, rng=rng)]
    assert found == [name for name in ORDER if name not in ("q05", "p99")]


def test_the_main_experiment_has_the_shift_function_as_a_figure_and_a_table(five_runs: Reported) -> None:
    layout = layouts_of(five_runs.summary)["sleeps"]
    found = shifts.shifts_of(five_runs.summary, layout)
    # Two loads against idle for each of four methods.
    assert len(found.known) == 8
    content = content_of(five_runs.summary, figures=False)
    (table,) = (table for table in content.tables() if table.id.startswith("shift-"))
    assert (table.id, len(table.rows)) == ("shift-sleeps", 8)
    keys = [column.key for column in table.columns]
    row, made = table.rows[0], found.known[0]
    for shift in made[1]:
        cell = row[keys.index(f"ratio_{NAMES[shift.probability]}")]
        assert cell.order == shift.ratio
        assert (cell.kind == "worse") == (shift.low > 1)
    assert 'id="figure-shift-function-sleeps"' in five_runs.html
    assert five_runs.html.count("Which part of the distribution moves?") == 1
    # The same store gives the same figures.
    assert shifts.shifts_of(five_runs.summary, layout) == found


def test_the_band_covers_all_comparisons_of_the_table(five_runs: Reported) -> None:
    """Eight comparisons in one band: a family of tables without any effect rarely shows a shift."""
    rng = np.random.default_rng(5)
    trials, held = 30, 0
    for _ in range(trials):
        bands = [shift_function(runs_of(rng, 6), runs_of(rng, 6), level=1 - 0.05 / 8, rng=rng) for _ in range(8)]
        held += all(shift.low <= 1 <= shift.high for band in bands for shift in band)
    assert held / trials >= 0.95 - 3 * (0.05 * 0.95 / trials) ** 0.5
    found = shifts.shifts_of(five_runs.summary, layouts_of(five_runs.summary)["sleeps"])
    alone = shifts.shift_function(*_sides(five_runs, found), rng=np.random.default_rng(1))
    (shift,) = (one for one in found.known[0][1] if one.probability == 0.5)
    (narrow,) = (one for one in alone if one.probability == 0.5)
    assert shift.ratio == pytest.approx(narrow.ratio)
    assert shift.high / shift.low > narrow.high / narrow.low


def _sides(reported: Reported, found: shifts.Shifts) -> list[dict[int, dict[str, float]]]:
    """The figures of both cells of the first comparison, by block."""
    row = found.known[0][0]
    runs = reported.summary.runs.filter(pl.col("experiment") == row.experiment, pl.col("control").is_null())
    sides = []
    for level in (row.level, row.baseline):
        wanted = {**row.labels, row.factor: level}
        own = runs.filter([pl.col(key) == label for key, label in wanted.items()])
        sides.append({int(run["block"]): run for run in own.iter_rows(named=True)})
    return sides
