"""How an experiment is laid out: which key becomes the rows, which the panels, which the headings between rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.plan import PATH_FACTORS
from vtare.report import text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from vtare.plan import Experiment
    from vtare.summary import Summary

SERIES_KEYS: Final = {
    "avb": "method", "throughput": "loaded", "timer": "source", "sleep": "method", "counter": "argument",
    "noise": "cpu",
}  # fmt: skip
"""Instrument -> the key whose levels are compared with each other: they become the rows and curves of a figure."""

_ROUND_TRIP_SERIES: Final = ("platform", "responder_platform", "responder", "capture")

_UNIT_NS: Final = {"ps": 1e-3, "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True, slots=True)
class MainFigure:
    """The columns of a cell that hold its main figure and the ends of its interval; `quantity` names the axis."""

    quantity: str
    value: str
    low: str
    high: str


READ_COST: Final = MainFigure("read_cost_ns", "read_cost_ns", "read_cost_low_ns", "read_cost_high_ns")
"""What timers are judged by: medians of differences between readings sit on the clock's steps, loops do not."""


SCATTER: Final = MainFigure("cv", "cv", "cv_low", "cv_high")
"""What the counter is judged by: its arguments are made to take the same time everywhere, their scatter differs."""

ERROR: Final = "absolute_error_percent"
"""What estimates of available bandwidth whose truth is known are compared by."""


LATE: Final = "late_fraction"
"""What sleeps are told and compared by where a time limit ended a run early."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One experiment's figures: rows by `series`, headings between rows by `groups`.

    There is one panel per level of `panel`, a single one where it is None. `order` gives, for each
    key, its levels in the order of the plan. `quantity` is that of the single readings, `main` the figure that a cell
    is told and compared by.
    """

    experiment: Experiment
    quantity: str
    series: str
    panel: str | None
    groups: tuple[str, ...]
    order: dict[str, tuple[str, ...]]
    main: MainFigure

    def value(self, row: Mapping[str, Any]) -> float | None:
        """The main figure of a cell, in ns; None where no run finished."""
        found: float | None = row[self.main.value]
        return found

    def ends(self, row: Mapping[str, Any]) -> tuple[float, float] | None:
        """The ends of its interval, in ns; None below 3 runs."""
        low, high = row[self.main.low], row[self.main.high]
        return None if low is None or high is None else (low, high)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key with at least one level, panels first, rows last."""
        panel = (self.panel,) if self.panel is not None else ()
        return (*panel, *self.groups, self.series)

    def rank(self, key: str, label: str | None) -> int:
        """Position of a level in the plan's order; unknown levels come last."""
        levels = self.order.get(key, ())
        return levels.index(label) if label in levels else len(levels)

    def sort_key(self, row: dict[str, Any]) -> tuple[int, ...]:
        """Sort rows of a frame by panel, group and series, in the plan's order."""
        return tuple(self.rank(key, row.get(key)) for key in self.keys)

    def group_text(self, row: dict[str, Any]) -> str | None:
        """Heading of a row's group: `target 1 ms`; None where nothing varies but panel and series."""
        parts = [key_text(key, row.get(key)) for key in self.groups if len(self.order[key]) > 1]
        return ", ".join(parts) or None

    def series_text(self, row: dict[str, Any]) -> str:
        """Label of a row or curve: `usleep`, but `CPU 0` and `argument 4`, for a bare number says nothing."""
        label = row.get(self.series)
        return key_text(self.series, label) if str(label).isdigit() else text.level(label)

    def fixed_text(self) -> str:
        """The keys that have only one level, as words: `target 1 ms, platform host`."""
        return ", ".join(key_text(key, self.order[key][0]) for key in self.keys if len(self.order[key]) == 1)


_KEY_NAMES: Final = {
    "target_ns": "target", "cpu": "CPU", "lambda_ns": "CPU price", "slack_ns": "timer slack",
    "rate_packet_per_s": "rate", "size_byte": "size", "responder_cpu": "responder CPU", "load_side": "load at",
    "responder_platform": "responder on",
    "cross": "cross traffic", "cross_arrivals": "arrivals", "capacity_steps": "capacity", "mtu_byte": "MTU",
    "cross_cpu": "cross traffic's CPU", "frame_byte": "frame", "guest_cpu": "guests' CPU",
}  # fmt: skip


def key_name(key: str) -> str:
    """A key as a person says it: `target_ns` is `target`."""
    return _KEY_NAMES.get(key, key.removesuffix("_ns").replace("_", " "))


#: Figures of a run: where there is little room, and in a sentence (None: the same).
_FIGURE_NAMES: Final[dict[str, tuple[str, str | None]]] = {
    "read_cost_ns": ("read cost", "cost of a reading"), "cost_ns": ("cost", "cost of a reading"),
    "miss_ns": ("miss", None), "rtt_ns": ("RTT", "round-trip time"), "gap_ns": ("gap", None),
    "overhead_ns": ("overhead", "overhead between program and capture point"),
    "overhead_share_percent": ("share", "share of the overhead"), "cv": ("CV", "coefficient of variation"),
    "step_ns": ("step", "time of one step"), "runtime_ns": ("run time", None), "mean": ("mean", "mean reading"),
    "throughput_packet_per_s": ("throughput", None), ERROR: ("error", None), "half_iqr": ("half IQR", None),
    "latency_shared_ns": ("latency", "latency at the load that all share"), "p999": ("p99.9", None),
    LATE: ("time late", "share of the time spent late"),
}  # fmt: skip


def figure_name(figure: str, *, short: bool = False) -> str:
    """A figure of a run as a person says it."""
    brief, words = _FIGURE_NAMES.get(figure, (figure.removesuffix("_ns").replace("_", " "), None))
    return brief if short or words is None else words


def key_text(key: str, label: str | None) -> str:
    """A key with its level: `target 1 ms`, `load idle`."""
    return f"{key_name(key)} {text.level(label)}"


def size_of(label: str) -> tuple[float, str]:
    """Sort key of a level: by size where it is a number or a time (`100 us` before `1 ms`), else by text."""
    found = re.fullmatch(r"([0-9.]+)\s*(ps|ns|us|ms|s)?", label)
    if found is None:
        return float("inf"), label
    return float(found.group(1)) * _UNIT_NS.get(found.group(2) or "ns", 1.0), label


def layout_of(summary: Summary, experiment: Experiment, cells: pl.DataFrame) -> Layout:
    """The layout of one experiment from its keys and the levels that occur in its cells."""
    keys = [key for key in summary.keys[experiment.name] if cells.get_column(key).null_count() < cells.height]
    if experiment.two_hosts and "peer" in keys and len(keys) > 1:
        # There is one far end, the lab's own: naming it in every row would say nothing.
        keys.remove("peer")
    order: dict[str, tuple[str, ...]] = {}
    for key in keys:
        present = [str(level) for level in cells.get_column(key).unique().drop_nulls().to_list()]
        planned = _planned(experiment, key)
        rest = sorted((label for label in present if label not in planned), key=size_of)
        order[key] = (*(label for label in planned if label in present), *rest)
    varying = [key for key in keys if len(order[key]) > 1]
    series = _series(experiment.instrument, keys, varying)
    others = [key for key in keys if key != series]
    panel = "load" if "load" in others and len(order["load"]) > 1 else None
    if panel is None:
        # Panels of available bandwidth are paths: what stands in one has one truth.
        ordered = sorted(others, key=lambda key: key not in PATH_FACTORS) if experiment.instrument == "avb" else others
        panel = next((key for key in ordered if len(order[key]) > 1), None)
    groups = tuple(key for key in others if key != panel)
    quantity = str(cells.get_column("quantity")[0])
    return Layout(experiment, quantity, series, panel, groups, order, _main_figure(experiment, quantity, cells))


def _series(instrument: str, keys: Sequence[str], varying: Sequence[str]) -> str:
    """The key that becomes the rows: the instrument's own, for round trips the first of the hosts' that varies."""
    if instrument == "rtt":
        return next((key for key in _ROUND_TRIP_SERIES if key in varying), (varying or keys)[-1])
    wanted = SERIES_KEYS.get(instrument)
    return wanted if wanted is not None and wanted in keys else (varying or keys)[-1]


def _main_figure(experiment: Experiment, quantity: str, cells: pl.DataFrame) -> MainFigure:
    """The read cost of timers and the CV of counters whose runs all have it, else the median."""
    ran = cells.filter(cells["n_runs"] > 0)
    if experiment.instrument == "timer" and ran.height and ran["read_cost_ns"].null_count() == 0:
        return READ_COST
    if experiment.instrument == "counter" and ran.height and ran["cv"].null_count() == 0:
        return SCATTER
    return MainFigure(quantity, "median", "median_low", "median_high")


def _planned(experiment: Experiment, key: str) -> list[str]:
    for factor in experiment.factors:
        if factor.name == key:
            return [level.label for level in factor.levels]
    value = experiment.parameters.get(key)
    return [str(item) for item in value] if isinstance(value, list) else []
