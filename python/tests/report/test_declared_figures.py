"""A figure is declared once: what its record, the tables and every form of a report state of it is the same.

A renamed figure, a dropped column and a swapped unit are planted, and each must be found.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Reported

from vtare import instruments
from vtare.instruments import reference as figures_page
from vtare.instruments.model import Instrument, Metric
from vtare.quantities import symbol_of
from vtare.report import content, plain
from vtare.report.build import render
from vtare.report.content import Content
from vtare.report.pages import page_of
from vtare.report.pages.model import Page
from vtare.report.parts import Table
from vtare.report.text import NO_BREAK
from vtare.summary import Summary
from vtare.summary.rows import known_of

ROOT = Path(__file__).resolve().parents[3]
#: What stands behind a number, by the unit that docs/reference/metrics.md or the figure's name states, and what one of
#: it is.
WRITTEN = {
    "ns": {"ns": 1.0, "\N{MICRO SIGN}s": 1e3, "ms": 1e6, "s": 1e9},
    "%": {"%": 1.0},
    "1": {"%": 0.01},
    "B": {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9},
}
NUMBER = re.compile(r"([-+\N{MINUS SIGN}]?\d+(?:\.\d+)?) ?(%|[^\W\d]+)?")


def cell_tables(made: Content) -> Iterator[tuple[Instrument, Page, Table]]:
    """The table of cells of each experiment."""
    for name, layout in made.layouts.items():
        page = page_of(layout.experiment.instrument)
        tables = {table.id: table for section in made.sections for table in section.tables()}
        yield layout.experiment.record, page, tables[f"cells-{name}"]


def columns_of(record: Instrument, figure: Metric, quantity_suffix: str) -> str:
    """The column of a figure, by what its record states alone."""
    stem = "median" if figure.name == record.quantity else figure.name
    return f"{stem}{quantity_suffix}" if figure.of_readings or stem != figure.name else figure.name


def undeclared(made: Content) -> list[str]:
    """Names that a page lists and no record has."""
    found = []
    for record, page, _ in cell_tables(made):
        known = {name for one in (*record.metrics, *instruments.COMMON) for name in (one.name, one.interval_name)}
        own = page.made(made.summary, next(iter(made.layouts.values()))) if page.made is not None else {}
        found += [f"{record.name}: {name}" for name in page.columns if name not in known | own.keys()]
    return found


def lost(made: Content) -> list[str]:
    """Figures that a table states by their record, that a cell has, and that are no column of it, in any form."""
    found = []
    pages = {"html": render(made), "md": plain.markdown(made), "latex": plain.latex(made)}
    document = json.loads(plain.as_json(made))
    written = {one["id"]: one for section in document["sections"] for one in section["tables"]}
    for record, _, table in cell_tables(made):
        rows = made.summary.cells.filter(made.summary.cells["experiment"] == table.id.removeprefix("cells-"))
        keys = [column.key for column in table.columns]
        suffix = next(key for key in keys if key.startswith("median_") and "interval" not in key)[len("median") :]
        for figure in (one for one in (*record.metrics, *instruments.COMMON) if one.about or one.heading):
            source = "median" if figure.name == record.quantity else figure.name
            if any(known_of(row, source) is not None for row in rows.iter_rows(named=True)):
                key = columns_of(record, figure, suffix)
                found += [] if key in keys else [f"{table.id}: {key}"]
        labels = [column.label for column in table.columns]
        narrow = [column.label for column in plain._narrow(table).columns]
        shown = {
            "json": [one["label"] for one in written[table.id]["columns"]],
            "md": headings(pages["md"], table.caption, r"^\| (.*?) \|$", " | "),
            "latex": headings(pages["latex"], rf"\label{{tab:{table.id}}}", r"^\\toprule\n(.*) \\\\$", " & "),
            "html": re.findall(r"<th\b[^>]*>(?:<button[^>]*>)?([^<]*)",
                               pages["html"].partition(f'data-table="{table.id}"')[2].partition("</thead>")[0]),
        }  # fmt: skip
        for form, heads in shown.items():
            write = {"latex": plain.tex, "md": plain.md}.get(form, str)
            wanted = [write(label) for label in (narrow if form == "latex" else labels)]
            found += [f"{table.id} in {form}: {head}" for head in wanted if head not in map(html.unescape, heads)]
    return found


def headings(page: str, start: str, pattern: str, between: str) -> list[str]:
    """The headings of the first table behind a text."""
    found = re.search(pattern, page.partition(start)[2], re.MULTILINE)
    return [] if found is None else found[1].split(between)


def stated_units() -> dict[str, str]:
    """The unit that docs/reference/metrics.md states of each figure."""
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \|", page, re.MULTILINE)
    return {name: unit for names, unit in rows for name in re.findall(r"`(\w+)`", names)}


def other_units(made: Content) -> list[str]:
    """Cells whose value, or whose text, is not what the summary has in the unit that the column's name states."""
    found = []
    for record, _, table in cell_tables(made):
        layout = made.layouts[table.id.removeprefix("cells-")]
        cells = made.summary.cells.filter(made.summary.cells["experiment"] == layout.experiment.name)
        rows = sorted(cells.iter_rows(named=True), key=layout.sort_key)
        keys = {column.key: at for at, column in enumerate(table.columns)}
        for name in {one.name for one in record.metrics} & keys.keys():
            units = WRITTEN.get(stated_units().get(name) or symbol_of(name) or "")
            for row, shown in zip(rows, (row[keys[name]] for row in table.rows), strict=True):
                if row[name] is None or shown.raw == "":
                    continue
                if float(shown.raw) != pytest.approx(row[name]):
                    found.append(f"{table.id}.{name}: {shown.raw}, the summary has {row[name]}")
                match = NUMBER.match(shown.text.replace(NO_BREAK, " ").replace("\N{MINUS SIGN}", "-"))
                if units is None or match is None or match[2] is None:
                    continue
                scale = units.get(match[2])
                if scale is None or float(match[1]) * scale != pytest.approx(row[name], rel=0.06, abs=0.006 * scale):
                    found.append(f"{table.id}.{name}: {shown.text} stands for {row[name]}")
    return found


def planted(
    monkeypatch: pytest.MonkeyPatch, summary: Summary, name: str, change: Callable[[Metric], Metric]
) -> Content:
    """The content of a report in which the record of one figure is changed."""
    for record in instruments.RECORDS:
        changed = tuple(change(one) if one.name == name else one for one in record.metrics)
        other = replace(record, metrics=changed)
        monkeypatch.setitem(instruments._BY_NAME, record.name, other)  # type: ignore[arg-type]
        for one in changed:
            monkeypatch.setitem(instruments._METRICS, one.name, one)  # type: ignore[arg-type]
    return content.content_of(summary, figures=False)


def test_every_figure_is_what_its_record_states_in_every_form(all_instruments: Reported) -> None:
    made = content.content_of(all_instruments.summary, figures=False)
    assert (undeclared(made), lost(made), other_units(made)) == ([], [], [])


@pytest.mark.parametrize("name", ["read_cost_ns", "cv", "cpu_fraction"])
def test_a_renamed_figure_is_found(all_instruments: Reported, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(KeyError, match=name):
        planted(monkeypatch, all_instruments.summary, name, lambda one: replace(one, name=f"other_{one.name}"))


@pytest.mark.parametrize("name", ["p99", "lost_fraction", "cv_within"])
def test_a_column_that_a_page_drops_is_found(
    all_instruments: Reported, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("vtare.report.cell_table.page_of", _pages(name))
    found = lost(content.content_of(all_instruments.summary, figures=False))
    assert any(name in one for one in found)


def _pages(name: str) -> Callable[[str], Any]:
    """`page_of` whose pages do not list one name."""

    def find(instrument: str) -> Any:
        page = page_of(instrument)
        return replace(page, columns=tuple(one for one in page.columns if one != name))

    return find


@pytest.mark.parametrize("form", ["_md_block", "_tex_table", "_json_table"])
def test_a_column_that_a_writer_drops_is_found(
    all_instruments: Reported, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """As LaTeX once lost ratio and interval: a writer left out columns by their names."""
    write = getattr(plain, form)

    def dropping(block: Any) -> Any:
        if isinstance(block, Table) and "p99_ns" in (keys := [column.key for column in block.columns]):
            at = keys.index("p99_ns")
            block = replace(
                block,
                columns=block.columns[:at] + block.columns[at + 1 :],
                rows=tuple(row[:at] + row[at + 1 :] for row in block.rows),
            )
        return write(block)

    monkeypatch.setattr(plain, form, dropping)
    assert lost(content.content_of(all_instruments.summary, figures=False))


@pytest.mark.parametrize(("name", "unit"), [("cv", "%"), ("read_cost_ns", "packet/s"), ("cpu_fraction", "ns")])
def test_a_swapped_unit_is_found(
    all_instruments: Reported, monkeypatch: pytest.MonkeyPatch, name: str, unit: str
) -> None:
    made = planted(monkeypatch, all_instruments.summary, name, lambda one: replace(one, unit=unit))
    assert any(name in one for one in other_units(made))


def test_the_reference_page_has_every_figure_with_its_unit() -> None:
    page = figures_page.tables()
    for record in instruments.RECORDS:
        for one in record.metrics:
            assert f"| `{one.name}` | {one.symbol or ''} |" in page
            assert figures_page.meaning(one)
