"""Tables that set a campaign beside what papers print: shares of virtualization, errors of available bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.number_text import percent_points
from vtare.papers.published import oliveira_affinity, read_rows
from vtare.report import text
from vtare.report.inference import scenario_name
from vtare.report.pages.model import Beside
from vtare.report.parts import Column, Table, in_words
from vtare.report.text import Shown
from vtare.summary.cells import OutlierRow
from vtare.summary.rows import rows_of

if TYPE_CHECKING:
    from vtare.report.layout import Layout
    from vtare.summary import Summary

#: Cells of a platform that are named; its others are one row.
_MOST_OUTLYING: Final = 4
_KACHAN: Final = (("Kite2", "underestimation_up_to_10G", -1.0), ("Yaz", "overestimation_up_to", 1.0))
_KACHAN_LINK_MBPS: Final = 10_000.0
_KIROVA_AVB_MBPS: Final = {"500 Mbps cross traffic": 500.0, "10G, 1 Gbps cross traffic": 9000.0}


def _cells(summary: Summary, layout: Layout, figure: str) -> list[dict[str, Any]]:
    cells = summary.cells.filter((pl.col("experiment") == layout.experiment.name) & pl.col(figure).is_not_null())
    return sorted(cells.iter_rows(named=True), key=layout.sort_key)


def _shares(summary: Summary, layouts: dict[str, Layout]) -> Table | None:
    """Shares of virtualization in the round trip, beside the quartiles of Oliveira's Table 3."""
    low, middle, high = (oliveira_affinity(statistic, "off") for statistic in ("q25", "median", "q75"))
    rows = []
    for layout in layouts.values():
        for row in _cells(summary, layout, "overhead_share_percent"):
            here = row["overhead_share_percent"]
            place = "below" if here < low else "above" if here > high else "inside"
            # The table is of KVM alone: a container is beside nothing there.
            is_theirs = row.get("platform") == "qemu"
            rows.append((
                text.words(layout.experiment.name), text.words(scenario_name(layout, row)), text.points(here, ""),
                text.words(f"{place} the quartiles") if is_theirs else text.missing("not published"),
                text.words(f"{percent_points(middle, signed=False)} ({low:g} to {high:g})") if is_theirs
                else text.missing("KVM only"),
            ))  # fmt: skip
    columns = (
        *in_words("experiment", "cell"),
        Column("overhead_share_percent", "share here", about="of the overhead in the round-trip time inside"),
        Column("standing", "standing", numeric=False),
        Column("published", "Oliveira, Table 3, KVM", numeric=False),
    )
    return Table("standing-shares", "Share of virtualization in round trips", columns, tuple(rows)) if rows else None


def _outliers(summary: Summary, layouts: dict[str, Layout]) -> Table | None:
    """Where the outliers of each technology are, beside Oliveira's tables 4 to 6: most first, then the rest."""
    published: dict[str, list[str]] = {}
    for row in read_rows("oliveira_rtt_tables"):
        if row["record"] == "table" and row["statistic"] == "share_of_outliers":
            place = ", ".join(part for part in (row["load_type"], row["load_location"], row["frequency_pps"])
                              if part not in ("all", "other scenarios", ""))  # fmt: skip
            published.setdefault(row["technology"], []).append(f"{place or 'other scenarios'} {row['value_percent']} %")
    rows = []
    for layout in layouts.values():
        scored = rows_of(OutlierRow, summary.outliers.filter(pl.col("experiment") == layout.experiment.name))
        here = [(row, row.pooled_share) for row in scored if row.pooled_share is not None]
        for technology, listed in published.items():
            platform = "qemu" if technology == "KVM" else technology.lower()
            own = sorted(
                ((row, share) for row, share in here if row.labels.get("platform") == platform),
                key=lambda one: one[1],
                reverse=True,
            )
            cells = [(scenario_name(layout, row.labels), share) for row, share in own[:_MOST_OUTLYING] if share > 0]
            rest = len(own) - len(cells)
            if cells and rest:
                cells.append((f"{rest} others", max(0.0, 1.0 - sum(share for _, share in cells))))
            rows += [
                (text.words(layout.experiment.name), text.words(platform), text.words(name), text.percent(share, ""),
                 text.words(f"{technology}: {'; '.join(listed)}"))
                for name, share in cells
            ]  # fmt: skip
    columns = (
        *in_words("experiment", "platform", "cell"),
        Column("pooled_share", "share of its outliers", about="robust z among all cells of the platform"),
        Column("published", "Oliveira, tables 4 to 6", numeric=False),
    )
    return Table("standing-outliers", "Where the outliers of a technology are", columns, tuple(rows)) if rows else None


def published_errors(papers: tuple[str, ...]) -> list[tuple[str, str, float]]:
    """What papers print of the errors of estimates: paper, tool with its condition, error in percent."""
    errors: list[tuple[str, str, float]] = []
    if "kirova2019" in papers:
        for row in read_rows("kirova2019_prose"):
            truth = _KIROVA_AVB_MBPS.get(row["load_or_condition"])
            if row["quantity"] == "avb_estimate" and row["statistic"] == "median" and truth is not None:
                error = 100 * (float(row["value_mbps"]) / truth - 1)
                errors.append(("kirova2019", f"{row['function_or_tool']}, {row['platform']}", error))
    if "kachan2017" in papers:
        for row in read_rows("kachan_prose"):
            for tool, quantity, sign in _KACHAN:
                if (row["tool"], row["quantity"]) == (tool, quantity):
                    error = sign * 100 * float(row["value_mbps"]) / _KACHAN_LINK_MBPS
                    errors.append(("kachan2017", f"{tool}, at most", error))
    return errors


def _errors(summary: Summary, layouts: dict[str, Layout], papers: tuple[str, ...]) -> Table | None:
    """Errors of estimates beside the printed ones of the same tool."""
    published = published_errors(papers)
    rows = []
    for layout in layouts.values():
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
        *in_words("experiment", "cell"),
        Column("error_percent", "error here", about="median, of the truth of each estimate's own window"),
        Column("absolute_error_percent", "absolute error here"),
        Column("published", "published for this tool", numeric=False),
    )
    return Table("standing-errors", "Errors of available bandwidth", columns, tuple(rows)) if rows else None


def _same_tool(method: str, tool: str) -> bool:
    """Whether a method is the tool of a paper: `yaz:small-spacing` is Yaz, `kite2` is not Kite."""
    name = tool.partition(",")[0].partition("+")[0].strip().lower()
    return method.partition(":")[0].lower() == name


def share_standing(summary: Summary, layouts: dict[str, Layout], papers: tuple[str, ...]) -> Beside:
    """Shares of virtualization, and where outliers are, beside those of one paper."""
    made = (_shares(summary, layouts), _outliers(summary, layouts))
    return Beside(tuple(table for table in made if table is not None))


def error_standing(summary: Summary, layouts: dict[str, Layout], papers: tuple[str, ...]) -> Beside:
    """Errors of available bandwidth beside those that these papers print."""
    table = _errors(summary, layouts, papers)
    return Beside() if table is None else Beside((table,))
