"""Values keep their unit to the end: levels, places of tests and columns, and what is written of them."""

from __future__ import annotations

import dataclasses

import polars as pl
from comparison_frames import compared
from conftest import Reported

from vtare.plan.factors import symbol_of_key
from vtare.plan.level import Level
from vtare.plan.model import Analysis
from vtare.quantity_text import quantity_of
from vtare.report import text
from vtare.report.compared import figure_text
from vtare.report.content import content_of, layouts_of
from vtare.report.inference import interaction_figures
from vtare.report.inference_tables import inference_tables
from vtare.report.layout import level_text
from vtare.report.tables import verdict_table


def test_compare_writes_each_figure_in_its_own_unit() -> None:
    written = {
        "cv": (0.0123, "CV 1.23 %"), "late_fraction": (0.5, "time late 50.0 %"),
        "miss_ns": (78_200.0, "78.2 \N{MICRO SIGN}s"),
        "absolute_error_percent": (4.2, "error 4.2 %"), "avb_bit_per_s": (1e8, "100 Mbit/s"),
        "throughput_packet_per_s": (194_300.0, "194 kpacket/s"),
    }  # fmt: skip
    for quantity, (value, wanted) in written.items():
        assert figure_text(quantity, value) == wanted


def _levels(numbers: dict[str, dict[str, float]]) -> dict[str, dict[str, Level]]:
    return {
        key: {label: Level(label, number, symbol_of_key(key)) for label, number in by.items()}
        for key, by in numbers.items()
    }


def test_frame_sizes_are_written_in_bytes_and_large_sizes_in_units_that_fit() -> None:
    numbers = {"frame_byte": {"1.024 kB": 1024.0, "1.28 kB": 1280.0, "9 kB": 9000.0, "64 B": 64.0, "64 kB": 64e3}}
    levels = _levels(numbers)
    written = [level_text(levels, "frame_byte", label).replace(text.NO_BREAK, " ") for label in numbers["frame_byte"]]
    assert written == ["1024 B", "1280 B", "9000 B", "64 B", "64 kB"]


def test_a_level_is_written_from_its_number_in_the_unit_of_its_key_and_never_read_from_its_label() -> None:
    numbers = {"target_ns": {"a": 1e5}, "capacity": {"b": 1e9}, "loss": {"c": 0.01}, "cpu": {"3": 3.0}}
    levels = _levels(numbers)
    written = {
        key: level_text(levels, key, label).replace(text.NO_BREAK, " ") for key, by in numbers.items() for label in by
    }
    assert written == {"target_ns": "100 \N{MICRO SIGN}s", "capacity": "1 Gbit/s", "loss": "1 %", "cpu": "3"}
    assert level_text(levels, "target_ns", "usleep") == "usleep"
    assert level_text(levels, "target_ns", None) == "\N{EN DASH}"


def test_a_label_with_a_comma_loses_no_panel_of_an_interaction(five_runs: Reported) -> None:
    summary = five_runs.summary
    before = interaction_figures(summary, layouts_of(summary)["sleeps"])
    assert before is not None
    renamed = pl.col("target_ns").cast(pl.String).replace("1 ms", "1 ms, as usual")
    interactions = []
    for row in summary.interactions.iter_rows(named=True):
        for entry in row["where"]:
            entry["label"] = entry["label"].replace("1 ms", "1 ms, as usual")
        interactions.append(row)
    changed = dataclasses.replace(
        summary,
        cells=summary.cells.with_columns(renamed),
        interactions=pl.DataFrame(interactions, schema=summary.interactions.schema),
    )
    after = interaction_figures(changed, layouts_of(changed)["sleeps"])
    assert after is not None
    assert len(after.panels) == len(before.panels) > 0


def test_headings_of_tables_state_the_level_that_intervals_have(five_runs: Reported) -> None:
    plan = dataclasses.replace(five_runs.summary.plan, analysis=Analysis(alpha=0.1))
    summary = dataclasses.replace(five_runs.summary, plan=plan)
    layouts = layouts_of(summary)
    tables = [verdict_table(summary, layouts), *inference_tables(summary, layouts["sleeps"])]
    columns = [column for table in tables if table is not None for column in table.columns]
    headings = [f"{column.label} {column.about}" for column in columns]
    assert any("90 %" in heading for heading in headings)
    assert not any("95 %" in heading for heading in headings)


def test_columns_named_after_a_unit_hold_that_unit_in_plans_of_several(all_instruments: Reported) -> None:
    summary = all_instruments.summary
    table = verdict_table(summary, layouts_of(summary))
    assert table is not None
    keys = [column.key for column in table.columns]
    symbols = {quantity_of(name).symbol for name in compared(summary.comparisons)["quantity"].to_list()}
    assert len(symbols) > 1
    assert not [key for key in keys if key.endswith("_ns")]
    units = {row[keys.index("unit")].raw for row in table.rows}
    assert units == {{"1": "fraction"}.get(symbol, symbol) for symbol in symbols}


def test_no_table_has_times_and_shares_in_one_column_without_a_unit(all_instruments: Reported) -> None:
    content = content_of(all_instruments.summary, figures=False)
    for table in content.tables():
        keys = [column.key for column in table.columns]
        for at, key in enumerate(keys):
            written = {row[at].text[-1] for row in table.rows if row[at].order is not None and row[at].text}
            if key.endswith("_ns"):
                assert "%" not in written, (table.id, key)


def test_levels_stand_in_the_order_of_their_numbers(all_instruments: Reported) -> None:
    layout = layouts_of(all_instruments.summary)["counters"]
    numbers = [layout.number("argument", label) for label in layout.order["argument"]]
    assert None not in numbers
    assert numbers == sorted(number for number in numbers if number is not None)
    assert layout.number("load", "idle") is None


def test_a_number_without_a_unit_stands_with_its_key_however_it_is_written() -> None:
    """A level is asked for its value: a word of digits is a word, a fraction is a number, a quantity has its unit."""
    bare = {"a": Level("4", 4), "b": Level("0.5", 0.5), "c": Level("2", [2]), "d": Level("-1", -1)}
    others = {
        "e": Level("64 B", 64, "B"), "f": Level("7", "7"), "g": Level("true", True), "h": Level("1, 2", [1, 2]),
    }  # fmt: skip
    assert all(level.is_bare for level in bare.values())
    assert not any(level.is_bare for level in others.values())
    assert [level.number for level in (*bare.values(), *others.values())] == [4, 0.5, 2, -1, 64, None, None, None]


def test_levels_of_frames_sort_as_in_the_plan_and_numbers_as_numbers(all_instruments: Reported) -> None:
    """Key columns are typed: `100 us` stands before `1 ms`, and argument 2 before argument 16."""
    summary = all_instruments.summary
    for key in ("target_ns", "argument"):
        numbers = {label: level.number for label, level in summary.level_of[key].items()}
        for frame in (summary.cells, summary.runs):
            sorted_labels = frame.get_column(key).drop_nulls().sort().unique(maintain_order=True).to_list()
            assert len(sorted_labels) > 1
            assert [numbers[label] for label in sorted_labels] == sorted(
                number for label in sorted_labels if (number := numbers[label]) is not None
            )
    loads = list(summary.plan.labels["load"])
    assert summary.design.get_column("load").drop_nulls().sort().unique(maintain_order=True).to_list() == loads
