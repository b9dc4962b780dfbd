"""Robust z-scores, and outliers by scenario: reported, never deleted."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from vtare.stats._arrays import FloatArray, Values, checked, in_order, weighted

Sides = Literal["both", "each"]

_MAD_FACTOR: Final = 0.6745
_MEAN_FACTOR: Final = 1.253314


@dataclass(frozen=True, slots=True)
class RobustZ:
    """Robust z-scores of every reading, shape (n,). `scale` names the spread used.

    `z` is None where refused, with the reason. `outliers` are the positions where |z| exceeds `threshold`;
    `n_outliers` counts them with their weights.
    """

    z: FloatArray | None
    scale: str
    threshold: float
    outliers: tuple[int, ...]
    n: int
    n_outliers: int = 0
    reason: str | None = None


def robust_z(
    x: Values,
    *,
    weights: Values | None = None,
    threshold: float = 3.5,
    log: bool = False,
    sides: Sides = "both",
    step: float = 0.0,
) -> RobustZ:
    """Return 0.6745 (x - median) / mad_raw for every reading (Iglewicz and Hoaglin 1993).

    Where mad_raw is 0 the spread is 1.253314 mean|x - median| instead, and where that is 0 too the scores are refused.
    Skewed data want `log` (logarithms, for readings above 0) or `sides="each"`: readings below the median are scored by
    the spread of that side, those above by theirs. `weights` counts how often each reading occurred. `step` is the step
    that readings move in: mad_raw is not taken below it, else the neighbouring position of a coarse clock would be an
    outlier. Outliers (|z| > threshold) are reported, not removed.

    >>> robust_z([10.0, 11.0, 9.0, 10.0, 10.5, 50.0]).outliers
    (5,)
    >>> robust_z([20.0] * 7 + [30.0] * 3).n_outliers, robust_z([20.0] * 7 + [30.0] * 3, step=10.0).n_outliers
    (0, 0)

    Raises:
        ValueError: `log` with a reading that is not above 0.
    """
    values, counts = weighted(x, weights)
    least = step
    if log:
        if np.any(values <= 0):
            raise ValueError("the log scale needs readings above 0")
        if step > 0.0 and len(values):
            least = float(np.log1p(step / in_order(values, counts).quantile(0.5)))
        values = np.log(values)
    n = int(counts.sum())
    if n == 0:
        return RobustZ(None, "none", threshold, (), 0, reason="no readings")
    away = values - in_order(values, counts).quantile(0.5)
    parts = [np.full(len(values), True)] if sides == "both" else [away < 0, away >= 0]
    z = np.zeros(len(values))
    used: list[str] = []
    for part in parts:
        # Readings at the median belong to either side: without them a side of few readings has too wide a spread.
        counted = part | (away == 0)
        spread, name = _spread(np.abs(away[counted]), counts[counted], least)
        if spread > 0.0:
            z[part] = away[part] / spread
            used.append(name)
    if not used:
        why = "all readings are equal: there is no spread to score by"
        return RobustZ(None, "none", threshold, (), n, reason=why)
    scale = used[0] if len(set(used)) == 1 else " and ".join(used)
    far = np.abs(z) > threshold
    return RobustZ(z, scale, threshold, tuple(np.flatnonzero(far).tolist()), n, int(counts[far].sum()))


def _spread(away: FloatArray, counts: np.ndarray, least: float) -> tuple[float, str]:
    """The spread that one unit of z stands for, and its name; 0 where the readings have none. `least` is of mad_raw."""
    if len(away) == 0:
        return 0.0, "none"
    mad = in_order(away, counts).quantile(0.5)
    if mad < least:
        return least / _MAD_FACTOR, "clock_step"
    if mad > 0.0:
        return mad / _MAD_FACTOR, "mad_raw"
    return _MEAN_FACTOR * float(np.dot(away, counts) / counts.sum()), "mean_absolute_deviation"


@dataclass(frozen=True, slots=True)
class ScenarioOutliers:
    """The outliers of one scenario.

    `fraction` is their share of the scenario's readings, `share` their share of the outliers of all scenarios (what
    Oliveira's tables 4 to 6 print); both None where the scores were refused or there is no outlier at all.
    """

    scenario: Hashable
    n: int
    outliers: int
    fraction: float | None
    share: float | None
    reason: str | None = None


def outliers_by_scenario(
    scenarios: Mapping[Hashable, Values], *, threshold: float = 3.5, log: bool = False, sides: Sides = "both"
) -> tuple[ScenarioOutliers, ...]:
    """Score each scenario's readings inside that scenario, and return where the outliers are. See `robust_z`.

    >>> outliers_by_scenario({"idle": [1.0, 1.1, 0.9, 1.0, 9.0]})[0].outliers
    1
    """
    scored = {name: robust_z(checked(x), threshold=threshold, log=log, sides=sides) for name, x in scenarios.items()}
    return shares({name: (scores.n, None if scores.z is None else scores.n_outliers, scores.reason)
                   for name, scores in scored.items()})  # fmt: skip


def shares(counted: Mapping[Hashable, tuple[int, int | None, str | None]]) -> tuple[ScenarioOutliers, ...]:
    """Turn counts (`n`, outliers or None where refused, reason) of each scenario into fractions and shares.

    >>> [one.share for one in shares({"idle": (10, 1, None), "cpu": (10, 3, None)})]
    [0.25, 0.75]
    """
    total = sum(outliers or 0 for _, outliers, _ in counted.values())
    return tuple(
        ScenarioOutliers(
            name,
            n,
            outliers or 0,
            None if outliers is None else outliers / n,
            None if outliers is None or total == 0 else outliers / total,
            reason,
        )
        for name, (n, outliers, reason) in counted.items()
    )
