"""What a report shows of available bandwidth: each figure from the store, and errors never without their truth."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import polars as pl
import pytest
from comparison_frames import compared

from vtare import plots
from vtare.number_text import byte_text, percent_points, rate_range_text, rate_text
from vtare.report.build import build
from vtare.report.cell_table import cell_table
from vtare.report.claims import answer
from vtare.report.content import layouts_of
from vtare.report.inference import interaction_figures
from vtare.report.pages import avb as bandwidth
from vtare.report.text import NO_BREAK
from vtare.sentences.template import plain
from vtare.summary import Summary, summarise
from vtare.summary.bandwidth import occupied_shares
from vtare.summary.cells import Cell, compared_figure


@pytest.fixture(scope="module")
def summary(routed_store: Path) -> Summary:
    return summarise(routed_store)


def main_figure(summary: Summary) -> tuple[list[str], list[str]]:
    said = answer(summary, layouts_of(summary))
    return [plain(one) for one in said.sentences], [plain(one) for notes in said.notes.values() for one in notes]


def test_the_answer_sets_methods_beside_the_truth(summary: Summary) -> None:
    sentences, details = main_figure(summary)
    assert sentences[0].replace(NO_BREAK, " ") == (
        "With cross traffic 0 Mbit/s, timers vtare, where 300 Mbit/s are available, vtare finds at least 150 "
        "Mbit/s and yaz finds at least 150 Mbit/s."
    )
    # Half of the estimates stand beside 300 Mbit/s: errors of 50 and 45 %; the others of 0 and 10. A bound has none.
    assert sentences[1] == (
        "Over all paths half of the estimates are off by at most 27.5 % with vtare (8 estimates, beside 4 lower "
        "bounds) and 27.5 % with yaz (8 estimates, beside 4 lower bounds)."
    )
    assert len(sentences) == 3
    assert sentences[2] == "An estimate takes 20.0 ms and 75 kB with vtare, 20.0 ms and 75 kB with yaz."
    assert "vtare is off by 27.5 % with os timers and 27.5 % with vtare timers" in details[0]
    assert "The interval of vtare held the truth in 2 of 8" in details[1]
    assert "8 of 32 estimates gave no answer (lossy 8)" in details[2]


def test_every_question_is_answered_by_a_figure(summary: Summary) -> None:
    (layout,) = layouts_of(summary).values()
    questions = bandwidth.questions(summary, layout)
    assert [question.id.split("-")[0] for question in questions] == [
        "over",
        "against",
        "errors",
        "course",
        "cost",
        "share",
        "time",
    ]
    assert all(question.panels for question in questions)
    assert (layout.panel, layout.series) == ("cross", "method")
    course = next(question for question in questions if question.id.startswith("course"))
    assert len(course.panels) == 8
    for panel in course.panels:
        assert panel.chart is not None
        chart = panel.chart()
        assert chart.spec["datasets"]["course"]
        assert not chart.shared


def test_the_main_figure_is_estimate_over_truth_and_counts_bounds_apart(summary: Summary) -> None:
    (layout,) = layouts_of(summary).values()
    first = bandwidth.questions(summary, layout)[0]
    (panel,) = first.panels
    rows = panel.drawing.data.filter(pl.col("mark") == "median").to_dicts()
    assert len(rows) == 4
    cells = {(row["cross"], row["method"]): row for row in summary.cells.to_dicts() if row["timers"] == "vtare"}
    for row in rows:
        cell = cells[
            row["group"].removeprefix("cross traffic ").replace("\N{NO-BREAK SPACE}", " "), row["label"].split()[0]
        ]
        assert row["value"] == pytest.approx(1 + cell["error_percent"] / 100)
        assert row["low"] == (None if cell["error_percent_low"] is None else 1 + cell["error_percent_low"] / 100)
        assert f"({cell['at_least']:g} of {cell['estimates']:g} bounds)" in row["label"]
    assert "At timers vtare." in first.caption


def test_the_table_shows_each_count_with_its_reason(summary: Summary) -> None:
    (layout,) = layouts_of(summary).values()
    cells = summary.cells.filter(pl.col("cross") == "150 Mbit/s")
    table = cell_table(layout, cells, None, None, bandwidth.made_columns(summary, layout))
    shown = {column.key: cell.text for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert shown["truth_bit_per_s"] == "150\N{NO-BREAK SPACE}Mbit/s"
    # Half of the answers are 150 Mbit/s and less, as far as the bound lets us know.
    assert shown["median_bit_per_s"] == "at least 150\N{NO-BREAK SPACE}Mbit/s"
    # 0 and 10 %; the third answer is a lower bound.
    assert shown["error_percent"] == "+5\N{NO-BREAK SPACE}%"
    assert "1 of 2" in shown["coverage"]
    assert (shown["unanswered"], shown["at_least"], shown["truth_unknown"]) == ("lossy 1", "1", "0")


def test_without_a_truth_no_error_is_claimed(summary: Summary) -> None:
    figures = ("truth_bit_per_s", "error_percent", "absolute_error_percent", "error_half_iqr_percent", "occupied_share")
    blank = [pl.lit(None, pl.Float64).alias(name) for name in figures]
    judged = ("truth_bit_per_s", "error_percent")
    bare = dataclasses.replace(
        summary,
        cells=summary.cells.with_columns(blank),
        estimates=summary.estimates.with_columns(pl.lit(None, pl.Float64).alias(name) for name in judged),
    )
    (layout,) = layouts_of(bare).values()
    assert bandwidth.sentences(bare, layout) == ([], [])
    ids = {question.id.split("-")[0] for question in bandwidth.questions(bare, layout)}
    assert not ids & {"over", "against", "errors", "cost", "share"}
    assert "off by" not in build(bare)


def test_the_page_has_rates_and_no_times_of_bandwidth(summary: Summary) -> None:
    page = build(summary)
    assert "here_percent" in page
    assert "150\N{NO-BREAK SPACE}Mbit/s" in page
    assert "ms (" not in page.split("What differs from what")[1].split("How it was measured")[0].split("How far off")[0]


def test_estimates_with_a_truth_are_compared_by_their_error(summary: Summary) -> None:
    rows = compared(summary.comparisons).to_dicts()
    assert {row["quantity"] for row in rows} == {"absolute_error_percent"}
    cells = summary.cells.to_dicts()
    keys = summary.keys[cells[0]["experiment"]]
    for row in rows:
        here, baseline = (
            next(cell for cell in cells if all(cell[key] == {**row, **level}[key] for key in keys))
            for level in ({}, {row["factor"]: row["baseline"]})
        )
        assert row["difference"] == pytest.approx(here["absolute_error_percent"] - baseline["absolute_error_percent"])


def test_an_interaction_is_drawn_of_the_figure_that_was_tested(summary: Summary) -> None:
    (layout,) = layouts_of(summary).values()
    assert set(summary.interactions["figure"]) == {"absolute_error_percent"}
    question = interaction_figures(summary, layout)
    assert question is not None
    assert "On the log axis parallel lines mean" in question.caption
    for panel in question.panels:
        assert "absolute error" in panel.drawing.svg
        assert "Mbit/s" not in panel.drawing.svg


def test_errors_without_a_direction_have_no_sign(summary: Summary) -> None:
    (layout,) = layouts_of(summary).values()
    table = cell_table(layout, summary.cells, None, None, bandwidth.made_columns(summary, layout))
    columns = {column.key: at for at, column in enumerate(table.columns)}
    shown = {key: [row[at].text for row in table.rows] for key, at in columns.items()}
    assert any(text[0] in "+\N{MINUS SIGN}" for text in shown["error_percent"])
    for key in ("absolute_error_percent", "error_half_iqr_percent"):
        assert not any(text[0] in "+-\N{MINUS SIGN}" for text in shown[key])


def test_a_run_without_a_truth_leaves_the_estimates_to_be_compared() -> None:
    def cell(*errors: float | None) -> Cell:
        runs = [{"n": 3, "median": 1e8, "absolute_error_percent": error} for error in errors]
        return Cell({}, figures=[dict(run) for run in runs])

    assert compared_figure([cell(2.0, 0.0), cell(1.0)]) == "absolute_error_percent"
    assert compared_figure([cell(2.0, None), cell(1.0)]) == "median"
    # A run without an answer has neither.
    silent = cell(2.0)
    silent.figures.append({"n": 0, "median": None, "absolute_error_percent": None})
    assert compared_figure([silent]) == "absolute_error_percent"


def mark(value: float, truth: float | None = 100e6, style: str = "vtare") -> plots.EstimateMark:
    return plots.EstimateMark(0.0, 1.0, value, None, None, truth, style)


def test_an_axis_of_rates_ends_near_the_truth_whatever_was_estimated() -> None:
    assert plots.rate_limit([mark(90e6)], 100e6) == pytest.approx(108e6)
    assert plots.rate_limit([mark(5e9)], 100e6) == pytest.approx(1.08 * 160e6)
    assert plots.rate_limit([], 100e6) == pytest.approx(108e6)


def test_figures_refuse_to_show_nothing() -> None:
    with pytest.raises(ValueError, match="no estimate with a truth"):
        plots.estimates_against_truth([mark(1e6, truth=None)], name="x", limit=1e6)
    with pytest.raises(ValueError, match="pass at least one in each"):
        plots.error_boxes([plots.ErrorRow("a", "a", ())], name="x")
    with pytest.raises(ValueError, match="no points"):
        plots.cost_against_error([], name="x")


def test_errors_of_any_size_are_on_the_axis_and_shown() -> None:
    rows = [plots.ErrorRow("yaz", "yaz", (-99.0, 0.0, 2000.0), "one"), plots.ErrorRow("vtare", "vtare", (0.3,), "two")]
    assert plots.error_limits(rows) == (-99.0, 2000.0)
    drawing = plots.error_boxes(rows, name="x")
    assert "yaz 0 %" in drawing.text
    assert "vtare +0.3 %" in drawing.text


def test_rates_and_bytes_are_written_for_people() -> None:
    assert rate_text(149_800_000) == "150 Mbit/s"
    assert rate_range_text(992e6, 1.35e9) == "0.992 to 1.35 Gbit/s"
    assert (byte_text(312_345), byte_text(1e6), byte_text(12)) == ("312 kB", "1 MB", "12 B")
    assert [percent_points(value) for value in (-10.04, 1e-13, 0.314, 237.6)] == [
        "\N{MINUS SIGN}10 %",
        "0 %",
        "+0.31 %",
        "+238 %",
    ]


def test_there_is_no_share_of_a_capacity_of_nothing_or_of_an_unknown_one() -> None:
    found = pl.DataFrame(
        {"occupied_bit_per_s": [0.0, 1e6, 1e6, None, 5e5], "true_capacity_bit_per_s": [0.0, 0.0, None, 1e7, 1e7]}
    )
    assert occupied_shares(found).to_list() == [None, 0.05]
