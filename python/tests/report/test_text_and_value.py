"""What a table cell shows and what its CSV file holds are the same number, in every cell of every table."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from conftest import Reported
from synthetic_store import Recipe

from vtare.report.content import content_of
from vtare.report.parts import Table
from vtare.report.text import Shown

SCALES = {
    "ns": 1.0, "\N{MICRO SIGN}s": 1e3, "ms": 1e6, "s": 1e9, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9,
    **{f"{prefix}{unit}": scale for unit in ("bit/s", "packet/s")
       for prefix, scale in (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9))},
}  # fmt: skip
NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
UNITS = "|".join(sorted(map(re.escape, SCALES), key=len, reverse=True))
WRITTEN = re.compile(rf"(?P<reciprocal>1/)?(?P<number>{NUMBER})(?: ?(?P<unit>%|(?:{UNITS})(?![\w/])))?")


def numbers_of(text: str) -> list[tuple[float, float, bool]]:
    """Every number of a text in the unit of its CSV column, with its rounding, and whether it is a percentage."""
    plain = re.sub(r"(?<=\d)[\u00a0\u202f](?=\d{3})", "", text).replace("\u00a0", " ").replace("\N{MINUS SIGN}", "-")
    found: list[tuple[float, float, bool]] = []
    unit = ""
    for match in reversed(list(WRITTEN.finditer(plain))):
        # `10.1 to 14.0 ms`: the unit of the upper end is that of the lower one.
        shared = plain[match.end() :].startswith(" to ")
        unit = match["unit"] or (unit if shared else "")
        scale = SCALES.get(unit, 1.0)
        value = float(match["number"])
        if match["reciprocal"]:
            found.append((1.0 / value, 0.02 / value, False))
            continue
        digits = match["number"].split("e")[0].partition(".")[2]
        rounding = max(0.51 * 10.0 ** -len(digits) if "e" not in match["number"] else 0.0, 0.006 * abs(value))
        found.append((scale * value, scale * rounding, unit == "%"))
    return found[::-1]


def disagreement(cell: Shown) -> str | None:
    """Why text and value of a cell are not the same numbers; None where they are."""
    if cell.text.startswith("<"):
        return None if cell.order is not None and float(cell.order) < 1e-4 else f"{cell.text}: {cell.raw}"
    if cell.text.startswith(("below the quantum", "n/a")):
        return None if cell.raw in ("", "0") else f"{cell.text}: {cell.raw}"
    if cell.raw == "":
        return None
    raw = [float(one) for one in re.findall(NUMBER, re.sub(r"\.\.|/", " ", cell.raw))]
    # `0 of 500150`: the file holds the count alone.
    text = re.sub(r"(?<=\d) of [\d\u00a0]+$", "", cell.text) if "of" not in cell.raw else cell.text
    shown = numbers_of(re.sub(r"below 0\.1 ns", "0 ns", text))
    if len(raw) != len(shown):
        return f"{cell.text}: {cell.raw}: {len(shown)} numbers and {len(raw)}"
    for (value, rounding, percent), exact in zip(shown, raw, strict=True):
        scales = (1.0, 0.01) if percent else (1.0,)
        if all(abs(scale * value - exact) > scale * rounding + 0.1 * (value == 0) for scale in scales):
            return f"{cell.text}: {cell.raw}"
    return None


def numeric_cells(tables: Iterator[Table]) -> Iterator[tuple[str, Shown]]:
    for table in tables:
        for at, column in enumerate(table.columns):
            if column.numeric:
                yield from ((f"{table.id}.{column.key}", row[at]) for row in table.rows)


@pytest.mark.parametrize("recipe", ["five_runs", "one_run", "all_instruments"])
def test_text_and_value_of_every_cell_of_every_table_agree(recipe: str, request: pytest.FixtureRequest) -> None:
    made: Reported = request.getfixturevalue(recipe)
    cells = list(numeric_cells(content_of(made.summary, figures=False).tables()))
    assert sum(cell.raw != "" for _, cell in cells) > 50
    assert [f"{where}: {why}" for where, cell in cells if (why := disagreement(cell)) is not None] == []


def test_a_raw_p_value_is_not_written_as_the_adjusted_one(reported: object) -> None:
    made: Reported = reported(Recipe(blocks=6))  # type: ignore[operator]
    tables = {table.id: table for table in content_of(made.summary, figures=False).tables()}
    checked = 0
    for table in tables.values():
        keys = [column.key for column in table.columns]
        if "p_value" not in keys:
            continue
        for row in table.rows:
            raw, adjusted = row[keys.index("p_value")], row[keys.index("p_adjusted")]
            if raw.order is not None and adjusted.order is not None and adjusted.order > 1.1 * raw.order:
                assert raw.text != adjusted.text or raw.text.startswith("<"), (table.id, raw, adjusted)
                checked += 1
    assert checked > 10


@pytest.mark.parametrize(
    ("text", "raw", "agrees"),
    [
        ("0.032", "0.0107", False), ("0.011", "0.0107", True), ("< 1e-4", "1e-9", True),
        ("8.10\N{MULTIPLICATION SIGN} (7.02 to 9.31)", "8.1 [7.02..9.31]", True),
        ("8.10\N{MULTIPLICATION SIGN} (7.02 to 9.31)", "8.1 [7.02..9.91]", False),
        ("10.1 to 14.0 ms", "10100000..14000000", True), ("1.23 %", "0.0123", True), ("1.23 %", "0.123", False),
        ("1/1\u00a0750", "0.000571", True),
    ],
)  # fmt: skip
def test_the_comparison_of_text_and_value_sees_what_differs(text: str, raw: str, agrees: bool) -> None:
    first = float(re.split(r"[ .]{2}| ", raw)[0].split("..")[0])
    assert (disagreement(Shown(text, raw, first)) is None) == agrees
