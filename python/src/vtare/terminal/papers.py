"""Published tables on a terminal: what `vtare papers` and `vtare papers NAME` print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table as RichTable
from rich.text import Text

from vtare.papers.catalogue import PAPERS, find, load
from vtare.sentences import titles
from vtare.sentences.caveats import MAD
from vtare.terminal.tables import print_table

if TYPE_CHECKING:
    from rich.console import Console

    from vtare.papers.catalogue import PublishedTable
    from vtare.papers.claims.model import Reanalysis

_HIDDEN = ("source", "platform_as_printed", "load_as_printed")


def show_list(console: Console) -> None:
    """Print every paper with its tables and what each holds."""
    for paper in PAPERS:
        console.print(Text(paper.name, style="bold"))
        console.print(f"  {paper.citation}")
        for table in paper.tables:
            console.print(f"  {table.name}: {table.holds} ({table.rows} rows)")
        console.print()
    console.print(Text("Show one with: vtare papers NAME"))


def show_tables(console: Console, name: str) -> None:
    """Print the table of this name, or every table of the paper of this name, with citation, units and sources.

    Raises:
        UnknownTable: no paper or table of this name.
    """
    paper, tables = find(name)
    console.print(Text(paper.citation, style="bold"))
    for table in tables:
        console.print()
        _show(console, load(table.name))


def show_claims(console: Console, found: Reanalysis) -> None:
    """Print what of a paper's claims reproduces: a line of counts, then each claim with both figures and the reason."""
    console.print(Text(found.headline(), style="bold"))
    console.print(Text(found.method))
    for claim in found.claims:
        console.print()
        console.print(Text(f"{claim.outcome}: {claim.statement} ({claim.where})", style="bold"))
        console.print(Text(f"  printed: {claim.printed}"))
        console.print(Text(f"  computed: {claim.found}"))
        console.print(Text(f"  {claim.why}"))


def claims_page(found: Reanalysis) -> str:
    """All claims of a paper as one HTML document that fetches nothing."""
    from vtare.papers.claims.model import OUTCOMES
    from vtare.report.frame import lab_version
    from vtare.report.page import HtmlPage, render
    from vtare.report.parts import Section, Table, Text, in_words
    from vtare.report.text import words

    columns = in_words("claim", "where", "printed", "computed", "outcome", "reason")
    rows = tuple(
        tuple(words(text) for text in (one.statement, one.where, one.printed, one.found, one.outcome, one.why))
        for one in found.claims
    )
    counts = ", ".join(f"{outcome}: {found.counts[outcome]}" for outcome in OUTCOMES if found.counts[outcome])
    return render(
        HtmlPage(
            title=f"{found.paper}: what reproduces",
            origin="vtare papers",
            about=find(found.paper)[0].citation,
            question=titles.CLAIMS,
            sentences=[(f"{len(found.claims)} claims; {counts}.",)],
            sections=[
                Section("method", "How it was checked", (Text(found.about), Text(found.method))),
                Section("claims", "Claims", (Table("claims", "Every claim", columns, rows),)),
            ],
            footer=[f"vtare {lab_version()}"],
        )
    )


def _show(console: Console, published: PublishedTable) -> None:
    shown = [col for col in published.columns if col.name not in _HIDDEN]
    grid = RichTable(title=f"{published.table.name}: {published.table.holds}", title_justify="left", show_lines=False)
    for col in shown:
        unit = f" ({col.unit})" if col.kind != "text" and col.unit not in ("1", "") else ""
        grid.add_column(f"{col.name}{unit}", justify="left" if col.kind == "text" else "right", overflow="fold")
    for row in published.frame.iter_rows(named=True):
        grid.add_row(*(_cell(row[col.name]) for col in shown))
    print_table(console, grid, "a wider terminal")
    sources = published.frame.get_column("source").unique(maintain_order=True).to_list()
    console.print(Text(f"Source: {'; '.join(str(source) for source in sources)}"))
    if any(col.name == "mad_ns" for col in shown):
        console.print(Text(MAD))


def _cell(value: object) -> Text:
    if value is None:
        return Text("n/a", style="dim")
    return Text(f"{value:.12g}" if isinstance(value, float) else str(value))
