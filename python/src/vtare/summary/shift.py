"""The shift function of two cells: by how much each quantile of their readings differs, with one band for all.

A load that lengthens one reading in a hundred moves no median. The ratio is taken quantile by quantile (Doksum 1974),
inside blocks where both cells stand in the same ones, and the band holds all true ratios at once with its level: where
it leaves out 1 anywhere, the distributions differ there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from vtare import stats

if TYPE_CHECKING:
    from vtare.stats import QuantileShift, Tally

#: Columns of a run: quantiles of its readings. The median and p99 have columns of their own.
QUANTILES: Final = {"q05": 0.05, "q10": 0.1, "q25": 0.25, "q75": 0.75, "q90": 0.9, "q95": 0.95}
COLUMNS: Final[dict[str, Any]] = dict.fromkeys(QUANTILES, pl.Float64)
#: The quantiles of a shift function in their order, by the columns that hold them.
ORDER: Final = {"q05": 0.05, "q10": 0.1, "q25": 0.25, "median": 0.5, "q75": 0.75, "q90": 0.9, "q95": 0.95, "p99": 0.99}
_LEAST_READINGS: Final = 59
"""Readings of a run from which its 5 % and 95 % quantiles lie inside it with 95 %: 1 - 0.95^59."""


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
) -> tuple[QuantileShift, ...]:
    """Return the ratio of two cells at each quantile that all their runs have, with a simultaneous band.

    `here` and `there` hold the figures of a run by block. Differences of logarithms are taken inside the blocks that
    both have (`stats.shift_of_blocks`). Empty below 4 common blocks, and where a quantile is not above 0.
    """
    blocks = [block for block in here if block in there]
    names = [
        name for name in ORDER
        if all((side[block].get(name) or 0.0) > 0 for side in (here, there) for block in blocks)
    ]  # fmt: skip
    if len(blocks) < stats.LEAST_BLOCKS or not names:
        return ()
    d = np.log([[here[block][name] / there[block][name] for name in names] for block in blocks])
    return stats.shift_of_blocks([ORDER[name] for name in names], d, level=level, rng=rng)


def pairs_of(rows: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """The figures of a cell's runs by block, from its rows of the `runs` frame."""
    return {int(row["block"]): row for row in rows}
