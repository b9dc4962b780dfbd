"""How far the readings of a run depend on each other: lag-1 autocorrelation and the number of independent ones.

Readings follow each other on one machine. A thousand of them with a lag-1 autocorrelation of 0.9 are worth 53
independent ones for their mean. That is why the run is the unit of inference; these figures show how much a run holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from vtare.stats._arrays import FloatArray

COLUMNS: Final[dict[str, Any]] = dict.fromkeys(("lag1", "n_effective"), pl.Float64)
_LEAST: Final = 10
"""Readings below which there is nothing to estimate from."""
_MOST: Final = 1 << 20
"""Readings of a run that are looked at, from its start: more would say the same."""


def figures(values: FloatArray) -> dict[str, float | None]:
    """Return `lag1` and `n_effective` of readings in the order of time; null below 10 readings and without spread.

    `n_effective` is n / (1 + 2 (r1 + r2 + ...)), the sum cut where r(2k) + r(2k + 1) first turns negative (Geyer 1992,
    initial positive sequence); it is not taken above n.

    >>> found = figures(np.tile([1.0, 2.0], 500))
    >>> found["lag1"], found["n_effective"]
    (-0.999, 1000.0)
    """
    n = len(values)
    x = np.asarray(values[:_MOST], dtype=float)
    x = x - x.mean() if n else x
    power = float(x @ x)
    if n < _LEAST or power <= 0:
        return dict.fromkeys(COLUMNS)
    size = 1 << (2 * len(x) - 1).bit_length()
    spectrum = np.fft.rfft(x, size)
    r = np.fft.irfft(spectrum * spectrum.conj(), size)[: len(x)] / power
    pairs = r[: len(x) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    kept = pairs[: ends[0]] if len(ends) else pairs
    inflation = max(1.0, 2.0 * float(kept.sum()) - 1.0)
    return {"lag1": round(float(r[1]), 12), "n_effective": n / inflation}


__all__ = ["COLUMNS", "figures"]
