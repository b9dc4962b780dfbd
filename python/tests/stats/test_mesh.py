"""Clusters and odd pairs of a mesh: found where they were planted, not where there is noise alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vtare.stats import MeshStructure, mesh_structure
from vtare.stats.mesh import _ends_p, _sum_chances


def drawn(
    seed: int, hosts: int, clusters: int, odd: dict[tuple[int, int], float], *, blocks: int = 5, heavy: bool = False
) -> np.ndarray:
    """Values of a mesh: within clusters (every n-th host) 1, between them 3, odd pairs a multiple of that."""
    rng = np.random.default_rng(seed)
    of = np.arange(hosts) % clusters
    usual = np.where(of[:, None] == of[None, :], 1.0, 3.0)
    for (a, b), ratio in odd.items():
        usual[a, b] *= ratio
    shape = (blocks, hosts, hosts)
    values = usual * np.exp(0.1 * (rng.standard_t(3, shape) if heavy else rng.normal(size=shape)))
    values[:, np.tri(hosts, dtype=bool)] = np.nan
    return values


def found(values: np.ndarray, *, one_way: bool = False) -> MeshStructure:
    return mesh_structure(values, one_way=one_way, rng=np.random.default_rng(1))


@pytest.mark.parametrize("seed", range(3))
def test_clusters_and_odd_pairs_are_those_that_were_planted(seed: int) -> None:
    made = found(drawn(seed, 12, 2, {(0, 2): 2.5, (1, 4): 0.4}))
    assert made.clusters == (tuple(range(0, 12, 2)), tuple(range(1, 12, 2)))
    assert {(odd.first, odd.second) for odd in made.odd} == {(0, 2), (1, 4)}
    assert all(odd.p.adjusted <= 0.05 and odd.p.adjustment == "holm" for odd in made.odd)
    assert (made.tested, made.untested, made.blocks_needed) == (66, 0, None)


def test_noise_makes_no_clusters_and_no_odd_pairs_beyond_the_error_that_was_asked_for() -> None:
    made = [found(drawn(seed, 8, 1, {}, heavy=seed % 2 == 0)) for seed in range(60)]
    # Of 60 with an error of 5 % each: 7 or more in 3 of 100 such tests, and the seeds are fixed.
    assert sum(len(one.clusters) > 1 for one in made) <= 6
    assert sum(len(one.odd) > 0 for one in made) <= 6


def test_clusters_that_differ_by_less_than_the_margin_are_one() -> None:
    values = drawn(1, 8, 2, {})
    near = np.where(values > 2.0, values / 2.9, values)
    rng = np.random.default_rng(1)
    near = np.exp(np.log(near) * 0.1)
    made = mesh_structure(near, one_way=False, margin_ratio=1.2, rng=rng)
    assert made.clusters == (tuple(range(8)),)


def test_both_ways_of_a_pair_are_two_values() -> None:
    values = drawn(3, 10, 1, {})
    rng = np.random.default_rng(5)
    both = np.exp(0.1 * rng.normal(size=values.shape))
    both[:, 2, 7] *= 0.3
    made = found(both, one_way=True)
    assert [(odd.first, odd.second) for odd in made.odd] == [(2, 7)]
    assert made.tested == 90


def test_pairs_that_were_not_measured_are_left_out() -> None:
    values = drawn(2, 10, 2, {(0, 4): 3.0})
    values[:, 1, 3] = np.nan
    values[2:, 0, 6] = np.nan
    made = found(values)
    assert made.tested == 44
    assert np.isnan(made.medians[1, 3])
    assert [(odd.first, odd.second) for odd in made.odd] == [(0, 4)]


def test_too_few_blocks_for_any_odd_pair_are_named() -> None:
    made = found(drawn(1, 6, 1, {(0, 1): 50.0}, blocks=2))
    assert made.odd == ()
    # 15 pairs: 2 / 15^blocks must reach 0.05 / 15.
    assert made.blocks_needed == 3


def test_the_chance_of_a_sum_of_ranks_is_exact() -> None:
    for sizes in ((6, 6, 6), (3, 5, 2)):
        sums = [sum(ranks) for ranks in itertools.product(*(range(1, size + 1) for size in sizes))]
        expected = [np.mean([one <= limit for one in sums]) for limit in range(sum(sizes) + 1)]
        assert _sum_chances(sizes) == pytest.approx(expected)
    # One in 2016^5, without the error of differences.
    assert _sum_chances((2016,) * 5)[5] * 2016.0**5 == pytest.approx(1.0)


def test_a_pair_at_the_end_of_all_blocks_has_the_least_p_there_is_and_ties_count_against_it() -> None:
    logs = np.array([[0.0, 1.0, 2.0, 9.0], [1.0, 0.0, 2.0, 9.0], [2.0, 1.0, 0.0, 9.0]])
    assert _ends_p(logs)[3] == pytest.approx(2 / 4**3)
    assert _ends_p(np.zeros((3, 4))) == pytest.approx(1.0)


def test_an_array_that_is_no_mesh_is_refused() -> None:
    with pytest.raises(ValueError, match=r"pass \(blocks, N, N\)"):
        found(np.ones((2, 3, 4)))
