"""What the figures take in: small frozen records of results, all times in ns.

The plots know nothing of stores or plans; whoever calls them turns frames into these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Dot:
    """One row of a dot-and-interval figure.

    `low` and `high` are the ends of the interval, None where it cannot be estimated (the marker is then hollow).
    `run_values` are the figures of the single runs, drawn small and faint. `style` names the colour (palette.style_of).
    `mine` marks the row of the machine that was measured among published ones.
    """

    label: str
    style: str
    value: float
    low: float | None = None
    high: float | None = None
    run_values: tuple[float, ...] = ()
    group: str | None = None
    mine: bool = False


@dataclass(frozen=True, slots=True)
class RunBox:
    """Exact quantiles of one run; `p99` is None where the run is too short for it."""

    min: float
    q1: float
    median: float
    q3: float
    max: float
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class BoxRow:
    """One row of a box figure: a cell with a box for each of its runs."""

    label: str
    style: str
    runs: tuple[RunBox, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class CcdfLine:
    """One curve P(X > x) of `n` readings: `x` rising, `p` the share above each `x`; `mean` is the dashed line."""

    label: str
    style: str
    x: Floats
    p: Floats
    mean: float
    n: int


@dataclass(frozen=True, slots=True)
class RawSeries:
    """The readings of one run.

    `index` and `value` are the readings whose position is known. `band_value` and `band_count` are those that are only
    kept as a histogram (timer data up to `tail_ns`); both None for other data. `n` counts all of them.
    """

    label: str
    style: str
    index: Floats
    value: Floats
    median: float
    n: int
    band_value: Floats | None = None
    band_count: Floats | None = None


@dataclass(frozen=True, slots=True)
class Stack:
    """One row of a figure of stacked bars: the whole and its pieces, each with the style that names its colour.

    `share` is the part of the whole (1: all) that the figure's main piece takes, which the ratio of two medians is not.
    """

    label: str
    whole: float
    pieces: tuple[tuple[str, float], ...]
    share: float | None = None


@dataclass(frozen=True, slots=True)
class DriftPoint:
    """One control run: its block, where in the block it ran (open, centre, close) and its median."""

    block: int
    control: str
    value: float
    drifted: bool


@dataclass(frozen=True, slots=True)
class CvLine:
    """Coefficient of variation by argument of the counter function; `published` lines are drawn faint and grey."""

    label: str
    style: str
    argument: tuple[int, ...]
    cv: tuple[float, ...]
    published: bool = False
