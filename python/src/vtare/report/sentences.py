"""What the sentences of a report are made of: figures with their intervals, loads, the two ways that are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.number_text import percent_range_text, percent_text, ratio_range_text, ratio_text
from vtare.quantity_text import quantity_of
from vtare.report.layout import LATE, described_level, fixed_parts
from vtare.report.pages import page_of
from vtare.sentences import answers as wording
from vtare.sentences.template import FigureText, Sentence
from vtare.sentences.words import count_text
from vtare.stats import Verdict
from vtare.summary.contrasts import ComparisonRow
from vtare.summary.rows import known_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.summary import Summary


SAME: Final = "the same in all runs"


def main_figure(layout: Layout, row: Mapping[str, Any]) -> FigureText:
    """A cell's main figure: `12.3 ms late`, `24.2 ns`.

    Where all runs agree to the last digit, that is the clock's step and not the truth's, and is marked so.
    """
    known = known_of(row, layout.main.value)
    if known is None:
        raise ValueError(f"a cell has no figure ({row['experiment']}): pass one that ran")
    value = known.number
    written = quantity_of(layout.main.quantity)
    suffix = ""
    if layout.experiment.record.until is not None:
        suffix = " early" if value < 0 else " late"
    ends = layout.ends(row)
    on_lattice = layout.is_median and ends is not None and ends[0] == ends[1]
    interval = "" if ends is None else SAME if on_lattice else written.range_text(*ends)
    return FigureText(f"{known.prefix}{written.text(abs(value) if suffix else value)}{suffix}", interval)


def is_capped(row: Mapping[str, Any] | None) -> bool:
    """Whether a time limit ended runs of a cell early, so that its median is that of the readings completed."""
    return row is not None and bool(row["capped_runs"])


def late_figure(row: Mapping[str, Any]) -> FigureText:
    """The share of its time that a cell spent late: `93.1 %` with `91.0 to 95.2 %`."""
    low, high = row["late_fraction_low"], row["late_fraction_high"]
    interval = "" if low is None or high is None else percent_range_text(low, high)
    return FigureText(percent_text(row["late_fraction"]), interval)


def completion(row: Mapping[str, Any]) -> tuple[str, str]:
    """The share of the sleeps asked for that a cell completed, and the counts: `5.13 %` and `77 of 1500`."""
    return percent_text(row["completed_fraction"]), f"{count_text(row['completed'])} of {count_text(row['asked'])}"


def ratio_figure(ratio: float, low: float | None, high: float | None, suffix: str = "") -> FigureText:
    """A ratio: `8.10x` with `7.02 to 9.31`."""
    return FigureText(
        f"{ratio_text(ratio)}{suffix}", "" if low is None or high is None else ratio_range_text(low, high)
    )


def load_phrase(summary: Summary, label: str | None) -> str:
    """A load level in words with the load really made: `With 100 busy threads`, `On the idle machine`."""
    if label is None:
        return wording.HERE
    level = summary.level_of["load"][label]
    if level.value.kind == "idle":
        return wording.IDLE
    made = next((load for load in summary.loads if load.kind == label), None)
    if level.value.kind == "cpu" and made is not None and made.threads is not None:
        return wording.busy(made.threads)
    named = {"io": wording.DISK_AND_NETWORK, "nbd": wording.FILE_SERVICE}
    return named.get(label, wording.under(label))


def cell_rows(summary: Summary, layout: Layout) -> list[dict[str, Any]]:
    """The cells of an experiment that have their main figure, in the plan's order."""
    cells = summary.cells.filter(pl.col("experiment") == layout.experiment.name)
    return sorted((row for row in cells.iter_rows(named=True) if layout.value(row) is not None), key=layout.sort_key)


def answered_rows(summary: Summary, layout: Layout) -> list[dict[str, Any]]:
    """The same with cells whose main figure is known as a bound."""
    cells = summary.cells.filter(pl.col("experiment") == layout.experiment.name)
    known = (row for row in cells.iter_rows(named=True) if known_of(row, layout.main.value) is not None)
    return sorted(known, key=layout.sort_key)


@dataclass(frozen=True, slots=True)
class Scene:
    """The cells of one experiment that its sentences describe: one level of every key but load and series.

    `loads` are those with a figure, the baseline first (None alone where the load is no factor); `system` and `ours`
    are the series set side by side, `ours` None where there is but one; `elsewhere` names levels that were picked.
    """

    layout: Layout
    rows: tuple[dict[str, Any], ...]
    loads: tuple[str | None, ...]
    system: str
    ours: str | None
    elsewhere: str

    def row(self, series: str | None, load: str | None) -> dict[str, Any] | None:
        """The cell of one series under one load, None where it has no figure."""
        key = self.layout.series
        rows = (row for row in self.rows if row[key] == series and (load is None or row["load"] == load))
        return next(rows, None)

    def at(self, load: str | None) -> list[dict[str, Any]]:
        """All series under one load."""
        return [row for row in self.rows if load is None or row["load"] == load]

    def name(self, series: str) -> str:
        """A series as a sentence calls it."""
        page = page_of(self.layout.experiment.instrument)
        return {**page.system, **page.ours}.get(series, self.layout.level(self.layout.series, series))


def scene_of(summary: Summary, layout: Layout) -> Scene | None:
    """What sentences describe, at the level of each part of a run that the first table has; None where nothing ran.

    Sleeps are those of 1 ms if they were measured. Of a factor it is the baseline.
    """
    rows = cell_rows(summary, layout)
    if not rows:
        return None
    picked = []
    parts = fixed_parts(layout, summary.cells.filter(pl.col("experiment") == layout.experiment.name))
    for key in layout.keys:
        if key in (layout.series, "load"):
            continue
        present = {row[key] for row in rows}
        # A nested factor is not in every cell.
        nested = key in layout.experiment.nested
        part = parts.get(key)
        chosen = part if part is not None and part in present else described_level(layout, key, present)
        rows = [row for row in rows if row[key] == chosen or (nested and row[key] is None)]
        if len(layout.order[key]) > 1 and key != "target_ns" and not nested:
            picked.append(layout.key_text(key, chosen))
    loads: list[str | None] = [
        load for load in layout.order.get("load", ()) if any(row["load"] == load for row in rows)
    ] or [None]
    first = [row for row in rows if loads[0] is None or row["load"] == loads[0]]
    system, ours = _pair(layout, first)
    return Scene(layout, tuple(rows), tuple(loads), system, ours, f" ({', '.join(picked)})" if picked else "")


def _pair(layout: Layout, rows: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    """The system's way and vtare's; where the plan has neither, the baseline and the least of the rest."""
    present = [str(row[layout.series]) for row in rows]
    page = page_of(layout.experiment.instrument)
    system = next((name for name in page.system if name in present), None)
    if system is None:
        factors = {factor.name: factor.baseline for factor in layout.experiment.factors}
        baseline = factors.get(layout.series)
        system = baseline if baseline in present else present[0]
    ours = next((name for name in page.ours if name in present and name != system), None)
    if ours is None:
        rest = [row for row in rows if row[layout.series] != system]
        ours = str(min(rest, key=lambda row: layout.value(row) or 0.0)[layout.series]) if rest else None
    return system, ours


def against_baseline(summary: Summary, layout: Layout, cell: Mapping[str, Any] | None, factor: str) -> Sentence:
    """What each other level makes of a cell at the baseline: `qemu 3.63x; docker and lxc equivalent within 5 %`.

    Empty where the cell is not at the baseline, or nothing was compared. A ratio of times spent late, which stands for
    cells that a time limit ended early, is called that: it is no ratio of medians.
    """
    if cell is None:
        return ()
    rows = []
    for level in layout.order.get(factor, ()):
        row = comparison(summary, layout, {**cell, factor: level}, factor)
        if row is not None:
            rows.append((layout.named(factor, level), row))
    differing: list[Sentence] = []
    for level, row in rows:
        if row.verdict.is_different:
            ratio = ratio_figure(row.ratio or 0.0, row.judged_low, row.judged_high)
            times = wording.times_as_late if row.quantity == LATE else wording.times_as_long
            differing.append(times(level, ratio))
    margin = summary.plan.analysis.margin_percent
    alike = [level for level, row in rows if row.verdict is Verdict.EQUIVALENT]
    unknown = [level for level, row in rows if row.verdict is Verdict.INCONCLUSIVE]
    others = [
        *([wording.equivalent(alike, margin)] if alike else []),
        *([wording.inconclusive(unknown)] if unknown else []),
    ]
    return wording.elsewhere(differing, others) if differing or others else ()


def comparison(summary: Summary, layout: Layout, cell: Mapping[str, Any] | None, factor: str) -> ComparisonRow | None:
    """The comparison of a cell with its baseline in one factor; None where there is none or too few runs for it."""
    if cell is None:
        return None
    for row in summary.comparisons:
        if (row.experiment, row.factor) == (layout.experiment.name, factor) and all(
            row.labels.get(key) == cell[key] for key in layout.keys
        ):
            return row if row.ratio is not None and row.inference != Verdict.REFUSED else None
    return None
