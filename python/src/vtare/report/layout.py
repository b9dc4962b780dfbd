"""How an experiment is laid out: which key becomes the rows, which the panels, which the headings between rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare import quantity_text
from vtare.instruments import metric
from vtare.instruments.model import end_column
from vtare.plan.factors import PATH_FACTORS
from vtare.quantities import plain_name
from vtare.report import text
from vtare.report.text import Shown
from vtare.summary.cells import unreached_words
from vtare.summary.rows import known_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import polars as pl

    from vtare.plan.level import Level
    from vtare.plan.model import Experiment
    from vtare.summary import Summary


_Levels = Mapping[str, Mapping[str, "Level"]]


@dataclass(frozen=True, slots=True)
class MainFigure:
    """The columns of a cell that hold its main figure and the ends of its interval; `quantity` names the axis."""

    quantity: str
    value: str
    low: str
    high: str


ERROR: Final = "absolute_error_percent"
"""What estimates with a known truth are compared by."""


LATE: Final = "late_fraction"
"""What cells are shown and compared by where a time limit ended a run early."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One experiment's figures: rows by `series`, headings between rows by `groups`.

    There is one panel per level of `panel`, a single one where it is None. `order` gives, for each
    key, its levels in the order of the plan. `quantity` is that of the single readings, `main` the figure that a cell
    is shown and compared by. `levels` holds, for each key, what its labels stand for (`Summary.level_of`).
    """

    experiment: Experiment
    quantity: str
    series: str
    panel: str | None
    groups: tuple[str, ...]
    order: dict[str, tuple[str, ...]]
    main: MainFigure
    levels: _Levels

    def value(self, row: Mapping[str, Any]) -> float | None:
        """The main figure of a cell; None where no run finished."""
        number: float | None = row[self.main.value]
        return number

    def ends(self, row: Mapping[str, Any]) -> tuple[float, float] | None:
        """The ends of its interval; None below 3 runs."""
        low, high = row[self.main.low], row[self.main.high]
        return None if low is None or high is None else (low, high)

    @property
    def is_median(self) -> bool:
        """Whether cells are shown by the median of their readings."""
        return self.main.value == "median"

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key with at least one level, panels first, rows last."""
        panel = (self.panel,) if self.panel is not None else ()
        return (*panel, *self.groups, self.series)

    def number(self, key: str, label: str | None) -> float | None:
        """The number that a label stands for, in the unit of its key: 1518 of `1518 B`; None where it is a word."""
        level = None if label is None else self.levels.get(key, {}).get(label)
        return None if level is None else level.number

    def label(self, key: str, number: float) -> str | None:
        """The label of a number, as `number` gives the number of a label; None where it is no level."""
        return next((label for label in self.order[key] if self.number(key, label) == number), None)

    def level(self, key: str, label: str | None) -> str:
        """A level as the report writes it: a number with its unit, else its label."""
        return level_text(self.levels, key, label)

    def key_text(self, key: str, label: str | None) -> str:
        """A key with its level: `target 1 ms`, `load idle`."""
        return key_text(self.levels, key, label)

    def named(self, key: str, label: str | None) -> str:
        """A level that stands alone: a word, a number with its unit, else with its key, `CPU 0`."""
        level = None if label is None else self.levels.get(key, {}).get(label)
        return self.key_text(key, label) if level is not None and level.is_bare else self.level(key, label)

    def reached(self, row: Mapping[str, Any]) -> str:
        """What a cell achieved of a level that it fell short of, in brackets behind the level; empty where none."""
        words = unreached_words(self.experiment.record.reached, row)
        return "" if words is None else f" ({words})"

    def shown(self, key: str, label: str | None) -> Shown:
        """A level as a table cell, in the plan's order; the CSV file has its label."""
        return Shown(self.level(key, label), label or "", self.rank(key, label))

    def rank(self, key: str, label: str | None) -> int:
        """Position of a level in the plan's order; unknown levels come last."""
        levels = self.order.get(key, ())
        return levels.index(label) if label in levels else len(levels)

    def sort_key(self, row: Mapping[str, str | None]) -> tuple[int, ...]:
        """Sort rows of a frame by panel, group and series, in the plan's order."""
        return tuple(self.rank(key, row.get(key)) for key in self.keys)

    def group_text(self, row: Mapping[str, Any]) -> str | None:
        """Heading of a row's group: `target 1 ms`; None where nothing varies but panel and series."""
        parts = [self.key_text(key, row.get(key)) for key in self.groups if len(self.order[key]) > 1]
        return f"{', '.join(parts)}{self.reached(row)}" or None

    def series_text(self, row: Mapping[str, str | None]) -> str:
        """Label of a row or curve: `usleep`, but `CPU 0` and `argument 4`, for a bare number means nothing."""
        return self.named(self.series, row.get(self.series))

    def fixed_text(self) -> str:
        """The keys that have only one level, as words: `target 1 ms, platform host`."""
        return ", ".join(self.key_text(key, self.order[key][0]) for key in self.keys if len(self.order[key]) == 1)


_KEY_NAMES: Final = {
    "cpu": "CPU", "lambda_ns": "CPU price", "slack_ns": "timer slack",
    "cpu_share": "share of a CPU",
    "responder_cpu": "responder CPU", "load_side": "load at",
    "responder_platform": "responder on",
    "cross": "cross traffic", "cross_arrivals": "arrivals", "capacity_steps": "capacity", "mtu_byte": "MTU",
    "cross_cpu": "cross traffic's CPU", "guest_cpu": "guests' CPU",
}  # fmt: skip


def key_name(key: str) -> str:
    """A key as a person writes it: `target_ns` is `target`."""
    return _KEY_NAMES.get(key, plain_name(key))


def figure_name(figure: str, *, short: bool = False) -> str:
    """A figure of a run as a person writes it."""
    declared = metric(figure)
    return (declared.short if short else declared.words or declared.short) or plain_name(figure)


def level_text(levels: _Levels, key: str, label: str | None) -> str:
    """A level as the report writes it, `levels` being those of the summary; a missing level is a dash."""
    if label is None:
        return "\N{EN DASH}"
    level = levels.get(key, {}).get(label)
    # A zero has the unit of its label: none of those that fit.
    return text.keep((quantity_text.level_text(level.unit, level.number) if level and level.number else None) or label)


def key_text(levels: _Levels, key: str, label: str | None) -> str:
    """A key with its level: `target 1 ms`, `load idle`."""
    return f"{key_name(key)} {level_text(levels, key, label)}"


#: The sleep that is described where it was measured.
_USUAL_TARGET_NS: Final = 1e6


def usual_level(layout: Layout, key: str) -> str | None:
    """The level of a key that is described where it was measured: a sleep of 1 ms; None where there is none."""
    return layout.label(key, _USUAL_TARGET_NS) if key == "target_ns" else None


def described_level(layout: Layout, key: str, present: Collection[Any]) -> str | None:
    """The level of a key that sentences and figures describe, of those `present`: the one that is compared with.

    A sleep of 1 ms, else the baseline of a factor, else the first; None where none is there.
    """
    baseline = next((factor.baseline for factor in layout.experiment.factors if factor.name == key), None)
    wanted = (usual_level(layout, key), baseline, *layout.order[key])
    return next((label for label in wanted if label is not None and label in present), None)


def fixed_parts(layout: Layout, cells: pl.DataFrame) -> dict[str, str]:
    """The one level of each part of a run that a first screen shows: the usual one, else that of the most cells.

    Of several that as many cells have a figure at, the first. A part is what one run measures several levels of.
    """
    factors = {factor.name for factor in layout.experiment.factors}
    known = [row for row in cells.iter_rows(named=True) if known_of(row, layout.main.value) is not None]
    parts = {}
    for key in (key for key in layout.keys if key not in factors):
        counts = Counter(row[key] for row in known)
        usual = usual_level(layout, key)
        parts[key] = (
            usual if usual is not None and usual in counts else max(layout.order[key], key=lambda label: counts[label])
        )
    return parts


def layout_of(summary: Summary, experiment: Experiment, cells: pl.DataFrame) -> Layout:
    """The layout of one experiment from its keys and the levels that occur in its cells."""
    known = summary.keys[experiment.name]
    # Where none of its runs is there, a cell has no level at all.
    keys = [key for key in known if cells.get_column(key).null_count() < cells.height] or [*known]
    if experiment.two_hosts and "peer" in keys and len(keys) > 1:
        # There is one far end, the lab's own: no row needs to name it.
        keys.remove("peer")
    order: dict[str, tuple[str, ...]] = {}
    for key in keys:
        present = [str(level) for level in cells.get_column(key).unique().drop_nulls().to_list()]
        planned = _planned(experiment, key)
        own = {
            label: level.number for label, level in summary.level_of.get(key, {}).items() if level.number is not None
        }
        by_size = sorted((own.get(label, math.inf), label) for label in present if label not in planned)
        rest = [label for _, label in by_size]
        order[key] = (*(label for label in planned if label in present), *rest)
    varying = [key for key in keys if len(order[key]) > 1]
    series = _series(experiment.record.series, keys, varying)
    others = [key for key in keys if key != series]
    panel = "load" if "load" in others and len(order["load"]) > 1 else None
    if panel is None:
        # Where paths differ, panels are paths: what stands in one has one truth.
        ordered = sorted(others, key=lambda key: key not in PATH_FACTORS)
        panel = next((key for key in ordered if len(order[key]) > 1), None)
    groups = tuple(key for key in others if key != panel)
    quantity = str(cells.get_column("quantity")[0])
    return Layout(
        experiment,
        quantity,
        series,
        panel,
        groups,
        order,
        _main_figure(experiment, quantity, cells),
        summary.level_of,
    )


def _series(wanted: Sequence[str], keys: Sequence[str], varying: Sequence[str]) -> str:
    """The key that becomes the rows: the instrument's own, of several the first that varies."""
    present = [key for key in wanted if key in (keys if len(wanted) == 1 else varying)]
    return present[0] if present else (varying or keys)[-1]


def _main_figure(experiment: Experiment, quantity: str, cells: pl.DataFrame) -> MainFigure:
    """The figure that cells are compared by, where the instrument shows it and all runs have it; else the median."""
    ran = cells.filter(cells["n_runs"] > 0)
    record = experiment.record
    name = record.compared if record.shown_by_compared else None
    if name is not None and ran.height and ran[name].null_count() == 0:
        return MainFigure(name, name, end_column(name, "low"), end_column(name, "high"))
    return MainFigure(quantity, "median", "median_low", "median_high")


def _planned(experiment: Experiment, key: str) -> list[str]:
    for factor in experiment.factors:
        if factor.name == key:
            return [level.label for level in factor.levels]
    value = experiment.parameters.get(key)
    return [str(item) for item in value] if isinstance(value, list) else []
