"""The counter function in a report: how evenly it runs, by machine, language and neighbours, and ranked.

Everything is the coefficient of variation (CV) of a run, the figure of Lampe et al. 2013. The unit of inference is the
run, so ranks are those of runs: a run's CV is the geometric mean over its arguments.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from vtare import stats
from vtare.number_text import percent_range_text, percent_text, time_text
from vtare.report import text
from vtare.report.layout import fixed_parts, key_name
from vtare.report.pages.model import READINGS, RUNS, Answered, Page, Placement
from vtare.report.parts import Column, Table, in_words
from vtare.report.sentences import cell_rows, load_phrase, ratio_figure
from vtare.report.tables import p_shown
from vtare.sentences import answers as wording
from vtare.sentences import captions
from vtare.sentences.template import FigureText, Sentence

if TYPE_CHECKING:
    from vtare.report.layout import Layout
    from vtare.report.text import Shown
    from vtare.summary import Summary

_LEAST_LEVELS: Final = 2


@dataclass(frozen=True, slots=True)
class _RankedLevel:
    """One level among the others: its mean rank, its CV, and how many times the baseline's it is, with an interval.

    `p` is of the planned contrast with the baseline; None for the baseline itself, and where `why` refuses it.
    """

    name: str
    rank: float
    cv: float
    ratio: float
    low: float | None
    high: float | None
    p: stats.PValue | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The levels of one factor, the steadiest first. `p` is None where there was no test, `why` gives the reason."""

    factor: str
    baseline: str
    sets: int
    levels: tuple[_RankedLevel, ...]
    p: stats.PValue | None
    why: str


def sentences(summary: Summary, layout: Layout) -> list[Sentence]:
    """How much the computation of the first screen varies at the baseline, then what each factor makes of the CV."""
    rows = cell_rows(summary, layout)
    if not rows or layout.is_median:
        return []
    factors = [factor for factor in layout.experiment.factors if len(layout.order.get(factor.name, ())) > 1]
    home = {factor.name: factor.baseline for factor in factors}
    shown = fixed_parts(layout, summary.cells.filter(pl.col("experiment") == layout.experiment.name))["argument"]
    base = next(
        (r for r in rows if r["argument"] == shown and all(r[k] in (None, v) for k, v in home.items())), rows[0]
    )
    where = [layout.key_text(key, base[key]) for key in home if key != "load"]
    place = f" ({', '.join(where)})" if where else ""
    interval = "" if (ends := layout.ends(base)) is None else percent_range_text(*ends)
    time, share = time_text(base["median"]), FigureText(percent_text(base["cv"]), interval)
    varies = (
        wording.variation_at(load_phrase(summary, base["load"]), time, place, share) if "load" in home
        else wording.variation(time, place, share)
    )  # fmt: skip
    return [varies, *(_ranking_sentence(summary, layout, one) for one in _rankings(summary, layout))]


def _ranking_sentence(summary: Summary, layout: Layout, ranking: _Ranking) -> Sentence:
    """How many times the baseline's CV each level has, and the verdict: `it is 2.16x (1.51 to 3.31) with ...`."""
    others = [level for level in ranking.levels if level.name != ranking.baseline]
    others.sort(key=lambda level: layout.rank(ranking.factor, level.name))
    ratios = [
        wording.ratio_with(ratio_figure(level.ratio, level.low, level.high), layout.named(ranking.factor, level.name))
        for level in others
    ]
    against = wording.variations(layout.key_text(ranking.factor, ranking.baseline), ratios)
    if ranking.p is None or ranking.p.adjusted is None:
        return wording.several([against, wording.too_few_ranks(ranking.sets)])
    differs = ranking.p.adjusted <= summary.plan.analysis.alpha
    verdict = wording.levels_differ if differs else wording.levels_do_not_differ
    return wording.several([against, verdict(ranking.sets, p_word(ranking.p))])


def p_word(p: stats.PValue) -> str:
    """`p = 0.001`, `p < 1e-4`."""
    shown = stats.write_p(p.adjusted)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def rank_table(summary: Summary, layout: Layout) -> Table | None:
    """Each level of each factor by the rank of its CV among the levels, as Lampe et al. rank machines.

    Runs are matched: those of one block that agree in all other factors stand beside each other. Friedman's test over
    the matched sets, adjusted by Holm over the factors; then each level against the baseline, the contrasts that the
    plan declares, by Friedman's test of these two (exact: their sign test), adjusted by Holm over all of the
    experiment. None where no factor has two levels.
    """
    if layout.is_median:
        return None
    rows: list[tuple[Shown, ...]] = []
    for ranking in _rankings(summary, layout):
        p = ranking.p
        shown_p = text.missing(ranking.why) if p is None else p_shown(p.adjusted)
        for at, level in enumerate(ranking.levels):
            against = (
                text.words("baseline") if level.name == ranking.baseline
                else text.ratio(level.ratio, level.low, level.high, "")
            )  # fmt: skip
            rows.append((
                text.words(key_name(ranking.factor)), text.words(level.name, at), text.number(level.rank, ""),
                text.percent(level.cv, ""), against, text.count(ranking.sets, ""), shown_p,
                text.words("baseline") if level.name == ranking.baseline
                else text.missing(level.why) if level.p is None
                else p_shown(level.p.adjusted),
            ))  # fmt: skip
    if not rows:
        return None
    columns = (
        *in_words("factor", "level"),
        Column("mean_rank", "mean rank", about="1 is the steadiest level of each matched set"),
        Column("cv", "CV", about="geometric mean over matched runs and arguments"),
        Column("ratio", "times the baseline's", about="median over matched sets, with its interval over them"),
        Column("sets", "matched sets", about="runs of one block that agree in all other factors"),
        Column("p_adjusted", "p (adjusted)", about="that all levels rank alike: Friedman, Holm over the factors"),
        Column(
            "p_contrast",
            "p against the baseline",
            about="planned contrast: Friedman of this level and the baseline, Holm over the experiment's contrasts",
        ),
    )
    title = f"{layout.experiment.title}: steadiest first, by the rank of the CV"
    return Table(f"ranks-{layout.experiment.name}", title, columns, tuple(rows))


def _rankings(summary: Summary, layout: Layout) -> list[_Ranking]:
    """Every factor with two levels or more that were matched, in the plan's order."""
    from scipy.stats import rankdata

    runs = _scatter_of_runs(summary, layout)
    factors = [factor for factor in layout.experiment.factors if len(layout.order.get(factor.name, ())) > 1]
    family = f"{layout.experiment.name}: ranks of the CV"
    alpha = summary.plan.analysis.alpha
    made = [(factor, *_matched(layout, runs, factor.name)) for factor in factors]
    made = [(factor, levels, sets) for factor, levels, sets in made if sets and factor.baseline in levels]
    # Matched sets that share the error of whole plots are no blocks of a test.
    shared = {factor.name for factor in factors} & {*summary.plan.whole_plots}
    tests = [
        stats.friedman(sets, family=family, alpha=alpha) if len(sets) > 1 and factor.name not in shared else None
        for factor, _, sets in made
    ]
    known = [test.p for test in tests if test is not None and test.p is not None]
    adjusted = iter(
        stats.adjust([p.raw for p in known], family=family, adjustment="holm", exact=[p.exact for p in known])
    )
    rankings = []
    for (factor, levels, sets), test in zip(made, tests, strict=True):
        p = next(adjusted) if test is not None and test.p is not None else None
        why = (
            ("whole plots are compared by block" if factor.name in shared else "one matched set")
            if test is None
            else test.refused or ""
        )
        logs = np.log(np.array(sets))
        ranks = rankdata(logs, axis=1).mean(axis=0)
        home = levels.index(factor.baseline)
        about = []
        for at, level in enumerate(levels):
            apart = logs[:, at] - logs[:, home]
            ends = stats.median_interval(apart)
            low, high = (None if end is None else math.exp(end) for end in (ends.low, ends.high))
            middle, ratio = math.exp(float(logs[:, at].mean())), math.exp(float(np.median(apart)))
            about.append(_RankedLevel(level, float(ranks[at]), middle, ratio, low, high))
        about.sort(key=lambda level: level.rank)
        rankings.append(_Ranking(factor.name, factor.baseline, len(sets), tuple(about), p, why))
    return _with_contrasts(rankings, [(levels, sets) for _, levels, sets in made], family, alpha, shared)


def _with_contrasts(
    rankings: list[_Ranking],
    matched: list[tuple[list[str], list[list[float]]]],
    family: str,
    alpha: float,
    shared: set[str],
) -> list[_Ranking]:
    """The rankings with the p-value of each level against the baseline: a pair of a matched set is a pair."""
    tests: dict[tuple[str, str], stats.RankTest] = {}
    asked = sum(len(ranking.levels) - 1 for ranking in rankings)
    for ranking, (levels, sets) in zip(rankings, matched, strict=True):
        home = levels.index(ranking.baseline)
        for at, level in enumerate(levels):
            if at != home and len(sets) > 1 and ranking.factor not in shared:
                pairs = [[row[at], row[home]] for row in sets]
                tests[ranking.factor, level] = stats.friedman(pairs, family=family, alpha=alpha, comparisons=asked)
    known = {key: test.p for key, test in tests.items() if test.p is not None}
    adjusted = dict(zip(known, stats.adjust(
        [p.raw for p in known.values()], family=f"{family}, contrasts", adjustment="holm",
        exact=[p.exact for p in known.values()],
    ), strict=True))  # fmt: skip
    made = []
    for ranking in rankings:
        levels_with = []
        for one in ranking.levels:
            test = tests.get((ranking.factor, one.name))
            why = (
                ("whole plots are compared by block" if ranking.factor in shared else "one matched set")
                if test is None
                else test.refused or ""
            )
            levels_with.append(replace(one, p=adjusted.get((ranking.factor, one.name)), why=why))
        made.append(replace(ranking, levels=tuple(levels_with)))
    return made


def configuration_table(summary: Summary, layout: Layout) -> Table | None:
    """Each configuration by each argument, as Lampe's Table 1: the CV and its rank among the configurations.

    Ties share the mean of their ranks. A row's last figure is the mean of its ranks, over the arguments that it has.
    """
    from scipy.stats import rankdata

    names = [factor.name for factor in layout.experiment.factors if len(layout.order.get(factor.name, ())) > 1]
    arguments = layout.order.get("argument", ())
    by_levels: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for row in cell_rows(summary, layout):
        if row["cv"] is not None:
            by_levels[tuple(row[name] for name in names)][row["argument"]] = row["cv"]
    if layout.is_median or not names or len(by_levels) < _LEAST_LEVELS:
        return None
    ranks: dict[tuple[tuple[str, ...], str], float] = {}
    for argument in arguments:
        here = [(labels, by[argument]) for labels, by in by_levels.items() if argument in by]
        for (labels, _), rank in zip(here, rankdata([cv for _, cv in here]) if here else (), strict=True):
            ranks[labels, argument] = float(rank)
    rows: list[tuple[float, tuple[Shown, ...]]] = []
    for labels, by in by_levels.items():
        own = [ranks[labels, argument] for argument in by]
        shown = [
            text.Shown(f"{percent_text(by[a])} ({ranks[labels, a]:g})", f"{by[a]} ({ranks[labels, a]:g})", by[a])
            if a in by else text.missing("not estimable")
            for a in arguments
        ]  # fmt: skip
        name = ", ".join(layout.key_text(key, label) for key, label in zip(names, labels, strict=True))
        mean = sum(own) / len(own)
        rows.append((mean, (text.words(name), *shown, text.number(mean, ""))))
    rows.sort(key=lambda row: row[0])
    columns = (
        Column("configuration", "configuration", numeric=False),
        *(Column(f"argument_{a}", layout.key_text("argument", a), about="CV, and its rank among the configurations")
          for a in arguments),
        Column("mean_rank", "mean rank"),
    )  # fmt: skip
    title = f"{layout.experiment.title}: coefficient of variation and rank by argument, steadiest first"
    return Table(f"configurations-{layout.experiment.name}", title, columns, tuple(row for _, row in rows))


_Runs = dict[tuple[tuple[str, str], ...], float]


def _scatter_of_runs(summary: Summary, layout: Layout) -> _Runs:
    """The CV of each run, by its block and the levels of its factors: the geometric mean over arguments."""
    frame = summary.runs.filter(
        (pl.col("experiment") == layout.experiment.name) & pl.col("control").is_null() & (pl.col("cv") > 0)
    )
    logs: dict[tuple[tuple[str, str], ...], list[float]] = defaultdict(list)
    names = [factor.name for factor in layout.experiment.factors]
    for row in frame.iter_rows(named=True):
        logs[("block", str(row["block"])), *((name, str(row[name])) for name in names)].append(math.log(row["cv"]))
    most = max((len(values) for values in logs.values()), default=0)
    return {labels: math.exp(sum(values) / most) for labels, values in logs.items() if len(values) == most}


def _matched(layout: Layout, runs: _Runs, factor: str) -> tuple[list[str], list[list[float]]]:
    """The levels of a factor, and for each matched set that has all of them their figures."""
    sets: dict[tuple[tuple[str, str], ...], dict[str, float]] = defaultdict(dict)
    for labels, figure in runs.items():
        level = dict(labels)[factor]
        sets[tuple(label for label in labels if label[0] != factor)][level] = figure
    present = {level for members in sets.values() for level in members if len(members) >= _LEAST_LEVELS}
    levels = [level for level in layout.order[factor] if level in present]
    return levels, [[members[level] for level in levels] for members in sets.values() if len(members) == len(levels)]


def _about(summary: Summary, layout: Layout) -> str:
    return "" if layout.is_median else captions.VARIATION


def _answered(summary: Summary, layout: Layout) -> Answered:
    return sentences(summary, layout), []


def _tables(summary: Summary, layout: Layout) -> tuple[Table, ...]:
    made = (rank_table(summary, layout), configuration_table(summary, layout))
    return tuple(table for table in made if table is not None)


def _tested(summary: Summary, layout: Layout) -> list[stats.PValue]:
    """Every p-value of the rankings, adjusted."""
    rankings = _rankings(summary, layout)
    values = [*(one.p for one in rankings), *(level.p for one in rankings for level in one.levels)]
    return [p for p in values if p is not None]


PAGE: Final = Page(
    sentences=_answered,
    columns=(*READINGS, "cv", "cv_interval", "cv_within", "cv_between", "cv_thread_cpu", *RUNS),
    tables=_tables,
    about=_about,
    tested=_tested,
    more_and_less={"cv": ("more scattered", "steadier")},
    papers=("lampe2013",),
    placement=Placement(captions.AMONG_COUNTERS),
)
