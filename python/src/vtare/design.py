"""The design of a campaign: one row per run, in randomised complete blocks, written as `design.parquet`.

Each block holds every cell once, in a fresh random order drawn from the logged seed; where the plan repeats one
experiment (`[repeat]`), further blocks hold its cells alone. Runs with the same levels of the
plan's whole-plot factors stand together: these groups are in random order, and the runs inside each; those of a mesh
are in rounds (`vtare.plan.mesh`). Where the plan asks for it, an idle control run opens, centres and closes each block.
A run's id is a hash of what it is (experiment, instrument, factor levels, parameters, replicate), so the same run has
the same id in every order and on every machine.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare import parquet_check
from vtare.contract import load_contract
from vtare.errors import BadInput
from vtare.instruments import instrument
from vtare.instruments.model import PlannedRun
from vtare.plan.cells import cells_of, is_cell
from vtare.plan.factors import OWN_FACTORS, TIMERS_FACTOR
from vtare.plan.mesh import PAIR, lay_out, refuse_unknown, round_numbers
from vtare.stored.paths import parse_json, require_run_id
from vtare.topology.path import TIMERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import polars as pl

    from vtare.plan.model import Control, Experiment, Plan

#: Threads of `vtare load cpu` where the plan names none (docs/internals/contract.md).
DEFAULT_LOAD_THREADS: Final = 100
DESIGN_SCHEMA: Final = "vtare.design/1"
CONTROL_EXPERIMENT: Final = "control"
_COUNTS: Final = ("position", "block", "replicate")
_WORDS: Final = ("run_id", "experiment", "instrument", "control")
_MOST_ROWS: Final = 10_000_000
#: Texts of a design once they are unfolded: those of a row, and some that are long.
_RUN_TEXT_BYTE: Final = 4096
_MOST_TEXT_BYTE: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """One row of the design. `factors` maps factor to level label, `parameters` are as the binary takes them."""

    position: int
    block: int
    replicate: int
    run_id: str
    experiment: str
    instrument: str
    control: str | None
    factors: dict[str, str]
    parameters: dict[str, Any]


def draw_seed() -> int:
    """Draw a seed for a plan that states none. It is logged with the design."""
    return secrets.randbelow(2**31)


def make_design(plan: Plan, seed: int) -> tuple[Run, ...]:
    """Lay out every run of a campaign in the order it will execute. The same plan and seed give the same design."""
    import numpy as np

    return _lay_out(plan, np.random.default_rng(seed).permutation)


def runs_of(plan: Plan) -> tuple[Run, ...]:
    """Return the runs of `make_design`, those of a block in the plan's order: only their order is drawn."""
    return _lay_out(plan, range)


def _lay_out(plan: Plan, order_of: Callable[[int], Iterable[int]]) -> tuple[Run, ...]:
    cells = [(e, levels) for e in plan.experiments for levels in cells_of(e)]
    refuse_unknown(plan.mesh, plan.source)
    runs: list[Run] = []
    for block in range(1, max(plan.blocks_of(e.name) for e in plan.experiments) + 1):
        in_block = [(e, levels) for e, levels in cells if block <= plan.blocks_of(e.name)]
        centre = None
        if plan.mesh is not None:
            rounds = lay_out(plan.mesh, ((e.name, levels) for e, levels in in_block), order_of)
            order = [in_block[i] for positions in rounds for i in positions]
            centre = sum(map(len, rounds[: len(rounds) // 2]))
        elif plan.whole_plots:
            plots = _whole_plots(plan, in_block)
            order = [plots[i][k] for i in order_of(len(plots)) for k in order_of(len(plots[i]))]
        else:
            order = [in_block[i] for i in order_of(len(in_block))]
        rows: list[tuple[Experiment | None, dict[str, str], str | None]] = [(e, levels, None) for e, levels in order]
        if plan.control is not None and block <= plan.blocks:
            rows.insert(len(rows) // 2 if centre is None else centre, (None, {}, "centre"))
            rows.insert(0, (None, {}, "open"))
            rows.append((None, {}, "close"))
        for experiment, levels, control in rows:
            runs.append(_row(plan.control, experiment, levels, control, block, len(runs)))
    return tuple(runs)


def groups_of(plan: Plan, runs: Sequence[Run]) -> list[int]:
    """The group of each run of a design, of runs that are made together: rounds of a mesh, whole plots, else blocks."""
    if plan.mesh is not None:
        return round_numbers(plan.mesh, ((run.block, run.experiment, run.factors) for run in runs))
    keys = [(run.block, *(run.factors.get(name) for name in plan.whole_plots)) for run in runs]
    return list(itertools.accumulate((int(a != b) for a, b in itertools.pairwise(keys)), initial=0))[: len(keys)]


def _whole_plots(
    plan: Plan, cells: list[tuple[Experiment, dict[str, str]]]
) -> list[list[tuple[Experiment, dict[str, str]]]]:
    """The cells of each combination of the plan's whole-plot factors, whatever their experiment."""
    plots: dict[tuple[str | None, ...], list[tuple[Experiment, dict[str, str]]]] = {}
    for experiment, levels in cells:
        plots.setdefault(tuple(levels.get(name) for name in plan.whole_plots), []).append((experiment, levels))
    return list(plots.values())


def _row(
    control_cell: Control | None,
    experiment: Experiment | None,
    levels: dict[str, str],
    control: str | None,
    block: int,
    position: int,
) -> Run:
    if experiment is None:
        if control_cell is None:
            raise AssertionError("a control row is only made where the plan has a control")
        name, instrument, parameters = CONTROL_EXPERIMENT, control_cell.instrument, dict(control_cell.parameters)
    else:
        name, instrument, parameters = experiment.name, experiment.instrument, dict(experiment.parameters)
        for factor in (factor for factor in experiment.factors if factor.name in levels):
            if factor.name == TIMERS_FACTOR:
                parameters |= TIMERS[levels[factor.name]]
            elif factor.name not in (PAIR, *OWN_FACTORS):
                parameters[factor.name] = factor.level(levels[factor.name]).value
        program = experiment.program(parameters)
        parameters |= {} if program is None else program.parameters
    what = {
        "experiment": name,
        "instrument": instrument,
        "factors": levels,
        "parameters": parameters,
        "replicate": block,
        "control": control,
    }
    digest = hashlib.sha256(json.dumps(what, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return Run(position, block, block, digest[:16], name, instrument, control, levels, parameters)


def run_seed(seed: int, run_id: str) -> int:
    """Return the seed of one run, a 32-bit hash of the campaign's seed and the run's id."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{run_id}".encode()).digest()[:4], "big")


def design_frame(runs: tuple[Run, ...], labels: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Return the design as a frame (docs/internals/contract.md): a column per factor, whose levels sort as in the plan.

    `labels` are those of the levels of each factor, in the order of the plan.
    """
    import polars as pl

    columns: dict[str, list[Any]] = {name: [getattr(run, name) for run in runs] for name in (*_COUNTS, *_WORDS)}
    for factor in labels:
        columns[factor] = [run.factors.get(factor) for run in runs]
    columns["parameters"] = [json.dumps(run.parameters, sort_keys=True) for run in runs]
    schema: dict[str, Any] = {**dict.fromkeys(columns, pl.String()), **dict.fromkeys(_COUNTS, pl.Int64())}
    schema |= {factor: pl.Enum(levels) for factor, levels in labels.items()}
    return pl.DataFrame(columns, schema=schema)


def plan_hash(text: str) -> str:
    """The SHA-256 of a plan's text, which ties a design to the plan that it was made of."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_design(
    path: Path,
    runs: tuple[Run, ...],
    labels: Mapping[str, Sequence[str]],
    *,
    seed: int,
    program: str,
    plan_text: str | None = None,
) -> None:
    """Write `design.parquet`. Its metadata entry `vtare` holds the seed, which nothing else in the file holds.

    `plan_text` is the text of the plan that it was made of, to which the file is then bound by its hash.
    """
    about = {"schema": DESIGN_SCHEMA, "seed": seed, "program": program, "factors": list(labels)}
    if plan_text is not None:
        about["plan_sha256"] = plan_hash(plan_text)
    # What a disk or a limit refuses is an OSError of the system then, and not one of the library.
    made = io.BytesIO()
    design_frame(runs, labels).write_parquet(made, compression="lz4", metadata={"vtare": json.dumps(about)})
    path.write_bytes(made.getvalue())


@dataclass(frozen=True, slots=True)
class Head:
    """What the metadata of a design holds: how many runs, the seed, the version that wrote it, the hash of its plan."""

    rows: int
    seed: int
    program: str
    plan_sha256: str


def read_head(path: Path) -> Head | None:
    """Return the metadata of a design, none of its rows; None where one entry is missing or the file is damaged."""
    try:
        # Texts are not read here, and a library for Parquet is not loaded for them.
        shape = parquet_check.check(path, most_rows=_MOST_ROWS, texts=False)
        about = parse_json(shape.metadata["vtare"].decode())
        seed, program, plan_sha256 = about["seed"], about["program"], about["plan_sha256"]
    except (parquet_check.BadParquet, OSError, KeyError, TypeError, ValueError):
        return None
    known = about.get("schema") == DESIGN_SCHEMA and isinstance(seed, int)
    return Head(shape.rows, seed, str(program), str(plan_sha256)) if known else None


@dataclass(frozen=True, slots=True)
class Design:
    """A design as it was written. `plan_sha256` is None where the version that wrote it did not keep it."""

    runs: tuple[Run, ...]
    seed: int
    plan_sha256: str | None


def read_design(path: Path) -> Design:
    """Return a written design.

    Raises:
        BadInput: the file is missing, is no design, or was cut short.
    """
    import polars as pl

    try:
        about = parse_json(pl.read_parquet_metadata(path)["vtare"])
        # Levels in the order of the plan; a design of an earlier version has them as texts.
        frame = pl.read_parquet(path).with_columns(pl.col(pl.Enum).cast(pl.String))
    except FileNotFoundError as error:
        raise BadInput(f"{path}: no such file; is this a store? make one with `vtare run PLAN`") from error
    except (OSError, KeyError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise BadInput(f"{path}: not a design of vtare ({error}); start again with `vtare run PLAN`") from error
    schema = about.get("schema") if isinstance(about, dict) else None
    if schema != DESIGN_SCHEMA:
        raise BadInput(f"{path}: schema is {schema!r}, this program reads '{DESIGN_SCHEMA}'")
    factors, seed, plan_sha256 = about.get("factors"), about.get("seed"), about.get("plan_sha256")
    if not isinstance(factors, list) or not isinstance(seed, int):
        raise BadInput(f"{path}: not a design of vtare (no list of factors, or no seed)")
    byte = sum(frame[name].str.len_bytes().sum() for name, kind in frame.schema.items() if kind == pl.String)
    if byte > _MOST_TEXT_BYTE + frame.height * _RUN_TEXT_BYTE:
        raise BadInput(f"{path}: not a design of vtare ({byte} B of texts in {frame.height} rows)")
    words = (*_WORDS, *map(str, factors), "parameters")
    expected = {**dict.fromkeys(_COUNTS, pl.Int64), **dict.fromkeys(words, pl.String)}
    odd = [name for name, kind in expected.items() if frame.schema.get(name) not in (kind, pl.Null)]
    empty = [
        name for name in ("parameters", *_COUNTS, *_WORDS) if name != "control" and not odd and frame[name].has_nulls()
    ]
    if odd or empty:
        raise BadInput(f"{path}: not a design of vtare (its columns {', '.join(odd or empty)} are missing or damaged)")
    runs = tuple(_read_run(row, factors, path) for row in frame.sort("position").iter_rows(named=True))
    if len({run.run_id for run in runs}) < len(runs):
        raise BadInput(f"{path}: not a design of vtare (a run id is there twice)")
    return Design(runs, seed, plan_sha256)


def _read_run(row: dict[str, Any], factors: list[str], path: Path) -> Run:
    require_run_id(row["run_id"], path)
    try:
        parameters = parse_json(row["parameters"])
    except ValueError as error:
        raise BadInput(f"{path}: the parameters of run {row['run_id']} are not JSON ({error})") from error
    if not isinstance(parameters, dict):
        raise BadInput(f"{path}: the parameters of run {row['run_id']} are no table")
    return Run(
        **{name: row[name] for name in (*_COUNTS, *_WORDS)},
        factors={factor: row[factor] for factor in factors if row[factor] is not None},
        parameters=parameters,
    )


def check_plan(design: Design, text: str, path: Path) -> None:
    """Refuse another plan than the one that a design was made of, by its hash. `path` is the plan's.

    Raises:
        BadInput: the plan was changed since.
    """
    if design.plan_sha256 not in (None, plan_hash(text)):
        raise BadInput(
            f"{path}: was changed after the campaign began, so that it does not state what was measured; put the first "
            "text back, or run the changed plan into a store of its own with `vtare run`"
        )


def check_levels(design: Design, plan: Plan, path: Path) -> None:
    """Refuse a design that is not one of this plan: every experiment, factor and level must be the plan's.

    Raises:
        BadInput: with what differs. `path` is that of the design, beside which the plan lies.
    """
    source = path.with_name("plan.toml")
    for run in design.runs:
        reason = _foreign(run, plan)
        if reason is not None:
            raise BadInput(
                f"{path}: a run has {reason}, which {source.name} does not have: the two do not belong together; put "
                "back the plan that the design was made of"
            )


def _foreign(run: Run, plan: Plan) -> str | None:
    """What a run has that the plan does not, in words; None where the plan has all of it."""
    if run.control is not None:
        known = plan.control is not None and plan.control.instrument == run.instrument
        return None if known else f"the control cell '{run.instrument}'"
    experiments = {experiment.name: experiment for experiment in plan.experiments}
    experiment = experiments.get(run.experiment)
    if experiment is None or experiment.instrument != run.instrument:
        return f"the experiment '{run.experiment}' of the instrument '{run.instrument}'"
    levels = {factor.name: [level.label for level in factor.levels] for factor in experiment.factors}
    for factor, label in run.factors.items():
        if label not in levels.get(factor, ()):
            return f"the level '{label}' of {factor}"
    if not is_cell(experiment, run.factors):
        cell = ", ".join(f"{factor} {label}" for factor, label in run.factors.items())
        return f"the combination {cell or 'of no factor'} in the experiment '{run.experiment}'"
    return None


def check_rows(design: Design, plan: Plan, path: Path) -> None:
    """Refuse a design with a run whose parameters or id are not what the plan makes of its levels.

    What is carried out is then what the plan states, whoever made the store. Levels must have been checked.

    Raises:
        BadInput: with the first such run.
    """
    for run in design.runs:
        experiment = None if run.control is not None else plan.experiment(run.experiment)
        expected = _row(plan.control, experiment, run.factors, run.control, run.replicate, run.position)
        stated = json.loads(json.dumps(expected.parameters))
        if (expected.run_id, stated) != (run.run_id, run.parameters) or run.block != run.replicate:
            raise BadInput(
                f"{path}: run {run.run_id} is not what plan.toml states; it was changed, or made by another version of "
                "vtare: go on with that version, or measure into a new store"
            )


def expected_run_s(run: Run, plan: Plan) -> float:
    """Estimate how long one run takes, in s: starting, settling, and the instrument's own limits.

    An estimate for progress and time-outs only; the true times of finished runs correct it as a campaign goes on.
    """
    crowd = _threads_per_cpu(run, plan)
    # 40 ms of CPU time to start and calibrate, of which a crowded CPU gives each program its share.
    measuring_s = instrument(run.instrument).expected_s(
        PlannedRun(run.parameters, run.factors, load_contract().instruments[run.instrument], crowd > 1.0)
    )
    return plan.settle_s + 0.1 + 0.04 * (1.0 + crowd) + measuring_s


def _threads_per_cpu(run: Run, plan: Plan) -> float:
    if run.control is not None or "load" not in run.factors:
        return 0.0
    load = plan.experiment(run.experiment).factor("load").level(run.factors["load"]).value
    if load.kind != "cpu":
        return 0.0
    return float(load.threads or DEFAULT_LOAD_THREADS) / (os.cpu_count() or 1)
