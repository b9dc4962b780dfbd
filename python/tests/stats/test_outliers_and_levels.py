from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from scipy.signal import lfilter

from vtare import stats
from vtare.summary.cells import Cell, outlier_rows


def test_robust_z_scores_by_mad_then_by_mean_deviation_then_refuses() -> None:
    plain = stats.robust_z([2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3])
    # Iglewicz and Hoaglin's example: the two large readings are the only outliers.
    assert plain.outliers == (8, 9)
    assert plain.z is not None
    assert plain.z[8] == pytest.approx(0.6745 * (8.2 - 2.45) / 0.15)
    flat = stats.robust_z([1.0] * 9 + [5.0])
    assert flat.scale == "mean_absolute_deviation"
    assert flat.z is not None
    assert flat.z[9] == pytest.approx(4 / (1.253314 * 0.4))
    assert stats.robust_z([3.0, 3.0]).z is None
    with pytest.raises(ValueError, match="above 0"):
        stats.robust_z([0.0, 1.0], log=True)


def test_robust_z_of_histogram_rows_is_that_of_the_readings() -> None:
    values, counts = np.array([1.0, 2.0, 3.0, 50.0]), np.array([5, 9, 6, 2])
    rows = stats.robust_z(values, weights=counts)
    full = stats.robust_z(np.repeat(values, counts))
    assert rows.z is not None
    assert full.z is not None
    assert np.repeat(rows.z, counts) == pytest.approx(full.z)
    assert (rows.n, rows.n_outliers, rows.outliers) == (22, 2, (3,))
    assert full.n_outliers == 2


def test_each_side_of_a_skewed_sample_is_scored_by_its_own_spread() -> None:
    # A long right tail: with one spread for both sides its body would be full of outliers.
    x = np.random.default_rng(1).exponential(size=4000)
    both = stats.robust_z(x)
    each = stats.robust_z(x, sides="each")
    assert each.n_outliers < both.n_outliers
    assert each.z is not None
    assert np.sign(each.z).tolist() == np.sign(x - np.median(x)).tolist()
    # A low reading far out on the short side is found only so.
    low = np.concatenate([x + 10.0, [2.0]])
    assert len(low) - 1 in stats.robust_z(low, sides="each").outliers


def test_outliers_are_shown_by_scenario() -> None:
    quiet = np.linspace(9.0, 11.0, 200)
    loud = np.concatenate([quiet, np.full(15, 500.0)])
    odd = np.concatenate([quiet, np.full(5, 900.0)])
    found = {
        one.scenario: one
        for one in stats.outliers_by_scenario({"idle": quiet, "net": loud, "cpu": odd, "flat": [1.0, 1.0]})
    }
    assert [found[name].outliers for name in ("idle", "net", "cpu")] == [0, 15, 5]
    assert found["net"].share == 0.75
    assert found["cpu"].fraction == pytest.approx(5 / 205)
    assert found["flat"].share is None
    assert found["flat"].reason is not None
    assert all(one.share is None for one in stats.outliers_by_scenario({"idle": quiet}))


@given(st.integers(2, 60), st.data())
def test_tau_b_of_a_level_reaches_its_bound_when_separated_and_never_leaves_it(n: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, n - 1))
    separated = np.arange(n)
    level = [i >= n - at for i in range(n)]
    one = {found.level: found for found in stats.associate_levels(separated, level, family="f", alpha=1.0)}[True]
    assert one.tau_b == pytest.approx(one.tau_bound)
    assert one.cliffs_delta == 1.0
    share = at / n
    assert one.tau_bound == pytest.approx(math.sqrt(2 * share * (1 - share) * n / (n - 1)))
    mixed = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    for found in stats.associate_levels(mixed, level, family="f", alpha=1.0):
        assert found.tau_b is not None
        assert abs(found.tau_b) <= found.tau_bound + 1e-12


def test_tau_bound_refuses_a_level_that_all_have() -> None:
    assert stats.tau_bound(10_000, 2_500) == pytest.approx(math.sqrt(2 * 0.25 * 0.75), rel=1e-4)
    with pytest.raises(ValueError, match="pass some at it"):
        stats.tau_bound(5, 5)
    assert stats.associate_levels([1.0, 2.0], ["a", "a"], family="f") == ()
    assert stats.associate_levels([2.0, 2.0], ["a", "b"], family="f") == ()
    with pytest.raises(ValueError, match="levels"):
        stats.associate_levels([1.0], [], family="f")


def test_levels_are_one_family_adjusted_for_exploration() -> None:
    rng = np.random.default_rng(2)
    levels = ["a"] * 12 + ["b"] * 12 + ["c"] * 12
    figures = np.concatenate([rng.normal(size=12), rng.normal(size=12), rng.normal(size=12) + 4])
    found = stats.associate_levels(figures, levels, family="load")
    assert [one.level for one in found] == ["a", "b", "c"]
    assert {one.p.adjustment for one in found if one.p is not None} == {"bh"}
    assert found[2].cliffs_delta == pytest.approx(1.0, abs=0.02)
    assert found[2].tau_b == pytest.approx(found[2].tau_bound, abs=0.02)


# --- warm-up ---


def test_a_warm_up_is_cut_and_a_heavy_tail_is_not() -> None:
    rng = np.random.default_rng(5)
    body = np.exp(0.1 * rng.normal(size=5000)) * 100
    gap = body.copy()
    gap[2400] = 1e7
    assert stats.mser5(gap).cut > 0
    kept = stats.settle(gap)
    assert (kept.cut, kept.settled) == (0, True)
    warm = body.copy()
    warm[:300] *= 3
    found = stats.settle(warm)
    assert 300 <= found.cut < 600
    assert found.settled


@pytest.mark.parametrize("shape", ["drift", "step"])
def test_a_run_that_never_settles_is_labelled_and_not_cut(shape: str) -> None:
    rng = np.random.default_rng(6)
    n = 3000
    away = np.linspace(0, 5, n) if shape == "drift" else 4.0 * (np.arange(n) > 0.6 * n)
    found = stats.settle(100 + rng.normal(size=n) + away)
    assert (found.cut, found.settled) == (0, False)
    assert found.reason == "the two halves of the series lie apart"


def test_a_steady_series_settles_and_a_step_of_the_clock_is_no_drift() -> None:
    rng = np.random.default_rng(7)
    settled = [stats.settle(np.exp(rng.normal(size=1500))) for _ in range(60)]
    assert all(one.settled for one in settled)
    assert sum(one.cut > 100 for one in settled) == 0
    # AR(1) 0.99: a thousand readings amount to five independent ones. 32 % were called not settled.
    slow = [lfilter([math.sqrt(1 - 0.99**2)], [1.0, -0.99], rng.normal(size=2000))[1000:] for _ in range(100)]
    assert sum(not stats.settle(np.exp(0.3 * x)).settled for x in slow) <= 12
    halves = np.repeat([70.0, 80.0], 1000)
    assert not stats.settle(halves).settled
    assert stats.settle(halves, quantum=10.0).settled


def test_a_short_run_is_not_judged() -> None:
    found = stats.settle(np.arange(999.0))
    assert (found.cut, found.settled) == (0, True)
    assert found.reason is not None
    assert "not judged" in found.reason


# --- interactions ---


def test_the_neighbouring_positions_of_a_coarse_clock_are_no_outliers() -> None:
    # Idle readings of vtare: most at one position of the clock, the rest on its neighbours. mad_raw is 0 there.
    readings = np.repeat([20.0, 20.4, 30.0, 30.4, 40.0, 5000.0], [500, 100, 300, 80, 15, 5])
    plain = stats.robust_z(readings, log=True)
    assert plain.n_outliers > 350
    stepped = stats.robust_z(readings, log=True, step=stats.seen_step(stats.tally(readings)))
    assert stepped.scale == "clock_step"
    assert stepped.n_outliers == 5


def test_a_slow_scenario_is_an_outlier_among_those_of_its_technology_and_not_within_itself() -> None:
    rng = np.random.default_rng(4)

    def cell(platform: str, rate: str, middle: float, n: int) -> Cell:
        made = Cell(
            {"platform": platform, "rate": rate},
            figures=[{"quantity": "rtt_ns", "median": middle}],
            blocks=[1],
            run_ids=["r"],
        )
        readings = rng.normal(middle, 5.0, n)
        assert made.readings is not None
        made.readings.add(stats.tally(readings))
        made.close()
        return made

    # Many readings in one scenario do not outvote the others: each counts alike.
    cells = [cell("qemu", "1", 100.0, 400), cell("qemu", "1000", 100.0, 400), cell("qemu", "1000000", 900.0, 9_000),
             cell("lxc", "1", 900.0, 400)]  # fmt: skip
    rows = outlier_rows(cells, "trips", "rtt")
    assert [row.pooled_share for row in rows[:3]] == pytest.approx([0.0, 0.0, 1.0], abs=0.02)
    assert rows[2].pooled_fraction == 1.0
    assert (rows[2].fraction or 0.0) < 0.02
    assert (rows[3].pooled_fraction or 0.0) < 0.02


@pytest.mark.parametrize(("n_level", "n"), [(3, 6), (3, 9), (4, 8), (5, 10), (6, 18)])
def test_a_level_is_tested_by_exact_rank_sums_and_never_rejects_more_than_alpha(n_level: int, n: int) -> None:
    """Every way to choose the level's runs is as likely as any: the share of them that rejects is counted."""
    figures = np.arange(float(n))
    levels = np.zeros(n)
    levels[:n_level] = 1.0
    ways = [p for at in _ways(n, n_level, 300) if (p := stats.kendall_tau_b(figures[at], levels, family="f").p)]
    assert np.mean([p.raw <= 0.05 for p in ways] or [0.0]) <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5
    found = stats.kendall_tau_b(figures, levels, family="f")
    exact = scipy_stats.mannwhitneyu(figures[:n_level], figures[n_level:], method="exact").pvalue
    if found.p is None:
        assert exact > 0.05
        assert "the least possible p is 0.1" in str(found.refused)
    else:
        assert found.p.raw == pytest.approx(exact)
        assert found.p.exact


def _ways(n: int, size: int, most: int) -> list[np.ndarray]:
    """Orders of n figures, each with another `size` of them in front; all of them, or `most` drawn ones."""
    chosen = list(itertools.combinations(range(n), size))
    rng = np.random.default_rng(n)
    picks = chosen if len(chosen) <= most else [chosen[at] for at in rng.choice(len(chosen), most, replace=False)]
    return [np.array([*pick, *(at for at in range(n) if at not in pick)]) for pick in picks]
