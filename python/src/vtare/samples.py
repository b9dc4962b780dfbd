"""Samples of a campaign: Parquet files and their footers, joined with the design, checked before anything is pooled.

A file that cannot be used is named and left out, never silently. Runs whose kernel, CPU or program version differ are
not pooled, unless they ran on different platforms and `platform` is a factor. A run whose kernel kept time by another
clock source than most of its kind is left out: a guest's kernel chooses at each boot, and may give up the counter when
its machine stalls. Levels of `guest_clock` are there to change it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.contract import check_samples_file, load_contract
from vtare.errors import BadInput
from vtare.instruments import instrument as record_of
from vtare.plan.mesh import PAIR, hosts_of_pair
from vtare.stored.paths import odd_entry, parse_json, plain_values, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vtare.design import Run
    from vtare.instruments.model import Value
    from vtare.plan.model import Experiment, Plan

#: What the far end is called that the lab sets up: its address is the lab's business and differs between platforms.
OWN_FAR_END: Final = "responder"
#: The part of a run that is its far end.
FAR_END_PART: Final = "peer"
#: In a mesh, the host that measures: its runs are not pooled with those of others.
_SENDER: Final = "sender"
#: Facts that must agree before runs are pooled: words for the message, where the footer has them, and the factors
#: between whose levels they may differ.
_MUST_AGREE: Final = (
    # A network card's model may ask for another kernel: not every one has its driver.
    ("kernel", ("machine", "kernel"), ("platform", "nic", _SENDER)),
    ("CPU", ("machine", "cpu_model"), ("platform", _SENDER)),
    ("program version", ("program", "version"), ("platform", _SENDER)),
)
#: The factors between whose levels clock sources may differ: a kernel with one CPU keeps a TSC that one with two drops.
_SETS_CLOCK: Final = ("platform", "guest_clock", "vcpus", _SENDER)
#: The level of runs whose experiment has no such factor.
_ELSE: Final = {"platform": "host"}


def expressions(value: Value) -> tuple[pl.Expr, pl.Expr]:
    """Return what gives a row's value, in the unit of the instrument's quantity, and how many readings had it."""
    column = pl.col(value.column)
    if value.gaps_within:
        column = column.diff().over(*value.gaps_within)
    weight = pl.lit(1, pl.Int64) if value.weight is None else pl.col(value.weight)
    return column.cast(pl.Float64) / value.divisor, weight


@dataclass(frozen=True, slots=True)
class Problem:
    """A run that was left out: its file and why."""

    run_id: str
    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class RunFile:
    """One usable run: its row of the design, its samples file, its footer and the load really made (None if unread)."""

    run: Run
    path: Path
    footer: Mapping[str, Any]
    load: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class SampleSet:
    """The samples of a store. `problems` lists what was left out."""

    plan: Plan
    files: tuple[RunFile, ...]
    problems: tuple[Problem, ...]

    def without(self, problems: Iterable[Problem]) -> SampleSet:
        """Return the set without further runs that turned out to be unusable."""
        further = tuple(problems)
        bad = {problem.run_id for problem in further}
        kept = tuple(file for file in self.files if file.run.run_id not in bad)
        return SampleSet(self.plan, kept, self.problems + further)

    def keys(self, experiment: str) -> tuple[str, ...]:
        """The key columns of one experiment: its factors in the plan's order, then the parts one run measures."""
        table = self.plan.experiment(experiment)
        factors = [factor.name for factor in table.factors]
        return (*factors, *(part for part in record_of(table.instrument).parts if part not in factors))

    def scan(self, experiment: str, *, run_id: str | None = None) -> pl.LazyFrame:
        """Return the samples of one experiment lazily: Parquet columns, `run_id`, `block`, keys, `value`, `weight`.

        Of all its runs, or of the one named. `value` is in the unit of the instrument's quantity. Key columns hold
        levels as a person writes them (`1 ms`). Nothing is read before `collect`, so a store larger than memory can be
        filtered and aggregated.

        Raises:
            BadInput: no finished run of this experiment can be read.
        """
        files = [file for file in self.files if file.run.experiment == experiment and run_id in (None, file.run.run_id)]
        if not files:
            raise BadInput(f"experiment '{experiment}' has no finished run to read")
        instrument = files[0].run.instrument
        factors = [factor.name for factor in self.plan.experiment(experiment).factors]
        table = pl.LazyFrame(
            {
                "_path": [str(file.path) for file in files],
                "run_id": [file.run.run_id for file in files],
                "block": [file.run.block for file in files],
                **{f"_{name}": [file.run.factors[name] for file in files] for name in factors},
            }
        )
        value, weight = expressions(record_of(instrument).value)
        scanned = pl.scan_parquet([file.path for file in files], include_file_paths="_path")
        is_own = self.plan.experiment(experiment).two_hosts
        parts = [
            pl.lit(OWN_FAR_END).alias(part) if part == FAR_END_PART and is_own else label_expression(part, instrument)
            for part in record_of(instrument).parts
            if part not in factors
        ]
        return (
            scanned.with_columns(value.alias("value"), weight.alias("weight"), *parts)
            .join(table, on="_path")
            .with_columns(pl.col(f"_{name}").alias(name) for name in factors)
            .drop("_path", *(f"_{name}" for name in factors))
        )

    def read(self, file: RunFile) -> pl.DataFrame:
        """Return one run's samples: the Parquet columns but `index`, `value`, `weight`; rows as in the file.

        Raises:
            OSError, polars.exceptions.PolarsError: the file is damaged behind its footer.
        """
        value, weight = expressions(record_of(file.run.instrument).value)
        # Rows have their order; their numbers would be a tenth of the memory that a long run takes.
        scanned = pl.scan_parquet(file.path).drop("index", strict=False)
        return scanned.with_columns(value.alias("value"), weight.alias("weight")).collect()

    def read_part(self, file: RunFile, labels: Mapping[str, str | None]) -> pl.DataFrame:
        """Return the readings of one part of one run: `index` (null where not kept), `value` and `weight`.

        `labels` names the part, in the words of the plan; keys that are factors or not parts are ignored. Readings
        come in the order they were taken; those without a value are left out. Only what is returned is in memory.

        Raises:
            OSError, polars.exceptions.PolarsError: the file is damaged behind its footer.
        """
        instrument = file.run.instrument
        value, weight = expressions(record_of(instrument).value)
        # The value first: a gap to the packet before is not that to the packet before of the same part.
        scanned = pl.scan_parquet(file.path).with_columns(value.alias("value"), weight.alias("weight"))
        experiment = self.plan.experiment(file.run.experiment)
        for name in record_of(instrument).parts:
            if name in file.run.factors or name not in labels:
                continue
            there = scanned.select(pl.col(name).unique()).collect()[name].to_list()
            wanted = [one for one in there if part_label(experiment, name, one) == labels[name]]
            scanned = scanned.filter(pl.col(name).is_in(wanted))
        names = scanned.collect_schema().names()
        placed = next((name for name in ("index", "order", "at_ns") if name in names), None)
        part = scanned.select(*([pl.col(placed).cast(pl.Int64).alias("index")] if placed else []), "value", "weight")
        part = part.filter(pl.col("value").is_not_null())
        if placed is None:
            return part.with_row_index("index").with_columns(pl.col("index").cast(pl.Int64)).collect()
        if placed == "index":
            return part.sort("index", "value").collect()
        return part.sort("index").with_columns(pl.int_range(pl.len()).alias("index")).collect()


def label_expression(part: str, instrument: str) -> pl.Expr:
    """Return the expression that writes a part of a run the way the plan's levels are written (1000000 -> `1 ms`)."""
    parameter = load_contract().instruments[instrument].get(part)
    if parameter is None:
        return pl.col(part).cast(pl.String)
    return pl.col(part).map_elements(parameter.label, return_dtype=pl.String).alias(part)


def part_label(experiment: Experiment, part: str, value: Any) -> str:
    """Write one part of a run the way the plan's levels are written. See `label_expression`."""
    if part == FAR_END_PART and experiment.two_hosts:
        return OWN_FAR_END
    parameter = load_contract().instruments[experiment.instrument].get(part)
    return str(value) if parameter is None else parameter.label(value)


def open_samples(store: Path, plan: Plan, runs: Iterable[Run]) -> SampleSet:
    """Read the footers of these runs, check them, and refuse to pool what does not belong together.

    `runs` are the finished ones. Only footers are read.

    Raises:
        BadInput: kernel, CPU or program version differ between runs of one platform.
    """
    files: list[RunFile] = []
    problems: list[Problem] = []
    for run in runs:
        directory = store / "runs" / run.run_id
        path = directory / "samples.parquet"
        try:
            _refuse_odd(directory)
            files.append(
                RunFile(
                    run,
                    path,
                    check_samples_file(path, run_id=run.run_id, instrument=run.instrument),
                    _read_load(directory / "load.json"),
                )
            )
        except BadInput as error:
            problems.append(Problem(run.run_id, path, str(error)))
    refuse_mixture(files)
    return SampleSet(plan, tuple(files), tuple(problems)).without(other_clocks(files))


def _refuse_odd(directory: Path) -> None:
    """Refuse a run's directory with a link or a special file: the store may come from somebody else."""
    try:
        reason = odd_entry(directory)
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
    if reason is not None:
        raise BadInput(f"{directory}: {reason}")


def _read_load(path: Path) -> dict[str, Any] | None:
    try:
        document = plain_values(parse_json(read_regular(path)))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def refuse_mixture(files: Sequence[RunFile]) -> None:
    """Refuse runs that differ in what must agree, unless they are of other levels of a factor that explains it.

    Raises:
        BadInput: with what differs, the values and a run of each.
    """
    for words, where, factors in _MUST_AGREE:
        for levels, seen in _by_levels(files, where, factors).items():
            if len(seen) > 1:
                shown = "; ".join(
                    f"'{value}' in {len(some)} runs (such as {some[0].run.run_id})" for value, some in seen.items()
                )
                raise BadInput(
                    f"runs on {_named(factors, levels)} must not be pooled: their {words} differs: {shown}; "
                    "measure again into a new store, or make what differs a factor"
                )


def other_clocks(files: Sequence[RunFile]) -> list[Problem]:
    """Return the runs whose kernel kept time by another clock source than most of the same levels, with the reason.

    Where two sources have as many runs, that of the earliest run counts.
    """
    problems = []
    for levels, seen in _by_levels(files, ("machine", "clock_source"), _SETS_CLOCK).items():
        usual = max(seen, key=lambda value: (len(seen[value]), -min(file.run.position for file in seen[value])))
        for value, some in seen.items():
            if value == usual:
                continue
            reason = (
                f"its kernel kept time by '{value}', that of {len(seen[usual])} other runs on "
                f"{_named(_SETS_CLOCK, levels)} by '{usual}': not to be pooled; the factor guest_clock sets a guest's"
            )
            problems += [Problem(file.run.run_id, file.path, f"{file.path}: {reason}") for file in some]
    return problems


_Levels = tuple[str | None, ...]


def _by_levels(
    files: Sequence[RunFile], where: tuple[str, str], factors: Sequence[str]
) -> dict[_Levels, dict[str, list[RunFile]]]:
    """Runs by their levels of these factors, then by a fact of their footers; without those that do not have it."""
    part, key = where
    alike: dict[_Levels, dict[str, list[RunFile]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        value = file.footer.get(part, {}).get(key)
        if value is not None:
            # Between two ports the host of the guests measures, whatever they are.
            given = {} if record_of(file.run.instrument).hosts == "ports" else file.run.factors
            if PAIR in given:
                given = {**given, _SENDER: hosts_of_pair(given[PAIR])[0]}
            levels = tuple(given.get(factor, _ELSE.get(factor)) for factor in factors)
            alike[levels][str(value)].append(file)
    return alike


def _named(factors: Sequence[str], levels: _Levels) -> str:
    """The levels in words: `platform 'qemu' with guest_clock 'hpet'`."""
    pairs = zip(factors, levels, strict=True)
    return " with ".join(f"{factor} '{level}'" for factor, level in pairs if level is not None)
