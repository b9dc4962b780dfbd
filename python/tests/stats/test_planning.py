from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from vtare import stats


def test_samples_per_run_is_the_formula_of_kalibera_and_jones() -> None:
    def samples(between: float, inside: float, run_s: float = 1.0, reading_s: float = 1e-3) -> int | None:
        return stats.samples_per_run(
            variance_between_runs=between, variance_of_reading=inside, run_cost_s=run_s, reading_cost_s=reading_s
        ).samples

    assert samples(0.03**2, 0.3**2) == math.ceil(math.sqrt(1000 * 100))
    # A start that costs four times as much is worth twice the readings.
    assert samples(1.0, 1.0, run_s=4.0, reading_s=1.0) == 2
    assert samples(1.0, 1e-6) == 1
    none = stats.samples_per_run(variance_between_runs=0.0, variance_of_reading=1.0, run_cost_s=1.0, reading_cost_s=1.0)
    assert none.samples is None
    assert none.reason is not None
    with pytest.raises(ValueError, match="costs"):
        samples(1.0, 1.0, run_s=0.0)
    with pytest.raises(ValueError, match="variances"):
        samples(-1.0, 1.0)


def test_power_is_nothing_where_inference_is_refused_and_grows_with_runs() -> None:
    assert stats.power(3, shift_sd=10.0) == 0.0
    grown = [stats.power(n, shift_sd=1.0) for n in (4, 8, 16, 32, 64)]
    assert grown == sorted(grown)
    assert stats.power(20, shift_sd=0.0) == pytest.approx(0.05, abs=1e-3)
    assert stats.power(20, shift_sd=1.0, comparisons=20) < stats.power(20, shift_sd=1.0)
    assert stats.power(5, shift_sd=1e3) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="comparisons"):
        stats.power(5, shift_sd=1.0, comparisons=0)


def test_runs_and_detectable_shift_are_each_others_inverse() -> None:
    for n in (4, 6, 9, 17, 40):
        for paired in (True, False):
            shift = stats.detectable_shift_sd(n, paired=paired)
            assert shift is not None
            assert stats.runs_per_cell(shift_sd=shift * 1.0001, paired=paired) == n
    assert stats.detectable_shift_sd(3) is None
    assert stats.runs_per_cell(shift_sd=0.001) is None
    with pytest.raises(ValueError, match="use a shift"):
        stats.runs_per_cell(shift_sd=0.0)


@pytest.mark.parametrize(
    ("low", "high", "runs", "word"),
    [
        (0.9, 1.1, 5, "go on"),
        (0.999, 1.001, 9, "go on"),
        (0.999, 1.001, 10, "precise"),
        (0.9, 1.1, 10, "go on"),
        (1.5, 1.51, 10, "precise"),
        (0.9, 1.1, 30, "limit"),
        (None, None, 12, "go on"),
        (1.0, math.inf, 12, "go on"),
    ],
)
def test_stopping_asks_for_precision_and_not_for_a_difference(
    low: float | None, high: float | None, runs: int, word: str
) -> None:
    assert stats.stop(low, high, runs=runs, target=math.log(1.05), most=30).word == word


def test_stopping_without_a_target_is_refused() -> None:
    with pytest.raises(ValueError, match="use one above 0"):
        stats.stop(0.9, 1.1, runs=10, target=0.0)


def test_stopping_on_precision_leaves_the_a_a_rate_alone_and_stopping_on_p_does_not() -> None:
    def campaign(rng: np.random.Generator, on_p: bool) -> bool:
        a, b = (np.exp(0.05 * rng.normal(size=9)) for _ in range(2))
        found = None
        for n in range(4, 10):
            found = stats.compare_runs(a[:n], b[:n])
            assert found.p is not None
            if on_p and found.p <= 0.05:
                return True
            if not on_p and stats.stop(found.low, found.high, runs=n, target=0.06, least=4, most=9).word != "go on":
                break
        return found is not None and found.p is not None and found.p <= 0.05

    precise = stats.self_test(lambda rng: campaign(rng, False), trials=600, seed=1)
    hunting = stats.self_test(lambda rng: campaign(rng, True), trials=600, seed=1)
    assert precise.low <= 0.07
    assert hunting.share > 0.09


@pytest.mark.parametrize("spread", [0.02, 0.03, 0.04, 0.05, 0.07])
def test_repeating_an_experiment_until_it_is_precise_finds_little_that_is_not_there(spread: float) -> None:
    """As `[repeat]` of the quick plans does: pairs from 10 to 24 blocks, half of a margin of 5 %."""
    quantiles = [float(scipy_stats.t.ppf(0.975, n - 1)) for n in range(2, 25)]

    def finds_a_difference(rng: np.random.Generator) -> bool:
        logs = rng.normal(0.0, spread, 24)
        for n in range(10, 25):
            mean = float(logs[:n].mean())
            half = quantiles[n - 2] * float(logs[:n].std(ddof=1)) / math.sqrt(n)
            judged = stats.stop(
                math.exp(mean - half), math.exp(mean + half), runs=n, target=math.log(1.025), least=10, most=24
            )
            if judged.word != "go on":
                return abs(mean) > half
        raise AssertionError("24 blocks are the most")

    assert stats.self_test(finds_a_difference, trials=2000, seed=7).share <= 0.08


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("n", "shift_sd"), [(4, 2.0), (5, 1.5), (9, 1.2), (17, 1.0), (30, 0.7)])
@pytest.mark.parametrize("ratio_sd", [1.0, 3.0])
def test_planned_and_achieved_power_differ_by_at_most_5_points(
    n: int, shift_sd: float, paired: bool, ratio_sd: float
) -> None:
    rng = np.random.default_rng([n, paired, int(ratio_sd)])
    trials = 8000
    a, b = ratio_sd * rng.normal(size=(trials, n)), rng.normal(size=(trials, n))
    if paired:
        block = rng.normal(size=(trials, n))
        found = stats.paired_t((block + a + shift_sd * math.hypot(1.0, ratio_sd)) - (block + b))
    else:
        found = stats.welch_t(b + shift_sd, a)
    achieved = float(np.mean(found.p() <= 0.05))
    planned = stats.power(n, shift_sd=shift_sd, paired=paired, ratio_sd=ratio_sd)
    assert planned == pytest.approx(achieved, abs=0.03)


def test_runs_needed_are_shown_from_the_spread_that_was_found() -> None:
    rng = np.random.default_rng(3)
    a, b = (dict(enumerate(np.exp(0.05 * rng.normal(size=8)))) for _ in range(2))
    paired = stats.compare_runs(a, b)
    assert paired.error is not None
    needed = stats.runs_needed(paired, ratio=1.05)
    assert needed is not None
    spread = paired.error * math.sqrt(8)
    assert stats.power(needed, shift_sd=math.log(1.05) / spread, freedom=7.0) >= 0.8
    assert stats.power(needed - 1, shift_sd=math.log(1.05) / spread, freedom=7.0) < 0.8
    apart = stats.runs_needed(stats.compare_runs(list(a.values()), list(b.values())), ratio=1.05)
    assert apart is not None
    assert stats.runs_needed(stats.compare_runs([1.0], [2.0]), ratio=1.05) is None
    assert stats.runs_needed(stats.compare_runs([30.0] * 5, [30.0] * 5, step=10.0), ratio=1.05) is None
    with pytest.raises(ValueError, match="ratio is 1: use more than 1"):
        stats.runs_needed(paired, ratio=1.0)


def test_what_a_pilot_promises_is_kept_on_average() -> None:
    """Pilots of 5 blocks, the number of blocks that each asks for, and the true power of that number."""
    rng = np.random.default_rng(12)
    kept, taken_as_exact = [], []
    for _ in range(400):
        pilot = stats.compare_runs(dict(enumerate(np.exp(0.05 * rng.normal(size=5)))), dict.fromkeys(range(5), 1.0))
        needed = stats.runs_needed(pilot, ratio=1.04)
        assert needed is not None
        assert pilot.error is not None
        naive = stats.runs_per_cell(shift_sd=math.log(1.04) / (pilot.error * math.sqrt(5)))
        assert naive is not None
        kept.append(stats.power(needed, shift_sd=math.log(1.04) / 0.05))
        taken_as_exact.append(stats.power(naive, shift_sd=math.log(1.04) / 0.05))
    assert 0.75 <= np.mean(kept) <= 0.85
    assert np.mean(taken_as_exact) < 0.75
