"""What a campaign shows: one frozen `Summary` from one store, the only thing a report needs.

`summarise(store)` reads the plan, the design, the journal and every finished run, computes the figures of
`statistics.md` with runs as the unit of inference, writes the derived `summary.parquet` beside them and returns a
`Summary`. All frames are polars frames. A figure that cannot be estimated is null, never 0. Times are in ns.

Words: a *run* is one fresh start of a cell; a *cell* is one combination of factor levels (plus, where one run measures
several things, the part measured: `source`, `method`, `target_ns`, `argument` or `cpu`); a *block* is one pass over
all cells in a fresh random order.

Key columns, in every frame: `experiment`, `instrument`, and one string column per factor of the plan, null where the
experiment does not have that factor. Levels are written as a person writes them (`idle`, `1 ms`).
`Summary.keys[experiment]` lists the key columns of one experiment in the plan's order: group and label by these.
`Summary.level_of[key][label]` is the level that a label stands for.

The other columns are stated where they are made: figures of runs and cells by the records of the instruments
(docs/reference/metrics.md lists them), rows of comparisons, tests, levels, outliers and controls by the frozen record
of each (`ComparisonRow`, `RankTestRow`, ...), whose fields are the columns. In `runs` and `cells` a figure that is only
a bound is null, and `bounds` holds it: a list of `figure, side` (`at least`, `at most`) and `number`. The median over
runs is exact where no bound can move it. No test takes bounds.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import polars as pl

from vtare.design import design_frame
from vtare.process import write_whole
from vtare.stored.outputs import Derived, derived_place
from vtare.summary import bandwidth, round_trips
from vtare.summary.cells import ControlRow, OutlierRow
from vtare.summary.context import loads, machines, missing_frame, notes_for, notes_on, statuses
from vtare.summary.layers import layer_rows
from vtare.summary.measured import read_measured
from vtare.summary.mesh import meshes
from vtare.summary.model import Summary
from vtare.summary.rows import frame_of
from vtare.summary.work import RUN_COLUMNS, PartBox

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Summary", "summarise"]


def summarise(store: Path) -> Summary:
    """Read a store, compute every figure, write `store/summary.parquet` and return the figures.

    Where the store cannot be written, the file goes to a cache (`Summary.derived`) or is not kept.
    One run is in memory at a time.

    Raises:
        vtare.errors.BadInput: the path is no store, or its runs must not be pooled (other kernel, CPU or program
            version than the rest).
    """
    measured = read_measured(store)
    plan, runs, seed, entries = measured.plan, measured.runs, measured.seed, measured.entries
    samples, work = measured.samples, measured.work
    status = statuses(runs, entries, samples.problems, measured.stopped)
    runs_frame = pl.DataFrame(work.run_rows, schema=work.schema(RUN_COLUMNS), orient="row")
    derived = _write_derived(store, runs_frame)
    controls = frame_of(ControlRow, work.controls())
    flagged = tuple(sorted(set(controls.filter(pl.col("drifted"))["block"].to_list())))
    estimates = bandwidth.estimates_frame(samples, work.key_names)
    comparisons, tails = work.comparisons(), work.tails()
    pending = sum(1 for word in status.values() if word == "pending")
    made = loads(samples.files, plan)
    return Summary(
        store=store,
        plan=plan,
        plan_text=plan.text,
        seed=seed,
        keys={e.name: samples.keys(e.name) for e in plan.experiments},
        level_of=work.levels(),
        design=design_frame(runs, plan.labels).with_columns(
            pl.Series("status", [status[run.run_id] for run in runs], dtype=pl.String)
        ),
        runs=runs_frame,
        cells=work.cells_frame(runs, status),
        comparisons=tuple(comparisons),
        tests=work.tests_frame(),
        tails=tuple(tails),
        layers=tuple(layer_rows(work, comparisons, tails)),
        interactions=work.interactions_frame(),
        levels=work.levels_frame(),
        outliers=work.frame(OutlierRow, work.outliers()),
        controls=controls,
        flagged_blocks=flagged,
        skipped=missing_frame(runs, entries, status, "skipped", samples.problems, plan),
        failed=missing_frame(runs, entries, status, "failed", samples.problems, plan),
        pending_runs=pending,
        machines=machines(samples.files),
        loads=made,
        notes=(
            *notes_for(samples, flagged, pending, status, work.unsettled),
            *notes_on(made),
            *round_trips.notes(runs_frame),
            *bandwidth.notes(estimates),
        ),
        sample_set=samples,
        estimates=estimates,
        boxes=work.frame(PartBox, work.boxes),
        stopped=measured.stopped,
        derived=derived,
        meshes=meshes(plan, work.run_rows, seed),
    )


def _write_derived(store: Path, frame: pl.DataFrame) -> Derived | None:
    """Write `summary.parquet` whole or not at all; return the place, None where neither store nor cache can be written.

    Where the store cannot be written (a read-only medium, somebody else's directory, a full disk) it goes to a cache.
    """
    made = io.BytesIO()
    frame.write_parquet(made, compression="lz4")
    reason = None
    for _ in ("store", "cache"):
        try:
            place = derived_place(store, reason)
            place.directory.mkdir(parents=True, exist_ok=True)
            write_whole(place.directory / "summary.parquet", made.getvalue())
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            return place
    return None
