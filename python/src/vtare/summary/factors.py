"""Whole factors: rank tests over their levels, their interactions, and how figures go with each level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vtare import stats
from vtare.instruments import RECORDS
from vtare.plan.cells import nested_under
from vtare.summary.cells import compared_figure
from vtare.summary.rows import p_fields

if TYPE_CHECKING:
    from vtare.plan.model import Analysis, Experiment
    from vtare.summary.cells import Cell


@dataclass(frozen=True, slots=True)
class ComparedLevel:
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
    where: tuple[ComparedLevel, ...]
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


def _where(labels: Sequence[tuple[str, str]]) -> tuple[ComparedLevel, ...]:
    return tuple(ComparedLevel(key, label) for key, label in labels)


def strata_of(
    cells: Sequence[Cell], factors: Sequence[str], usual: Mapping[str, str] | None = None
) -> dict[tuple[tuple[str, str], ...], list[Cell]]:
    """Cells that have these factors, by their other labels; those of `usual` do not count where they are so."""
    strata: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in cells:
        if all(factor in cell.labels for factor in factors):
            rest = tuple(
                (key, label)
                for key, label in cell.labels.items()
                if key not in factors and (usual or {}).get(key) != label
            )
            strata.setdefault(rest, []).append(cell)
    return strata


def rank_tests(
    cells: Sequence[Cell], factors: Sequence[str], analysis: Analysis, experiment: Experiment
) -> list[RankTestRow]:
    """Test each factor inside each combination of the others: Friedman over complete blocks, else Kruskal-Wallis.

    Beside the main figure come those of `TESTED_FIGURES` that all runs have. The tests of one factor, by all figures,
    are one family, adjusted by Holm: a report with a family for each figure claims four times as often by chance.
    `pairs` are the levels that differ: Nemenyi's test after Friedman's, Dunn's after that of Kruskal and Wallis, where
    the adjusted p-value of the whole factor is at most alpha; each as `less` and `more`, by mean ranks, with its
    p-value adjusted over all pairs.
    """
    rows: list[RankTestRow] = []
    for factor in factors:
        # A level with a nested factor, at its baseline, is set beside levels without it.
        by_rest = strata_of(cells, (factor,), nested_under(experiment, factor))
        strata = [(rest, members) for rest, members in by_rest.items() if len(members) > 1]
        places: list[_Tests] = []
        for rest, members in strata:
            main = compared_figure(members)
            others = [figure for figure in TESTED_FIGURES if figure != main and _all_have(members, figure)]
            places += [(rest, members, figure) for figure in (main, *others)]
        rows += _family_of_tests(places, factor, analysis, experiment.name)
    return rows


_Tests = tuple[tuple[tuple[str, str], ...], list["Cell"], str]


def _family_of_tests(places: Sequence[_Tests], factor: str, analysis: Analysis, experiment: str) -> list[RankTestRow]:
    """The tests of one factor, by every figure and in each combination of the others, adjusted together."""
    family = f"{experiment}: {factor}, by ranks"
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
                **p_fields(p),
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
    # Here, not above: it takes a second, which only comparisons need.
    from scipy.stats import rankdata

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
    differing = []
    for test in tests:
        less, more = sorted((test.first, test.second), key=lambda at: float(ranks[at]))
        if test.p.adjusted is not None and test.p.adjusted <= alpha:
            differing.append(Differing(levels[less], levels[more], test.p.adjusted))
    return tuple(differing)


def interactions(
    cells: Sequence[Cell],
    factors: Sequence[str],
    analysis: Analysis,
    experiment: Experiment,
    whole_plots: Sequence[str] = (),
) -> list[InteractionRow]:
    """Test every interaction of an experiment's factors, over blocks where 4 or more are complete.

    On the logarithms of run figures: an interaction then means that the *ratio* between levels depends on another
    factor. On plain figures where one is not above 0. One family per experiment, adjusted by Holm. Those of a nested
    factor are tested among the cells that have it, the others among all cells that have it at its baseline or not.
    Without complete blocks the spread of runs is no error of an interaction of whole-plot factors: it is refused.
    """
    family = f"{experiment.name}: interactions"
    tests: list[tuple[tuple[ComparedLevel, ...], str, str, stats.InteractionTest]] = []
    nested = [name for name in factors if name in experiment.nested]
    crossed = [name for name in factors if name not in nested]
    usual = {name: experiment.factor(name).baseline for name in nested}
    at_home = [cell for cell in cells if all(cell.labels.get(name, level) == level for name, level in usual.items())]
    made_already: set[tuple[str, ...]] = set()
    for some, members, home in [(crossed, at_home, usual), *(((*crossed, name), cells, {}) for name in nested)]:
        for where, figure, scale, test in _interactions_among(members, some, home, family):
            if test.effect not in made_already:
                between = test.blocks is None and {*test.effect} <= {*whole_plots}
                tests.append((where, figure, scale, _refused_between_plots(test) if between else test))
        made_already |= {test.effect for *_, test in tests}
    made = [test.p for *_, test in tests if test.p is not None]
    adjusted = iter(stats.adjust([p.raw for p in made], family=family, adjustment="holm"))
    rows_out = []
    for where, figure, scale, test in tests:
        p = next(adjusted) if test.p is not None else None
        rows_out.append(
            InteractionRow(
                experiment=experiment.name,
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
                **p_fields(p),
                family=family,
                adjustment="holm",
                n_runs=test.n,
                refused=test.refused,
            )
        )
    return rows_out


def _refused_between_plots(test: stats.InteractionTest) -> stats.InteractionTest:
    why = "refused: between whole plots it needs 4 blocks that hold every cell"
    return replace(test, f=None, freedom=None, freedom_error=None, p=None, refused=test.refused or why)


def _interactions_among(
    cells: Sequence[Cell], factors: Sequence[str], usual: Mapping[str, str], family: str
) -> list[tuple[tuple[ComparedLevel, ...], str, str, stats.InteractionTest]]:
    """The tests of factors that are crossed, with their place, the figure and its scale."""
    collected: list[tuple[tuple[ComparedLevel, ...], str, str, stats.InteractionTest]] = []
    own = [cell for cell in cells if all(factor in cell.labels for factor in factors)]
    present = [factor for factor in factors if len({cell.labels[factor] for cell in own}) > 1]
    if len(present) < 2:
        return []
    for rest, members in strata_of(own, present, usual).items():
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
        collected += [(_where(rest), figure, "log" if on_log else "plain", test) for test in tests]
    return collected


def level_associations(
    cells: Sequence[Cell],
    factors: Sequence[str],
    experiment: Experiment,
    analysis: Analysis,
    whole_plots: Sequence[str] = (),
) -> list[LevelRow]:
    """Kendall's tau-b and Cliff's delta of run figures with each level of each factor, over all other factors.

    A factor whose levels are numbers (a rate, a target) has an order: it gets one row without a level, tau-b with the
    numbers themselves, which has no bound below 1. Levels are one family per factor and figure, adjusted by BH: this
    explores. Beside the main figure come those of `LEVEL_FIGURES` that all runs have. For a whole-plot factor the unit
    is the whole plot, and its figure the mean of its runs: they share what the whole plot has apart from its level.
    """
    rows: list[LevelRow] = []
    for factor in factors:
        parts = tuple(dict.fromkeys(key for cell in cells for key in cell.labels if key not in factors))
        numbers = _numbers(experiment, factor)
        own: list[LevelRow] = []
        for rest, members in _by(cells, factor, parts).items():
            main = compared_figure(members)
            others = (other for other in LEVEL_FIGURES if other != main and _all_have(members, other))
            for figure in (main, *others):
                if factor in whole_plots:
                    runs = whole_plot_means(members, figure, factor, whole_plots)
                else:
                    runs = [(cell.labels[factor], value) for cell in members for value in cell.compared(figure)]
                if len({label for label, _ in runs}) < 2:
                    continue
                family = f"{experiment.name}: levels of {factor}" + ("" if figure == main else f", {figure}")
                about = _About(experiment.name, factor, _where(rest), figure, family)
                values, labels = [value for _, value in runs], [label for label, _ in runs]
                if numbers is not None:
                    associations = [_ordered(values, [numbers[label] for label in labels], about, analysis)]
                else:
                    associations = _levels(values, labels, about, analysis)
                single = max(len(cell.compared(figure)) for cell in members) < 2
                own += [_refused(row) for row in associations] if single else associations
        rows += _adjusted(own)
    return rows


def _adjusted(rows: Sequence[LevelRow]) -> list[LevelRow]:
    """The rows of a factor with their p-values adjusted over all levels, and all parts of a run, by figure."""
    rewritten = list(rows)
    for family in dict.fromkeys(row.family for row in rows):
        tested = [(at, p) for at, row in enumerate(rows) if row.family == family and (p := row.p_value) is not None]
        adjusted = stats.adjust([p for _, p in tested], family=family, adjustment="bh")
        for (at, _), value in zip(tested, adjusted, strict=True):
            rewritten[at] = replace(rewritten[at], p_adjusted=value.adjusted, p_text=str(value))
    return rewritten


def whole_plot_means(
    members: Sequence[Cell], figure: str, factor: str, whole_plots: Sequence[str]
) -> list[tuple[str, float]]:
    """The level of a whole-plot factor and the mean figure of each whole plot; of those that lack a run, none.

    The mean is geometric where all figures are above 0: what is compared elsewhere are ratios.
    """
    plots: dict[tuple[Any, ...], list[float]] = {}
    levels: dict[tuple[Any, ...], str] = {}
    wanted: Counter[tuple[str | None, ...]] = Counter()
    for cell in members:
        combination = tuple(cell.labels.get(name) for name in whole_plots)
        wanted[combination] += 1
        for block, value in cell.by_block(figure).items():
            plots.setdefault((block, combination), []).append(value)
            levels[block, combination] = cell.labels[factor]
    on_log = all(value > 0 for values in plots.values() for value in values)
    return [
        (levels[plot], float(np.exp(np.mean(np.log(values))) if on_log else np.mean(values)))
        for plot, values in plots.items()
        if len(values) == wanted[plot[1]]
    ]


def _all_have(members: Sequence[Cell], figure: str) -> bool:
    """Whether every run that has a main figure has this one: a figure of some runs only would compare other runs."""
    return all(cell.figures and len(cell.known(figure)) == len(cell.known("median")) > 0 for cell in members)


@dataclass(frozen=True, slots=True)
class _About:
    """What the rows of one factor and figure share."""

    experiment: str
    factor: str
    where: tuple[ComparedLevel, ...]
    figure: str
    family: str


def _refused(row: LevelRow) -> LevelRow:
    return replace(row, p_value=None, p_adjusted=None, p_text=None, refused=_SINGLE)


def _levels(values: Sequence[float], labels: Sequence[str], about: _About, analysis: Analysis) -> list[LevelRow]:
    return [
        LevelRow(
            experiment=about.experiment,
            factor=about.factor,
            level=str(association.level),
            where=about.where,
            figure=about.figure,
            tau_b=association.tau_b,
            tau_bound=association.tau_bound,
            cliffs_delta=association.cliffs_delta,
            p_value=None if association.p is None else association.p.raw,
            p_adjusted=None,
            p_text=None,
            family=about.family,
            adjustment="bh",
            n_runs=association.n,
            n_level=association.n_level,
            refused=association.refused,
        )
        for association in stats.associate_levels(values, labels, family=about.family, alpha=analysis.alpha)
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
    named = next((f for f in experiment.factors if f.name == factor), None)
    if named is None:
        return None
    values = {level.label: level.number for level in named.levels}
    return {label: v for label, v in values.items() if v is not None} if None not in values.values() else None


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
        p_adjusted=None,
        p_text=None,
        family=about.family,
        adjustment="bh",
        n_runs=test.n,
        n_level=None,
        refused=test.refused,
    )
