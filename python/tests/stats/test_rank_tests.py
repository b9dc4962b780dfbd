from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from vtare import stats
from vtare.stats.rank_tests import _friedman_exact, _kruskal_exact

small = st.lists(st.integers(-5, 5), min_size=1, max_size=12)


@given(small, small)
def test_cliffs_delta_counts_pairs(a: list[int], b: list[int]) -> None:
    pairs = [(x > y) - (x < y) for x, y in itertools.product(a, b)]
    found = stats.cliffs_delta(a, b).value
    assert found == pytest.approx(sum(pairs) / len(pairs))
    other = stats.cliffs_delta(b, a).value
    assert other is not None
    assert other == pytest.approx(-sum(pairs) / len(pairs))


def test_cliffs_delta_of_an_empty_sample_is_null() -> None:
    assert stats.cliffs_delta([], [1.0]).value is None


@pytest.mark.parametrize(
    ("groups", "h", "p"),
    [
        # Tables of Kruskal and Wallis 1952: H = 4.571 has p = 0.067 for (2, 2, 2), H = 7.2 has p = 0.004 for (3, 3, 3).
        ([[1, 2], [3, 4], [5, 6]], 4.5714, 6 / 90),
        ([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 7.2, 6 / 1680),
    ],
)
def test_kruskal_wallis_gives_the_exact_tabled_p(groups: list[list[float]], h: float, p: float) -> None:
    found = stats.kruskal_wallis(groups, family="f", alpha=0.1)
    assert found.statistic == pytest.approx(h, abs=1e-4)
    assert found.p is not None
    assert found.p.raw == pytest.approx(p)
    assert found.p.exact


def test_kruskal_wallis_of_two_groups_is_the_exact_mann_whitney_test() -> None:
    a, b = [1.1, 2.2, 3.3, 9.9], [4.4, 5.5, 6.6, 7.7, 8.8]
    found = stats.kruskal_wallis([a, b], family="f")
    assert found.p is not None
    assert found.p.raw == pytest.approx(float(scipy_stats.mannwhitneyu(a, b, method="exact").pvalue))


def test_kruskal_wallis_counts_every_arrangement_with_ties() -> None:
    ranks = scipy_stats.rankdata([1, 1, 2, 2, 3, 3, 3])
    sizes = (2, 2, 3)
    h = []
    for order in itertools.permutations(range(7)):
        parts = (order[:2], order[2:4], order[4:])
        h.append(sum(sum(ranks[i] for i in part) ** 2 / len(part) for part in parts))
    observed = h[0]
    wanted = sum(x >= observed - 1e-9 for x in h) / len(h)
    assert _kruskal_exact(ranks, sizes) == pytest.approx(wanted)


def test_kruskal_wallis_refuses_what_can_never_find_anything() -> None:
    found = stats.kruskal_wallis([[1.0, 2.0], [3.0, 4.0]], family="f")
    assert found.p is None
    assert found.least_p == pytest.approx(1 / 3)
    assert found.refused == "refused: with groups of (2, 2) runs the least possible p is 0.333, above 0.05"
    assert stats.kruskal_wallis([[1.0] * 5, [1.0] * 5], family="f").refused is not None


@pytest.mark.parametrize(
    ("rows", "chi", "p"),
    [
        # Friedman 1937, exact tables: (k, n) = (3, 3): 6.0 has p = 0.028; (3, 4): 8.0, 0.0046; (4, 2): 6.0, 0.042.
        ([[1, 2, 3]] * 3, 6.0, 0.028),
        ([[1, 2, 3]] * 4, 8.0, 0.0046),
        ([[1, 2, 3, 4]] * 2, 6.0, 0.042),
    ],
)
def test_friedman_gives_the_exact_tabled_p(rows: list[list[float]], chi: float, p: float) -> None:
    found = stats.friedman(rows, family="f")
    assert found.statistic == pytest.approx(chi)
    assert found.p is not None
    assert found.p.raw == pytest.approx(p, abs=5e-4)


def test_friedman_statistic_agrees_with_scipy_with_ties() -> None:
    rows = np.random.default_rng(2).integers(0, 4, (9, 4)).astype(float)
    found = stats.friedman(rows, family="f")
    assert found.statistic == pytest.approx(float(scipy_stats.friedmanchisquare(*rows.T).statistic))


def test_friedman_counts_every_arrangement_with_ties() -> None:
    ranks = np.array([scipy_stats.rankdata(row) for row in ([1, 1, 2], [3, 1, 2], [2, 2, 1])])
    spread = [
        float(np.sum((np.sum(rows, axis=0) - 6) ** 2))
        for rows in itertools.product(*(list(itertools.permutations(row)) for row in ranks))
    ]
    observed = float(np.sum((ranks.sum(axis=0) - 6) ** 2))
    assert _friedman_exact(ranks) == pytest.approx(np.mean(np.array(spread) >= observed - 1e-9))


def test_friedman_of_five_blocks_and_two_levels_is_refused_and_states_how_many_would_do() -> None:
    found = stats.friedman([[1.0, 2.0]] * 5, family="f")
    assert found.p is None
    assert found.least_p == pytest.approx(1 / 16)
    assert found.refused is not None
    assert "least possible p is 0.0625, above 0.05; 6 blocks are needed" in found.refused
    assert stats.friedman([[1.0, 2.0]] * 6, family="f").p is not None
    with pytest.raises(ValueError, match="complete"):
        stats.friedman([[1.0, 2.0], [1.0]], family="f")


def test_dunn_is_the_normal_test_on_mean_ranks() -> None:
    groups = [[1.0, 2, 3, 4], [3.0, 5, 6, 7], [8.0, 9, 10, 11]]
    ranks = scipy_stats.rankdata(np.concatenate(groups))
    ties = sum(t**3 - t for t in np.unique(ranks, return_counts=True)[1])
    scale = (12 * 13 / 12 - ties / (12 * 11)) * (1 / 4 + 1 / 4)
    found = stats.dunn(groups, family="f", adjustment="none")
    for pair in found:
        means = [ranks[4 * g : 4 * g + 4].mean() for g in (pair.first, pair.second)]
        z = abs(means[0] - means[1]) / math.sqrt(scale)
        assert pair.p.raw == pytest.approx(2 * float(scipy_stats.norm.sf(z)))
    assert [(pair.first, pair.second) for pair in found] == [(0, 1), (0, 2), (1, 2)]
    assert stats.dunn(groups, family="f")[0].p.adjusted >= found[0].p.raw


def test_kendall_tau_b_gives_the_documented_example_and_refuses_four_pairs() -> None:
    found = stats.kendall_tau_b([12, 2, 1, 12, 2], [1, 4, 7, 1, 0], family="f", alpha=0.1)
    assert found.statistic == pytest.approx(-0.4714045)
    assert found.p is not None
    assert found.p.raw == pytest.approx(0.2827454599327748)
    refused = stats.kendall_tau_b([1, 2, 3, 4], [1, 2, 3, 4], family="f")
    assert refused.refused is not None
    assert "least possible p is 0.0833" in refused.refused


def test_p_values_carry_family_and_adjustment_and_are_never_printed_as_zero() -> None:
    holm = stats.adjust([0.01, 0.04, 0.03, 0.005], family="load", adjustment="holm")
    assert [p.adjusted for p in holm] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    bh = stats.adjust([0.01, 0.04, 0.03, 0.005], family="load", adjustment="bh")
    assert [p.adjusted for p in bh] == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert {(p.family, p.size) for p in holm} == {("load", 4)}
    assert [stats.write_p(p) for p in (0.0, 9.9e-5, 1e-4, 0.0123, 0.5, 1.0)] == [
        "< 1e-4", "< 1e-4", "0.0001", "0.012", "0.5", "1.0",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="0 to 1"):
        stats.adjust([1.5], family="f", adjustment="none")


def test_comparing_a_cell_with_itself_rejects_about_as_often_as_alpha() -> None:
    rng = np.random.default_rng(17)
    trials = 400
    rejected = 0
    for _ in range(trials):
        blocks = rng.normal(size=(6, 1)) + rng.normal(size=(6, 3))
        found = stats.friedman(blocks, family="a/a")
        assert found.p is not None
        rejected += found.p.raw <= 0.05
    # Exact and discrete, so at most 0.05; 400 trials vary by 0.011.
    assert 0.01 < rejected / trials < 0.083


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2, 2, 2), (3, 3, 3, 3), (2, 3, 3, 4), (5, 5, 5), (3, 3, 3, 3, 3)])
def test_kruskal_wallis_of_small_groups_has_the_p_of_permutations(sizes: tuple[int, ...]) -> None:
    # Chi-squared was used above a million arrangements: 31 of 48 such p-values were over 4 standard errors off.
    rng = np.random.default_rng(sum(sizes))
    groups = np.split(rng.normal(size=sum(sizes)) + 0.5 * np.arange(sum(sizes)) / 4, np.cumsum(sizes)[:-1])
    found = stats.kruskal_wallis(groups, family="f")
    assert found.p is not None
    ranks = scipy_stats.rankdata(np.concatenate(groups))
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    drawn = np.array([rng.permutation(ranks) for _ in range(20_000)])
    spread = (np.add.reduceat(drawn, begins, axis=1) ** 2 / np.array(sizes)).sum(axis=1)
    observed = (np.add.reduceat(ranks, begins) ** 2 / np.array(sizes)).sum()
    share = float(np.mean(spread >= observed - 1e-9))
    assert found.p.raw == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 20_000) + 1e-3)


def test_two_groups_are_counted_at_any_size_and_with_ties() -> None:
    rng = np.random.default_rng(4)
    for n_a, n_b in ((4, 5), (20, 30), (60, 80)):
        a, b = rng.normal(size=n_a), rng.normal(size=n_b) + 0.4
        found = stats.kruskal_wallis([a, b], family="f")
        assert found.p is not None
        assert found.p.exact
        assert found.p.raw == pytest.approx(float(scipy_stats.mannwhitneyu(a, b, method="exact").pvalue), rel=1e-6)
    tied = stats.kruskal_wallis([[1, 1, 2, 3], [2, 3, 3, 4, 4]], family="f")
    assert tied.p is not None
    assert tied.p.raw == pytest.approx(_kruskal_exact(scipy_stats.rankdata([1, 1, 2, 3, 2, 3, 3, 4, 4]), (4, 5)))


@pytest.mark.parametrize("blocks", [12, 30, 60])
def test_friedman_of_two_levels_is_the_sign_test_at_any_number_of_blocks(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    rows = rng.normal(size=(blocks, 2)) + np.array([0.0, 0.5])
    found = stats.friedman(rows, family="f")
    ups = int(np.sum(rows[:, 1] > rows[:, 0]))
    assert found.p is not None
    assert found.p.exact
    assert found.p.raw == pytest.approx(float(scipy_stats.binomtest(ups, blocks).pvalue))


def test_draws_are_the_same_for_the_same_figures_and_never_give_0() -> None:
    groups = [[float(10 * g + i) for i in range(6)] for g in range(4)]
    once, again = (stats.kruskal_wallis(groups, family="f") for _ in range(2))
    assert once.p is not None
    assert once.p == again.p
    assert once.p.raw >= 1 / 200_000
    rows = np.arange(80.0).reshape(8, 10)
    drawn = stats.friedman(rows, family="f", draws=999)
    assert drawn.p is not None
    assert not drawn.p.exact
    assert drawn.p.raw == pytest.approx(1e-4)


def test_a_test_that_its_family_could_never_find_is_refused() -> None:
    rows = [[1.0, 2.0]] * 7
    assert stats.friedman(rows, family="f").p is not None
    crowd = stats.friedman(rows, family="f", comparisons=8)
    assert crowd.p is None
    assert crowd.refused is not None
    assert "above 0.00625 (0.05 over 8 tests); 9 blocks are needed" in crowd.refused
