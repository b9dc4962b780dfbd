"""The published tables through this package's statistics, beside scipy called by hand and the tables' own figures."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats as scipy_stats

from vtare import stats
from vtare.papers.published import read_rows

KIROVA = ("kirova2019_table1_timer_cost", "kirova2019_table2_sleep_miss")
FIGURES = ("median_ns", "mad_ns", "min_ns", "max_ns")


def groups_of(table: str, factor: str, figure: str) -> dict[str, list[float]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for row in read_rows(table):
        if row[figure].strip():
            groups[row[factor]].append(float(row[figure]))
    return dict(groups)


@pytest.mark.parametrize("table", KIROVA)
@pytest.mark.parametrize("factor", ["function", "platform", "load"])
@pytest.mark.parametrize("figure", FIGURES)
def test_kruskal_wallis_on_kirovas_tables_is_scipys(table: str, factor: str, figure: str) -> None:
    groups = list(groups_of(table, factor, figure).values())
    found = stats.kruskal_wallis(groups, family="reanalysis")
    by_hand = scipy_stats.kruskal(*groups)
    assert found.statistic == pytest.approx(by_hand.statistic)
    assert found.p is not None
    # scipy's p is chi-squared, this one a count or 199,999 draws; two groups are always counted.
    assert found.p.raw == pytest.approx(by_hand.pvalue, abs=0.03)
    assert found.p.exact == (len(groups) == 2)


@pytest.mark.parametrize("table", KIROVA)
@pytest.mark.parametrize("factor", ["platform", "load"])
def test_dunn_on_kirovas_tables_is_the_normal_test_on_mean_ranks(table: str, factor: str) -> None:
    groups = list(groups_of(table, factor, "median_ns").values())
    joined = np.concatenate([np.array(group) for group in groups])
    ranks, n = scipy_stats.rankdata(joined), len(joined)
    ties = sum(t**3 - t for t in np.unique(joined, return_counts=True)[1])
    variance = n * (n + 1) / 12 - ties / (12 * (n - 1))
    parts = np.split(ranks, np.cumsum([len(group) for group in groups])[:-1])
    wanted = []
    for a, b in itertools.combinations(parts, 2):
        z = abs(a.mean() - b.mean()) / math.sqrt(variance * (1 / len(a) + 1 / len(b)))
        wanted.append(2 * float(scipy_stats.norm.sf(z)))
    assert [pair.p.raw for pair in stats.dunn(groups, family="reanalysis")] == pytest.approx(wanted)


def test_the_claim_that_only_the_function_matters_for_timers_reproduces() -> None:
    # Kirova 2019, section 2: the function is a significant factor of medians, the load is not.
    by = {f: stats.kruskal_wallis(list(groups_of(KIROVA[0], f, "median_ns").values()), family="k").p
          for f in ("function", "load")}  # fmt: skip
    assert by["function"] is not None
    assert by["load"] is not None
    assert by["function"].raw < 0.01
    assert by["load"].raw > 0.5


LAMPE = [row for row in read_rows("lampe2013_table1_cv") if row["cv"].strip()]


def lampe_cv(wanted: dict[str, str]) -> dict[tuple[str, int], list[float]]:
    """CVs of the configurations that match, in blocks of language and argument."""
    blocks: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in LAMPE:
        if all(row[key] == value for key, value in wanted.items()):
            blocks[(row["programming_language"], int(row["argument_a"]))].append(float(row["cv"]))
    return dict(blocks)


def test_ranks_of_cvs_are_those_that_lampe_prints_where_they_can_be_read() -> None:
    checked = 0
    for argument in sorted({int(row["argument_a"]) for row in LAMPE}):
        rows = [row for row in LAMPE if int(row["argument_a"]) == argument]
        assert len(rows) == 16
        ranks = scipy_stats.rankdata([float(row["cv"]) for row in rows], method="min")
        for row, rank in zip(rows, ranks, strict=True):
            # "ok" is what can be read; the paper breaks ties of four decimals by digits that it does not print.
            if row["status"] == "ok" and row["tied_cv"] == "0":
                assert int(rank) == int(row["rank_ocr"]), row
                checked += 1
    assert checked > 100


def friedman_by_hand(blocks: list[list[float]]) -> tuple[float, float]:
    """scipy wants three levels; for two, Friedman's statistic with ties is written out."""
    if len(blocks[0]) > 2:
        result = scipy_stats.friedmanchisquare(*np.array(blocks).T)
        return float(result.statistic), float(result.pvalue)
    ups = sum(a > b for a, b in blocks)
    downs = sum(a < b for a, b in blocks)
    statistic = (ups - downs) ** 2 / (ups + downs)
    return statistic, float(scipy_stats.chi2.sf(statistic, 1))


PM_LOW = {"machine_type": "PM", "host_utilization": "low"}
PUBLIC = {"deployment_model": "public"}
PRIVATE_LOW = {"deployment_model": "private"}


def test_friedman_on_lampes_table_agrees_with_the_formula_and_with_what_reproduces() -> None:
    low, public = lampe_cv(PM_LOW), lampe_cv(PUBLIC)
    assert set(low) == set(public)
    blocks = [[low[key][0], public[key][0]] for key in sorted(low)]
    assert len(blocks) == 20
    statistic, p = friedman_by_hand(blocks)
    found = stats.friedman(blocks, family="lampe")
    assert found.statistic == pytest.approx(statistic)
    assert found.p is not None
    # The paper prints 0.0000; by chi-squared it is 7.7e-06, counted exactly it is 2 / 2^20.
    assert p == pytest.approx(7.7e-6, rel=0.02)
    assert found.p.exact
    assert found.p.raw == pytest.approx(2 / 2**20)
    assert str(found.p) == "< 1e-4"


def test_lampes_claim_of_no_difference_between_machines_and_private_cloud_has_another_p() -> None:
    low, private = lampe_cv(PM_LOW), lampe_cv(PRIVATE_LOW)
    blocks = [[low[key][0], private[key][0]] for key in sorted(set(low) & set(private))]
    statistic, p = friedman_by_hand(blocks)
    found = stats.friedman(blocks, family="lampe")
    assert found.statistic == pytest.approx(statistic)
    # Printed: 0.5034. Twenty blocks of language and argument give 0.6547, as lampe2013_prose.csv notes.
    assert p == pytest.approx(0.6547, abs=5e-5)


def test_friedman_of_all_sixteen_configurations_agrees_with_scipy() -> None:
    table: dict[int, list[float]] = defaultdict(list)
    for row in LAMPE:
        table[int(row["argument_a"])].append(float(row["cv"]))
    blocks = [table[argument] for argument in sorted(table)]
    found = stats.friedman(blocks, family="lampe")
    statistic, p = friedman_by_hand(blocks)
    assert found.statistic == pytest.approx(statistic)
    assert found.p is not None
    assert not found.p.exact
    # By chi-squared 4e-21: no draw reaches the statistic, so p is what the number of draws allows.
    assert p < found.p.raw < 1e-4


def test_tau_bounds_of_oliveiras_factor_levels_follow_from_their_numbers() -> None:
    # A level of a factor with k levels of equal size cannot reach a tau-b above sqrt(2 (1/k)(1 - 1/k)): with four
    # drivers 0.61, with eight numbers of machines 0.47, so no correlation with one level can be called strong.
    sizes: dict[str, int] = defaultdict(int)
    for row in read_rows("oliveira_factor_levels"):
        sizes[row["factor"]] += 1
    assert sizes["driver"] == 4
    for factor, k in sizes.items():
        share = 1 / k
        assert stats.tau_bound(k * 100_000, 100_000) == pytest.approx(math.sqrt(2 * share * (1 - share)), rel=1e-5), (
            factor
        )
    assert stats.tau_bound(4 * 100_000, 100_000) == pytest.approx(0.6124, abs=1e-4)


def test_oliveiras_shares_of_outliers_by_scenario_are_shares() -> None:
    shares: dict[str, float] = defaultdict(float)
    for row in read_rows("oliveira_rtt_tables"):
        if row["record"] == "table" and row["statistic"] == "share_of_outliers":
            shares[row["table"]] += float(row["value_percent"])
    # What each table prints adds up to all outliers, as the shares of `outliers_by_scenario` do.
    assert dict(shares) == {"4": pytest.approx(100, abs=0.1), "5": pytest.approx(100, abs=0.1), "6": pytest.approx(100)}
    counts = {"net": (1000, 95, None), "others": (1000, 5, None)}
    assert [one.share for one in stats.shares(counts)] == [0.95, 0.05]
