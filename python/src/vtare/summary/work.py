"""Goes through a campaign's runs once, cell by cell, and builds the frames of the summary."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.errors import BadInput
from vtare.instruments import instrument, metric
from vtare.plan.factors import PATH_FACTORS
from vtare.samples import Problem, RunFile, SampleSet
from vtare.summary import cells as cell_work
from vtare.summary import contrasts, factors
from vtare.summary.figures import FIGURE_COLUMNS, Box, run_parts
from vtare.summary.rows import frame_of

if TYPE_CHECKING:
    from vtare.design import Run
    from vtare.plan.level import Level
    from vtare.plan.model import Experiment, Plan

RUN_COLUMNS: Final[dict[str, Any]] = {
    "block": pl.Int64,
    "replicate": pl.Int64,
    "position": pl.Int64,
    "control": pl.String,
    **FIGURE_COLUMNS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartBox(Box):
    """The box of one part of a run."""

    run_id: str
    experiment: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CellTask:
    """The runs of one combination of levels: what is read as one piece of work, on whatever machine."""

    samples: SampleSet
    experiment: str
    seed: int
    resample: bool


@dataclass(frozen=True, slots=True)
class CellFound:
    """What reading those runs gave: rows of the runs, what box plots show of them, the cells, and runs left out."""

    run_rows: list[dict[str, Any]]
    boxes: list[PartBox]
    cells: list[cell_work.Cell]
    problems: list[Problem]


def read_cell(task: CellTask) -> CellFound:
    """Read the runs of one combination of levels, one run in memory at a time."""
    cell_figures = CellFound([], [], [], [])
    opened: dict[tuple[str, ...], cell_work.Cell] = {}
    for file in task.samples.files:
        run = file.run
        exceed_ns = None if run.control is not None else task.samples.plan.experiment(task.experiment).exceed_ns
        try:
            parts = list(run_parts(task.samples, file, exceed_ns=exceed_ns))
        except (OSError, KeyError, BadInput, pl.exceptions.PolarsError) as error:
            cell_figures.problems.append(
                Problem(run.run_id, file.path, f"{file.path}: damaged behind its footer ({error})")
            )
            continue
        for part in parts:
            labels = {**run.factors, **part.labels}
            about = {name: getattr(run, name) for name in ("run_id", "experiment", "instrument")}
            place = {name: getattr(run, name) for name in ("block", "replicate", "position", "control")}
            cell_figures.run_rows.append({**about, **labels, **place, **part.figures})
            if run.control is not None:
                continue
            if part.box is not None:
                box = {of.name: getattr(part.box, of.name) for of in fields(part.box)}
                cell_figures.boxes.append(PartBox(run_id=run.run_id, experiment=run.experiment, labels=labels, **box))
            key = tuple(part.labels.values())
            if key not in opened:
                rng = cell_work.rng_for(task.seed, task.experiment, repr(sorted(labels.items())))
                opened[key] = cell_work.Cell(labels, rng if task.resample else None, levels=part.levels)
            opened[key].add(part, run.block, run.run_id)
        del parts
    # A control run opens no cell, and its experiment stands in no plan.
    is_time = metric(instrument(task.samples.files[0].run.instrument).quantity).symbol == "ns"
    quanta = [file.footer.get("clock", {}).get("quantum_ns") or 0.0 for file in task.samples.files]
    for cell in opened.values():
        cell.close(quantum_ns=max(quanta, default=0.0) if is_time else 0.0)
        cell_figures.cells.append(cell)
    return cell_figures


class CellWork:
    """Goes through the runs once, cell by cell, and keeps figures instead of readings."""

    def __init__(self, plan: Plan, seed: int, *, resample: bool = False) -> None:
        """Prepare for one plan; `seed` is the campaign's, for the resamples of readings where they are asked for."""
        self.resample = resample
        self.plan = plan
        self.seed = seed
        self.run_rows: list[dict[str, Any]] = []
        self.boxes: list[PartBox] = []
        self.cells: dict[str, list[cell_work.Cell]] = {e.name: [] for e in plan.experiments}
        self.quantum_ns = 0.0
        parts = (part for e in plan.experiments for part in e.record.parts)
        control = () if plan.control is None else instrument(plan.control.instrument).parts
        self.key_names = tuple(dict.fromkeys((*plan.factor_names, *parts, *control)))

    def schema(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The key columns first, then the given ones."""
        ids = {"run_id": pl.String} if "replicate" in columns else {}
        return {
            **ids,
            "experiment": pl.String,
            "instrument": pl.String,
            **self.key_types(),
            **columns,
        }

    def key_types(self) -> dict[str, pl.Enum]:
        """The type of each key column: levels of factors in the order of the plan, those of parts by their numbers."""
        known, factors_of = self.levels(), set(self.plan.factor_names)
        types = {}
        for key in self.key_names:
            levels = known.get(key, {})
            seen = (str(row[key]) for row in self.run_rows if row.get(key) is not None)
            labels = [*dict.fromkeys((*levels, *seen))]
            if key not in factors_of:
                number = {label: levels[label].number if label in levels else None for label in labels}
                labels.sort(key=lambda label: math.inf if (of := number[label]) is None else of)
            types[key] = pl.Enum(labels)
        return types

    def read(self, samples: SampleSet) -> SampleSet:
        """Read every run, cell by cell; return the set without those that turned out to be damaged."""
        by_cell: dict[tuple[str, tuple[tuple[str, str], ...]], list[RunFile]] = defaultdict(list)
        for file in samples.files:
            by_cell[(file.run.experiment, tuple(file.run.factors.items()))].append(file)
            self.quantum_ns = max(self.quantum_ns, file.footer.get("clock", {}).get("quantum_ns") or 0.0)
        tasks = [
            CellTask(SampleSet(self.plan, tuple(files), ()), experiment, self.seed, self.resample)
            for (experiment, _), files in by_cell.items()
        ]
        problems: list[Problem] = []
        for task, cell_figures in zip(tasks, map(read_cell, tasks), strict=True):
            problems += cell_figures.problems
            self.boxes += cell_figures.boxes
            self.run_rows += [{**self._blank(RUN_COLUMNS), **row} for row in cell_figures.run_rows]
            if cell_figures.cells:
                self.cells[task.experiment] += cell_figures.cells
        for named in self.plan.experiments:
            self.cells[named.name].sort(key=lambda cell, e=named: _plan_order(e, cell.labels))  # type: ignore[misc]
        self.run_rows.sort(key=lambda row: row["position"])
        return samples.without(problems)

    def _blank(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        ids = ("run_id",) if "replicate" in columns else ()
        return dict.fromkeys((*ids, "experiment", "instrument", *self.key_names, *columns))

    @property
    def unsettled(self) -> int:
        """How many runs did not settle in one of their parts."""
        return len({row["run_id"] for row in self.run_rows if row["settled"] is False})

    def controls(self) -> list[cell_work.ControlRow]:
        """The control runs, judged."""
        rows = [
            cell_work.ControlRow(
                **{name: row[name] for name in ("block", "control", "run_id", "quantity", "median", "half_iqr")},
                part=", ".join(row[key] for key in instrument(row["instrument"]).parts if row[key] is not None),
            )
            for row in self.run_rows
            if row["control"] is not None
        ]
        return cell_work.control_drift(rows, quantum_ns=self.quantum_ns)

    def levels(self) -> dict[str, dict[str, Level]]:
        """Key -> label -> the level: of factors as the plan states it, of parts as runs measured it."""
        by_key: dict[str, dict[str, Level]] = defaultdict(dict)
        for experiment in self.plan.experiments:
            for factor in experiment.factors:
                by_key[factor.name] |= {level.label: level for level in factor.levels}
            for cell in self.cells[experiment.name]:
                for key, level in cell.levels.items():
                    by_key[key].setdefault(cell.labels[key], level)
        return dict(by_key)

    def cells_frame(self, runs: Sequence[Run], status: Mapping[str, str]) -> pl.DataFrame:
        """One row per cell in the plan's order, with the count of runs that are missing from it."""
        rows = []
        for experiment in self.plan.experiments:
            missing: dict[tuple[tuple[str, str], ...], Counter[str]] = defaultdict(Counter)
            for run in runs:
                if run.experiment == experiment.name and run.control is None:
                    missing[tuple(run.factors.items())][status[run.run_id]] += 1
            for combination, counts in missing.items():
                blank = {
                    **self._blank(cell_work.CELL_COLUMNS),
                    "experiment": experiment.name,
                    "instrument": experiment.instrument,
                }
                counted = {f"{word}_runs": counts[word] for word in ("skipped", "failed", "pending")}
                measured = [c for c in self.cells[experiment.name] if dict(combination).items() <= c.labels.items()]
                measured_rows = [cell.row() for cell in measured] or [
                    {**dict(combination), "quantity": experiment.record.quantity, "n_runs": 0, "n": 0}
                ]
                rows += [{**blank, **row, **counted} for row in measured_rows]
            rows_of = [row for row in rows if row["experiment"] == experiment.name]
            rows = [row for row in rows if row["experiment"] != experiment.name]
            rows += sorted(rows_of, key=lambda row, e=experiment: _plan_order(e, row))  # type: ignore[misc]
        return pl.DataFrame(rows, schema=self.schema(cell_work.CELL_COLUMNS), orient="row")

    def comparisons(self) -> list[contrasts.ComparisonRow]:
        """Each cell against the one with the baseline level, factor by factor."""
        rows: list[contrasts.ComparisonRow] = []
        for experiment in self.plan.experiments:
            made = contrasts.compare(
                self.cells[experiment.name],
                self.baselines(experiment),
                self.plan.analysis,
                experiment,
                quantum_ns=self.quantum_ns,
            )
            rows += sorted(made, key=lambda row, e=experiment: _plan_order(e, row.labels))  # type: ignore[misc]
        return rows

    def tails(self) -> list[contrasts.ComparisonRow]:
        """The tails of each cell against those of the one with the baseline level."""
        return [
            row
            for experiment in self.plan.experiments
            for row in contrasts.compare_tails(
                self.cells[experiment.name],
                self.baselines(experiment),
                self.plan.analysis,
                experiment,
                quantum_ns=self.quantum_ns,
            )
        ]

    def frame(self, kind: type, rows: Sequence[Any]) -> pl.DataFrame:
        """The frame of rows with labels: a column for each key of the campaign."""
        return frame_of(kind, rows, self.key_names)

    def baselines(self, experiment: Experiment) -> dict[str, str]:
        """The level of each factor (and compared part) of an experiment that the others are compared with."""
        # Pairs of hosts are set against each other, all of them, and not cells against a baseline.
        if experiment.meshed:
            return {}
        # Another path has another truth: its estimates are bound to differ.
        baselines = {factor.name: factor.baseline for factor in experiment.factors if factor.name not in PATH_FACTORS}
        for part in cell_work.COMPARED_PARTS:
            labels = [cell.labels[part] for cell in self.cells[experiment.name] if part in cell.labels]
            if labels and part not in baselines:
                baselines[part] = labels[0]
        return baselines

    def tests_frame(self) -> pl.DataFrame:
        """The rank tests of every factor."""
        rows: list[factors.RankTestRow] = []
        for experiment in self.plan.experiments:
            rows += factors.rank_tests(
                self.cells[experiment.name],
                tuple(self.baselines(experiment)),
                self.plan.analysis,
                experiment,
            )
        return frame_of(factors.RankTestRow, rows)

    def interactions_frame(self) -> pl.DataFrame:
        """The interactions of every experiment's factors."""
        rows: list[factors.InteractionRow] = []
        for experiment in self.plan.experiments:
            rows += factors.interactions(
                self.cells[experiment.name],
                tuple(self.baselines(experiment)),
                self.plan.analysis,
                experiment,
                self.plan.whole_plots,
            )
        return frame_of(factors.InteractionRow, rows)

    def levels_frame(self) -> pl.DataFrame:
        """How the runs' figures go with each level of each factor."""
        rows: list[factors.LevelRow] = []
        for experiment in self.plan.experiments:
            rows += factors.level_associations(
                self.cells[experiment.name],
                tuple(self.baselines(experiment)),
                experiment,
                self.plan.analysis,
                self.plan.whole_plots,
            )
        return frame_of(factors.LevelRow, rows)

    def outliers(self) -> list[cell_work.OutlierRow]:
        """Where the outliers of each experiment are, and which runs lie apart from the others of their cell."""
        return [
            row
            for experiment in self.plan.experiments
            if not experiment.meshed
            for row in cell_work.outlier_rows(self.cells[experiment.name], experiment.name, experiment.instrument)
        ]


def _plan_order(experiment: Experiment, row: Mapping[str, Any]) -> tuple[int, ...]:
    """Sort key: the levels' order in the plan, then as measured (sorting is stable)."""
    order = []
    for factor in experiment.factors:
        labels = [level.label for level in factor.levels]
        # A nested factor is not in every cell.
        label = row.get(factor.name)
        order.append(-1 if label is None else labels.index(label))
    return tuple(order)
