"""The published tables as checked frames, with paper, columns and units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vtare.errors import BadInput, instead_of
from vtare.papers.columns import CatalogueColumn, column
from vtare.papers.published import read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One published table: `name` is its file in `papers/data`, `rows` how many it has."""

    name: str
    holds: str
    rows: int


@dataclass(frozen=True, slots=True)
class Paper:
    """One paper and its tables."""

    name: str
    citation: str
    tables: tuple[CatalogueEntry, ...]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table, read and checked: numbers are numbers, an empty field is null."""

    table: CatalogueEntry
    paper: Paper
    columns: tuple[CatalogueColumn, ...]
    frame: pl.DataFrame


class UnknownTable(BadInput):
    """No paper or table of this name. The message lists the names there are."""


class BrokenTable(BadInput):
    """A table in the package does not hold what it should. Remedy: install the package again."""


_STATEMENTS: Final = "sentences that claims are checked by, each with its place and words"
PAPERS: Final = (
    Paper(
        "kirova2019",
        "V. Kirova, K. Karpov, E. Siemens, I. Zander, O. Vasylenko, D. Kachan, S. Maksymov: Impact of Modern "
        "Virtualization "
        "Methods on Timing Precision and Performance of High-Speed Applications. Future Internet 11 (2019) 179.",
        (
            CatalogueEntry(
                "kirova2019_table1_timer_cost", "cost of one clock read, 2 functions x 5 platforms x 3 loads", 30
            ),
            CatalogueEntry("kirova2019_table2_sleep_miss", "miss of a sleep, 2 functions x 5 platforms x 3 loads", 30),
            CatalogueEntry(
                "kirova2019_prose", "figures stated in the text, beside the table they should agree with", 96
            ),
            CatalogueEntry("kirova2019_statements", _STATEMENTS, 100),
        ),
    ),
    Paper(
        "lampe2013",
        "U. Lampe, M. Kieselmann, A. Miede, S. Zoeller, R. Steinmetz: A Tale of Millis and Nanos: Time Measurements in "
        "Virtual "
        "and Physical Machines. ESOCC 2013, LNCS 8135, pp. 172-179.",
        (
            CatalogueEntry("lampe2013_table1_cv", "coefficient of variation, 16 configurations x 10 arguments", 160),
            CatalogueEntry("lampe2013_prose", "design, p-values and claims of the text, and whether they hold", 20),
            CatalogueEntry("lampe2013_statements", _STATEMENTS, 18),
        ),
    ),
    Paper(
        "oliveira",
        "A. T. de Oliveira Filho, E. Freitas, P. R. X. do Carmo, D. H. J. Sadok, J. Kelner: An experimental "
        "investigation of "
        "Round-Trip Time and virtualization.",
        (
            CatalogueEntry(
                "oliveira_rtt_tables", "share of virtualization in the round-trip time, tables 3 to 6 and text", 55
            ),
            CatalogueEntry("oliveira_factor_levels", "factors of the experiments and their levels", 26),
            CatalogueEntry("oliveira_tables1_2_testbed", "hardware and software of the test bed", 12),
            CatalogueEntry("oliveira_statements", _STATEMENTS, 42),
        ),
    ),
    Paper(
        "kachan2017",
        "D. Kachan, V. Kirova, M. Korniiichuk: Performance evaluation of PRM-based available bandwidth using "
        "estimation tools in "
        "a high-speed network environment. Scientific Works of ONAT 2017, no. 2, pp. 160-168.",
        (
            CatalogueEntry("kachan_prose", "figures stated in the text", 16),
            CatalogueEntry("kachan_table2_config", "default and tuned settings of the tools", 11),
            CatalogueEntry("kachan2017_statements", _STATEMENTS, 13),
        ),
    ),
    Paper(
        "batalla2018",
        "J. M. Batalla et al.: Validation of virtualization platforms for I-IoT purposes. J Supercomput 74 (2018) "
        "4227.",
        (
            CatalogueEntry(
                "batalla_jain_index", "Jain's index of the loads for k of 12 loaded machines, recomputed exactly", 12
            ),
            CatalogueEntry("batalla_prose", "figures stated in the text", 28),
            CatalogueEntry("batalla2018_statements", _STATEMENTS, 21),
        ),
    ),
)


def list_papers() -> tuple[Paper, ...]:
    """Every paper whose tables come with vtare."""
    return PAPERS


def find(name: str) -> tuple[Paper, tuple[CatalogueEntry, ...]]:
    """The paper of this name with all its tables, or the paper of the table of this name with just that one.

    Raises:
        UnknownTable: neither; the message lists the names there are and the nearest one.
    """
    for paper in PAPERS:
        if paper.name == name:
            return paper, paper.tables
        for table in paper.tables:
            if table.name == name:
                return paper, (table,)
    known = [paper.name for paper in PAPERS] + [table.name for paper in PAPERS for table in paper.tables]
    raise UnknownTable(f"there is no published table '{name}'{instead_of(name, known)}")


def load(name: str) -> PublishedTable:
    """Read one table as a checked frame.

    Args:
        name: name of a table, for example `kirova2019_table1_timer_cost`; a paper's name will do where it
            has one table.

    Raises:
        UnknownTable: no such table, or a paper with several (the message lists them).
        BrokenTable: rows, columns or numbers are not what they should be.
    """
    paper, tables = find(name)
    if len(tables) > 1:
        raise UnknownTable(f"'{name}' has {len(tables)} tables: use one of: {', '.join(t.name for t in tables)}")
    table = tables[0]
    rows = read_rows(table.name)
    if len(rows) != table.rows:
        raise BrokenTable(f"{table.name}: has {len(rows)} rows, not {table.rows}: install vtare again")
    columns = tuple(column(table.name, key) for key in rows[0])
    return PublishedTable(table=table, paper=paper, columns=columns, frame=_frame(table.name, columns, rows))


def _frame(table: str, columns: Sequence[CatalogueColumn], rows: Sequence[dict[str, str]]) -> pl.DataFrame:
    import polars as pl

    types = {"text": pl.String(), "integer": pl.Int64(), "real": pl.Float64()}
    series = []
    for col in columns:
        values: list[str | int | float | None] = []
        for at, row in enumerate(rows):
            text = row[col.name]
            try:
                values.append(_value(text, col))
            except ValueError as error:
                raise BrokenTable(
                    f"{table}: row {at + 1}, column {col.name} is {text!r}, not a number ({col.kind})"
                ) from error
        series.append(pl.Series(col.name, values, dtype=types[col.kind]))
    return pl.DataFrame(series)


def _value(text: str, col: CatalogueColumn) -> str | int | float | None:
    if not text.strip():
        return None
    if col.kind == "integer":
        return int(text)
    return float(text) if col.kind == "real" else text
