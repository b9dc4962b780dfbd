"""The frozen results of a campaign. Their frames' columns are described in `vtare.summary`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtare.bulk import Distribution, distributions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl

    from vtare.campaign.journal import Stopped
    from vtare.plan.level import Level
    from vtare.plan.model import Plan
    from vtare.samples import SampleSet
    from vtare.stored.outputs import Derived
    from vtare.summary.contrasts import ComparisonRow
    from vtare.summary.mesh import MeshFound


@dataclass(frozen=True, slots=True)
class Note:
    """Something the reader must know: a note of an instrument, a file left out, a clock not trusted.

    `id` is short and stable, `text` a sentence, `runs` how many runs it is about (0 where it is about none).
    """

    id: str
    text: str
    runs: int


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Facts of one machine, from the footers of its runs.

    `machine`, `clock` and `program` are the footer's objects of the first run (docs/internals/contract.md names the
    keys); `residual_ppm_max`, `load_average_max` and `steal_ns` (sum of after minus before) span all its runs, null
    where the system does not state them.
    """

    hostname: str
    platform: str
    runs: int
    machine: Mapping[str, Any]
    clock: Mapping[str, Any]
    program: Mapping[str, Any]
    residual_ppm_max: float | None
    load_average_max: float | None
    steal_ns: int | None


@dataclass(frozen=True, slots=True)
class LoadMade:
    """The background load that was really made: `load.json` of all runs with this kind, summed up.

    `operations_per_s` and `cpu_fraction` are medians over runs; `documents` are the `vtare.load/1` documents.
    `no_device_on` are the platforms on which an io or nbd load had its files in memory, or does not state where.
    """

    kind: str
    runs: int
    threads: int | None
    operations_per_s: float | None
    cpu_fraction: float | None
    documents: tuple[Mapping[str, Any], ...]
    no_device_on: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Summary:
    """All figures of one campaign. The columns of the frames are described at the top of this module.

    `derived` is where files made from it go by default; None where nowhere can be written.
    """

    store: Path
    plan: Plan
    plan_text: str
    seed: int
    keys: Mapping[str, tuple[str, ...]]
    level_of: Mapping[str, Mapping[str, Level]]
    design: pl.DataFrame
    runs: pl.DataFrame
    cells: pl.DataFrame
    comparisons: tuple[ComparisonRow, ...]
    tests: pl.DataFrame
    tails: tuple[ComparisonRow, ...]
    layers: tuple[ComparisonRow, ...]
    interactions: pl.DataFrame
    levels: pl.DataFrame
    outliers: pl.DataFrame
    controls: pl.DataFrame
    flagged_blocks: tuple[int, ...]
    skipped: pl.DataFrame
    failed: pl.DataFrame
    pending_runs: int
    machines: tuple[MachineFacts, ...]
    loads: tuple[LoadMade, ...]
    notes: tuple[Note, ...]
    sample_set: SampleSet
    estimates: pl.DataFrame
    boxes: pl.DataFrame
    stopped: Stopped | None = None
    derived: Derived | None = None
    meshes: tuple[MeshFound, ...] = ()

    def distributions(self, experiment: str) -> Iterator[Distribution]:
        """Count all readings of an experiment by value, cell by cell, however many there are (vtare.bulk)."""
        return distributions(self.sample_set, experiment)

    def samples(self, experiment: str) -> pl.LazyFrame:
        """Return an experiment's raw samples, lazily: Parquet columns, `run_id`, `block`, keys, `value`, `weight`.

        `value` is the experiment's quantity in ns (float) and `weight` how many readings had it (1 but for the
        histogram rows of `timer`). `Summary.plan.experiment(name)` gives the plan's table for the same name.

        Raises:
            BadInput: no finished run of this experiment can be read.
        """
        return self.sample_set.scan(experiment)
