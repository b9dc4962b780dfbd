"""Whole factors: rank tests over their levels, their interactions, and how figures go with each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.stats import rankdata

from vtare import stats
from vtare.instruments import RECORDS
from vtare.summary.cells import compared_figure

if TYPE_CHECKING:
    from vtare.plan import Analysis, Experiment
    from vtare.summary.cells import Cell


@dataclass(frozen=True, slots=True)
class Level:
    """One of the other levels of a test: text is made where it is shown."""

    key: str
    label: str


@dataclass(frozen=True, slots=True)
class Differing:
    """Two levels that differ, by mean ranks, with the p-value adjusted over all pairs."""

    less: str
    more: str
    p_adjusted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tested:
    """What every test states: a figure of runs, at one place of the other factors. `refused`: why it was not made."""

    experiment: str
    where: tuple[Level, ...]
    figure: str
    p_value: float | None
    p_adjusted: float | None
    p_text: str | None
    family: str
    adjustment: str
    n_runs: int
    refused: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTestRow(_Tested):
    """The test of one factor. `pairs` are the levels that differ."""

    factor: str
    test: str
    statistic: float | None
    exact: bool | None
    levels: tuple[str, ...]
    pairs: tuple[Differing, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionRow(_Tested):
    """The test of one interaction. `scale` is `log` (of ratios) or `plain`."""

    effect: str
    factors: tuple[str, ...]
    scale: str
    f: float | None
    dimensions: int | None
    freedom: float | None
    freedom_error: float | None
    n_blocks: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRow(_Tested):
    """How the figures of runs go with one level of a factor; `level` is None for a factor of numbers."""

    factor: str
    level: str | None
    tau_b: float | None
    tau_bound: float | None
    cliffs_delta: float | None
    n_level: int | None


#: Figures of a run, beside the main one, that whole factors are tested by: those of the papers' tables.
TESTED_FIGURES: Final = ("half_iqr", "min", "max")
#: What stands in place of p-values where no cell was measured twice.
_SINGLE: Final = "one run a cell: what differs between runs of the same cell is not known"
#: Figures of a run, beside the main one, that are set against the levels of factors where all runs have them.
LEVEL_FIGURES: Final = (
    "half_iqr", "p99", "p999", *(metric.name for record in RECORDS for metric in record.metrics if metric.by_level),
)  # fmt: skip


def _where(labels: Sequence[tuple[str, str]]) -> tuple[Level, ...]:
    return tuple(Level(key, label) for key, label in labels)


def strata_of(cells: Sequence[Cell], factors: Sequence[str]) -> dict[tuple[tuple[str, str], ...], list[Cell]]:
    """Cells that have these factors, by their other labels."""
    strata: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in cells:
        if all(factor in cell.labels for factor in factors):
            rest = tuple((key, label) for key, label in cell.labels.items() if key not in factors)
            strata.setdefault(rest, []).append(cell)
    return strata


def rank_tests(
    cells: Sequence[Cell], factors: Sequence[str], analysis: Analysis, *, experiment: str
) -> list[RankTestRow]:
    """Test each factor inside each combination of the others: Friedman over complete blocks, else Kruskal-Wallis.

    Beside the main figure come those of `TESTED_FIGURES` that all runs have. The tests of one factor by one figure are
    one family, adjusted by Holm: the plan declared them before anything was measured. `pairs` are the levels that
    differ: Nemenyi's test after Friedman's, Dunn's after that of Kruskal and Wallis, where the adjusted p-value of the
    whole factor is at most alpha; each as `less` and `more`, by mean ranks, with its p-value adjusted over all pairs.
    """
    rows: list[RankTestRow] = []
    for factor in factors:
        strata = [(rest, members) for rest, members in strata_of(cells, (factor,)).items() if len(members) > 1]
        by_figure: dict[str, list[tuple[tuple[tuple[str, str], ...], list[Cell], str]]] = {}
        for rest, members in strata:
            main = compared_figure(members)
            by_figure.setdefault("", []).append((rest, members, main))
            for other in TESTED_FIGURES:
                if other != main and _all_have(members, other):
                    by_figure.setdefault(other, []).append((rest, members, other))
        for other, places in by_figure.items():
            family = f"{experiment}: {factor}" + (f", {other}" if other else "")
            rows += _family_of_tests(places, factor, family, analysis, experiment)
    return rows


def _family_of_tests(
    places: Sequence[tuple[tuple[tuple[str, str], ...], list[Cell], str]],
    factor: str,
    family: str,
    analysis: Analysis,
    experiment: str,
) -> list[RankTestRow]:
    """The tests of one factor by one figure, in each combination of the others, adjusted together."""
    made = [
        _one_test(members, figure, family, analysis.alpha, comparisons=len(places)) for _, members, figure in places
    ]
    tested = [test.p for test in made if test.p is not None]
    adjusted = iter(
        stats.adjust([p.raw for p in tested], family=family, adjustment="holm", exact=[p.exact for p in tested])
    )
    rows = []
    for (rest, members, figure), test in zip(places, made, strict=True):
        p = next(adjusted) if test.p is not None else None
        levels = [member.labels[factor] for member in members]
        differs = p is not None and p.adjusted is not None and p.adjusted <= analysis.alpha
        rows.append(
            RankTestRow(
                experiment=experiment,
                factor=factor,
                where=_where(rest),
                figure=figure,
                test=test.name,
                statistic=test.statistic,
                p_value=None if p is None else p.raw,
                p_adjusted=None if p is None else p.adjusted,
                p_text=None if p is None else str(p),
                family=family,
                adjustment="holm",
                exact=None if p is None else p.exact,
                n_runs=test.n,
                levels=tuple(levels),
                pairs=_pairs_that_differ(members, figure, levels, family, analysis.alpha) if differs else (),
                refused=test.refused,
            )
        )
    return rows


def _complete_blocks(by_block: Sequence[Mapping[int, float]]) -> list[list[float]] | None:
    """The figures of all levels in each block, where no level lacks a block that another has; else None."""
    complete = sorted(set.intersection(*(set(blocks) for blocks in by_block)))
    if len(complete) != max(len(blocks) for blocks in by_block):
        return None
    return [[blocks[block] for blocks in by_block] for block in complete]


def _one_test(members: Sequence[Cell], figure: str, family: str, alpha: float, *, comparisons: int) -> stats.RankTest:
    by_block = [member.by_block(figure) for member in members]
    rows = _complete_blocks(by_block)
    if rows is not None:
        return stats.friedman(rows, family=family, alpha=alpha, comparisons=comparisons)
    groups = [list(blocks.values()) for blocks in by_block]
    return stats.kruskal_wallis(groups, family=family, alpha=alpha, comparisons=comparisons)


def _pairs_that_differ(
    members: Sequence[Cell], figure: str, levels: Sequence[str], family: str, alpha: float
) -> tuple[Differing, ...]:
    by_block = [member.by_block(figure) for member in members]
    rows = _complete_blocks(by_block)
    if rows is not None:
        tests = stats.nemenyi_friedman(rows, family=family)
        ranks = rankdata(np.array(rows), axis=1).mean(axis=0)
    else:
        groups = [list(blocks.values()) for blocks in by_block]
        tests = stats.dunn(groups, family=family)
        parts = np.split(rankdata(np.concatenate(groups)), np.cumsum([len(group) for group in groups])[:-1])
        ranks = np.array([part.mean() for part in parts])
    found = []
    for test in tests:
        less, more = sorted((test.first, test.second), key=lambda at: float(ranks[at]))
        if test.p.adjusted is not None and test.p.adjusted <= alpha:
            found.append(Differing(levels[less], levels[more], test.p.adjusted))
    return tuple(found)


def interactions(
    cells: Sequence[Cell], factors: Sequence[str], analysis: Analysis, *, experiment: str
) -> list[InteractionRow]:
    """Test every interaction of an experiment's factors, over blocks where 4 or more are complete.

    On the logarithms of run figures: an interaction then means that the *ratio* between levels depends on another
    factor. On plain figures where one is not above 0. One family per experiment, adjusted by Holm.
    """
    family = f"{experiment}: interactions"
    found: list[tuple[tuple[Level, ...], str, str, stats.InteractionTest]] = []
    present = [factor for factor in factors if len({c.labels[factor] for c in cells if factor in c.labels}) > 1]
    if len(present) < 2:
        return []
    for rest, members in strata_of(cells, present).items():
        figure = compared_figure(members)
        rows = [(cell, block, value) for cell in members for block, value in cell.by_block(figure).items()]
        values = np.array([value for _, _, value in rows])
        labels = {factor: [cell.labels[factor] for cell, _, _ in rows] for factor in present}
        if len(rows) == 0 or sum(len(set(levels)) > 1 for levels in labels.values()) < 2:
            continue
        on_log = bool(np.all(values > 0))
        tests = stats.interaction_tests(
            np.log(values) if on_log else values, labels, family=family, block=[block for _, block, _ in rows]
        )
        found += [(_where(rest), figure, "log" if on_log else "plain", test) for test in tests]
    made = [test.p for *_, test in found if test.p is not None]
    adjusted = iter(stats.adjust([p.raw for p in made], family=family, adjustment="holm"))
    rows_out = []
    for where, figure, scale, test in found:
        p = next(adjusted) if test.p is not None else None
        rows_out.append(
            InteractionRow(
                experiment=experiment,
                where=where,
                effect=" x ".join(test.effect),
                factors=test.effect,
                figure=figure,
                scale=scale,
                f=test.f,
                dimensions=test.dimensions,
                freedom=test.freedom,
                freedom_error=test.freedom_error,
                n_blocks=test.blocks,
                p_value=None if p is None else p.raw,
                p_adjusted=None if p is None else p.adjusted,
                p_text=None if p is None else str(p),
                family=family,
                adjustment="holm",
                n_runs=test.n,
                refused=test.refused,
            )
        )
    return rows_out


def level_associations(
    cells: Sequence[Cell], factors: Sequence[str], experiment: Experiment, analysis: Analysis
) -> list[LevelRow]:
    """Kendall's tau-b and Cliff's delta of run figures with each level of each factor, over all other factors.

    A factor whose levels are numbers (a rate, a target) has an order: it gets one row without a level, tau-b with the
    numbers themselves, which has no bound below 1. Levels are one family per factor and figure, adjusted by BH: this
    explores. Beside the main figure come those of `LEVEL_FIGURES` that all runs have.
    """
    rows: list[LevelRow] = []
    for factor in factors:
        parts = tuple(dict.fromkeys(key for cell in cells for key in cell.labels if key not in factors))
        for rest, members in _by(cells, factor, parts).items():
            main = compared_figure(members)
            numbers = _numbers(experiment, factor)
            others = (other for other in LEVEL_FIGURES if other != main and _all_have(members, other))
            for figure in (main, *others):
                runs = [(cell.labels[factor], value) for cell in members for value in cell.known(figure)]
                if len({label for label, _ in runs}) < 2:
                    continue
                family = f"{experiment.name}: levels of {factor}" + ("" if figure == main else f", {figure}")
                about = _About(experiment.name, factor, _where(rest), figure, family)
                values, labels = [value for _, value in runs], [label for label, _ in runs]
                if numbers is not None:
                    found = [_ordered(values, [numbers[label] for label in labels], about, analysis)]
                else:
                    found = _levels(values, labels, about, analysis)
                single = max(len(cell.known(figure)) for cell in members) < 2
                rows += [_refused(row) for row in found] if single else found
    return rows


def _all_have(members: Sequence[Cell], figure: str) -> bool:
    """Whether every run that has a main figure has this one: a figure of some runs only would compare other runs."""
    return all(cell.figures and len(cell.known(figure)) == len(cell.known("median")) > 0 for cell in members)


@dataclass(frozen=True, slots=True)
class _About:
    """What the rows of one factor and figure share."""

    experiment: str
    factor: str
    where: tuple[Level, ...]
    figure: str
    family: str


def _refused(row: LevelRow) -> LevelRow:
    return replace(row, p_value=None, p_adjusted=None, p_text=None, refused=_SINGLE)


def _levels(values: Sequence[float], labels: Sequence[str], about: _About, analysis: Analysis) -> list[LevelRow]:
    return [
        LevelRow(
            experiment=about.experiment,
            factor=about.factor,
            level=str(found.level),
            where=about.where,
            figure=about.figure,
            tau_b=found.tau_b,
            tau_bound=found.tau_bound,
            cliffs_delta=found.cliffs_delta,
            p_value=None if found.p is None else found.p.raw,
            p_adjusted=None if found.p is None else found.p.adjusted,
            p_text=None if found.p is None else str(found.p),
            family=about.family,
            adjustment="bh",
            n_runs=found.n,
            n_level=found.n_level,
            refused=found.refused,
        )
        for found in stats.associate_levels(values, labels, family=about.family, alpha=analysis.alpha)
    ]


def _by(cells: Sequence[Cell], factor: str, keys: Sequence[str]) -> dict[tuple[tuple[str, str], ...], list[Cell]]:
    """Cells that have the factor, by the parts of a run that are bound to differ (an argument, a target)."""
    groups: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in cells:
        if factor in cell.labels:
            rest = tuple((key, cell.labels[key]) for key in keys if key in cell.labels)
            groups.setdefault(rest, []).append(cell)
    return groups


def _numbers(experiment: Experiment, factor: str) -> Mapping[str, float] | None:
    """What the levels of a factor are as numbers, None where they are none."""
    found = next((f for f in experiment.factors if f.name == factor), None)
    if found is None:
        return None
    values = {level.label: _number(level.value) for level in found.levels}
    return {label: v for label, v in values.items() if v is not None} if None not in values.values() else None


def _number(value: Any) -> float | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _ordered(values: Sequence[float], numbers: Sequence[float], about: _About, analysis: Analysis) -> LevelRow:
    test = stats.kendall_tau_b(values, numbers, family=about.family, alpha=analysis.alpha)
    return LevelRow(
        experiment=about.experiment,
        factor=about.factor,
        level=None,
        where=about.where,
        figure=about.figure,
        tau_b=test.statistic,
        tau_bound=1.0,
        cliffs_delta=None,
        p_value=None if test.p is None else test.p.raw,
        p_adjusted=None if test.p is None else test.p.adjusted,
        p_text=None if test.p is None else str(test.p),
        family=about.family,
        adjustment="none",
        n_runs=test.n,
        n_level=None,
        refused=test.refused,
    )
