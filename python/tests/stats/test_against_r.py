"""What R computes of the same numbers: reference/r_values.json, made by reference/make_values.R."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vtare import stats

R = {key: np.array(value) for key, value in json.loads(
    Path(__file__).with_name("reference").joinpath("r_values.json").read_text(encoding="utf-8")
).items()}  # fmt: skip
GROUPS = [R["a"], R["b"], R["g"]]
BLOCKS = R["blocks"].reshape(-1, 3)


def test_quantiles_and_mad_are_those_of_r() -> None:
    found = [stats.in_order(R["a"]).quantile(p) for p in (0.1, 0.25, 0.5, 0.9)]
    assert found == pytest.approx(R["quantile_type7"])
    assert stats.mad_raw(R["a"]).value == pytest.approx(R["mad_raw"][0])


def test_statistics_of_kruskal_wallis_and_friedman_are_those_of_r() -> None:
    kruskal = stats.kruskal_wallis(GROUPS, family="f")
    assert kruskal.statistic == pytest.approx(R["kruskal"][0])
    assert kruskal.p is not None
    # R gives chi-squared; of 2,042,040 arrangements this package draws, and its p is that of the permutations.
    assert not kruskal.p.exact
    assert kruskal.p.raw == pytest.approx(R["kruskal"][1], abs=0.01)
    friedman = stats.friedman(BLOCKS, family="f")
    assert friedman.statistic == pytest.approx(R["friedman"][0])
    assert friedman.p is not None
    assert friedman.p.exact


def test_welchs_t_on_logs_is_that_of_r() -> None:
    found = stats.compare_runs(R["a"], R["b"])
    _, _, p, low, high, _, _ = R["welch_log"]
    assert found.method == "welch t"
    assert found.p == pytest.approx(p)
    assert (found.low, found.high) == (pytest.approx(np.exp(low)), pytest.approx(np.exp(high)))


def test_two_one_sided_tests_are_those_of_r() -> None:
    found = stats.compare_runs(R["a"], R["b"])
    assert stats.equivalence_p(found, margin_ratio=1.5) == pytest.approx(R["tost_1.5"][0])


def test_kendalls_tau_b_is_that_of_r() -> None:
    found = stats.kendall_tau_b(R["x"], R["y"], family="f")
    assert found.p is not None
    assert (found.statistic, found.p.raw) == (pytest.approx(R["kendall"][0]), pytest.approx(R["kendall"][1]))
    one, _ = stats.associate_levels(R["x"], R["level"].tolist(), family="f")
    assert one.level == 0.0
    assert one.tau_b == pytest.approx(-R["kendall_level"][0])


def test_post_hoc_tests_are_those_of_r() -> None:
    tukey = stats.tukey_on_ranks(GROUPS, family="f")
    assert [pair.p.raw for pair in tukey] == pytest.approx(R["tukey_on_ranks"], rel=1e-4)
    assert {pair.p.adjustment for pair in tukey} == {"studentized range"}
    friedman = stats.nemenyi_friedman(BLOCKS, family="f")
    assert [pair.p.raw for pair in friedman] == pytest.approx(R["nemenyi_friedman"], abs=1e-5)
    assert [(pair.first, pair.second) for pair in friedman] == [(0, 1), (0, 2), (1, 2)]
    for adjustment, name in (("holm", "dunn_holm"), ("bh", "dunn_bh")):
        dunn = stats.dunn(GROUPS, family="f", adjustment=adjustment)  # type: ignore[arg-type]
        assert [pair.p.raw for pair in dunn] == pytest.approx(R["dunn"])
        assert [pair.p.adjusted for pair in dunn] == pytest.approx(R[name])


def test_power_is_that_of_r() -> None:
    assert stats.power(6, shift_sd=1.2) == pytest.approx(R["power_paired_n6_d1.2"][0], abs=1e-3)
    assert [stats.runs_per_cell(shift_sd=d) for d in (1.5, 1.0, 0.5)] == R["power_paired_needed"][2:].tolist()
    # R pools the spreads, the rule does not: a little less power, the same numbers of runs.
    assert stats.power(6, shift_sd=2.0, paired=False) == pytest.approx(R["power_n6_d2"][0], abs=0.015)
    needed = [stats.runs_per_cell(shift_sd=d, paired=False) for d in (3.0, 2.0, 1.5, 1.0)]
    assert needed == R["power_needed"].tolist()


def test_the_paired_rule_is_that_of_r() -> None:
    found = stats.compare_runs(dict(enumerate(R["a"])), dict(enumerate(R["b"])))
    _, freedom, p, low, high, _ = R["paired_log"]
    assert (found.method, found.freedom) == ("paired t", freedom)
    assert found.p == pytest.approx(p)
    assert (found.low, found.high) == (pytest.approx(np.exp(low)), pytest.approx(np.exp(high)))


def test_estimates_by_ranks_are_those_of_r() -> None:
    paired = stats.hodges_lehmann(dict(enumerate(R["a"])), dict(enumerate(R["b"])))
    assert [paired.ratio, paired.low, paired.high] == pytest.approx(np.exp(R["signed_rank"]).tolist(), rel=1e-4)
    apart = stats.hodges_lehmann(R["a"], R["b"])
    assert [apart.ratio, apart.low, apart.high] == pytest.approx(np.exp(R["rank_sum"]).tolist(), rel=1e-4)


def test_the_interaction_over_blocks_has_the_f_and_epsilon_of_r() -> None:
    y = R["crossed"].reshape(6, 6)
    labels = {"a": [0, 0, 0, 1, 1, 1] * 6, "b": [0, 1, 2] * 12}
    (found,) = stats.interaction_tests(y.ravel(), labels, family="f", block=np.repeat(range(6), 6).tolist())
    f, of_r, greenhouse_geisser, huynh_feldt = R["crossed_F"]
    assert f == pytest.approx(of_r)
    assert found.f == pytest.approx(f)
    assert found.freedom == pytest.approx(2 * min(1.0, huynh_feldt))
    assert found.freedom_error == pytest.approx(5 * 2 * np.sqrt(min(1.0, huynh_feldt) * greenhouse_geisser))
