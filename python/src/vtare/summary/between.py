"""Two stores against each other, before and after: what changed, cell by cell, by the rule of all comparisons.

A cell is compared with the cell of the same experiment and levels in the other store. All medians of one experiment are
one family (Holm), the tails of one experiment another (BH). Runs of the two stores were not mixed in blocks, so a
machine that drifted between the campaigns looks like a change: `Between.changed` lists what else differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare import stats
from vtare.errors import BadInput
from vtare.plan import Analysis
from vtare.summary.cells import Cell, compared_figure
from vtare.summary.contrasts import TAILS, contrast_of, judge, tail_rows
from vtare.summary.measured import Measured, read_measured, refuse_empty

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: Final = "vtare.compare/1"

#: Facts that readers want to know of two campaigns: words, and where the footer has them.
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


@dataclass(frozen=True, slots=True)
class Between:
    """What two stores say together. Rows are as in the frames `comparisons` and `tails` of a summary.

    In every row `ratio` is after over before, `change` says `worse`, `better` or neither (null), and `before` and
    `after` hold the two medians. `changed` lists facts that differ, `only_before` and `only_after` cells without a
    partner, `left_out_before` and `left_out_after` runs that could not be used.
    """

    before: Path
    after: Path
    analysis: Analysis
    cells: tuple[dict[str, Any], ...]
    tails: tuple[dict[str, Any], ...]
    changed: tuple[dict[str, Any], ...]
    only_before: tuple[dict[str, Any], ...]
    only_after: tuple[dict[str, Any], ...]
    left_out_before: tuple[str, ...]
    left_out_after: tuple[str, ...]

    @property
    def regressions(self) -> tuple[dict[str, Any], ...]:
        """Medians and tails that got worse."""
        return tuple(row for row in (*self.cells, *self.tails) if row["change"] == "worse")

    @property
    def damaged(self) -> bool:
        """Whether a run of either store was left out."""
        return bool(self.left_out_before or self.left_out_after)

    def document(self) -> dict[str, Any]:
        """The whole as one JSON-ready document of schema `vtare.compare/1`."""
        return {
            "schema": SCHEMA,
            "before": str(self.before),
            "after": str(self.after),
            "alpha": self.analysis.alpha,
            "margin_percent": self.analysis.margin_percent,
            "verdicts": dict(Counter(row["verdict"] for row in self.cells)),
            "worse": len(self.regressions),
            "better": sum(row["change"] == "better" for row in (*self.cells, *self.tails)),
            "changed": list(self.changed),
            "cells": list(self.cells),
            "tails": list(self.tails),
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "left_out_before": list(self.left_out_before),
            "left_out_after": list(self.left_out_after),
        }


def compare_stores(
    before: Path, after: Path, *, alpha: float | None = None, margin_percent: float | None = None
) -> Between:
    """Compare two stores; alpha and margin are those of the later store's plan where they are not given.

    Raises:
        BadInput: a path is no store or holds no finished run, both hold the same runs, or no cell is in both.
    """
    if before.resolve() == after.resolve():
        raise BadInput(f"{before} and {after} are the same store; wanted two campaigns")
    first, second = read_measured(before), read_measured(after)
    for one in (first, second):
        refuse_empty(one)
    _refuse_same_runs(first, second)
    analysis = Analysis(
        alpha=second.plan.analysis.alpha if alpha is None else alpha,
        margin_percent=second.plan.analysis.margin_percent if margin_percent is None else margin_percent,
    )
    old, new = _cells(first), _cells(second)
    shared = [key for key in new if key in old]
    if not shared:
        raise BadInput(
            f"{before} and {after} have no cell in common: wanted experiments of the same name with the same levels; "
            f"found {_named(old)} and {_named(new)}"
        )
    quantum_ns = max(first.work.quantum_ns, second.work.quantum_ns)
    contrasts, tails = [], []
    for key in shared:
        about = {"experiment": key[0], **new[key].labels}
        family = f"{key[0]}: after against before"
        found = contrast_of(new[key], old[key], about, family, analysis, quantum_ns=quantum_ns, paired=False)
        if found is not None:
            contrasts.append(found)
        tails.append((new[key], old[key], about, family))
    rows = [_told(row, old, new) for row in judge(contrasts, analysis)]
    tailed = []
    for tail in TAILS:
        made = tail_rows(
            [(*entry[:3], f"{entry[3]}, {tail}") for entry in tails],
            tail,
            analysis,
            quantum_ns=quantum_ns,
            paired=False,
        )
        tailed += [_told_tail(row, analysis) for row in made if row["ratio"] is not None or row["refused"] is None]
    return Between(
        before,
        after,
        analysis,
        tuple(rows),
        tuple(tailed),
        tuple(_changed(first, second)),
        tuple({"experiment": key[0], **old[key].labels} for key in old if key not in new),
        tuple({"experiment": key[0], **new[key].labels} for key in new if key not in old),
        tuple(problem.reason for problem in first.samples.problems),
        tuple(problem.reason for problem in second.samples.problems),
    )


_Key = tuple[str, tuple[tuple[str, str], ...]]


def _cells(measured: Measured) -> dict[_Key, Cell]:
    return {
        (name, tuple(sorted(cell.labels.items()))): cell
        for name, cells in measured.work.cells.items()
        for cell in cells
        if cell.known("median")
    }


def _named(cells: Mapping[_Key, Cell]) -> str:
    return ", ".join(dict.fromkeys(name for name, _ in cells)) or "none"


def _refuse_same_runs(first: Measured, second: Measured) -> None:
    """A copy of a store must not pass as a second campaign: its runs would count twice."""
    started = [{file.footer.get("started_unix_ns") for file in one.samples.files} for one in (first, second)]
    both = (started[0] & started[1]) - {None}
    if both:
        raise BadInput(
            f"{first.store} and {second.store} share {len(both)} runs, started at the same nanosecond: one is a copy "
            "of the other; wanted two campaigns"
        )


def _told(row: dict[str, Any], old: Mapping[_Key, Cell], new: Mapping[_Key, Cell]) -> dict[str, Any]:
    labels = {key: row[key] for key in _label_names(row, new)}
    key = (row["experiment"], tuple(sorted(labels.items())))
    figure = compared_figure((old[key], new[key]))
    before, after = (_median(cells[key], figure) for cells in (old, new))
    shift = row["difference"] if row["verdict"] == "differs" else 0.0
    return {**row, "before": before, "after": after, "change": direction(str(row["quantity"]), shift)}


def _label_names(row: Mapping[str, Any], cells: Mapping[_Key, Cell]) -> Iterator[str]:
    names = {name for (experiment, labels) in cells if experiment == row["experiment"] for name, _ in labels}
    return (name for name in names if name in row)


def _median(cell: Cell, figure: str) -> float | None:
    return stats.median(cell.known(figure)).value


def _told_tail(row: dict[str, Any], analysis: Analysis) -> dict[str, Any]:
    """A tail got worse where its adjusted p is at most alpha and the ratio leaves the margin."""
    sure = row["p_adjusted"] is not None and row["p_adjusted"] <= analysis.alpha
    ratio, margin = row["ratio"], analysis.margin_ratio
    beyond = ratio is None or not 1.0 / margin <= ratio <= margin
    shift = row["difference"] if sure and beyond else 0.0
    return {**row, "change": direction(str(row["quantity"]), shift)}


def direction(quantity: str, shift: float) -> str | None:
    """What a sure change means: more time, error or bytes is worse, more per second is better.

    Of anything else nothing is said, and nothing of an estimate of available bandwidth: it is the path's, not a merit.
    Where the truth is known, its error is what is compared.
    """
    if shift == 0.0 or quantity == "avb_bit_per_s":
        return None
    more_is_worse = (
        quantity == "cv" or quantity.endswith(("_ns", "_byte", "error_percent")) or quantity.startswith("occupied_")
    )
    if not more_is_worse and not quantity.endswith("_per_s"):
        return None
    return "worse" if (shift > 0) == more_is_worse else "better"


def _changed(first: Measured, second: Measured) -> Iterator[dict[str, Any]]:
    for words, (part, key) in _FACTS:
        before, after = (
            sorted({str(file.footer.get(part, {}).get(key)) for file in one.samples.files}) for one in (first, second)
        )
        if before != after:
            yield {"what": words, "before": ", ".join(before), "after": ", ".join(after)}
    if first.plan.text != second.plan.text:
        yield {"what": "plan", "before": first.plan.name, "after": second.plan.name}
    counts = [len(one.samples.files) for one in (first, second)]
    if counts[0] != counts[1]:
        yield {"what": "finished runs", "before": str(counts[0]), "after": str(counts[1])}
