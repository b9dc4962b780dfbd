"""The published tables: complete, checked, byte-identical, and where a machine stands among them."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from vtare.errors import BadInput
from vtare.papers import catalogue, published
from vtare.papers import standing as standings
from vtare.papers.standing import LOADS, SLEEP_FUNCTIONS, TIMER_FUNCTIONS, lampe_lines
from vtare.terminal import papers as printed

DATA = Path(published.__file__).parent / "data"
TOOL = Path(__file__).parents[2] / "tools" / "make_published.py"
ALL_TABLES = [table.name for paper in catalogue.list_papers() for table in paper.tables]

# Digests of the tables as they were transcribed and checked against the papers; an edit by hand must not pass unseen.
DIGESTS = json.loads((Path(__file__).parent / "digests.json").read_text(encoding="utf-8"))


def test_every_table_is_the_transcribed_one_byte_for_byte() -> None:
    found = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in DATA.glob("*.csv")}
    assert found == DIGESTS


def test_every_table_in_the_package_is_in_the_catalogue() -> None:
    assert sorted(ALL_TABLES) == sorted(path.stem for path in DATA.glob("*.csv"))


@pytest.mark.parametrize("name", ALL_TABLES)
def test_a_table_loads_with_described_columns_and_a_source_in_every_row(name: str) -> None:
    table = catalogue.load(name)
    assert table.frame.height == table.table.rows
    assert [column.name for column in table.columns] == table.frame.columns
    assert table.frame["source"].null_count() == 0
    for column in table.columns:
        wanted = {"text": pl.String, "integer": pl.Int64, "real": pl.Float64}[column.kind]
        assert table.frame.schema[column.name] == wanted, column
        assert column.meaning


def test_an_empty_field_is_null_and_not_zero() -> None:
    ranks = catalogue.load("lampe2013_table1_cv").frame["rank_ocr"]
    assert ranks.null_count() > 0
    assert (ranks.drop_nulls() > 0).all()


def test_kirova_has_every_combination_once() -> None:
    for name in ("kirova2019_table1_timer_cost", "kirova2019_table2_sleep_miss"):
        frame = catalogue.load(name).frame
        assert frame.select("function", "platform", "load").n_unique() == 2 * 5 * 3 == frame.height


def test_an_unknown_table_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(BadInput, match=r"'kirova2018'.*Did you mean 'kirova2019'.*lampe2013_table1_cv"):
        catalogue.load("kirova2018")


def test_a_paper_with_several_tables_asks_which_one() -> None:
    with pytest.raises(catalogue.UnknownTable, match="kirova2019_table1_timer_cost"):
        catalogue.load("kirova2019")


def test_a_broken_table_names_row_column_and_value(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = published.read_rows("kirova2019_table1_timer_cost")
    rows[3]["median_ns"] = "seventeen"
    monkeypatch.setattr(catalogue, "read_rows", lambda _: rows)
    with pytest.raises(catalogue.BrokenTable, match=r"row 4, column median_ns is 'seventeen'"):
        catalogue.load("kirova2019_table1_timer_cost")


def test_a_table_that_lost_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = published.read_rows("kirova2019_table1_timer_cost")[:-1]
    monkeypatch.setattr(catalogue, "read_rows", lambda _: rows)
    with pytest.raises(catalogue.BrokenTable, match="has 29 rows, not 30"):
        catalogue.load("kirova2019_table1_timer_cost")


# --- the extract for the binary ---


def test_the_extract_is_what_the_tables_give() -> None:
    assert (DATA / "published.json").read_text(encoding="utf-8") == published.published_text()


def test_the_extract_holds_every_row_with_the_papers_mad_as_half_iqr() -> None:
    document = json.loads((DATA / "published.json").read_text(encoding="utf-8"))
    assert document["schema"] == "vtare.published/1"
    assert [len(document[key]) for key in ("timer_cost", "sleep_miss", "counter_cv")] == [30, 30, 160]
    row = next(
        r for r in document["sleep_miss"] if (r["function"], r["platform"], r["load"]) == ("uSleep", "VBox", "cpu")
    )
    assert row == {
        "function": "uSleep",
        "platform": "VBox",
        "load": "cpu",
        "median_ns": 7601230.0,
        "half_iqr_ns": 3611915.2,
        "min_ns": 15913.7,
        "max_ns": 539619000.0,
        "source": "Kirova2019 (Future Internet 11:179) Table 2, sec 3.2.4",
    }
    assert not any("mad" in key for row in document["timer_cost"] for key in row)


def test_the_tool_checks_the_extract_with_the_standard_library_alone() -> None:
    # -S leaves site-packages out: nothing but the standard library can be imported.
    done = subprocess.run([sys.executable, "-S", str(TOOL), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_tool_refuses_an_unknown_argument() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "--chek"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "'--chek'" in done.stderr


# --- on a terminal ---


def shown(call: str, *arguments: str) -> str:
    console = Console(file=io.StringIO(), width=400)
    getattr(printed, call)(console, *arguments)
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def test_the_list_names_every_table_and_what_it_holds() -> None:
    output = shown("show_list")
    for paper in catalogue.list_papers():
        assert paper.name in output
        for table in paper.tables:
            assert f"{table.name}: {table.holds}" in output


def test_a_table_is_shown_with_citation_units_and_source() -> None:
    output = shown("show_tables", "kirova2019_table2_sleep_miss")
    assert "Future Internet 11 (2019) 179" in output
    assert "median_ns (ns)" in output
    assert "7601230" in output
    assert "Table 2, sec 3.2.4" in output
    assert "half the interquartile range" in output


@pytest.mark.parametrize("paper", [paper.name for paper in catalogue.list_papers()])
def test_every_paper_can_be_shown(paper: str) -> None:
    output = shown("show_tables", paper)
    assert all(table.name in output for table in catalogue.find(paper)[1])


# --- standing ---


def test_a_read_of_16_ns_stands_where_the_table_states() -> None:
    standing = standings.place_timer_cost("rdtsc", "cpu", 16.0, 15.9, 16.1)
    assert standing is not None
    # CPU-bound TSC medians: 15.8, 15.8, 17.2, 20.0, 2033 ns.
    assert (standing.below, standing.above) == (3, 2)
    assert standing.rank_text == "below 3 and above 2 of the 5 published medians"
    assert "Table 1" in standing.source


def test_a_median_inside_the_interval_counts_for_neither_side() -> None:
    standing = standings.place_timer_cost("rdtsc", "idle", 18.0, 17.0, 19.0)
    assert standing is not None
    # Idle TSC medians: 17.2, 18.6 (inside), 20.1, 21.5, 2053.9 ns.
    assert (standing.below, standing.above) == (3, 0)
    assert "2 inside its interval" in standing.rank_text


def test_a_labelled_load_is_placed_by_its_kind() -> None:
    assert standings.place_sleep_miss("usleep", "cpu 50", 1e6) == _relabelled(
        standings.place_sleep_miss("usleep", "cpu", 1e6)
    )


def _relabelled(standing: standings.Standing | None) -> standings.Standing:
    from dataclasses import replace

    assert standing is not None
    return replace(standing, load="cpu 50")


@pytest.mark.parametrize(
    ("call", "what", "load"),
    [
        ("place_timer_cost", "clock_monotonic_syscall", "idle"),
        ("place_timer_cost", "clock_monotonic_coarse", "idle"),
        ("place_timer_cost", "rdtsc", "memory"),
        ("place_sleep_miss", "select", "idle"),
    ],
)
def test_what_the_papers_did_not_measure_has_no_standing(call: str, what: str, load: str) -> None:
    assert getattr(standings, call)(what, load, 100.0) is None


@given(
    source=st.sampled_from(sorted(TIMER_FUNCTIONS)),
    load=st.sampled_from(sorted(LOADS)),
    median=st.floats(min_value=0.1, max_value=1e9),
    factor=st.floats(min_value=1.0, max_value=10.0),
)
def test_a_wider_interval_never_claims_more(source: str, load: str, median: float, factor: float) -> None:
    point = standings.place_timer_cost(source, load, median)
    wide = standings.place_timer_cost(source, load, median, median / factor, median * factor)
    assert point is not None
    assert wide is not None
    assert wide.below <= point.below
    assert wide.above <= point.above
    assert wide.below + wide.above <= len(wide.published) == 5


@given(method=st.sampled_from(sorted(SLEEP_FUNCTIONS)), load=st.sampled_from(sorted(LOADS)))
def test_every_sleep_method_has_five_platforms_beside_it(method: str, load: str) -> None:
    standing = standings.place_sleep_miss(method, load, 1.0)
    assert standing is not None
    assert standing.rank_text == "below all 5 published medians"


def test_a_published_cv_of_zero_counts_as_half_the_last_decimal() -> None:
    standing = standings.place_counter_cv(512, 0.00004)
    assert standing is not None
    zero = dict(standing.published)["2 PM low Java"]
    assert zero == pytest.approx(0.00005)
    assert standing.below == 16
    assert standings.place_counter_cv(3, 0.01) is None


def test_each_of_lampes_configurations_is_a_line_of_ten_arguments() -> None:
    lines = lampe_lines()
    assert len(lines) == 16
    assert all(arguments == tuple(2**e for e in range(10)) for _, arguments, _ in lines)
