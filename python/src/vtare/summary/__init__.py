"""What a campaign shows: one frozen `Summary` from one store, the only thing a report needs.

`summarise(store)` reads the plan, the design, the journal and every finished run, computes the figures of
`statistics.md` with runs as the unit of inference, writes the derived `summary.parquet` beside them and returns a
`Summary`. All frames are polars frames. A figure that cannot be estimated is null, never 0. Times are in ns.

Words: a *run* is one fresh start of a cell; a *cell* is one combination of factor levels (plus, where one run measures
several things, the part measured: `source`, `method`, `target_ns`, `argument` or `cpu`); a *block* is one pass over
all cells in a fresh random order.

Columns
-------
Key columns, in every frame: `experiment`, `instrument`, and one string column per factor of the plan (`load`,
`platform`, `source`, `method`, `target_ns`, ...), null where the experiment does not have that factor. Levels are
written as a person writes them (`idle`, `1 ms`). `Summary.keys[experiment]` lists the key columns of one experiment in
the plan's order: group and label by these. `Summary.level_of[key][label]` is the level that a label stands for.

`design`: `position, block, replicate, run_id, experiment, instrument, control`, factors, `parameters` (JSON), `status`
(`done`, `failed`, `skipped`, `pending`, or `not_needed`: the campaign had stopped by its rule).

`runs`: one row per run and part: `run_id, experiment, instrument`, keys, `block, replicate, position, control` (null,
or open/centre/close), `quantity` (`cost_ns, miss_ns, runtime_ns, gap_ns, rtt_ns`), `n, median, half_iqr, mad_raw, min,
max, mean, p99, p999, exceed_per_s` (readings above `threshold_ns` per second of the series; null where not defined),
`exceed_fraction` (their share of readings),
`elapsed_s` (of the run), `interrupted`, `warmup_n` (readings cut from the start before the figures above were made;
null where no warm-up was looked for), `lag1, n_eff` (autocorrelation of a
series, and the independent readings it amounts to), `settled` (false: the run changes to its end, and nothing was cut),
`q05, q10, q25, q75, q90, q95` (quantiles), `above_1us` to `above_100ms` (shares of the readings above each threshold);
`asked` (sleeps that samples and time limit allow), `completed_fraction` (of these), `late_fraction` (time spent after
the targets over the time of all sleeps); and where the instrument has them `read_cost_ns` (timer), `cpu_fraction,
disturbed_fraction, spin_ns_mean` (sleep), `cv, cv_within, cv_between, cv_thread_cpu, step_ns` (counter; the
time of one step of the counting function), `lost_fraction, gaps_per_s` (noise); for rtt, whose readings are the packets
that came back, `sent, unsent, lost, late, lost_fraction, duplicate, reordered, achieved_packet_per_s, achieved_share,
too_late, no_room, rtt_scheduled_ns,
rtt_scheduled_p99_ns`, and where it was captured, medians of paired differences (docs/overhead.md): `overhead_ns,
overhead_share_percent, overhead_relative_percent, sender_overhead_ns, wire_ns, wire_out_ns, wire_back_ns,
clock_bound_ns, responder_side_ns,
responder_overhead_ns, turnaround_ns`, with `paired, not_captured, negative` (packets with all stamps, without,
pieces below 0).

For avb, whose readings are the answers in bit/s: `truth_bit_per_s, error_percent, error_half_iqr_percent,
absolute_error_percent` (medians over the run's estimates, each beside the truth of its own window), `estimate_byte,
estimate_ns, occupied_bit_per_s, occupied_share` (cost of an estimate), `others_cores` (CPU time of others), `estimates,
unanswered, at_least, truth_unknown, disturbed_estimates, intervals, intervals_covering, open_intervals` (counts; open
ones exclude nothing, and are in neither other), `interval_width_percent` (of the capacity, median).

In `runs` and `cells` a figure that is only a bound is null, and `bounds` holds it: a list of `figure, side` (`at
least`, `at most`) and `number`. The median over runs is exact where no bound can move it. No test takes bounds.

`estimates`: one row per estimate of avb: `run_id, experiment`, keys, `block, estimate, elapsed_ns, avb_bit_per_s,
low_bit_per_s, high_bit_per_s, occupied_bit_per_s, probe_byte, extra_byte, trains, at_least, stopped, from_ns, to_ns`
(its window; `own_window`: the method's own), `truth_bit_per_s, true_capacity_bit_per_s, error_percent, covered` (the
interval holds the truth), `no_truth, disturbed` (why).

`cells`: one row per cell (control runs are left out): keys, `quantity, n_runs, n` (samples of all runs), `median`
(median of the run medians), `median_low, median_high` (its 95 % interval over runs; null below 3 runs),
`interval_method` and `interval_level` (how, and its exact level), `half_iqr, mad_raw, p99, p999, exceed_per_s,
cpu_fraction, disturbed_fraction, cv, cv_within, cv_between, cv_thread_cpu, lost_fraction, gaps_per_s` (medians over
the runs that could be estimated), `read_cost_ns, read_cost_low_ns, read_cost_high_ns` (timer: loops of reads, free of
the clock's steps), `cv_low, cv_high` (interval of the counter's `cv` over runs), for rtt the medians over runs of the
figures above, the sums of its counts, and `overhead_low_ns, overhead_high_ns` (interval of the overhead over runs),
`min, max` (over all runs), `between_run_cv`, `asked, completed, capped_runs` (sums; runs below 90 % of what was asked
for), `completed_fraction`, `late_fraction, late_fraction_low, late_fraction_high`, `skipped_runs, failed_runs,
pending_runs`.

`comparisons`: one row per cell and factor, against the cell that differs only in that factor, which there has the
baseline level: keys, `quantity, factor, level, baseline, n_runs, n_runs_baseline`, `without, without_baseline` (runs
that lack the figure), `design` (`paired` by block, or `unpaired`), `n_blocks` (common blocks; null: unpaired), `median,
median_baseline` (of all run figures of the cells), `ratio, ratio_low, ratio_high` (ratio of geometric means of run
figures; null where one is not above 0), `difference, difference_low, difference_high` (of the same means, in the
quantity's unit), `cliffs_delta` (of run figures), `inference` (`paired t`, `welch t` or `refused`), `freedom`,
`clock_step` (that was allowed for), `interval_level, p_value, p_adjusted, p_text, family, family_size, adjustment`,
`p_equivalent` (two one-sided tests against the margin; raw), `verdict` (`differs`, `equivalent`, `undecided`),
`margin_ratio, reason`; `ratio_rank, rank_low, rank_high, rank_level` (Hodges-Lehmann, exact by ranks), `anytime_low,
anytime_high` (interval that holds at every look; null below 5 blocks), `fragile` (the answer changes without some run),
`decided_by` (the only one, in words), `modes, modes_baseline` (runs of two kinds, in words), `runs_needed` (blocks of
a new campaign that find a difference as large as the margin with 80 %), `block_memory` (of the differences of blocks,
that the interval allows for; null: none seen), `p_memory, p_trend` (null below 8 blocks). Estimate, interval, p-value
and verdict are of one formula (docs/statistics.md). `quantity` is `read_cost_ns` for the timer, `cv` for the counter
and `absolute_error_percent` (the error against the truth, without its sign) for avb where their runs have it.

`tails`: one row per comparison and tail (`p99`, `p999` of each run): keys, `tail`, the columns of `comparisons` (BH in
place of Holm), `refused`.

`layers`: what platforms cost and what loads do to tails, in one list: keys, `kind` (`cost` or `tail`), `figure` (of a
run), `factor, level, against, n_runs, n_runs_against, ratio, ratio_low, ratio_high, p_adjusted, family, verdict`
(`higher`, `lower`, `equivalent` within the margin, `inconclusive`), `reason`. Rows that stand in `comparisons` or
`tails` are taken from there as they are; what only this list compares (guests with containers, overhead, the
counter's step, latency) is a family of its own. Costs are those at the baseline of all other factors.

`tests`: one row per experiment, factor and rest of the cell: `experiment, factor, where` (the other keys with
their levels),
`test` (`friedman` or `kruskal_wallis`), `statistic, p_value, p_adjusted, p_text, family, adjustment, exact, n_runs,
levels, refused` (why the test was not made, else null).

`interactions`: one row per experiment and combination of two or more factors: `experiment, where, effect, factors,
figure` (of a run, that was tested), `scale` (`log`, or `plain` where a figure is not above 0), `f, dimensions`
(contrasts), `freedom, freedom_error, n_blocks` (complete blocks; null: none used), `p_value, p_adjusted, p_text,
family, adjustment, n_runs, refused`; no spreads are taken as equal.

`levels`: one row per factor, level and figure of a run (level null: a factor of numbers, taken as ordered; the main
figure, that of the comparisons, comes first): `experiment, factor, level, where, figure, tau_b, tau_bound` (the most
that tau-b can reach here), `cliffs_delta, p_value, p_adjusted, p_text, family, adjustment, n_runs, n_level, refused`.

`outliers`: one row per cell: keys, `quantity, n, outliers` (readings with a robust z beyond 3.5 inside the cell),
`fraction` (of its readings), `share` (of the experiment's outliers), `scale` (`log` or `each side`),
`pooled_fraction, pooled_share` (the same where all cells of a platform are scored together, each by 1000 quantiles, on
the plain scale; the share is of the platform's outliers), `outlying_runs`
(ids of runs whose median lies as far from the others), `reason` (where the score was refused). Nothing is deleted.

`controls`: one row per control run: `block, control, run_id, part` (what was measured, as text), `quantity, median,
half_iqr, centre` (median of all control medians), `limit` (3 times the typical half-IQR of a control run, not less
than 3 clock quanta), `drifted`. `flagged_blocks` lists the blocks with a drifted control.

`boxes`: one row per run and part, of all its readings, the warm-up too: `run_id, experiment`, keys, `n, min, q1,
median, q3, max, p99`.

`meshes`: what a plan with `mesh` shows of all pairs, one `MeshFound` for each figure and level of the other factors:
matrix, clusters and odd pairs (`vtare.stats.mesh`). Cells of a mesh are in no comparison.

`skipped`, `failed`: `run_id, experiment, instrument`, factors, `block, reason, exit_code, log_tail`.
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
        design=design_frame(runs, plan.factor_names).with_columns(
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
