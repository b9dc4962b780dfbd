"""Quantiles, intervals, and the gaps of one cell of `vtare rtt --json`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


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


def spread(gaps: Sequence[float], wanted: float) -> str:
    """Median gap error and half of the interquartile range, us."""
    if len(gaps) < 4:
        return f"{'-':>10}{'-':>10}"
    errors = [gap - wanted for gap in gaps]
    half = (quantile(errors, 0.75) - quantile(errors, 0.25)) / 2
    return f"{quantile(errors, 0.5):>10.3f}{half:>10.3f}"


def gap_error(cell: dict[str, Any]) -> str:
    """Median and half of the interquartile range of the gaps' error at the sender, us."""
    error = cell["gap_error_ns"]
    if error["median"] is None:
        return f"{'-':>10}{'-':>10}"
    return f"{error['median'] / 1e3:>10.3f}{error['half_iqr'] / 1e3:>10.3f}"


def share(cell: dict[str, Any], gap_us: float) -> str:
    """How much of the rate asked for was reached."""
    return f"{cell['achieved_packet_per_s'] * gap_us / 1e6:.0%}"
