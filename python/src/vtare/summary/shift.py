"""The shift function of two cells: by how much each quantile of their readings differs, with one band for all.

A load that lengthens one reading in a hundred moves no median. The ratio is taken quantile by quantile (Doksum 1974),
inside blocks where both cells stand in the same ones, and the band holds all true ratios at once with its level: where
it leaves out 1 anywhere, the distributions differ there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from vtare import stats

if TYPE_CHECKING:
    from vtare.stats import Tally
    from vtare.stats._arrays import FloatArray

#: Columns of a run: quantiles of its readings. The median and p99 have columns of their own.
QUANTILES: Final = {"q05": 0.05, "q10": 0.1, "q25": 0.25, "q75": 0.75, "q90": 0.9, "q95": 0.95}
COLUMNS: Final[dict[str, Any]] = dict.fromkeys(QUANTILES, pl.Float64)
#: The quantiles of a shift function in their order, by the columns that hold them.
ORDER: Final = {"q05": 0.05, "q10": 0.1, "q25": 0.25, "median": 0.5, "q75": 0.75, "q90": 0.9, "q95": 0.95, "p99": 0.99}
_LEAST_READINGS: Final = 59
"""Readings of a run from which its 5 % and 95 % quantiles lie inside it with 95 %: 1 - 0.95^59."""
_DRAWS: Final = 4000
_SHRUNK: Final = 0.1
"""How much of the correlation between quantiles is given up: few blocks overstate it, which would narrow the band."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The ratio at one quantile, and the ends of the simultaneous band there."""

    quantile: str
    probability: float
    ratio: float
    low: float
    high: float


def figures(counted: Tally) -> dict[str, float | None]:
    """Return the quantiles of a run's readings (type 7); null below 59 readings, where the outer ones are not known."""
    if counted.ordered.n < _LEAST_READINGS:
        return dict.fromkeys(QUANTILES)
    return {name: counted.ordered.quantile(p) for name, p in QUANTILES.items()}


def shift_function(
    here: Mapping[int, Mapping[str, Any]],
    there: Mapping[int, Mapping[str, Any]],
    *,
    level: float = 0.95,
    rng: np.random.Generator,
) -> tuple[Shift, ...]:
    """Return the ratio of two cells at each quantile that all their runs have, with a simultaneous band.

    `here` and `there` hold the figures of a run by block. Differences of logarithms are taken inside the blocks that
    both have; the band is each quantile's mean plus and minus its standard error times the `level` quantile of the
    greatest of all |t|, simulated with the correlation of the differences. Empty below 4 common blocks, and where a
    quantile is not above 0.
    """
    blocks = [block for block in here if block in there]
    names = [
        name for name in ORDER
        if all((side[block].get(name) or 0.0) > 0 for side in (here, there) for block in blocks)
    ]  # fmt: skip
    if len(blocks) < stats.LEAST_BLOCKS or not names:
        return ()
    d = np.log([[here[block][name] / there[block][name] for name in names] for block in blocks])
    mean, error = d.mean(axis=0), d.std(axis=0, ddof=1) / math.sqrt(len(blocks))
    reach = greatest_t(d, level=level, rng=rng) * error
    return tuple(
        Shift(name, ORDER[name], math.exp(m), math.exp(m - r), math.exp(m + r))
        for name, m, r in zip(names, mean.tolist(), reach.tolist(), strict=True)
    )


def greatest_t(differences: FloatArray, *, level: float, rng: np.random.Generator) -> float:
    """Return the `level` quantile of the greatest |t| over the columns of rows with the correlation of these."""
    n, k = differences.shape
    spread = differences.std(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.nan_to_num(np.corrcoef(differences, rowvar=False)) if k > 1 else np.ones((1, 1))
    correlation = (1 - _SHRUNK) * np.atleast_2d(correlation)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    drawn = rng.normal(size=(_DRAWS, n, k)) @ root.T
    t = np.abs(drawn.mean(axis=1)) / (drawn.std(axis=1, ddof=1) / math.sqrt(n))
    t[:, spread == 0] = 0.0
    return float(np.quantile(t.max(axis=1), level))


def pairs_of(rows: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """The figures of a cell's runs by block, from its rows of the `runs` frame."""
    return {int(row["block"]): row for row in rows}


__all__ = ["COLUMNS", "ORDER", "QUANTILES", "Shift", "figures", "greatest_t", "pairs_of", "shift_function"]
