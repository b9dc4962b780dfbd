"""From runs to cells: their figures with intervals over runs, outliers, drifting controls.

The unit of inference is the run. Every random draw comes from the campaign's seed and the cell's name, so the same
store gives the same figures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from vtare import stats
from vtare.instruments import RECORDS
from vtare.quantity_text import quantity_of
from vtare.summary import completion
from vtare.summary.rows import BOUNDS, BOUNDS_TYPE, apart, columns_of, known_of, values_of

if TYPE_CHECKING:
    from vtare.instruments.model import Reached
    from vtare.plan.level import Level
    from vtare.stats import Adder, Resampled, RunPool, Tally
    from vtare.stats._arrays import FloatArray
    from vtare.summary.figures import Part

#: Parts of a run that are worth comparing with each other; an argument or a target is bound to differ.
COMPARED_PARTS: Final = tuple(dict.fromkeys(part for record in RECORDS for part in record.compared_parts))
#: What cells are compared by where all their runs have it, in place of the median, by the quantity of their readings.
COMPARED_FIGURES: Final = {record.quantity: record.compared for record in RECORDS if record.compared is not None}

_OWN: Final = {metric.name: metric for record in RECORDS for metric in record.metrics if metric.name != record.quantity}
MEDIAN_OVER_RUNS: Final = (
    "half_iqr", "mad_raw", "p99", "p999", "exceed_per_s", "lag1", "n_eff",
    *(name for name, metric in _OWN.items() if metric.over_runs == "median"),
)  # fmt: skip
#: Figures whose median over runs has an interval.
_WITH_INTERVAL: Final = tuple(metric for metric in _OWN.values() if metric.interval)
_TOTALS: Final = tuple(name for name, metric in _OWN.items() if metric.over_runs == "sum")
CELL_COLUMNS: Final[dict[str, Any]] = {
    "quantity": pl.String,
    "n_runs": pl.Int64,
    "n": pl.Int64,
    "median": pl.Float64,
    "median_low": pl.Float64,
    "median_high": pl.Float64,
    "interval_method": pl.String,
    "interval_level": pl.Float64,
    **dict.fromkeys((metric.end(which) for metric in _WITH_INTERVAL for which in ("low", "high")), pl.Float64),
    **dict.fromkeys(_TOTALS, pl.Int64),
    **dict.fromkeys(MEDIAN_OVER_RUNS, pl.Float64),
    **columns_of(completion.CellCompletion),
    "min": pl.Float64,
    "max": pl.Float64,
    "between_run_cv": pl.Float64,
    "unsettled_runs": pl.Int64,
    "skipped_runs": pl.Int64,
    "failed_runs": pl.Int64,
    "pending_runs": pl.Int64,
    BOUNDS: BOUNDS_TYPE,
}


@dataclass(frozen=True, slots=True)
class Outliers:
    """Readings of a cell far from its median: `outliers` of `n`, None where the scores were refused, with the reason.

    `scale` is how they were scored: on the `log` scale, or by the spread of `each side` where a reading is not above
    0.
    """

    n: int
    outliers: int | None
    scale: str
    reason: str | None = None


def count_outliers(counted: Tally, *, step: float = 0.0) -> Outliers | None:
    """Score all readings of a cell against the cell; None where it has none. Times are skewed, hence the scales.

    `step` is the step that readings move in: no spread is taken to be less.
    """
    if not len(counted):
        return None
    log = bool(counted.values[0] > 0)
    score = stats.robust_z(counted.values, weights=counted.counts, log=log, sides="both" if log else "each", step=step)
    return Outliers(score.n, None if score.z is None else score.n_outliers, "log" if log else "each side", score.reason)


@dataclass(slots=True)
class Cell:
    """One cell while its runs come in: figures and block of each run, then the pool its comparisons draw from.

    `rng` draws the resamples of each run, for a planner that asks what longer runs are worth; None where nobody asks.
    `levels` are what the labels of its parts stand for.
    `sketch` holds `SKETCH` quantiles of its readings, for scores among other cells.
    `step` is the step that the cell's readings were seen to move in (`stats.seen_step`), 0 where none was seen.
    """

    labels: dict[str, str]
    rng: np.random.Generator | None = None
    figures: list[Mapping[str, Any]] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)
    drawn: list[Resampled] = field(default_factory=list)
    readings: Adder | None = field(default_factory=stats.Adder)
    pool: RunPool | None = None
    outliers: Outliers | None = None
    sketch: FloatArray = field(default_factory=lambda: np.empty(0))
    step: float = 0.0
    levels: Mapping[str, Level] = field(default_factory=dict)

    def add(self, part: Part, block: int, run_id: str = "") -> None:
        """Take in one run: its readings are counted and resampled, and not kept."""
        self.figures.append(part.figures)
        self.blocks.append(block)
        self.run_ids.append(run_id)
        if not part.figures["n"]:
            return
        if self.readings is not None:
            self.readings.add(part.tally)
        if self.rng is not None:
            self.drawn.append(stats.resample(part.values, part.weights, rng=self.rng))

    def close(self, *, quantum_ns: float = 0.0) -> None:
        """Make the pool where resamples were drawn, count outliers, and find the step of the readings.

        `quantum_ns` is the step that the clock states, 0 for readings that are no times.
        """
        if self.drawn and len(self.drawn) == len(self.known("median")):
            self.pool = stats.RunPool(np.array(self.known("median")), np.array([one.medians for one in self.drawn]))
        if self.readings is not None:
            counted = self.readings.total()
            self.step = stats.seen_step(counted)
            self.outliers = count_outliers(counted, step=max(self.step, quantum_ns))
            if len(counted):
                ranks = (np.arange(SKETCH) + 0.5) / SKETCH * counted.n
                self.sketch = counted.ordered.at(ranks.astype(np.int64))
        self.readings, self.drawn, self.rng = None, [], None

    def values(self, figure: str) -> list[stats.Known]:
        """What every run that has this figure knows of it: exact values and bounds."""
        return [value for f in self.figures if (value := known_of(f, figure)) is not None]

    def known_by_block(self, figure: str) -> dict[int, stats.Known]:
        """What the run in each block knows of this figure, bounds too; empty where the level was not reached."""
        if self.unreached() is not None:
            return {}
        pairs = zip(self.blocks, self.figures, strict=True)
        return {block: value for block, f in pairs if (value := known_of(f, figure)) is not None}

    def bounds(self, figure: str) -> str | None:
        """How many runs know this figure only as a bound, in words; None where all have its value."""
        values = self.values(figure)
        sides = [value.side for value in values if value.side != "exact"]
        return f"{len(sides)} of {len(values)} runs give only a bound ({sides[0]})" if sides else None

    def unreached(self) -> str | None:
        """What was achieved of a level that the runs fell short of, in words; None where they reached it."""
        reached = next(
            (record.reached for record in RECORDS if record.quantity == self.figures[0].get("quantity")), None
        )
        names = (reached.share, reached.achieved) if reached is not None else ()
        return unreached_words(reached, {name: stats.median(self.known(name)).value for name in names})

    def unusable(self, figure: str) -> str | None:
        """Why a figure of this cell is compared with none; None where it may be."""
        return self.bounds(figure) or self.unreached()

    def compared(self, figure: str) -> list[float]:
        """The figure of every run, for inference; empty where it must be compared with none."""
        return [] if self.unusable(figure) is not None else self.known(figure)

    def known(self, figure: str) -> list[float]:
        """The figure of every run that could estimate it; empty where a run has a bound only, for the rest differ."""
        if self.bounds(figure) is not None:
            return []
        return [f[figure] for f in self.figures if f.get(figure) is not None]

    def by_block(self, figure: str) -> dict[int, float]:
        """The figure of the run in each block, for inference."""
        if self.unusable(figure) is not None:
            return {}
        pairs = zip(self.blocks, self.figures, strict=True)
        return {block: f[figure] for block, f in pairs if f.get(figure) is not None}

    def row(self) -> dict[str, Any]:
        """This cell's row of the cells frame, without the counts of missing runs."""
        medians = self.known("median")
        interval = stats.median_interval(medians)
        ends: dict[str, float | None] = {}
        for metric in _WITH_INTERVAL:
            over_runs = stats.median_interval(self.known(metric.name))
            ends |= {metric.end("low"): over_runs.low, metric.end("high"): over_runs.high}
        return apart({
            **self.labels,
            "quantity": self.figures[0]["quantity"],
            "n_runs": len(self.figures),
            "n": sum(f["n"] for f in self.figures),
            "median": stats.middle(self.values("median")),
            "median_low": interval.low,
            "median_high": interval.high,
            "interval_method": interval.method,
            "interval_level": interval.level if interval.low is not None else None,
            **ends,
            **{name: sum(known) if (known := self.known(name)) else None for name in _TOTALS},
            **{name: stats.middle(self.values(name)) for name in MEDIAN_OVER_RUNS},
            **self._shares(),
            **values_of(completion.of_cell(self.figures)),
            "min": min(self.known("min"), default=None),
            "max": max(self.known("max"), default=None),
            "between_run_cv": stats.coefficient_of_variation(medians).cv,
            "unsettled_runs": sum(f.get("settled") is False for f in self.figures),
        })  # fmt: skip

    def _shares(self) -> dict[str, float | None]:
        """Shares of a whole, made of the medians of this row, so that what stands side by side agrees."""
        shares: dict[str, float | None] = {}
        for name, metric in _OWN.items():
            if metric.share_of is None or not self.known(name):
                continue
            part, whole = (stats.median(self.known(column)).value for column in metric.share_of)
            shares[name] = 100.0 * part / whole if part is not None and whole else None
        return shares


#: Below this share of a level it counts as not reached.
LEAST_REACHED: Final = 0.95


def unreached_words(reached: Reached | None, row: Mapping[str, Any]) -> str | None:
    """What was achieved of a level that a cell fell short of: `16.5 kpacket/s reached`; None where it reached it."""
    share, achieved = (None, None) if reached is None else (row.get(reached.share), row.get(reached.achieved))
    if reached is None or share is None or achieved is None or share >= LEAST_REACHED:
        return None
    return f"{quantity_of(reached.achieved).text(achieved)} reached"


def compared_figure(cells: Sequence[Cell]) -> str:
    """The figure of a run that these cells are compared by: one of `COMPARED_FIGURES`, else the median.

    Where a time limit ended a run early, its median describes the readings that it completed: then the share of the
    time spent late, which is defined for all runs.
    """
    if any(completion.is_capped(run) for cell in cells for run in cell.figures) and all(
        cell.known("late_fraction") for cell in cells
    ):
        return "late_fraction"
    for quantity, figure in COMPARED_FIGURES.items():
        # A name may stand for two things: `lost_fraction` of time, and of packets.
        is_own = all(run.get("quantity", quantity) == quantity for cell in cells for run in cell.figures)
        if is_own and all(len(cell.known(figure)) == len(cell.values("median")) > 0 for cell in cells):
            return figure
    return "median"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlierRow:
    """Outlying readings of a cell: `outliers` of `n`, a `fraction` of its readings, a `share` of the experiment's.

    `scale` is how they were scored, `pooled_fraction` and `pooled_share` the same among all cells of the platform,
    `outlying_runs` the ids of runs whose median lies far from the others. None: refused, for the `reason`.
    """

    experiment: str
    instrument: str
    labels: Mapping[str, str]
    quantity: str
    n: int
    outliers: int | None
    fraction: float | None
    share: float | None
    scale: str
    pooled_fraction: float | None
    pooled_share: float | None
    outlying_runs: tuple[str, ...]
    reason: str | None


#: Quantiles that stand for a cell's readings among those of other cells: as many as Oliveira's scenarios had pings.
SKETCH: Final = 1000
#: Runs of a cell from which a run can be called an outlier among them.
_RUNS_FOR_OUTLIERS: Final = 5


def outlier_rows(cells: Sequence[Cell], experiment: str, instrument: str) -> list[OutlierRow]:
    """Outlying readings by scenario (cell), and outlying runs: the same score, over the medians of a cell's runs."""
    scored = [(cell, outliers) for cell in cells if (outliers := cell.outliers) is not None]
    counted = stats.shares({i: (own.n, own.outliers, own.reason) for i, (_, own) in enumerate(scored)})
    pooled = _pooled([cell for cell, _ in scored])
    return [
        OutlierRow(
            experiment=experiment,
            instrument=instrument,
            labels=cell.labels,
            quantity=cell.figures[0]["quantity"],
            n=outliers.n,
            outliers=None if outliers.fraction is None else outliers.outliers,
            fraction=outliers.fraction,
            share=outliers.share,
            scale=own.scale,
            pooled_fraction=among.fraction,
            pooled_share=among.share,
            outlying_runs=_outlying_runs(cell),
            reason=outliers.reason,
        )
        for (cell, own), outliers, among in zip(scored, counted, pooled, strict=True)
    ]


def _pooled(cells: Sequence[Cell]) -> list[stats.ScenarioOutliers]:
    """Outliers of each cell among all cells of its platform, scored together: Oliveira's tables 4 to 6.

    Each cell counts alike, by `SKETCH` of its quantiles. A plain score, as published: what is far from the pooled
    median is mostly a cell that is slower than the others.
    """
    pooled: dict[int, stats.ScenarioOutliers] = {}
    for platform in dict.fromkeys(cell.labels.get("platform") for cell in cells):
        here = [i for i, cell in enumerate(cells) if cell.labels.get("platform") == platform]
        scored = stats.robust_z(np.concatenate([cells[i].sketch for i in here]))
        far = np.bincount(np.array(scored.outliers, dtype=np.int64) // SKETCH, minlength=len(here)).tolist()
        counts: dict[Hashable, tuple[int, int | None, str | None]]
        counts = {i: (SKETCH, None if scored.z is None else far[at], scored.reason) for at, i in enumerate(here)}
        pooled |= dict(zip(here, stats.shares(counts), strict=True))
    return [pooled[i] for i in range(len(cells))]


def _outlying_runs(cell: Cell) -> tuple[str, ...]:
    known = [(i, f["median"]) for i, f in zip(cell.run_ids, cell.figures, strict=True) if f.get("median") is not None]
    medians = [median for _, median in known]
    if len(medians) < _RUNS_FOR_OUTLIERS:
        return ()
    score = stats.robust_z(medians, log=min(medians) > 0)
    return tuple(known[i][0] for i in score.outliers)


def rng_for(seed: int, *words: str) -> np.random.Generator:
    """Return the generator of one cell or comparison, from the campaign's seed and the name alone."""
    digest = hashlib.sha256("\0".join(words).encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:8], "big")])


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRow:
    """One control run: `median` and `half_iqr` of its `quantity`; `part` is what was measured.

    Once judged, `centre` is the median of all control medians, `limit` how far from it is no drift.
    """

    block: int
    control: str
    run_id: str
    part: str
    quantity: str
    median: float | None
    half_iqr: float | None
    centre: float | None = None
    limit: float | None = None
    drifted: bool | None = None


def control_drift(rows: Sequence[ControlRow], *, quantum_ns: float) -> list[ControlRow]:
    """Judge every control run: drifted if its median lies further than 3 half-IQR from the centre of all controls.

    The half-IQR is the median over the control runs of each one's own spread of readings, and not taken below the
    clock's quantum. Runs without a median are left out.
    """
    judged = []
    for part in dict.fromkeys(row.part for row in rows):
        same = [(row, row.median) for row in rows if row.part == part and row.median is not None]
        if not same:
            continue
        centre = stats.median([median for _, median in same]).value or 0.0
        spread = stats.median([row.half_iqr for row, _ in same if row.half_iqr is not None]).value or 0.0
        limit = 3.0 * max(spread, quantum_ns)
        judged += [
            replace(row, centre=centre, limit=limit, drifted=abs(median - centre) > limit) for row, median in same
        ]
    return judged
