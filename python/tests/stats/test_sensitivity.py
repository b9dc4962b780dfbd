"""Where one run decides: leave-one-out, estimates by ranks, runs of two kinds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from vtare import stats


def test_the_block_that_decides_is_named_and_others_are_not() -> None:
    a = {1: 5.5, 2: 5.6, 3: 5.4, 4: 5.5, 5: 55.0}
    b = dict.fromkeys(range(1, 6), 5.0)
    found = stats.influence(a, b)
    assert found is not None
    assert (found.differs, found.decided_by) == (False, 5)
    plain = stats.influence(list(a.values()), list(b.values()))
    assert plain is not None
    assert plain.decided_by == ("a", 4)
    sure = stats.influence({k: 10.0 + k / 10 for k in range(6)}, {k: 5.0 + k / 10 for k in range(6)})
    assert sure is not None
    assert (sure.differs, sure.changes, sure.decided_by) == (True, (), None)
    assert stats.influence([1.0] * 3, [2.0] * 3) is None


def test_the_hodges_lehmann_interval_is_that_of_the_rank_tests_turned_round() -> None:
    rng = np.random.default_rng(1)
    x, y = np.exp(rng.normal(size=8)), np.exp(rng.normal(size=8))
    paired = stats.hodges_lehmann(dict(enumerate(x)), dict(enumerate(y)))
    assert paired.low is not None
    assert paired.high is not None
    for end, side in ((paired.low, -1e-6), (paired.high, 1e-6)):
        d = np.log(x / y) - np.log(end)
        outside, inside = (scipy_stats.wilcoxon(d - s, method="exact").pvalue for s in (side, -side))
        assert outside <= 0.05 < inside
    apart = stats.hodges_lehmann(x, y[:6])
    assert apart.low is not None
    for end, side in ((apart.low, -1e-6),):
        outside, inside = (
            scipy_stats.mannwhitneyu(np.log(x), np.log(y[:6]) + np.log(end) + s, method="exact").pvalue
            for s in (side, -side)
        )
        assert outside <= 0.05 < inside


@pytest.mark.parametrize(("n", "level"), [(4, 0.875), (5, 0.9375), (6, 0.96875)])
def test_few_blocks_are_labelled_with_the_level_that_ranks_reach(n: int, level: float) -> None:
    rng = np.random.default_rng(2)
    found = stats.hodges_lehmann(dict(enumerate(np.exp(rng.normal(size=n)))), dict.fromkeys(range(n), 1.0))
    assert found.level == pytest.approx(level)
    assert stats.hodges_lehmann([-1.0, 2.0], [1.0, 2.0]).ratio is None


@pytest.mark.parametrize("n", [5, 8, 12, 20, 40])
@pytest.mark.parametrize("heavy", [False, True])
def test_runs_of_one_kind_are_called_two_in_at_most_5_percent(n: int, heavy: bool) -> None:
    rng = np.random.default_rng([n, heavy])
    draws = rng.standard_t(4, size=(800, n)) if heavy else rng.normal(size=(800, n))
    named = sum(stats.find_modes(dict(enumerate(np.exp(0.1 * row)))) is not None for row in draws)
    assert stats.share_of(named, 800).low <= 0.05
    assert named <= 40


def test_runs_of_two_kinds_are_found_and_named() -> None:
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(100):
        runs = np.exp(0.02 * rng.normal(size=10) + 0.5 * (np.arange(10) % 3 == 0))
        modes = stats.find_modes(dict(enumerate(runs, 1)))
        found += modes is not None and modes.upper == (1, 4, 7, 10)
    assert found >= 95
    assert stats.find_modes({1: 1.0, 2: 9.0, 3: 1.1, 4: 9.1}) is None


@pytest.mark.parametrize("n", [5, 10, 20])
@pytest.mark.parametrize("spread", [0.3, 0.6, 1.0, 3.0])
def test_runs_of_one_kind_on_a_lattice_are_not_called_two(n: int, spread: float) -> None:
    """Medians of 300 ns read by a clock of 10 ns: positions of the clock are no kinds of runs."""
    rng = np.random.default_rng([n, int(10 * spread)])
    draws = 10.0 * np.rint((300.0 + rng.uniform(0, 10, (400, 1)) + 10.0 * spread * rng.normal(size=(400, n))) / 10.0)
    named = sum(stats.find_modes(dict(enumerate(row)), step=10.0) is not None for row in draws)
    assert named <= 12
    blind = sum(stats.find_modes(dict(enumerate(row))) is not None for row in draws)
    assert n < 20 or spread > 0.6 or blind > 120


def test_two_kinds_are_found_beyond_the_step() -> None:
    runs = {1: 300.0, 2: 300.0, 3: 310.0, 4: 300.0, 5: 600.0, 6: 610.0, 7: 600.0, 8: 300.0}
    found = stats.find_modes(runs, step=10.0)
    assert found is not None
    assert found.upper == (5, 6, 7)
