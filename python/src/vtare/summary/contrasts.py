"""Cells against each other: each with the cell that differs in one factor only, medians and tails.

The decision rule is that of `vtare.stats.comparison`; here it gets its families and its rows. The contrasts of one
factor of one experiment are one family, adjusted by Holm: the plan declared them before anything was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare import stats
from vtare.summary.cells import Cell, compared_figure, rng_for

if TYPE_CHECKING:
    import numpy as np

    from vtare.plan import Analysis

#: The tails that are compared: columns of a run's figures.
TAILS: Final = ("p99", "p999")
#: What people call them.
TAIL_NAMES: Final = {"p99": "p99", "p999": "p99.9"}

COMPARISON_COLUMNS: Final[dict[str, Any]] = {
    "quantity": pl.String,
    "factor": pl.String,
    "level": pl.String,
    "baseline": pl.String,
    "n_runs": pl.Int64,
    "n_runs_baseline": pl.Int64,
    **dict.fromkeys(
        ("ratio", "ratio_low", "ratio_high", "difference", "difference_low", "difference_high", "cliffs_delta"),
        pl.Float64,
    ),
    "inference": pl.String,
    "interval_level": pl.Float64,
    **dict.fromkeys(("p_value", "p_adjusted"), pl.Float64),
    "p_text": pl.String,
    "family": pl.String,
    "family_size": pl.Int64,
    "adjustment": pl.String,
    "least_p": pl.Float64,
    "p_equivalent": pl.Float64,
    "verdict": pl.String,
    "margin_ratio": pl.Float64,
    "reason": pl.String,
}
TAIL_COLUMNS: Final[dict[str, Any]] = {
    **{name: COMPARISON_COLUMNS[name] for name in ("quantity", "factor", "level", "baseline")},
    "tail": pl.String,
    "n_runs": pl.Int64,
    "n_runs_baseline": pl.Int64,
    **dict.fromkeys(("ratio", "ratio_low", "ratio_high", "difference", "p_value", "p_adjusted"), pl.Float64),
    "p_text": pl.String,
    "family": pl.String,
    "adjustment": pl.String,
    "exact": pl.Boolean,
    "least_p": pl.Float64,
    "refused": pl.String,
}


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two cells compared, before the p-value is adjusted: `about` labels its row, `quantity` is what was compared."""

    about: Mapping[str, Any]
    family: str
    quantity: str
    comparison: stats.Comparison
    cliffs_delta: float | None
    p_equivalent: float | None


def pairs(
    cells: Sequence[Cell], baselines: Mapping[str, str], *, experiment: str
) -> Iterator[tuple[Cell, Cell, dict[str, Any]]]:
    """Each cell with the one that differs only in one factor, which there has the baseline level, and their labels."""
    by_labels = {tuple(sorted(cell.labels.items())): cell for cell in cells}
    for cell in cells:
        for factor, baseline in baselines.items():
            if factor not in cell.labels or cell.labels[factor] == baseline:
                continue
            other = by_labels.get(tuple(sorted({**cell.labels, factor: baseline}.items())))
            if other is not None:
                about = {"experiment": experiment, "factor": factor, "level": cell.labels[factor], "baseline": baseline}
                yield cell, other, {**cell.labels, **about}


def compare(
    cells: Sequence[Cell],
    baselines: Mapping[str, str],
    analysis: Analysis,
    *,
    seed: int,
    experiment: str,
    quantum_ns: float,
) -> list[dict[str, Any]]:
    """Compare each cell with its baseline, factor by factor, and judge them family by family."""
    found = []
    for cell, other, about in pairs(cells, baselines, experiment=experiment):
        rng = rng_for(seed, experiment, about["factor"], repr(sorted(cell.labels.items())))
        contrast = contrast_of(
            cell, other, about, f"{experiment}: {about['factor']}", analysis, rng=rng, quantum_ns=quantum_ns
        )
        if contrast is not None:
            found.append(contrast)
    return judge(found, analysis)


def contrast_of(
    cell: Cell,
    other: Cell,
    about: Mapping[str, Any],
    family: str,
    analysis: Analysis,
    *,
    rng: np.random.Generator,
    quantum_ns: float,
    figure: str | None = None,
) -> Contrast | None:
    """Compare two cells by their main figure, or by another one of their runs; None where one of them has none."""
    if cell.pool is None or other.pool is None:
        return None
    other_figure = figure or compared_figure((cell, other))
    if not cell.known(other_figure) or not other.known(other_figure):
        return None
    quantity, figure, sides = str(cell.figures[0]["quantity"]), "median", (cell.pool, other.pool)
    if other_figure != figure:
        quantity, figure, quantum_ns = other_figure, other_figure, 0.0
        sides = tuple(  # type: ignore[assignment]
            stats.RunPool.of([[x] for x in one.known(figure)], rng=rng, size=1) for one in (cell, other)
        )
    comparison = stats.compare_medians(*sides, rng=rng, alpha=analysis.alpha, quantum=quantum_ns)
    medians = sides[0].medians, sides[1].medians
    alike = stats.equivalence(*medians, margin_ratio=analysis.margin_ratio, alpha=analysis.alpha)
    return Contrast(about, family, quantity, comparison, stats.cliffs_delta(*medians).value, alike.p)


def judge(contrasts: Sequence[Contrast], analysis: Analysis) -> list[dict[str, Any]]:
    """Adjust the p-values of each family by Holm and give every contrast its verdict; one row each, in their order."""
    adjusted: dict[int, stats.PValue] = {}
    for family in dict.fromkeys(contrast.family for contrast in contrasts):
        tested = [
            (i, c.comparison.p) for i, c in enumerate(contrasts) if c.family == family and c.comparison.p is not None
        ]
        values = stats.adjust([p for _, p in tested], family=family, adjustment="holm")
        adjusted.update({i: value for (i, _), value in zip(tested, values, strict=True)})
    return [_row(contrast, adjusted.get(i), analysis) for i, contrast in enumerate(contrasts)]


def _row(contrast: Contrast, p: stats.PValue | None, analysis: Analysis) -> dict[str, Any]:
    found = contrast.comparison
    size = p.size if p is not None else 0
    judged = stats.verdict(
        found,
        p_adjusted=None if p is None else p.adjusted,
        margin_ratio=analysis.margin_ratio,
        alpha=analysis.alpha,
        size=size,
    )
    # A table cannot show an interval without an end: the verdict knew it, the row says so in its reason.
    open_ended = found.high == float("inf")
    reason = judged.reason if not open_ended else f"{judged.reason} (the baseline's median is below half a clock step)"
    return {
        **contrast.about,
        "quantity": contrast.quantity,
        "n_runs": found.n_runs_a,
        "n_runs_baseline": found.n_runs_b,
        "ratio": found.ratio,
        "ratio_low": None if open_ended else found.low,
        "ratio_high": None if open_ended else found.high,
        "difference": found.difference,
        "difference_low": found.difference_low,
        "difference_high": found.difference_high,
        "cliffs_delta": contrast.cliffs_delta,
        "inference": found.method,
        "interval_level": None if found.p is None else found.level,
        "p_value": found.p,
        "p_adjusted": None if p is None else p.adjusted,
        "p_text": None if p is None else str(p),
        "family": contrast.family,
        "family_size": size,
        "adjustment": "holm",
        "least_p": found.least_p,
        "p_equivalent": contrast.p_equivalent,
        "verdict": judged.word,
        "margin_ratio": judged.margin_ratio,
        "reason": reason,
    }


def compare_tails(
    cells: Sequence[Cell], baselines: Mapping[str, str], analysis: Analysis, *, seed: int, experiment: str
) -> list[dict[str, Any]]:
    """Compare each cell's per-run p99 and p99.9 with its baseline's by permutation of runs.

    One family per factor and tail, adjusted by BH: the plan declares the contrasts of medians, tails are explored.
    """
    rows = []
    for tail in TAILS:
        rows += tail_rows(
            [
                (cell, other, about, f"{experiment}: {about['factor']}, {tail}")
                for cell, other, about in pairs(cells, baselines, experiment=experiment)
            ],
            tail,
            analysis,
            rng_of=lambda about, tail=tail: rng_for(seed, experiment, tail, repr(sorted(about.items()))),  # type: ignore[misc]
        )
    return rows


def tail_rows(
    found: Sequence[tuple[Cell, Cell, Mapping[str, Any], str]],
    tail: str,
    analysis: Analysis,
    *,
    rng_of: Callable[[Mapping[str, Any]], np.random.Generator],
) -> list[dict[str, Any]]:
    """Permute the runs of each pair of cells, and adjust family by family."""
    groups = [
        RunGroups(cell.known(tail), other.known(tail), about, family, str(cell.figures[0]["quantity"]))
        for cell, other, about, family in found
    ]
    rows = permuted_rows(groups, tail, analysis, rng_of=rng_of)
    for row, group, (cell, other, _, _) in zip(rows, groups, found, strict=True):
        if tail in TAILS and (not group.here or not group.there):
            longest = max((int(f["n"]) for one in (cell, other) for f in one.figures), default=0)
            needed = stats.least_n(0.99 if tail == "p99" else 0.999)
            row["refused"] = f"{tail} needs {needed} readings in a run, the longest has {longest}"
    return rows


@dataclass(frozen=True, slots=True)
class RunGroups:
    """A figure of the runs of two kinds, `about` which factor and levels, and the family in which they are tested."""

    here: Sequence[float]
    there: Sequence[float]
    about: Mapping[str, Any]
    family: str
    quantity: str


def permuted_rows(
    found: Sequence[RunGroups],
    figure: str,
    analysis: Analysis,
    *,
    rng_of: Callable[[Mapping[str, Any]], np.random.Generator],
) -> list[dict[str, Any]]:
    """Permute runs between the two kinds of each, and adjust family by family; rows of `TAIL_COLUMNS`."""
    tests = [
        (
            one.about, one.family, one.quantity,
            stats.permute_runs(one.here, one.there, family=one.family, rng=rng_of(one.about), alpha=analysis.alpha),
        )
        for one in found
    ]  # fmt: skip
    adjusted: dict[int, stats.PValue] = {}
    for family in dict.fromkeys(entry[1] for entry in tests):
        made = [(i, entry[3].p) for i, entry in enumerate(tests) if entry[1] == family and entry[3].p is not None]
        values = stats.adjust([p.raw for _, p in made if p is not None], family=family, adjustment="bh",
                              exact=[p.exact for _, p in made if p is not None])  # fmt: skip
        adjusted.update({i: value for (i, _), value in zip(made, values, strict=True)})
    return [
        {
            **about,
            "quantity": quantity,
            "tail": figure,
            "n_runs": test.n_a,
            "n_runs_baseline": test.n_b,
            "ratio": test.ratio,
            "ratio_low": test.low,
            "ratio_high": test.high,
            "difference": test.difference,
            "p_value": adjusted[i].raw if i in adjusted else None,
            "p_adjusted": adjusted[i].adjusted if i in adjusted else None,
            "p_text": str(adjusted[i]) if i in adjusted else None,
            "family": family,
            "adjustment": "bh",
            "exact": adjusted[i].exact if i in adjusted else None,
            "least_p": test.least_p,
            "refused": test.refused,
        }
        for i, (about, family, quantity, test) in enumerate(tests)
    ]
