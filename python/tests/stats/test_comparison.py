from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtare import stats
from vtare.stats.comparison import Comparison

MARGIN = 1.05
runs = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=14)


def by_block(figures: list[float], first: int = 1) -> dict[int, float]:
    return dict(enumerate(figures, first))


def check(found: Comparison, family: int) -> None:
    """Verdict, interval and p-value agree, whatever was compared."""
    adjusted = None if found.p is None else min(1.0, found.p * family)
    verdict = stats.judge(found, p_adjusted=adjusted, margin_ratio=MARGIN, size=family)
    if found.p is None:
        assert (verdict.verdict, found.low, found.high) == ("inconclusive", None, None)
        assert verdict.reason.startswith("refused: ")
        return
    assert found.low is not None
    assert found.high is not None
    assert found.ratio is not None
    # The ratio lies inside its own interval: estimate, interval and test are of one formula.
    assert found.low <= found.ratio * (1 + 1e-9)
    assert found.ratio <= found.high * (1 + 1e-9)
    assert (found.difference > 0) == (found.ratio > 1) or abs(found.ratio - 1) < 1e-9
    leaves_out_1 = found.low > 1.0 or found.high < 1.0
    if abs(found.p - 0.05) > 1e-9:
        assert (found.p <= 0.05) == leaves_out_1
    if verdict.verdict.is_different:
        assert adjusted is not None
        assert adjusted <= 0.05
        assert leaves_out_1
    if verdict.verdict == "equivalent":
        assert found.low >= 1 / MARGIN
        assert found.high <= MARGIN
    if verdict.verdict == "inconclusive" and leaves_out_1:
        assert "it may be chance" in verdict.reason


@settings(max_examples=200)
@given(runs, runs, st.sampled_from([0.0, 1.0, 50.0]), st.integers(1, 40), st.booleans())
def test_verdict_interval_and_p_never_contradict_each_other(
    a: list[float], b: list[float], step: float, family: int, blocked: bool
) -> None:
    if blocked:
        check(stats.compare_runs(by_block(a), by_block(b), step=step), family)
    else:
        check(stats.compare_runs(a, b, step=step), family)


@settings(max_examples=60)
@given(st.lists(st.floats(1.0, 1e6), min_size=4, max_size=9), st.lists(st.floats(1.0, 1e6), min_size=4, max_size=9))
def test_turning_a_comparison_round_turns_its_interval_round(a: list[float], b: list[float]) -> None:
    for here, there in ((a, b), (by_block(a), by_block(b))):
        one, other = stats.compare_runs(here, there), stats.compare_runs(there, here)
        assert one.low is not None
        assert other.high is not None
        assert math.log(one.low) == pytest.approx(-math.log(other.high), rel=1e-6, abs=1e-9)
        assert one.p == pytest.approx(other.p)


@pytest.mark.parametrize(
    ("n_a", "n_b", "why"),
    [
        (1, 1, "1 run on either side; 4 a cell are needed"),
        (3, 3, "3 runs on either side; 4 a cell are needed"),
        (2, 8, "2 and 8 runs; 4 a cell are needed"),
    ],
)
def test_too_few_runs_are_described_and_inference_is_refused(n_a: int, n_b: int, why: str) -> None:
    found = stats.compare_runs([2.0] * n_a, [1.0] * n_b)
    assert found.ratio == pytest.approx(2.0)
    assert found.difference == pytest.approx(1.0)
    assert (found.p, found.low, found.difference_low, found.method) == (None, None, None, "refused")
    assert found.reason == f"refused: {why}"
    assert stats.judge(found, p_adjusted=None, margin_ratio=MARGIN).verdict == "inconclusive"


def test_four_blocks_or_four_runs_or_three_against_five_are_enough() -> None:
    assert stats.refusal(4, 4) is None
    assert stats.refusal(3, 5) is None
    assert stats.refusal(3, 4) is not None
    assert stats.refusal(9, 9, n_blocks=4) is None
    assert stats.refusal(9, 9, n_blocks=3) == "refused: 3 blocks have both cells; 4 are needed"
    assert stats.least_p_of_runs(5, 5) == pytest.approx(2 / 252)


def test_the_rule_is_the_same_at_every_number_of_runs() -> None:
    rng = np.random.default_rng(2)
    x, y = (np.exp(rng.normal(size=40) * 0.1).tolist() for _ in range(2))
    for n in range(4, 41):
        paired = stats.compare_runs(by_block(x[:n]), by_block(y[:n]))
        apart = stats.compare_runs(x[:n], y[:n])
        assert (paired.method, paired.freedom, apart.method) == ("paired t", n - 1, "welch t")
        gm = math.exp(np.log(x[:n]).mean() - np.log(y[:n]).mean())
        assert paired.ratio == apart.ratio == pytest.approx(gm)


def test_blocks_that_both_cells_share_are_paired_and_others_left_out() -> None:
    a, b = by_block([10.0, 20.0, 30.0, 40.0, 50.0]), by_block([5.0, 10.0, 15.0, 20.0, 26.0])
    found = stats.compare_runs({**a, 6: 900.0}, b)
    assert (found.design, found.n_blocks, found.n_runs_a, found.n_runs_b) == ("paired", 5, 6, 5)
    assert found.ratio == pytest.approx((2.0**4 * 50 / 26) ** 0.2)
    assert found.p is not None
    assert found.p < 1e-4
    # The medians describe the cells: all of their runs.
    assert (found.median_a, found.median_b) == (35.0, 15.0)
    apart = stats.compare_runs(a, by_block(list(b.values()), first=5))
    assert (apart.design, apart.method, apart.n_blocks) == ("unpaired", "welch t", None)


def test_blocks_that_move_both_cells_alike_do_not_hide_a_difference() -> None:
    # Block SD 10 %, run SD 2 %, a shift of 10 %, 5 blocks: unpaired, 18 % of such campaigns found it.
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(400):
        moved = 0.1 * rng.normal(size=5)
        a, b = (np.exp(moved + 0.02 * rng.normal(size=5) + s).tolist() for s in (math.log(1.1), 0.0))
        p = stats.compare_runs(by_block(a), by_block(b)).p
        found += p is not None and p <= 0.05
    assert found >= 380


def test_a_difference_that_adjustment_takes_away_is_undecided_and_states_so() -> None:
    found = stats.compare_runs([1.1, 1.13, 1.2, 1.12], [1.0, 1.03, 1.05, 1.02])
    assert found.p is not None
    assert found.p < 0.05
    alone = stats.judge(found, p_adjusted=found.p, margin_ratio=MARGIN)
    assert alone.verdict.is_different
    crowd = stats.judge(found, p_adjusted=min(1.0, found.p * 12), margin_ratio=MARGIN, size=12)
    assert crowd.verdict == "inconclusive"
    assert "after adjustment over 12 comparisons: it may be chance" in crowd.reason


def test_the_interval_beside_a_verdict_of_a_family_agrees_with_it() -> None:
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(300):
        size = int(rng.integers(1, 9))
        shifts = rng.choice([1.0, 1.0, 1.1, 1.5], size)
        spread = rng.choice([0.02, 0.1])
        pairs = [(rng.lognormal(0, spread, 6) * shift, rng.lognormal(0, spread, 6)) for shift in shifts]
        found = [stats.compare_runs(here, there) for here, there in pairs]
        for adjustment in ("holm", "bh"):
            values = stats.adjust([one.p or 0.0 for one in found], family="f", adjustment=adjustment)
            for one, p, left in zip(found, values, stats.alphas_left(values, 0.05), strict=True):
                made = stats.judge(one, p_adjusted=p.adjusted, margin_ratio=MARGIN, size=size, alpha_left=left)
                assert made.ends is not None
                low, high = made.ends.low or 0.0, made.ends.high or 0.0
                seen.add(made.verdict)
                assert low <= (one.ratio or 0.0) <= high
                if made.verdict == "equivalent":
                    assert 1 / MARGIN <= low < high <= MARGIN
                else:
                    assert made.verdict.is_different == (low > 1 or high < 1)
                    # An adjusted interval is never narrower than that of one comparison alone.
                    assert low <= (one.low or 0.0) * (1 + 1e-9)
    assert seen == {"higher", "lower", "inconclusive", "equivalent"}


def test_a_difference_inside_the_margin_is_equivalent_however_sure_it_is() -> None:
    found = stats.compare_runs([1.01, 1.011, 1.0105, 1.0102], [1.0, 1.001, 1.0005, 1.0002])
    assert found.p is not None
    assert found.p < 0.001
    assert stats.judge(found, p_adjusted=found.p, margin_ratio=MARGIN).verdict == "equivalent"
    with pytest.raises(ValueError, match="margin"):
        stats.judge(found, p_adjusted=found.p, margin_ratio=1.0)


def test_medians_below_zero_are_judged_by_their_difference() -> None:
    found = stats.compare_runs([-5.0, -4.0, -4.5, -5.5], [50.0, 52.0, 49.0, 51.0])
    assert (found.ratio, found.low, found.high) == (None, None, None)
    assert found.difference_high is not None
    assert found.difference_high < 0
    judged = stats.judge(found, p_adjusted=found.p, margin_ratio=MARGIN)
    assert judged.verdict.is_different
    assert "interval of the difference" in judged.reason
    far = stats.compare_runs([-5.0, 4.0, -4.5, 5.5], [5.0, -5.2, 4.9, -5.1])
    assert stats.judge(far, p_adjusted=far.p, margin_ratio=MARGIN).verdict == "inconclusive"


def test_runs_that_agree_to_the_last_digit_have_the_p_of_their_separation() -> None:
    for a, b in (([2.0] * 5, [1.0] * 5), (by_block([2.0] * 5), by_block([1.0] * 5))):
        found = stats.compare_runs(a, b)
        assert found.p == pytest.approx(2 / 252)
    same = stats.compare_runs([2.0] * 5, [2.0] * 5)
    assert (same.low, same.high, same.p) == (1.0, 1.0, 1.0)


def test_a_sample_of_zeros_is_no_division() -> None:
    found = stats.compare_runs([0.0] * 4, [1.0, 2.0, 3.0, 4.0])
    assert found.ratio is None
    assert found.p is not None
    with pytest.raises(ValueError, match="no run"):
        stats.compare_runs([], [1.0])


@settings(max_examples=60)
@given(
    st.lists(st.floats(0.5, 2.0), min_size=4, max_size=9),
    st.lists(st.floats(0.5, 2.0), min_size=4, max_size=9),
    st.sampled_from([0.0, 0.1]),
)
def test_equivalent_verdicts_are_two_one_sided_tests_at_half_alpha(a: list[float], b: list[float], step: float) -> None:
    found = stats.compare_runs(a, b, step=step)
    word = stats.judge(found, p_adjusted=found.p, margin_ratio=1.5).verdict
    p = stats.equivalence_p(found, margin_ratio=1.5)
    assert p is not None
    assert (word == "equivalent") == (p <= 0.025) or abs(p - 0.025) < 1e-9


# --- the clock's step ---


def test_equal_medians_on_a_coarse_clock_are_not_called_equivalent() -> None:
    coarse = stats.compare_runs([10.0] * 4, [10.0] * 4, step=10.0)
    assert coarse.low is not None
    assert coarse.high is not None
    assert coarse.low < 1 / 3
    assert coarse.high > 3.0
    assert coarse.p == 1.0
    fine = stats.compare_runs([70e3] * 4, [70e3] * 4, step=10.0)
    assert stats.judge(fine, p_adjusted=fine.p, margin_ratio=MARGIN).verdict == "equivalent"
    # A median below half a step may be 0: there is no largest ratio.
    assert stats.compare_runs([10.0] * 4, [4.0] * 4, step=10.0).high == math.inf
    apart = stats.compare_runs([10.0] * 4, [70e3] * 4, step=10.0)
    assert stats.judge(apart, p_adjusted=apart.p, margin_ratio=MARGIN).verdict.is_different


def test_a_step_wider_than_the_margin_is_the_reason_that_is_given() -> None:
    found = stats.compare_runs([30.0] * 5, [30.0] * 5, step=10.0)
    judged = stats.judge(found, p_adjusted=found.p, margin_ratio=MARGIN)
    assert judged.verdict == "inconclusive"
    assert judged.reason.endswith(
        "the clock moves in steps of 10: that alone leaves the ratio open by 40 %, more than the margin of 5 %"
    )
    assert stats.step_beyond_margin(stats.compare_runs([7e4] * 5, [7e4] * 5, step=10.0), margin_ratio=MARGIN) is None


def readings_of_a_coarse_clock(rng: np.random.Generator, true_ns: float, n: int = 2000) -> np.ndarray:
    """Durations read by a counter that moves in steps of 10 ns, whose driver states 0.409 ns (24 or 25 ticks)."""
    step, ticks = 10.02, 0.409
    begin = rng.uniform(0, step, n)
    steps = np.floor((begin + true_ns * np.exp(0.02 * rng.normal(size=n))) / step)
    return np.rint(steps * step / ticks + rng.choice([0, 1], n, p=[0.7, 0.3]) * (steps > 0)) * ticks


def test_the_step_of_the_clock_is_seen_in_readings_whatever_is_stated() -> None:
    rng = np.random.default_rng(3)
    counted = stats.tally(np.concatenate([readings_of_a_coarse_clock(rng, 28.0) for _ in range(5)]))
    assert stats.seen_step(counted) == pytest.approx(10.02, rel=0.05)
    # Times that differ by more than the step, rounded to 1 ns: no step but that one.
    fine = stats.tally(np.rint(60e3 * np.exp(0.2 * rng.normal(size=3000))))
    assert stats.seen_step(fine) <= 1.0
    # Two modes of a latency are no steps of a clock.
    modes = np.rint(np.concatenate([rng.normal(25, 1, 4000), rng.normal(60, 1, 3000)]))
    assert stats.seen_step(stats.tally(modes)) == 1.0
    assert stats.seen_step(stats.tally([20.0] * 100)) == 0.0


def test_shifts_hidden_by_the_step_are_never_called_equivalent_though_the_stated_step_is_25_times_too_small() -> None:
    rng = np.random.default_rng(4)
    false = 0
    for trial in range(60):
        shift = (1.05, 1.10, 1.15)[trial % 3]
        a, b = ([readings_of_a_coarse_clock(rng, 28.0 * s) for _ in range(5)] for s in (shift, 1.0))
        seen = stats.seen_step(stats.tally(np.concatenate([*a, *b])))
        found = stats.compare_runs([np.median(x) for x in a], [np.median(x) for x in b], step=max(0.409, seen))
        false += stats.judge(found, p_adjusted=found.p, margin_ratio=MARGIN).verdict == "equivalent"
    assert false == 0


def test_a_step_that_rounds_away_in_the_spread_of_runs_costs_nothing() -> None:
    assert stats.hidden_by_step(10.0, 0.0) == 5.0
    assert stats.hidden_by_step(10.0, 50.0) == pytest.approx(0.0, abs=1e-12)
    assert stats.hidden_by_step(0.0, 3.0) == 0.0
    spread = np.exp(0.1 * np.random.default_rng(7).normal(size=8))
    wide = stats.compare_runs(1000.0 * spread, 1000.0 * spread[::-1], step=10.0)
    assert wide.slack.up < 1e-6


# --- the pool ---


def test_the_pool_shows_noise_inside_runs_from_spread_between_them() -> None:
    rng = np.random.default_rng(4)
    medians = np.exp(0.1 * rng.normal(size=40))
    between, inside = stats.RunPool(medians, medians[:, None] * np.exp(0.1 * rng.normal(size=(40, 200)))).noise()
    assert inside == pytest.approx(0.01, rel=0.1)
    assert between < 0.005


def test_pool_states_what_it_cannot_take() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(ValueError, match="without readings"):
        stats.RunPool.of([[]], rng=rng)
    with pytest.raises(ValueError, match="at least one run"):
        stats.RunPool.of([], rng=rng)
    with pytest.raises(ValueError, match="needs 2"):
        stats.RunPool.of([[1.0]], rng=rng).noise()


def test_one_rule_for_what_a_step_hides() -> None:
    # Ten figures of two digits that all agree: the difference is open by half a step on either side.
    alike = stats.step_slack([0.12] * 10, [0.12] * 10, step=0.01, on_log=True)
    assert alike.up == pytest.approx(math.log(0.125 / 0.115), rel=1e-9)
    assert alike.exceeds(math.log(1.02))
    assert alike.evidence(0.05) == 0.0
    # The figures show a larger step than the least one that is stated. Two neighbours show no spread that averages it
    # out: all runs may lie next to the border between them.
    coarse = stats.step_slack([30.0, 40.0] * 4, [30.0, 40.0] * 4, step=0.1, on_log=False)
    assert (coarse.step, coarse.up) == (10.0, 10.0)
    spread = stats.step_slack([20.0, 30.0, 40.0, 30.0] * 3, [20.0, 30.0, 40.0, 30.0] * 3, step=0.1, on_log=False)
    assert spread.up < 0.1
    assert stats.step_slack([1.0, 2.0], [1.0, 2.0], step=0.0, on_log=True) == stats.NO_SLACK
