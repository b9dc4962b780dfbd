"""Which combinations of levels an experiment has: nested factors, excluded combinations, one factor at a time.

A cell is the level of each factor that applies. A nested factor applies only with certain levels of others; elsewhere a
cell does not have it at all.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from vtare.plan.mesh import PAIR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vtare.plan.model import Experiment


def cells_of(experiment: Experiment) -> Iterator[dict[str, str]]:
    """Every cell, in the plan's order: factor -> label."""
    factors = experiment.factors
    for labels in itertools.product(*([level.label for level in factor.levels] for factor in factors)):
        whole = dict(zip((factor.name for factor in factors), labels, strict=True))
        cell = _applying(experiment, whole)
        # A factor that does not apply is left out once, and not once a level.
        first = all(f.name in cell or whole[f.name] == f.levels[0].label for f in factors)
        if first and is_cell(experiment, cell):
            yield cell


def is_cell(experiment: Experiment, labels: Mapping[str, str]) -> bool:
    """Whether these levels, known ones, are a cell: the factors that apply, none excluded, and few enough changed."""
    whole = {factor.name: labels.get(factor.name, factor.levels[0].label) for factor in experiment.factors}
    if _applying(experiment, whole).keys() != labels.keys():
        return False
    if any(_matches(excluded, labels) for excluded in experiment.excluded):
        return False
    return experiment.cells == "all" or len(_changed(experiment, labels)) <= 1


def counterpart(experiment: Experiment, labels: Mapping[str, str], factor: str, level: str) -> dict[str, str] | None:
    """The labels of a cell with another level of one factor, all else alike; None where more would differ.

    Nested factors that no longer apply are left out where they are at their baseline, and those that apply then have
    it: a host without a card is set beside a guest with the usual one. Labels that are no factors stay.
    """
    changed = {**labels, factor: level}
    # As often as factors may be nested in each other.
    for name in [*experiment.nested] * len(experiment.nested):
        baseline = experiment.factor(name).baseline
        applies = _matches(experiment.nested[name], changed)
        if applies and name not in changed:
            changed[name] = baseline
        elif not applies and changed.pop(name, baseline) != baseline:
            return None
    return changed


def nested_under(experiment: Experiment, factor: str) -> dict[str, str]:
    """The factors nested in another one, directly or by way of others, each with its baseline."""
    nested: dict[str, str] = {}
    parents = {factor}
    while new := [name for name, of in experiment.nested.items() if parents & of.keys() and name not in nested]:
        nested |= {name: experiment.factor(name).baseline for name in new}
        parents |= set(new)
    return nested


def _applying(experiment: Experiment, whole: Mapping[str, str]) -> dict[str, str]:
    """The levels of those factors that apply; one that is nested in a factor that does not apply does not either."""
    cell = dict(whole)
    while gone := [name for name, of in experiment.nested.items() if name in cell and not _matches(of, cell)]:
        for name in gone:
            del cell[name]
    return cell


def _changed(experiment: Experiment, cell: Mapping[str, str]) -> set[str]:
    """The factors that are away from their baseline, but for those that a nested factor needs at their level.

    The pair of a mesh has no baseline.
    """
    factors = (f for f in experiment.factors if f.name != PAIR)
    changed = {f.name for f in factors if cell.get(f.name, f.baseline) != f.baseline}
    return changed - {parent for name in changed for parent in experiment.nested.get(name, ())}


def _matches(wanted: Mapping[str, tuple[str, ...]], labels: Mapping[str, str]) -> bool:
    return all(labels.get(name) in levels for name, levels in wanted.items())
