"""How readings of one run follow each other, and how many independent ones they amount to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vtare.stats._arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Autocorrelation:
    """How readings of one run follow each other: lag-1 autocorrelation, and the independent readings they amount to."""

    lag1: float | None
    n_eff: float | None
    n: int


def autocorrelation(x: FloatArray) -> Autocorrelation:
    """Return the lag-1 autocorrelation of a series and n_eff = n (1 - r) / (1 + r), at most n (as of an AR(1) series).

    `x`: shape (n,), in order of time.

    Readings are limited to their 1 to 99 % range first: one far reading would make any series look independent.

    >>> found = autocorrelation(np.tile([1.0, 1.0, 2.0, 2.0], 250))
    >>> abs(found.lag1) < 0.01, found.n
    (True, 1000)
    """
    n = len(x)
    if n < 3:
        return Autocorrelation(None, None, n)
    limited = np.clip(x, *np.quantile(x, [0.01, 0.99]))
    centred = limited - limited.mean()
    total = float(np.dot(centred, centred))
    if total <= 0.0:
        return Autocorrelation(None, None, n)
    r = float(np.dot(centred[1:], centred[:-1])) / total
    return Autocorrelation(r, min(float(n), max(1.0, n * (1.0 - r) / (1.0 + r))) if r > -1 else float(n), n)
