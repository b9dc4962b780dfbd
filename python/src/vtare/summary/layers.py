"""What a layer costs: kinds of machine against each other, and what loads do to the tails, each with a verdict.

Comparisons that were made elsewhere are taken as they are, so that no two tables disagree. Beside them stand those
that a plan with one baseline does not make: guests against containers, and figures that are not the main one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Final

from vtare.plan.factors import CAPTURE
from vtare.platforms import platform_class
from vtare.platforms.base import Layer
from vtare.summary import contrasts
from vtare.summary.cells import Cell

if TYPE_CHECKING:
    from vtare.instruments.model import LatencyPair
    from vtare.plan.model import Experiment
    from vtare.summary.contrasts import ComparisonRow
    from vtare.summary.work import CellWork


#: Factors whose levels are loads.
_LOADS: Final = ("load", "background")


def layer_of(platform: str, platforms: Mapping[str, Mapping[str, str | int]]) -> int:
    """0 for the host, 1 for containers and namespaces, 2 for machines: what has a kernel of its own."""
    kind = platform_class(platform, platforms.get(platform))
    return Layer.MACHINE if kind is None else kind.LAYER


def layer_rows(
    work: CellWork, comparisons: Sequence[ComparisonRow], tails: Sequence[ComparisonRow]
) -> list[ComparisonRow]:
    """The rows of all experiments: first what each layer costs, then what loads do to its tails."""
    rows: list[ComparisonRow] = []
    for experiment in work.plan.experiments:
        cells = work.cells[experiment.name]
        own = [row for row in comparisons if row.experiment == experiment.name]
        rows += _costs(work, experiment, cells, own)
        rows += _tails(work, experiment, cells, own, [row for row in tails if row.experiment == experiment.name])
    return rows


def _costs(
    work: CellWork, experiment: Experiment, cells: Sequence[Cell], comparisons: Sequence[ComparisonRow]
) -> list[ComparisonRow]:
    """Every platform against the baseline's, and machines against containers, where all else is at its baseline."""
    factor = next((f for f in experiment.factors if f.name == "platform" and len(f.levels) > 1), None)
    if factor is None:
        return []
    there = {row.level: row for row in comparisons if _at_home(experiment, cells, row)}
    figures = (None, *experiment.record.layer_figures)
    compared: list[contrasts.Contrast] = []
    taken: list[ComparisonRow] = []
    for figure in figures:
        at = _home(experiment, cells, figure)
        for level, against in _pairs(work, factor.baseline, list(at)):
            if figure is None and against == factor.baseline:
                if level in there:
                    taken.append(replace(there[level], kind="cost"))
                continue
            about = contrasts.place_at(experiment, at[level], factor.name, level, against)
            family = f"{experiment.name}: what the layer costs"
            contrast = contrasts.contrast_of(
                at[level], at[against], about, family, work.plan.analysis,
                quantum_ns=work.quantum_ns, figure=figure,
            )  # fmt: skip
            if contrast is not None:
                compared.append(contrast)
    made = [replace(row, kind="cost") for row in contrasts.judge(compared, work.plan.analysis)]
    order = list(dict.fromkeys(row.figure for row in (*taken, *made)))
    return sorted((*taken, *made), key=lambda row: order.index(row.figure))


def _pairs(work: CellWork, baseline: str, levels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Which platforms are set beside which: all beside the baseline, then machines beside containers."""
    if baseline not in levels:
        return
    layers = {level: layer_of(level, work.plan.platforms) for level in levels}
    yield from ((level, baseline) for level in levels if level != baseline)
    machines = [level for level in levels if layers[level] == Layer.MACHINE]
    containers = [level for level in levels if layers[level] == 1]
    yield from ((one, other) for one, other in product(machines, containers) if baseline not in (one, other))


def _home(experiment: Experiment, cells: Sequence[Cell], figure: str | None) -> dict[str, Cell]:
    """The cell of each platform where all other factors are at their baseline, and parts of a run at their first.

    For a figure that needs captures, `capture` may be at another level.
    """
    baselines = {factor.name: factor.baseline for factor in experiment.factors if factor.name != "platform"}
    parts = [name for name in dict.fromkeys(name for cell in cells for name in cell.labels)
             if name not in {factor.name for factor in experiment.factors}]  # fmt: skip
    by_platform: dict[str, Cell] = {}
    # Numbers without leading zeros: the shorter is the smaller.
    for cell in sorted(
        cells, key=lambda cell: [(len(cell.labels.get(part, "")), cell.labels.get(part)) for part in parts]
    ):
        if figure is not None and not cell.known(figure):
            continue
        away = {name for name, level in baselines.items() if cell.labels.get(name, level) != level}
        if away <= ({CAPTURE} if figure is not None else set()):
            by_platform.setdefault(cell.labels["platform"], cell)
    order = [level.label for factor in experiment.factors if factor.name == "platform" for level in factor.levels]
    return {level: by_platform[level] for level in order if level in by_platform}


def _at_home(experiment: Experiment, cells: Sequence[Cell], row: ComparisonRow) -> bool:
    """Whether a comparison is that of a platform where all else is at its baseline."""
    if row.factor != "platform":
        return False
    cell = _home(experiment, cells, None).get(row.level)
    return cell is not None and row.labels == cell.labels


def _tails(
    work: CellWork,
    experiment: Experiment,
    cells: Sequence[Cell],
    comparisons: Sequence[ComparisonRow],
    tails: Sequence[ComparisonRow],
) -> Iterator[ComparisonRow]:
    """What each load does to tails: the tests of `tails`, the figures that a record names, its latencies."""
    record = experiment.record
    for row in comparisons:
        if row.factor in _LOADS and row.quantity in record.tail_figures:
            yield replace(row, kind="tail")
    tested = [row for row in tails if row.factor in _LOADS]
    known = [row for row in tested if row.ratio is not None or row.difference is not None]
    # Where no run was long enough for any tail, one row a pair states it.
    yield from map(from_tail, known or [row for row in tested if row.tail == "p99"])
    if record.latency_pair is not None:
        yield from map(from_tail, _latencies(work, experiment, cells, record.latency_pair))
    # What cells are compared by stands above.
    for figure in (name for name in record.tail_figures if name != record.compared):
        yield from map(from_tail, _by_load(work, experiment, cells, figure))


def _by_load(work: CellWork, experiment: Experiment, cells: Sequence[Cell], figure: str) -> list[ComparisonRow]:
    """A figure of runs against the loads, by the rule of tails."""
    baselines = {factor.name: factor.baseline for factor in experiment.factors if factor.name in _LOADS}
    compared = [
        (cell, other, about, f"{experiment.name}: {about.factor}, {figure}")
        for cell, other, about in contrasts.pairs(cells, baselines, experiment)
    ]
    return contrasts.tail_rows(compared, figure, work.plan.analysis, quantum_ns=work.quantum_ns)


def from_tail(row: ComparisonRow) -> ComparisonRow:
    """A row of `tails` whose reason states how many runs have the figure, where some lack it."""
    if row.refused is not None or not row.without + row.without_baseline:
        return replace(row, kind="tail")
    known, known_there = row.n_runs, row.n_runs_baseline
    reason = (
        f"{row.reason}; {known} of {known + row.without} runs have this figure, at the baseline "
        f"{known_there} of {known_there + row.without_baseline}"
    )
    return replace(row, kind="tail", reason=reason)


def _latencies(work: CellWork, experiment: Experiment, cells: Sequence[Cell], pair: LatencyPair) -> list[ComparisonRow]:
    """The latency at the greatest share of what was found, against that at the least."""
    shares = experiment.parameters.get(pair.parameter) or ()
    if len(shares) < 2:
        return []
    level, baseline = (f"{100 * share:g} %" for share in (max(shares), min(shares)))
    family = f"{experiment.name}: load, {pair.name}"
    compared = []
    for cell in cells:
        about = contrasts.place_at(experiment, cell, pair.factor, level, baseline)
        most, least = cell.by_block(pair.most), cell.by_block(pair.least)
        if most and least:
            # Both shares were offered in the same runs: each run is its own pair.
            compared.append(
                contrasts.contrast_of_runs(
                    most, least, about, family, work.plan.analysis, quantity=pair.quantity,
                    without=len(cell.figures) - len(most), without_baseline=len(cell.figures) - len(least),
                )
            )  # fmt: skip
    return contrasts.rows_of_tails(compared, pair.name, work.plan.analysis)
