from __future__ import annotations

import csv
import math
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtare import stats

readings = st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=1, max_size=60)
rows = st.lists(st.tuples(st.integers(-1000, 1000), st.integers(0, 9)), min_size=1, max_size=40).filter(
    lambda pairs: sum(count for _, count in pairs) > 0
)


@given(rows, st.floats(0, 1))
def test_quantile_of_histogram_rows_is_that_of_the_expanded_sample(pairs: list[tuple[int, int]], p: float) -> None:
    values, counts = zip(*pairs, strict=True)
    expanded = np.repeat(values, counts)
    found = stats.in_order(values, counts).quantile(p)
    assert found == pytest.approx(float(np.quantile(expanded, p)), abs=1e-9)


@given(rows)
def test_spreads_of_histogram_rows_are_those_of_the_expanded_sample(pairs: list[tuple[int, int]]) -> None:
    values, counts = zip(*pairs, strict=True)
    expanded = np.repeat(values, counts)
    low, high = np.quantile(expanded, [0.25, 0.75])
    assert stats.half_iqr(values, weights=counts).value == pytest.approx((high - low) / 2)
    raw = float(np.median(np.abs(expanded - np.median(expanded))))
    assert stats.mad_raw(values, weights=counts).value == pytest.approx(raw)
    assert stats.median(values, weights=counts).n == len(expanded)


@given(readings, st.floats(-1e6, 1e6), st.floats(0.1, 100))
def test_median_moves_and_scales_with_the_readings(x: list[float], shift: float, scale: float) -> None:
    moved = stats.median(np.array(x) * scale + shift).value
    plain = stats.median(x).value
    assert plain is not None
    assert moved == pytest.approx(plain * scale + shift, rel=1e-9, abs=1e-3)


@pytest.mark.parametrize(("p", "least"), [(0.99, 299), (0.999, 2995), (0.01, 299), (0.5, 1)])
def test_tail_quantile_is_null_below_its_least_sample(p: float, least: int) -> None:
    assert stats.least_n(p) == least
    assert stats.quantile(np.arange(least), p).value is not None
    if least > 1:
        short = stats.quantile(np.arange(least - 1), p)
        assert short.value is None
        assert short.reason is not None
        assert f"needs {least} readings, there are {least - 1}" in short.reason
        assert stats.quantile([5.0], p, weights=[least]).value == 5.0


def test_figures_of_no_readings_are_null_with_a_reason() -> None:
    for figure in (stats.median([]), stats.half_iqr([]), stats.mad_raw([]), stats.quantile([], 0.9)):
        assert figure.value is None
        assert figure.reason == "no readings"


@pytest.mark.parametrize("bad", [[1.0, math.nan], [math.inf], [[1.0, 2.0]]])
def test_missing_readings_are_refused_rather_than_counted(bad: list[float]) -> None:
    with pytest.raises(ValueError, match=r"NaN or infinity|pass one dimension"):
        stats.median(bad)


@pytest.mark.parametrize("weights", [[1.5, 1], [-1, 2], [1]])
def test_weights_that_count_nothing_sensible_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        stats.median([1.0, 2.0], weights=weights)


@given(rows)
def test_ccdf_is_the_share_of_readings_strictly_above(pairs: list[tuple[int, int]]) -> None:
    values, counts = zip(*pairs, strict=True)
    expanded = np.repeat(values, counts)
    found = stats.ccdf(values, weights=counts)
    for x, p in zip(found.x, found.probability, strict=True):
        assert p == pytest.approx(float(np.mean(expanded > x)))
    assert found.probability[-1] == 0
    assert found.mean == pytest.approx(float(expanded.mean()))


def test_thinned_ccdf_keeps_ends_and_only_true_points() -> None:
    x = np.random.default_rng(1).exponential(1000, 50_000)
    full, thin = stats.ccdf(x), stats.ccdf(x, points=300)
    assert len(thin.x) <= 310
    assert (thin.x[0], thin.x[-1]) == (full.x[0], full.x[-1])
    place = np.searchsorted(full.x, thin.x)
    assert np.array_equal(full.x[place], thin.x)
    assert np.array_equal(full.probability[place], thin.probability)


def test_cv_splits_into_the_variance_components_of_a_textbook_anova() -> None:
    # Mean squares by hand: 27 between and 1 within batches of three, so the components are (27 - 1) / 3 and 1.
    x = [4.0, 5, 6, 7, 8, 9, 10, 11, 12]
    found = stats.coefficient_of_variation(x, groups=[1, 1, 1, 2, 2, 2, 3, 3, 3])
    assert found.cv == pytest.approx(math.sqrt(7.5) / 8)
    assert found.within == pytest.approx(1 / 8)
    assert found.between == pytest.approx(math.sqrt(26 / 3) / 8)
    assert (found.n, found.groups) == (9, 3)


def test_cv_between_is_zero_where_batches_agree_better_than_chance() -> None:
    found = stats.coefficient_of_variation([1.0, 3, 1, 3], groups=["a", "a", "b", "b"])
    assert found.between == 0.0
    assert found.within is not None
    assert found.within > 0


def test_cv_is_null_where_it_has_no_meaning() -> None:
    assert stats.coefficient_of_variation([1.0]).cv is None
    assert stats.coefficient_of_variation([-1.0, 1.0]).cv is None
    alone = stats.coefficient_of_variation([1.0, 2.0], groups=[1, 2])
    assert alone.cv is not None
    assert alone.within is None


def test_jain_index_agrees_with_the_published_closed_form() -> None:
    text = files("vtare").joinpath("papers/data/batalla_jain_index.csv").read_text(encoding="utf-8")
    table = list(csv.DictReader(text.splitlines()))
    assert len(table) == 12
    for row in table:
        n, k = int(row["n_vms"]), int(row["k_strongly_loaded"])
        heavy, light = float(row["oh_over_otot"]), float(row["ol_over_otot"] or 0.0)
        found = stats.jain_index([heavy] * k + [light] * (n - k)).value
        assert found == pytest.approx(float(row["j_eq5"]), rel=1e-9)


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=30))
def test_jain_index_lies_between_one_nth_and_one(loads: list[float]) -> None:
    found = stats.jain_index(loads).value
    if max(loads) == 0:
        assert found is None
    else:
        assert found is not None
        assert 1 / len(loads) - 1e-9 <= found <= 1 + 1e-9


def test_mser5_cuts_a_warm_up_and_leaves_a_steady_series() -> None:
    rng = np.random.default_rng(3)
    steady = rng.normal(100, 1, 1000)
    warming = steady + np.concatenate([np.full(100, 50.0), np.zeros(900)])
    assert stats.mser5(warming).cut in range(100, 150)
    assert stats.mser5(warming).settled
    assert stats.mser5(steady).cut < 300
    climbing = stats.mser5(np.arange(1000.0))
    assert not climbing.settled
    assert stats.mser5(np.arange(49.0)).reason is not None


@given(st.integers(50, 120), st.integers(0, 2**32 - 1))
def test_mser5_minimises_the_marginal_standard_error(n: int, seed: int) -> None:
    x = np.random.default_rng(seed).exponential(5, n) + 1e6
    means = x[: n // 5 * 5].reshape(-1, 5).mean(axis=1)
    k = len(means)
    errors = [float(np.sum((means[d:] - means[d:].mean()) ** 2)) / (k - d) ** 2 for d in range(k // 2 + 1)]
    assert errors[stats.mser5(x).cut // 5] == pytest.approx(min(errors), rel=1e-6)


def test_interval_of_ten_runs_lies_between_the_second_and_the_ninth() -> None:
    found = stats.median_interval(np.arange(1.0, 11.0))
    assert (found.low, found.high, found.method) == (2.0, 9.0, "order statistics")
    assert found.level == pytest.approx(0.978516, abs=1e-6)
    assert stats.median_interval(np.arange(1.0, 7.0)).low == 1.0
    five = stats.median_interval([3.0, 1.0, 2.0, 9e9, 4.0])
    assert (five.low, five.high, five.level) == (1.0, 9e9, 0.9375)
    three = stats.median_interval([3.0, -1.0, 2.0])
    assert (three.low, three.high, three.level) == (-1.0, 3.0, 0.75)
    assert stats.median_interval([1.0, 2.0]).low is None


@pytest.mark.parametrize("n", [3, 5, 6, 10])
def test_interval_over_runs_covers_the_median_as_often_as_it_states(n: int) -> None:
    rng = np.random.default_rng(n)
    hits, level = 0, 0.0
    for _ in range(600):
        found = stats.median_interval(np.exp(rng.normal(size=n) * 0.2))
        assert found.low is not None
        assert found.high is not None
        hits, level = hits + (found.low <= 1.0 <= found.high), found.level
    # 600 trials: the share varies by at most 0.018.
    assert abs(hits / 600 - level) < 3.5 * math.sqrt(level * (1 - level) / 600)


@pytest.mark.parametrize("freedom", [1.0, 1.5, 2.0, 4.0, 7.3, 63.0, 999.5, 1e6, math.inf])
@pytest.mark.parametrize("probability", [0.02, 0.5, 0.6, 0.975, 0.999, 1 - 1e-9, 1.0])
def test_one_quantile_of_t_is_that_of_many(probability: float, freedom: float) -> None:
    one, many = (stats.t_quantile(probability, np.array(freedom)) for freedom in (freedom, [freedom, 3.0]))
    assert float(one) == pytest.approx(float(many[0]), rel=1e-8, abs=1e-12)
