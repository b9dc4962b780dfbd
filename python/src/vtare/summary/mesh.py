"""What a mesh shows: for each thing that was measured of every pair, its matrix, clusters and odd pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vtare import stats
from vtare.plan.mesh import PAIR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vtare.plan.model import Experiment, Plan


@dataclass(frozen=True, slots=True)
class MeshFound:
    """One figure of the pairs of one experiment, at one level of each other factor (`at`).

    `figure` is the column of the runs, `quantity` the metric that states its unit. `structure` has positions of
    `hosts`. `pairs` is how many were planned (one way: with both ways), `absent` how many of them have no figure.
    """

    experiment: str
    at: Mapping[str, str]
    figure: str
    quantity: str
    hosts: tuple[str, ...]
    one_way: bool
    blocks: int
    pairs: int
    absent: int
    structure: stats.MeshStructure


def meshes(plan: Plan, run_rows: Iterable[Mapping[str, Any]], seed: int) -> tuple[MeshFound, ...]:
    """The meshes of a plan, from the rows of its runs; none where it has none. `seed` is the campaign's."""
    if plan.mesh is None:
        return ()
    rows = [row for row in run_rows if row["control"] is None and row.get(PAIR) is not None]
    return tuple(
        mesh
        for experiment in plan.experiments
        for mesh in _of_experiment(plan, plan.mesh.hosts, experiment, rows, seed)
    )


def _of_experiment(
    plan: Plan, hosts: tuple[str, ...], experiment: Experiment, rows: list[Mapping[str, Any]], seed: int
) -> Iterator[MeshFound]:
    keys = [factor.name for factor in experiment.factors if factor.name != PAIR]
    groups: dict[tuple[str | None, ...], list[Mapping[str, Any]]] = {}
    for row in (row for row in rows if row["experiment"] == experiment.name):
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    place = {host: k for k, host in enumerate(hosts)}
    hosts_of = {level.label: level.value for level in experiment.factor(PAIR).levels}
    record = experiment.record
    order = {key: [level.label for level in experiment.factor(key).levels] for key in keys}

    def planned(levels: tuple[str | None, ...]) -> list[int]:
        return [-1 if one is None else order[key].index(one) for key, one in zip(keys, levels, strict=True)]

    for levels, group in sorted(groups.items(), key=lambda item: planned(item[0])):
        for figure, quantity in (("median", record.quantity), *((name, name) for name in record.mesh_figures)):
            values = np.full((plan.blocks, len(hosts), len(hosts)), np.nan)
            for row in group:
                sender, responder = hosts_of[row[PAIR]]
                if row[figure] is not None:
                    values[row["block"] - 1, place[sender], place[responder]] = row[figure]
            if np.isnan(values).all():
                continue
            pairs = len(experiment.factor(PAIR).levels)
            yield MeshFound(
                experiment.name,
                {key: level for key, level in zip(keys, levels, strict=True) if level is not None},
                figure,
                quantity,
                hosts,
                record.one_way,
                int((~np.isnan(values).all(axis=(1, 2))).sum()),
                pairs,
                pairs - int((~np.isnan(values).all(axis=0)).sum()),
                stats.mesh_structure(
                    values,
                    one_way=record.one_way,
                    alpha=plan.analysis.alpha,
                    margin_ratio=plan.analysis.margin_ratio,
                    family=f"{experiment.name}, pairs",
                    rng=np.random.default_rng(seed),
                ),
            )
