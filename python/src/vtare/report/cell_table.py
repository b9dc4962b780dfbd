"""The table of an experiment's cells: a page lists the names of its columns, the records of figures say the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vtare.contract import load_contract
from vtare.instruments import COMMON
from vtare.instruments.model import end_column
from vtare.number_text import time_text
from vtare.quantities import plain_name
from vtare.quantity_text import quantity_of
from vtare.report import needs, text
from vtare.report.layout import figure_name, key_name
from vtare.report.pages import page_of
from vtare.report.pages.model import CellColumn
from vtare.report.parts import Column, Table
from vtare.report.text import Shown, missing
from vtare.summary.figures import SPREADS
from vtare.summary.rows import known_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from vtare.instruments.model import Metric
    from vtare.plan.model import Experiment
    from vtare.report.layout import Layout


@dataclass(frozen=True, slots=True)
class _Setting:
    """What columns depend on beside their figures: `quantum_ns` is the smallest step of the clock, `words` fill in."""

    layout: Layout
    level: str
    quantum_ns: float | None
    words: Mapping[str, str]


def cell_table(
    layout: Layout,
    cells: pl.DataFrame,
    quantum_ns: float | None,
    threshold_ns: float | None,
    made: Mapping[str, CellColumn] | None = None,
) -> Table:
    """All figures of one experiment's cells; columns without any figure are left out unless a reader would miss them.

    `quantum_ns` is the smallest step of the clock, `threshold_ns` the one of `exceed_per_s`; both None where unknown.
    `made` are the columns that a page makes itself, by the names that it lists.
    """
    page = page_of(layout.experiment.instrument)
    own = made or {}
    words = {
        "of": f" of {page.readings.split()[0]}" if page.readings else "",
        "what": f"the {page.readings}" if page.readings else figure_name(layout.quantity, short=True),
        "threshold": text.keep(time_text(threshold_ns)) if threshold_ns is not None else "threshold",
    }
    setting = _Setting(layout, text.levels_text(cells), quantum_ns, words)
    rows = sorted(cells.iter_rows(named=True), key=layout.sort_key)
    columns = [_key_column(layout, key) for key in layout.keys
               if not page.all_columns or len(layout.order[key]) > 1 or key == layout.series]  # fmt: skip
    for name in page.columns:
        column = own[name] if name in own else _column(setting, name)
        if column is not None and (page.all_columns or column.always or any(column.is_known(row) for row in rows)):
            columns.append(column)
    shown = tuple(tuple(_shown(column, row) for column in columns) for row in rows)
    title = f"{layout.experiment.title}: all cells"
    return Table(f"cells-{layout.experiment.name}", title, tuple(column.head for column in columns), shown)


def _shown(column: CellColumn, row: Mapping[str, Any]) -> Shown:
    if not row["n_runs"] and not column.without_runs:
        return missing(why_empty(row))
    return column.show(row)


def _key_column(layout: Layout, key: str) -> CellColumn:
    head = Column(key, key_name(key), numeric=False)
    return CellColumn(head, lambda row: layout.shown(key, row[key]), always=True, without_runs=True)


def _column(setting: _Setting, name: str) -> CellColumn | None:
    """The column of a figure, or of its interval; None where the plan does not ask for it."""
    experiment = setting.layout.experiment
    for figure in (*experiment.record.metrics, *COMMON):
        if name in (figure.name, figure.interval_name):
            if figure.asked_by is not None and not _is_asked(experiment, figure.asked_by):
                return None
            return (_figure if name == figure.name else _interval)(setting, figure)
    raise KeyError(name)


def _is_asked(experiment: Experiment, parameter: str) -> bool:
    default = load_contract().instruments[experiment.instrument][parameter].default
    return bool(experiment.parameters.get(parameter, default))


def _named(setting: _Setting, figure: Metric) -> tuple[str, str, str]:
    """The column of cells that holds a figure, that of the table, and the figure that states its unit."""
    own = setting.layout.quantity
    if figure.name == setting.layout.experiment.record.quantity:
        return "median", quantity_of(own).column("median"), own
    return figure.name, quantity_of(own).column(figure.name) if figure.of_readings else figure.name, (
        own if figure.of_readings else figure.name
    )  # fmt: skip


def _heading(setting: _Setting, figure: Metric) -> str:
    return (figure.heading or figure.short or plain_name(figure.name)).format(**setting.words)


def _figure(setting: _Setting, figure: Metric) -> CellColumn:
    source, key, quantity = _named(setting, figure)
    written = quantity_of(quantity)

    def show(row: Mapping[str, Any]) -> Shown:
        value = row.get(source)
        if figure.is_count:
            return text.count(None if value is None else round(value), figure.missing)
        if figure.name in SPREADS and written.symbol == "ns":
            return text.spread(value, setting.quantum_ns, figure.missing)
        write = partial(text.change if figure.signed else text.figure, quantity)
        return _marked(text.of_row(row, source, figure.missing, write), row, figure.needs)

    head = Column(key, _heading(setting, figure), about=figure.about.format(**setting.words), wide=not figure.narrow)
    return CellColumn(
        head, show, lambda row: known_of(row, source) is not None, figure.always, without_runs=source in ("n_runs", "n")
    )


def _interval(setting: _Setting, figure: Metric) -> CellColumn:
    source, _, quantity = _named(setting, figure)
    low, high = (end_column(source, which) for which in ("low", "high"))

    def show(row: Mapping[str, Any]) -> Shown:
        why = figure.missing if known_of(row, source) is None else text.no_interval(row, source)
        return text.figures(quantity, row[low], row[high], why)

    key = quantity_of(quantity).column("median_interval") if source == "median" else figure.interval_name
    of = figure.words or _heading(setting, figure)
    head = Column(key, f"{setting.level} interval", about=f"of the {of}, over runs", wide=not figure.narrow)
    return CellColumn(head, show, lambda row: row[low] is not None, figure.always)


def why_empty(row: Mapping[str, Any]) -> str:
    """Why a cell has no finished run."""
    for word in ("skipped", "failed", "pending"):
        if row[f"{word}_runs"]:
            return word
    return "no run"


def _marked(shown: Shown, row: Mapping[str, Any], needed: int | None) -> Shown:
    """A tail, with a star where the runs amount to too few independent readings for it."""
    n_eff = row.get("n_eff")
    if shown.kind == "missing" or needed is None or n_eff is None or n_eff >= needed:
        return shown
    why = f"a run amounts to {round(n_eff)} independent readings, this quantile needs {needed}"
    return replace(shown, text=f"{shown.text}{needs.STAR}", title=why)
