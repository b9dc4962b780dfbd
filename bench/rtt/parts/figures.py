"""Quantiles, intervals, and the gaps of one cell of `vtare rtt --json`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from figures import figure


def quantile(values: Sequence[float], share: float) -> float:
    """Type 7 of Hyndman and Fan."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Median and its interval of at least 95 % confidence from order statistics (sign test); the extremes below six."""
    ordered = sorted(values)
    count, below, outside = len(ordered), 0, 0.0
    while count > 1:
        outside += math.comb(count, below) / 2**count
        if 2 * outside > 0.05 or 2 * (below + 1) >= count:
            break
        below += 1
    low = max(0, below - 1)
    return quantile(ordered, 0.5), ordered[low], ordered[count - 1 - low]


def spread(name: str, gaps: Sequence[float], wanted: float) -> str:
    """Median gap error and half of the interquartile range, us."""
    if len(gaps) < 4:
        return pair(name, None, None)
    errors = [gap - wanted for gap in gaps]
    return pair(name, quantile(errors, 0.5), (quantile(errors, 0.75) - quantile(errors, 0.25)) / 2)


def gap_error(name: str, cell: dict[str, Any]) -> str:
    """Median and half of the interquartile range of the gaps' error at the sender, us."""
    error = cell["gap_error_ns"]
    return pair(name, *(None if error[key] is None else error[key] / 1e3 for key in ("median", "half_iqr")))


def pair(name: str, median_us: float | None, half_iqr_us: float | None) -> str:
    """Both figures of a gap's error, us."""
    shown = (figure(f"{name}/gap error", median_us, "us"), figure(f"{name}/gap error, half IQR", half_iqr_us, "us"))
    return "".join(f"{'-' if one is None else f'{one:.3f}':>10}" for one in shown)


def share(name: str, cell: dict[str, Any], gap_us: float) -> str:
    """How much of the rate asked for was reached."""
    return f"{figure(f'{name}/reached', cell['achieved_packet_per_s'] * gap_us / 1e6):.0%}"
