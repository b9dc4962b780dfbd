"""Campaigns before a change against campaigns after it: what changed, cell by cell, with the campaign as the unit.

A cell is compared with the cell of the same experiment and levels of the other side, by the mean of the logarithms of
its runs' figures in each campaign (plain figures where one is not above 0). A verdict takes at least two campaigns on
each side: the runs of one campaign share its offset (boot, hour, neighbours), so that one campaign a side cannot
distinguish a change from two offsets. Of one campaign a side, ratio and interval describe the runs, and
every verdict is `refused`.

All medians are one family over all experiments (Holm), all tails another (BH). `Between.changed` lists what else
differs between the sides.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from vtare import stats
from vtare.errors import BadInput
from vtare.plan.model import Analysis
from vtare.records.answer import Answered, answered
from vtare.sentences import comparison as wording
from vtare.sentences.comparison import ASK_FOR_LESS, RAISE_LIMIT
from vtare.sentences.words import plural
from vtare.stats import Merit, Verdict
from vtare.summary.campaigns import LEAST_CAMPAIGNS, LEAST_PAIRS, Shift, campaigns_needed, interleaved, shift_between
from vtare.summary.cells import Cell, compared_figure
from vtare.summary.contrasts import TAILS, CellComparison, step_of
from vtare.summary.measured import MeasuredStore, read_measured, refuse_empty
from vtare.summary.rows import values_of

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.plan.level import Level
    from vtare.records import comparisons

REFUSED: Final = (
    "refused: one campaign per side is not enough for a verdict. Run each again: vtare compare BEFORE AFTER --before "
    "STORE --after STORE"
)
MEDIANS_FAMILY: Final = "medians, after against before"
TAILS_FAMILY: Final = "tails, after against before"
#: How surely the campaigns that are asked for would find a change as large as the margin.
_CHANCE: Final = 0.8

#: Facts that readers want to know of two sides: words, and where the footer has them.
_FACTS: Final = (
    ("program version", ("program", "version")),
    ("hostname", ("machine", "hostname")),
    ("kernel", ("machine", "kernel")),
    ("CPU", ("machine", "cpu_model")),
    ("hypervisor", ("machine", "hypervisor")),
    ("clock source", ("machine", "clock_source")),
    ("governor", ("machine", "governor")),
    ("CPUs allowed", ("machine", "cpus_allowed")),
    ("timer slack", ("machine", "timer_slack_ns")),
    ("boot", ("machine", "boot_id")),
    ("clock of vtare", ("clock", "source")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenRow(CellComparison):
    """One figure of one cell on both sides: geometric means over campaigns, and after over before.

    `ratio_low` and `ratio_high` are over campaigns, `within_low` and `within_high` over the runs of one campaign a side
    (without the campaigns' offsets). `method_of_comparison` is `welch`, `paired` or `refused`. `campaigns_needed` new
    ones a side find a change as large as the margin with 80 %, allowing for the family and for what is unknown of the
    spread. Where a figure is not above 0, `ratio` and its ends are None and `difference` and its ends hold the same.
    """

    n_campaigns: int
    n_campaigns_before: int
    n_runs_before: int
    after: float | None = None
    before: float | None = None
    within_low: float | None = None
    within_high: float | None = None
    method_of_comparison: str
    campaigns_needed: int | None = None


@dataclass(frozen=True, slots=True)
class LoneCell:
    """A cell that one side alone has."""

    experiment: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Changed:
    """A fact that differs between the sides."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Between:
    """What two sides show together: `before` and `after` are the stores of each.

    `paired`: whether the campaigns alternate and were compared in pairs. `changed` lists facts that differ,
    `only_before` and `only_after` cells without a partner, `left_out_before` and `left_out_after` runs that could not
    be used. `level_of` has the level that each label stands for, by its key.
    """

    before: tuple[Path, ...]
    after: tuple[Path, ...]
    analysis: Analysis
    paired: bool
    alternated: bool
    cells: tuple[BetweenRow, ...]
    tails: tuple[BetweenRow, ...]
    changed: tuple[Changed, ...]
    only_before: tuple[LoneCell, ...]
    only_after: tuple[LoneCell, ...]
    left_out_before: tuple[str, ...]
    left_out_after: tuple[str, ...]
    level_of: Mapping[str, Mapping[str, Level]]

    @property
    def refused(self) -> str | None:
        """Why there is no verdict, None where there are some."""
        return REFUSED if min(len(self.before), len(self.after)) < LEAST_CAMPAIGNS else None

    @property
    def regressions(self) -> tuple[BetweenRow, ...]:
        """Medians and tails that got worse."""
        return tuple(row for row in (*self.cells, *self.tails) if row.change is Merit.WORSE)

    @property
    def damaged(self) -> bool:
        """Whether a run of either side was left out."""
        return bool(self.left_out_before or self.left_out_after)

    def answer(self) -> Answered:
        """The answer: how many cells and tails got worse or better, and the next step."""
        if self.refused is not None:
            return answered([wording.NO_VERDICT], Verdict.REFUSED, advice=[(wording.RUN_BOTH_AGAIN, None)])
        counts = Counter(row.change or str(row.verdict) for row in (*self.cells, *self.tails))
        words = (*Merit, *Verdict)
        status = next((word for word in words if counts[word]), Verdict.INCONCLUSIVE)
        needs = to_decide(self.cells, self.analysis)
        listed = [f"{counts[word]} {word}" for word in words if counts[word]]
        limits = [*self.left_out_before, *self.left_out_after]
        said = wording.cells_and_tails(listed)
        return answered([said], str(status), limits=limits, advice=[(needs, None)] if needs else [])

    def document(self) -> comparisons.Compare:
        """The whole as one JSON-ready document of schema `vtare.compare/2`."""
        return {
            "schema": "vtare.compare/2",
            "answer": self.answer(),
            "before": [str(store) for store in self.before],
            "after": [str(store) for store in self.after],
            "alpha": self.analysis.alpha,
            "margin_percent": self.analysis.margin_percent,
            "refused": self.refused,
            "paired": self.paired,
            "alternated": self.alternated,
            "verdicts": dict(Counter(row.verdict for row in self.cells)),
            "worse": len(self.regressions),
            "better": sum(row.change is Merit.BETTER for row in (*self.cells, *self.tails)),
            "changed": [cast("comparisons.ChangedFact", asdict(row)) for row in self.changed],
            "cells": [_document(row) for row in self.cells],
            "tails": [cast("comparisons.ComparedTail", _document(row)) for row in self.tails],
            "only_before": [cast("comparisons.LoneCellDocument", values_of(row)) for row in self.only_before],
            "only_after": [cast("comparisons.LoneCellDocument", values_of(row)) for row in self.only_after],
            "left_out_before": list(self.left_out_before),
            "left_out_after": list(self.left_out_after),
        }


def _document(row: BetweenRow) -> comparisons.ComparedCell:
    values = values_of(row) | {"change": row.change}
    if row.tail is None:
        del values["tail"]
    return cast("comparisons.ComparedCell", values)


def refuse_undecidable(before: Sequence[Path], after: Sequence[Path]) -> None:
    """Refuse to fail on a regression where none could be shown.

    Raises:
        BadInput: one side has fewer than two campaigns.
    """
    if min(len(before), len(after)) < LEAST_CAMPAIGNS:
        raise BadInput(
            f"--fail-on-regression: {plural(len(before), 'campaign')} before and {len(after)} after are too few, use "
            f"{LEAST_CAMPAIGNS} or more on each side: {REFUSED.removeprefix('refused: ')}"
        )


def compare_stores(
    before: Sequence[Path], after: Sequence[Path], *, alpha: float | None = None, margin_percent: float | None = None
) -> Between:
    """Compare the campaigns of two sides; alpha and margin are those of the last store's plan where not given.

    Raises:
        BadInput: a path is no store or holds no finished run, two hold the same runs, or no cell is on both sides.
    """
    _refuse_same_paths([*before, *after])
    olds, news = ([read_measured(store) for store in side] for side in (before, after))
    for one in (*olds, *news):
        refuse_empty(one)
    _refuse_same_runs([*olds, *news])
    planned = news[-1].plan.analysis
    analysis = Analysis(
        alpha=planned.alpha if alpha is None else alpha,
        margin_percent=planned.margin_percent if margin_percent is None else margin_percent,
    )
    alternated = interleaved(_starts(olds), _starts(news))
    paired = alternated and len(olds) >= LEAST_PAIRS
    old, new = _Side.of(olds), _Side.of(news)
    shared = [key for key in new.cells if key in old.cells]
    if not shared:
        raise BadInput(
            f"{_listed(before)} and {_listed(after)} have no cell in common: compare experiments of the same name "
            f"with the same levels, not {_named(old.cells)} and {_named(new.cells)}"
        )
    medians, tails = [], []
    for key in shared:
        every = [*old.cells[key].values(), *new.cells[key].values()]
        made = _compared(key, compared_figure(every), old, new, analysis, paired=paired)
        if made is not None:
            medians.append(made)
        for tail in TAILS:
            made = _compared(key, tail, old, new, analysis, paired=paired)
            if made is not None:
                tails.append(replace(made, row=replace(made.row, tail=tail)))
    return Between(
        tuple(before),
        tuple(after),
        analysis,
        paired,
        alternated,
        tuple(judge(_with_needs(medians, analysis), MEDIANS_FAMILY, "holm", analysis)),
        tuple(judge(_with_needs(tails, analysis), TAILS_FAMILY, "bh", analysis)),
        tuple(_changed(olds, news)),
        tuple(_place(key, old) for key in old.cells if key not in new.cells),
        tuple(_place(key, new) for key in new.cells if key not in old.cells),
        tuple(problem.reason for one in olds for problem in one.samples.problems),
        tuple(problem.reason for one in news for problem in one.samples.problems),
        _levels([*olds, *news]),
    )


def _levels(campaigns: Sequence[MeasuredStore]) -> dict[str, dict[str, Level]]:
    """Key -> label -> the level, of all campaigns."""
    by_key: dict[str, dict[str, Level]] = {}
    for one in campaigns:
        for key, levels in one.work.levels().items():
            by_key[key] = {**levels, **by_key.get(key, {})}
    return by_key


_Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Side:
    """One side: of each cell its runs in every campaign, by the campaign's place in the order of their starts."""

    cells: dict[_Key, dict[int, Cell]] = field(default_factory=dict)
    quantum_ns: float = 0.0

    @classmethod
    def of(cls, campaigns: Sequence[MeasuredStore]) -> _Side:
        side = cls()
        starts = _starts(campaigns)
        order = sorted(range(len(campaigns)), key=lambda at: starts[at])
        for place, at in enumerate(order):
            work = campaigns[at].work
            side.quantum_ns = max(side.quantum_ns, work.quantum_ns)
            for name, cells in work.cells.items():
                for cell in cells:
                    if cell.values("median"):
                        side.cells.setdefault((name, tuple(sorted(cell.labels.items()))), {})[place] = cell
        return side


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row before adjustment, with the shift that it is of; None where there is no test.

    `freedom` is that of a pooled spread over campaigns (of pairs, where paired).
    """

    row: BetweenRow
    shift: Shift | None = None
    freedom: float = 0.0


def _with_needs(made: Sequence[RawRow], analysis: Analysis) -> list[RawRow]:
    """The rows of a family with the campaigns that each needs: a verdict is adjusted over all of them."""
    size = sum(one.row.p_value is not None for one in made)
    margin = math.log(analysis.margin_ratio)
    rows = []
    for one in made:
        needed, coarse = None, None
        if one.shift is not None and one.shift.spread is not None and one.row.ratio is not None:
            slack = one.shift.slack
            coarse = stats.coarse_step(slack, margin_ratio=analysis.margin_ratio)
            needed = campaigns_needed(
                one.shift.spread, margin - max(slack.down, slack.up), alpha=analysis.alpha, chance=_CHANCE,
                comparisons=size, paired=one.row.method_of_comparison == "paired", freedom=one.freedom,
            )  # fmt: skip
        rows.append(replace(one, row=replace(one.row, campaigns_needed=needed, reason=one.row.reason or coarse)))
    return rows


def _compared(key: _Key, figure: str, old: _Side, new: _Side, analysis: Analysis, *, paired: bool) -> RawRow | None:
    """One figure of one cell on both sides, before adjustment; None where a side has it in no run."""
    cell = next(iter(new.cells[key].values()))
    quantity = figure if figure not in ("median", *TAILS) else str(cell.figures[0]["quantity"])
    if (why := _why_not(key, figure, old, new)) is not None:
        without = replace(_without(key, cell.labels, quantity, old, new, analysis), reason=why)
        return RawRow(_of_bounds(without, key, figure, old, new, analysis))
    here, there = ({at: known for at, cell in side.cells[key].items() if (known := cell.compared(figure))}
                   for side in (new, old))  # fmt: skip
    if not here or not there:
        return None
    if paired:
        # A pair that lost one of its two shows no difference.
        both = here.keys() & there.keys()
        if len(both) >= LEAST_PAIRS:
            here, there = ({at: side[at] for at in sorted(both)} for side in (here, there))
        else:
            paired = False
    runs = [[value for values in side.values() for value in values] for side in (here, there)]
    on_log = all(value > 0 for side in runs for value in side)
    scaled = [[[math.log(v) if on_log else v for v in values] for values in side.values()] for side in (here, there)]
    means = [[sum(values) / len(values) for values in side] for side in scaled]
    centres = [sum(side) / len(side) for side in means]
    step = step_of([*old.cells[key].values(), *new.cells[key].values()], figure, max(old.quantum_ns, new.quantum_ns))
    slack = stats.step_slack(*runs, step=step, on_log=on_log)
    shift = shift_between(*means, alpha=analysis.alpha, paired=paired, slack=slack)
    within = None
    if len(here) == len(there) == 1:
        within = shift_between(scaled[0][0], scaled[1][0], alpha=analysis.alpha, slack=slack)
    back = math.exp if on_log else float
    row = BetweenRow(
        experiment=key[0],
        labels=cell.labels,
        quantity=quantity,
        n_campaigns=len(here),
        n_campaigns_before=len(there),
        n_runs=len(runs[0]),
        n_runs_before=len(runs[1]),
        after=back(centres[0]),
        before=back(centres[1]),
        ratio=math.exp(shift.estimate) if on_log else None,
        ratio_low=_end(shift, "low", on_log) if on_log else None,
        ratio_high=_end(shift, "high", on_log) if on_log else None,
        difference=None if on_log else shift.estimate,
        difference_low=None if on_log else shift.low,
        difference_high=None if on_log else shift.high,
        within_low=_end(within, "low", on_log),
        within_high=_end(within, "high", on_log),
        method_of_comparison=shift.method,
        p_value=shift.p,
        margin_ratio=analysis.margin_ratio,
    )
    freedom = len(here) - 1 if paired else len(here) + len(there) - 2
    return RawRow(row, shift, float(freedom))


def _of_bounds(row: BetweenRow, key: _Key, figure: str, old: _Side, new: _Side, analysis: Analysis) -> BetweenRow:
    """The row of a cell with bounds, with the test of what is known at least (at most) where that can decide it."""
    here, there = (
        {
            (at, block): value
            for at, cell in side.cells[key].items()
            for block, value in cell.known_by_block(figure).items()
        }
        for side in (new, old)
    )
    side = stats.decided_side(here, there)
    if side is None or any(value.number <= 0 for one in (here, there) for value in one.values()):
        return row
    means = []
    for one in (here, there):
        campaigns: dict[int, list[float]] = {}
        for (at, _), value in one.items():
            campaigns.setdefault(at, []).append(math.log(value.number))
        means.append([sum(values) / len(values) for values in campaigns.values()])
    shift = shift_between(*means, alpha=analysis.alpha)
    if shift.p is None:
        return row
    is_shown = (shift.estimate > 0) == (side == "at least")
    return replace(
        row, p_value=shift.p if is_shown else 1.0, ratio_bound=math.exp(shift.estimate), ratio_side=side,
        method_of_comparison=shift.method,
    )  # fmt: skip


def _why_not(key: _Key, figure: str, old: _Side, new: _Side) -> str | None:
    """Why a figure is not compared: a side knows it only as a bound, or did not reach its level; else None."""
    for name, side in (("before", old), ("after", new)):
        for cell in side.cells[key].values():
            if (why := cell.unusable(figure)) is not None:
                return f"refused: {name}, {why}: {RAISE_LIMIT if cell.bounds(figure) else ASK_FOR_LESS}"
    return None


def _without(
    key: _Key, labels: Mapping[str, str], quantity: str, old: _Side, new: _Side, analysis: Analysis
) -> BetweenRow:
    """The row of a cell that cannot be compared."""
    here, there = (side.cells[key] for side in (new, old))
    return BetweenRow(
        experiment=key[0], labels=labels, quantity=quantity, n_campaigns=len(here), n_campaigns_before=len(there),
        n_runs=sum(len(cell.figures) for cell in here.values()),
        n_runs_before=sum(len(cell.figures) for cell in there.values()),
        method_of_comparison=Verdict.REFUSED, margin_ratio=analysis.margin_ratio,
    )  # fmt: skip


def _end(found: Shift | None, name: str, on_log: bool) -> float | None:
    value: float | None = None if found is None else getattr(found, name)
    return math.exp(value) if on_log and value is not None else value


def judge(made: Sequence[RawRow], family: str, adjustment: stats.Adjustment, analysis: Analysis) -> list[BetweenRow]:
    """Adjust the p-values of one family and give each row its verdict, whatever the experiment."""
    tested = [(at, one.row.p_value) for at, one in enumerate(made) if one.row.p_value is not None]
    values = stats.adjust([p for _, p in tested], family=family, adjustment=adjustment)
    adjusted = {at: value for (at, _), value in zip(tested, values, strict=True)}
    left = {at: alpha for (at, _), alpha in zip(tested, stats.alphas_left(values, analysis.alpha), strict=True)}
    judged = []
    for at, (row, shift) in enumerate((one.row, one.shift) for one in made):
        p = adjusted.get(at)
        verdict, reason = _verdict(row, None if p is None else p.adjusted, analysis)
        ends: dict[str, Any] = {}
        if p is not None and shift is not None:
            alpha = analysis.alpha if verdict is Verdict.EQUIVALENT else left[at]
            ends = _judged(shift, alpha, is_ratio=row.ratio is not None)
        judged.append(replace(
            row,
            p_adjusted=None if p is None else p.adjusted,
            p_text=None if p is None else str(p),
            family=family,
            family_size=len(tested),
            adjustment=adjustment,
            verdict=verdict,
            reason=reason,
            **ends,
        ))  # fmt: skip
    return judged


def _judged(shift: Shift, alpha: float, *, is_ratio: bool) -> dict[str, float | None]:
    """The fields of the interval that a verdict rests on."""
    low, high = shift.ends(alpha) or (None, None)
    if not is_ratio:
        return {"judged_difference_low": low, "judged_difference_high": high, "judged_level": 1 - alpha}
    low, high = (None if end is None else math.exp(end) for end in (low, high))
    return {"judged_low": low, "judged_high": high, "judged_level": 1 - alpha}


def _verdict(row: BetweenRow, p: float | None, analysis: Analysis) -> tuple[Verdict, str | None]:
    """The verdict of one row and why; direction, estimate, interval and p are one formula's."""
    if p is None:
        return Verdict.REFUSED, row.reason or REFUSED
    if row.ratio_side is not None:
        why = str(row.reason).removeprefix("refused: ")
        if p > analysis.alpha:
            return Verdict.INCONCLUSIVE, f"{why}; the bounds do not decide the order"
        return (Verdict.HIGHER if row.ratio_side == "at least" else Verdict.LOWER), why
    margin = analysis.margin_ratio
    low, high, centre = (
        (row.ratio_low, row.ratio_high, 1.0)
        if row.ratio is not None
        else (row.difference_low, row.difference_high, 0.0)
    )
    if low is None or high is None:
        raise AssertionError("a comparison that was tested has both ends of its interval")
    if row.ratio is not None and 1 / margin <= low and high <= margin:
        return Verdict.EQUIVALENT, None
    if p <= analysis.alpha and (low > centre or high < centre):
        return (Verdict.HIGHER if low > centre else Verdict.LOWER), None
    if row.reason is not None or row.campaigns_needed is None:
        return Verdict.INCONCLUSIVE, row.reason
    return Verdict.INCONCLUSIVE, _new_campaigns(str(row.campaigns_needed), analysis)


def _starts(campaigns: Sequence[MeasuredStore]) -> list[int]:
    """When each campaign's first run started, in ns of the wall clock."""
    return [min(int(file.footer.get("started_unix_ns") or 0) for file in one.samples.files) for one in campaigns]


def _new_campaigns(count: str, analysis: Analysis) -> str:
    """How many campaigns it takes: new ones, for looking again at more of the same errs more often."""
    return wording.new_campaigns(count, _CHANCE, analysis.margin_percent)


def to_decide(rows: Sequence[BetweenRow], analysis: Analysis) -> str | None:
    """How many campaigns would decide the inconclusive rows, in a sentence; None where that is not known.

    The numbers are those of the cell that needs fewest and of the one that needs most.
    """
    needs = sorted(
        row.campaigns_needed for row in rows if row.verdict is Verdict.INCONCLUSIVE and row.campaigns_needed is not None
    )
    if not needs:
        return None
    count = f"{needs[0]}" if needs[0] == needs[-1] else f"{needs[0]} to {needs[-1]}"
    return wording.to_decide(len(needs), _new_campaigns(count, analysis))


def _listed(stores: Sequence[Path]) -> str:
    return ", ".join(str(store) for store in stores)


def _place(key: _Key, side: _Side) -> LoneCell:
    return LoneCell(key[0], next(iter(side.cells[key].values())).labels)


def _named(cells: Mapping[_Key, Any]) -> str:
    return ", ".join(dict.fromkeys(name for name, _ in cells)) or "none"


def _refuse_same_paths(stores: Sequence[Path]) -> None:
    seen: dict[Path, Path] = {}
    for store in stores:
        path = store.resolve()
        if path in seen:
            raise BadInput(f"{seen[path]} and {store} are the same store: name each campaign once")
        seen[path] = store


def _refuse_same_runs(campaigns: Sequence[MeasuredStore]) -> None:
    """A copy of a store must not pass as another campaign: its runs would count twice."""
    owners: dict[int, MeasuredStore] = {}
    for one in campaigns:
        started = {int(at) for file in one.samples.files if (at := file.footer.get("started_unix_ns")) is not None}
        others = Counter(str(owners[start].store) for start in started if start in owners)
        for other, shared in others.items():
            raise BadInput(
                f"{other} and {one.store} share {shared} runs, started at the same nanosecond: one is a copy of the "
                "other: leave one out"
            )
        owners.update(dict.fromkeys(started, one))


def _changed(olds: Sequence[MeasuredStore], news: Sequence[MeasuredStore]) -> Iterator[Changed]:
    for words, (part, key) in _FACTS:
        before, after = (
            sorted({str(file.footer.get(part, {}).get(key)) for one in side for file in one.samples.files})
            for side in (olds, news)
        )
        # Campaigns of one side may have had boots of their own: that is what repeating them is for.
        if before != after and not (words == "boot" and (len(olds) > 1 or len(news) > 1)):
            yield Changed(words, ", ".join(before), ", ".join(after))
    plans = [{one.plan.text: one.plan.name for one in side} for side in (olds, news)]
    if plans[0].keys() != plans[1].keys():
        before, after = (sorted(set(side.values())) for side in plans)
        yield Changed("plan", ", ".join(before), ", ".join(after))
    counts = [sum(len(one.samples.files) for one in side) for side in (olds, news)]
    if counts[0] != counts[1]:
        yield Changed("finished runs", str(counts[0]), str(counts[1]))
