from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtare import stats

MARGIN = 1.05
runs = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=14)


def compared(a: object, b: object, *, quantum: float = 0.0, seed: int = 1) -> stats.Comparison:
    return stats.compare_medians(a, b, rng=np.random.default_rng(seed), quantum=quantum, resamples=999)  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(runs, runs, st.sampled_from([0.0, 1.0, 50.0]), st.integers(1, 40))
def test_verdict_interval_and_p_never_contradict_each_other(
    a: list[float], b: list[float], quantum: float, family: int
) -> None:
    found = compared(a, b, quantum=quantum)
    adjusted = None if found.p is None else min(1.0, found.p * family)
    verdict = stats.verdict(found, p_adjusted=adjusted, margin_ratio=MARGIN, size=family)
    if found.p is None:
        assert (verdict.word, found.low, found.high) == ("undecided", None, None)
        assert verdict.reason.startswith("refused: with ")
        assert min(len(a), len(b)) < 3 or found.least_p > 0.05
        return
    assert found.low is not None
    assert found.high is not None
    leaves_out_1 = found.low > 1.0 or found.high < 1.0
    assert (found.p <= 0.05) == leaves_out_1
    if verdict.word == "differs":
        assert adjusted is not None
        assert adjusted <= 0.05
        assert leaves_out_1
    if verdict.word == "equivalent":
        assert found.low >= 1 / MARGIN
        assert found.high <= MARGIN
    if verdict.word == "undecided" and leaves_out_1:
        assert "it may be chance" in verdict.reason


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1.0, 1e6), min_size=4, max_size=9), st.lists(st.floats(1.0, 1e6), min_size=4, max_size=9))
def test_turning_a_comparison_round_turns_its_interval_round(a: list[float], b: list[float]) -> None:
    one, other = compared(a, b), compared(b, a)
    assert one.low is not None
    assert other.high is not None
    assert one.low * other.high == pytest.approx(1.0)
    assert one.p == pytest.approx(other.p)


@pytest.mark.parametrize(
    ("n_a", "n_b", "why"),
    [
        (1, 1, "with 1 run on either side the least possible p is 1, above 0.05; 4 runs a cell would do"),
        (3, 3, "with 3 runs on either side the least possible p is 0.1, above 0.05; 4 runs a cell would do"),
        (2, 8, "with 2 and 8 runs the spread between runs is not known; 4 runs a cell would do"),
    ],
)
def test_too_few_runs_are_described_and_inference_is_refused(n_a: int, n_b: int, why: str) -> None:
    found = compared([2.0] * n_a, [1.0] * n_b)
    assert found.ratio == 2.0
    assert found.difference == 1.0
    assert (found.p, found.low, found.difference_low, found.method) == (None, None, None, "refused")
    assert found.reason == f"refused: {why}"
    assert stats.verdict(found, p_adjusted=None, margin_ratio=MARGIN).word == "undecided"


def test_four_runs_against_four_and_three_against_five_are_enough() -> None:
    assert stats.refusal(4, 4, alpha=0.05) is None
    assert stats.refusal(3, 5, alpha=0.05) is None
    assert stats.refusal(4, 4, alpha=0.01) is not None
    assert stats.least_p_of_runs(5, 5) == pytest.approx(2 / 252)


def test_the_bootstrap_takes_over_from_ten_runs_on() -> None:
    rng = np.random.default_rng(2)
    x = np.exp(rng.normal(size=12) * 0.1)
    assert compared(x[:9], x).method == "welch t"
    assert compared(x[:10], x).method == "hierarchical bootstrap"


def test_a_difference_that_adjustment_takes_away_is_undecided_and_says_so() -> None:
    found = compared([1.1, 1.13, 1.2, 1.12], [1.0, 1.03, 1.05, 1.02])
    assert found.p is not None
    assert found.p < 0.05
    alone = stats.verdict(found, p_adjusted=found.p, margin_ratio=MARGIN)
    assert alone.word == "differs"
    crowd = stats.verdict(found, p_adjusted=min(1.0, found.p * 12), margin_ratio=MARGIN, size=12)
    assert crowd.word == "undecided"
    assert "after adjustment over 12 comparisons: it may be chance" in crowd.reason


def test_a_difference_inside_the_margin_is_equivalent_however_sure_it_is() -> None:
    found = compared([1.01, 1.011, 1.0105, 1.0102], [1.0, 1.001, 1.0005, 1.0002])
    assert found.p is not None
    assert found.p < 0.001
    assert stats.verdict(found, p_adjusted=found.p, margin_ratio=MARGIN).word == "equivalent"
    with pytest.raises(ValueError, match="margin"):
        stats.verdict(found, p_adjusted=found.p, margin_ratio=1.0)


def test_medians_below_zero_are_judged_by_their_difference() -> None:
    found = compared([-5.0, -4.0, -4.5, -5.5], [50.0, 52.0, 49.0, 51.0])
    assert (found.ratio, found.low, found.high) == (None, None, None)
    assert found.difference_high is not None
    assert found.difference_high < 0
    judged = stats.verdict(found, p_adjusted=found.p, margin_ratio=MARGIN)
    assert judged.word == "differs"
    assert "interval of the difference" in judged.reason
    far = compared([-5.0, 4.0, -4.5, 5.5], [5.0, -5.2, 4.9, -5.1])
    assert stats.verdict(far, p_adjusted=far.p, margin_ratio=MARGIN).word == "undecided"


def test_equal_medians_on_a_coarse_clock_are_not_called_equivalent() -> None:
    coarse = compared([10.0] * 4, [10.0] * 4, quantum=10.0)
    assert coarse.low is not None
    assert coarse.high is not None
    assert coarse.low < 1 / 3
    assert coarse.high > 3.0
    assert coarse.p == 1.0
    fine = compared([70e3] * 4, [70e3] * 4, quantum=10.0)
    assert stats.verdict(fine, p_adjusted=fine.p, margin_ratio=MARGIN).word == "equivalent"
    # A median below half a step may be 0: there is no largest ratio.
    assert compared([10.0] * 4, [4.0] * 4, quantum=10.0).high == math.inf
    apart = compared([10.0] * 4, [70e3] * 4, quantum=10.0)
    assert stats.verdict(apart, p_adjusted=apart.p, margin_ratio=MARGIN).word == "differs"


def test_runs_that_agree_to_the_last_digit_have_the_p_of_their_separation() -> None:
    found = compared([2.0] * 5, [1.0] * 5)
    assert found.p == pytest.approx(2 / 252)
    same = compared([2.0] * 5, [2.0] * 5)
    assert (same.low, same.high, same.p) == (1.0, 1.0, 1.0)


def test_a_sample_of_zeros_is_no_division() -> None:
    found = compared([0.0] * 4, [1.0, 2.0, 3.0, 4.0])
    assert found.ratio is None
    assert found.p is not None


def test_equivalence_refuses_what_it_cannot_judge() -> None:
    assert stats.equivalence([1.0] * 3, [1.0] * 3, margin_ratio=MARGIN).refused is not None
    assert stats.equivalence([-1.0] * 4, [1.0] * 4, margin_ratio=MARGIN).refused is not None
    assert stats.equivalence([1.0] * 4, [1.0] * 4, margin_ratio=MARGIN).p == 0.0
    with pytest.raises(ValueError, match="no run"):
        stats.equivalence([], [1.0], margin_ratio=MARGIN)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.5, 2.0), min_size=4, max_size=9), st.lists(st.floats(0.5, 2.0), min_size=4, max_size=9))
def test_equivalent_verdicts_are_two_one_sided_tests_at_half_alpha(a: list[float], b: list[float]) -> None:
    found = compared(a, b)
    word = stats.verdict(found, p_adjusted=found.p, margin_ratio=1.5).word
    p = stats.equivalence(a, b, margin_ratio=1.5).p
    assert p is not None
    assert (word == "equivalent") == (p <= 0.025)


# --- permutation of runs ---


def test_permutation_counts_every_way_to_deal_the_runs() -> None:
    a, b = [9.0, 11.0, 14.0, 30.0], [5.0, 6.0, 10.0, 8.0]
    joined = np.log(a + b)
    observed = abs(joined[:4].mean() - joined[4:].mean())
    ways = [
        abs(joined[list(c)].mean() - joined[[i for i in range(8) if i not in c]].mean())
        for c in itertools.combinations(range(8), 4)
    ]
    found = stats.permute_runs(a, b, family="tails", rng=np.random.default_rng(1))
    assert found.p is not None
    assert found.p.exact
    assert found.p.raw == pytest.approx(np.mean(np.array(ways) >= observed - 1e-12))
    assert found.ratio == pytest.approx(math.exp(np.log(a).mean() - np.log(b).mean()))


def test_permutation_by_draws_is_never_zero_and_near_the_exact_one() -> None:
    rng = np.random.default_rng(3)
    a, b = np.exp(rng.normal(size=30) + 1.0), np.exp(rng.normal(size=30))
    found = stats.permute_runs(a, b + 0.0, family="f", rng=rng, draws=999)
    assert found.p is not None
    assert not found.p.exact
    assert found.p.raw >= 1 / 1000
    far = stats.permute_runs(a * 1e6, b, family="f", rng=rng, draws=999)
    assert far.p is not None
    assert far.p.raw == pytest.approx(1 / 1000)


def test_permutation_refuses_too_few_runs_and_missing_tails() -> None:
    rng = np.random.default_rng(1)
    few = stats.permute_runs([1.0] * 3, [2.0] * 3, family="f", rng=rng)
    assert few.ratio == pytest.approx(0.5)
    assert few.refused is not None
    assert "least possible p is 0.1" in few.refused
    none = stats.permute_runs([], [2.0] * 5, family="f", rng=rng)
    assert (none.ratio, none.p) == (None, None)
    below = stats.permute_runs([-1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], family="f", rng=rng)
    assert below.ratio is None
    assert below.p is not None
    same = stats.permute_runs([5.0] * 4, [5.0] * 4, family="f", rng=rng)
    assert same.p is not None
    assert same.p.raw == 1.0


# --- the pool ---


def test_what_the_pool_draws_varies_as_medians_of_runs_do() -> None:
    rng = np.random.default_rng(4)
    # Nothing but noise inside runs: a bootstrap that adds it twice would be a factor sqrt(2) too wide.
    medians = np.exp(0.1 * rng.normal(size=40))
    noisy = stats.RunPool(medians, medians[:, None] * np.exp(0.1 * rng.normal(size=(40, 200))))
    plain = stats.RunPool(medians, medians[:, None])
    wide, bare = (np.log(pool.draw(rng, 4000)).std() for pool in (noisy, plain))
    assert wide == pytest.approx(bare, rel=0.25)
    between, inside = noisy.noise()
    assert inside == pytest.approx(0.01, rel=0.1)
    assert between < 0.005


def test_pool_says_what_it_cannot_take() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(ValueError, match="without readings"):
        stats.RunPool.of([[]], rng=rng)
    with pytest.raises(ValueError, match="at least one run"):
        stats.RunPool.of([], rng=rng)
    with pytest.raises(ValueError, match="no run"):
        stats.compare_medians([], [1.0], rng=rng)
    with pytest.raises(ValueError, match="needs 2"):
        stats.RunPool.of([[1.0]], rng=rng).noise()


def test_comparison_is_reproducible() -> None:
    rng = np.random.default_rng(6)
    a, b = ([np.exp(rng.normal(size=100) * 0.1) for _ in range(11)] for _ in range(2))

    def once() -> stats.Comparison:
        pools = [stats.RunPool.of(x, rng=np.random.default_rng(7)) for x in (a, b)]
        return stats.compare_medians(*pools, rng=np.random.default_rng(8))

    assert once() == once()


def test_pool_of_histogram_rows_is_that_of_the_readings() -> None:
    values, counts = np.array([10.0, 20.0, 5000.0]), np.array([60, 39, 1])
    rng = np.random.default_rng(1)
    a = stats.RunPool.of([values] * 4, weights=[counts] * 4, rng=rng)
    b = stats.RunPool.of([2 * values] * 4, weights=[counts] * 4, rng=rng)
    assert stats.compare_medians(a, b, rng=rng).ratio == 0.5
