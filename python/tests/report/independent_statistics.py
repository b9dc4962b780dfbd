"""The arithmetic of `independent_inference.py`: quantiles, warm-up, memory of differences, adjustments."""

from __future__ import annotations

import math

import numpy as np


def quantile(values: np.ndarray, counts: np.ndarray, p: float) -> float:
    """Linear between the two nearest readings, readings repeated by their counts."""
    order = np.argsort(values, kind="stable")
    values, ends = values[order], np.cumsum(counts[order])
    place = (ends[-1] - 1) * p
    low = math.floor(place)
    first, second = (values[np.searchsorted(ends, at, side="right")] for at in (low, min(low + 1, ends[-1] - 1)))
    return float(first + (place - low) * (second - first))


def steady(values: np.ndarray, quantum: float) -> int:
    """How many readings a run warms up for: MSER-5 on readings limited to their 1 to 99 % range, searched in the first
    half, where the median of what goes lies outside the middle half of what stays; 0 below 1000 readings.
    """
    if len(values) < 1000:
        return 0
    limited = np.clip(values, *np.quantile(values, [0.01, 0.99]))
    means = limited[: len(limited) // 5 * 5].reshape(-1, 5).mean(axis=1)
    searched = len(means) // 2 + 1
    errors = [float(((rest := means[at:]) - rest.mean()) @ (rest - rest.mean())) / len(rest) ** 2
              for at in range(searched)]  # fmt: skip
    cut = 5 * int(np.argmin(errors))
    low, high = np.quantile(values[cut:], [0.25, 0.75]) if cut else (0.0, 0.0)
    moved = cut > 0 and not low - quantum <= float(np.median(values[:cut])) <= high + quantum
    if not moved or cut == 5 * (searched - 1):
        return 0
    first, second = np.array_split(values[cut:], [(len(values) - cut) // 2])
    apart = [
        not np.quantile(two, 0.25) - quantum <= float(np.median(one)) <= np.quantile(two, 0.75) + quantum
        for one, two in ((first, second), (second, first))
    ]
    return 0 if all(apart) else cut


def memory_costs(d: np.ndarray) -> tuple[float, float]:
    """What a memory of differences, in the order of their blocks, multiplies the error by, and its degrees of freedom.

    As of an AR(1) series, from 8 blocks on, where at most 1 in 10 orders of the blocks has as large a memory.
    """
    n = len(d)
    away = d - d.mean()
    if n < 8 or not away.any():
        return 1.0, float(n - 1)

    def memory_of(values: np.ndarray) -> float:
        return float(np.dot(values[1:], values[:-1]) / np.dot(values, values))

    seen = memory_of(away)
    rng = np.random.default_rng(7)
    if np.mean([memory_of(rng.permutation(away)) >= seen - 1e-12 for _ in range(4999)]) > 0.1:
        return 1.0, float(n - 1)
    rho = min(max(seen + (1 + 3 * seen) / n, 0.0), 0.9)
    of_mean = sum((n - abs(lag)) / n * rho ** abs(lag) for lag in range(1 - n, n))
    of_spread = sum((n - abs(lag)) / n * rho ** (2 * abs(lag)) for lag in range(1 - n, n))
    return math.sqrt(of_mean * (n - 1) / (n - of_mean)), max(1.0, n / of_spread - 1)


def holm(raw: list[float]) -> list[float]:
    """Holm's adjustment."""
    order = sorted(range(len(raw)), key=lambda at: raw[at])
    out, most = [0.0] * len(raw), 0.0
    for rank, at in enumerate(order):
        most = max(most, min(1.0, raw[at] * (len(raw) - rank)))
        out[at] = most
    return out


def alphas_left(raw: list[float], adjusted: list[float]) -> list[float]:
    """Of 0.05, what the interval of each comparison has: its own step where it differs, else a share of the others."""
    open_ones = sum(p > 0.05 for p in adjusted)
    return [
        0.05 / open_ones if p > 0.05 else 0.05 * (q / p if q > 0 else 1 / len(raw))
        for q, p in zip(raw, adjusted, strict=True)
    ]


def benjamini(raw: list[float]) -> list[float]:
    """Benjamini and Hochberg's adjustment."""
    order = sorted(range(len(raw)), key=lambda at: -raw[at])
    out, least = [0.0] * len(raw), 1.0
    for rank, at in enumerate(order):
        least = min(least, raw[at] * len(raw) / (len(raw) - rank))
        out[at] = least
    return out
