"""A campaign among the papers: timers, sleeps, counters, round trips, available bandwidth, guests that forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from rich.table import Table as RichTable
from rich.text import Text

from vtare.campaign.console import print_table
from vtare.errors import BadInput
from vtare.papers.claims.oliveira import affinity
from vtare.papers.published import read_rows
from vtare.plots.format import percent_points
from vtare.report import text
from vtare.report.content import layouts_of
from vtare.report.inference import scenario_name
from vtare.report.overlay_throughput import jain_figures, throughput_notes, throughput_tables
from vtare.report.placement import placement_figures, placement_table
from vtare.report.tables import Column, Table
from vtare.report.text import Shown
from vtare.report.write import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from vtare.plots import Drawing
    from vtare.report.layout import Layout
    from vtare.summary import Summary

INSTRUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "kirova2019": ("timer", "sleep", "avb"),
    "lampe2013": ("counter",),
    "oliveira": ("rtt",),
    "kachan2017": ("avb",),
    "batalla2018": ("throughput",),
}
"""Paper -> instruments whose figures stand beside its own."""
_KACHAN: Final = (("Kite2", "underestimation_up_to_10G", -1.0), ("Yaz", "overestimation_up_to", 1.0))
_KACHAN_LINK_MBPS: Final = 10_000.0
_KIROVA_AVB_MBPS: Final = {"500 Mbps cross traffic": 500.0, "10G, 1 Gbps cross traffic": 9000.0}


@dataclass(frozen=True, slots=True)
class Overlay:
    """Tables and figures that set a campaign beside papers; `papers` are those that were asked for.

    `notes` say what cannot be compared.
    """

    store: str
    papers: tuple[str, ...]
    tables: tuple[Table, ...]
    drawings: tuple[Drawing, ...]
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The whole as one JSON-ready document of schema `vtare.standing/1`; figures as the CSV files have them."""
        return {
            "schema": "vtare.standing/1",
            "store": self.store,
            "papers": list(self.papers),
            "tables": [
                {
                    "id": table.id,
                    "rows": [
                        {column.key: cell.raw or None for column, cell in zip(table.columns, row, strict=True)}
                        for row in table.rows
                    ],
                }
                for table in self.tables
            ],
            "notes": list(self.notes),
        }


def overlay(summary: Summary, paper: str | None) -> Overlay:
    """Set a campaign beside one paper, beside all where it is None.

    Raises:
        BadInput: nothing that the campaign measured stands in that paper.
    """
    papers = tuple(INSTRUMENTS) if paper is None else (paper,)
    wanted = {instrument for name in papers for instrument in INSTRUMENTS[name]}
    layouts = layouts_of(summary)
    chosen = {name: layout for name, layout in layouts.items() if layout.experiment.instrument in wanted}
    made = (
        placement_table(summary, chosen),
        _shares(summary, chosen) if "oliveira" in papers else None,
        _errors(summary, chosen, papers),
        *throughput_tables(summary, chosen),
    )
    tables = tuple(table for table in made if table is not None)
    if not tables:
        measured = ", ".join(sorted({layout.experiment.instrument for layout in layouts.values()})) or "nothing"
        raise BadInput(
            f"{summary.store}: found figures of {measured}, wanted one of {', '.join(sorted(wanted))} to set beside "
            f"{paper or 'a paper'}, with a published counterpart"
        )
    placed = (panel.drawing for question in placement_figures(summary, chosen) for panel in question.panels)
    drawings = (*placed, *jain_figures(summary, chosen))
    return Overlay(str(summary.store), papers, tables, drawings, tuple(throughput_notes(summary, chosen)))


def _cells(summary: Summary, layout: Layout, figure: str) -> list[dict[str, Any]]:
    cells = summary.cells.filter((pl.col("experiment") == layout.experiment.name) & pl.col(figure).is_not_null())
    return sorted(cells.iter_rows(named=True), key=layout.sort_key)


def _shares(summary: Summary, layouts: dict[str, Layout]) -> Table | None:
    """Shares of virtualization in the round trip, beside the quartiles of Oliveira's Table 3."""
    low, middle, high = (affinity(statistic, "off") for statistic in ("q25", "median", "q75"))
    rows = []
    for layout in layouts.values():
        if layout.experiment.instrument != "rtt":
            continue
        for row in _cells(summary, layout, "overhead_share_percent"):
            here = row["overhead_share_percent"]
            place = "below" if here < low else "above" if here > high else "inside"
            rows.append((
                text.words(layout.experiment.name), text.words(scenario_name(layout, row)), text.points(here, ""),
                text.words(f"{place} the quartiles"),
                text.words(f"{percent_points(middle, signed=False)} ({low:g} to {high:g})"),
            ))  # fmt: skip
    columns = (
        Column("experiment", "experiment", numeric=False),
        Column("cell", "cell", numeric=False),
        Column("overhead_share_percent", "share here", about="of the overhead in the round-trip time inside"),
        Column("standing", "standing", numeric=False),
        Column("published", "Oliveira, Table 3, KVM", numeric=False),
    )
    return Table("standing-shares", "Share of virtualization in round trips", columns, tuple(rows)) if rows else None


def published_errors(papers: tuple[str, ...]) -> list[tuple[str, str, float]]:
    """What papers print of the errors of estimates: paper, tool with its condition, error in percent."""
    found: list[tuple[str, str, float]] = []
    if "kirova2019" in papers:
        for row in read_rows("kirova2019_prose"):
            truth = _KIROVA_AVB_MBPS.get(row["load_or_condition"])
            if row["quantity"] == "avb_estimate" and row["statistic"] == "median" and truth is not None:
                error = 100 * (float(row["value_mbps"]) / truth - 1)
                found.append(("kirova2019", f"{row['function_or_tool']}, {row['platform']}", error))
    if "kachan2017" in papers:
        for row in read_rows("kachan_prose"):
            for tool, quantity, sign in _KACHAN:
                if (row["tool"], row["quantity"]) == (tool, quantity):
                    error = sign * 100 * float(row["value_mbps"]) / _KACHAN_LINK_MBPS
                    found.append(("kachan2017", f"{tool}, at most", error))
    return found


def _errors(summary: Summary, layouts: dict[str, Layout], papers: tuple[str, ...]) -> Table | None:
    """Errors of estimates beside the printed ones of the same tool."""
    published = published_errors(papers)
    rows = []
    for layout in layouts.values():
        if layout.experiment.instrument != "avb":
            continue
        for row in _cells(summary, layout, "error_percent"):
            method = str(row[layout.series])
            own = [(paper, tool, error) for paper, tool, error in published if _same_tool(method, tool)]
            listed = "; ".join(f"{paper}: {tool} {percent_points(error)}" for paper, tool, error in own)
            rows.append((
                text.words(layout.experiment.name), text.words(scenario_name(layout, row)),
                text.points(row["error_percent"], ""),
                text.points(row["absolute_error_percent"], "no truth", signed=False),
                Shown(listed or "not in a paper", listed, listed, "" if listed else "missing"),
            ))  # fmt: skip
    columns = (
        Column("experiment", "experiment", numeric=False),
        Column("cell", "cell", numeric=False),
        Column("error_percent", "error here", about="median, of the truth of each estimate's own window"),
        Column("absolute_error_percent", "absolute error here"),
        Column("published", "published for this tool", numeric=False),
    )
    return Table("standing-errors", "Errors of available bandwidth", columns, tuple(rows)) if rows else None


def _same_tool(method: str, tool: str) -> bool:
    """Whether a method is the tool of a paper: `yaz:small-spacing` is Yaz, `kite2` is not Kite."""
    name = tool.partition(",")[0].partition("+")[0].strip().lower()
    return method.partition(":")[0].lower() == name


def show_overlay(found: Overlay, console: Console) -> None:
    """Print every table, the columns as a reader of the report sees them."""
    for table in found.tables:
        grid = RichTable(title=table.caption, title_justify="left")
        for column in table.columns:
            grid.add_column(column.label, justify="right" if column.numeric else "left", overflow="fold")
        for row in table.rows:
            grid.add_row(*(Text(cell.text) for cell in row))
        print_table(console, grid)
    for note in found.notes:
        console.print(Text(note))


def write_overlay(found: Overlay, directory: Path) -> list[Path]:
    """Write the figures as SVG files.

    Raises:
        BadInput: the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{directory}: cannot make the directory: {error.strerror}; choose another with --out"
        ) from error
    paths = []
    for drawing in found.drawings:
        path = directory / f"{drawing.name}.svg"
        write_whole(path, drawing.svg + "\n")
        paths.append(path)
    return paths
