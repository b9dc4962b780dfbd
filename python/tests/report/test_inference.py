"""What a report shows of inference: each figure and row from the summary's frames, verdicts never without words."""

from __future__ import annotations

import csv
import io
import re

import polars as pl
import pytest
from conftest import Reported

from vtare.report.content import Content, content_of, layouts_of
from vtare.report.inference import effect_figure, inference_figures
from vtare.report.inference_tables import control_table, inference_tables
from vtare.report.parts import Question, Table


@pytest.fixture(scope="module")
def content(five_runs: Reported) -> Content:
    """Tables alone: the figures are those of the page, made once by the fixture."""
    return content_of(five_runs.summary, figures=False)


def questions(report: Reported, experiment: str) -> dict[str, Question]:
    found = inference_figures(report.summary, layouts_of(report.summary)[experiment])
    return {question.id.removesuffix(f"-{experiment}"): question for question in found}


@pytest.fixture(scope="module")
def sleeps(five_runs: Reported) -> dict[str, Question]:
    return questions(five_runs, "sleeps")


def of(frame: pl.DataFrame, experiment: str) -> pl.DataFrame:
    return frame.filter(pl.col("experiment") == experiment)


def words(question: Question) -> str:
    return " ".join(panel.drawing.text for panel in question.panels)


def test_the_heat_map_has_a_square_with_its_verdict_for_every_comparison(five_runs: Reported) -> None:
    found = effect_figure(five_runs.summary, layouts_of(five_runs.summary))
    assert found is not None
    assert len(found.panels) == 4
    said = words(found)
    comparisons = five_runs.summary.comparisons
    words_of = {"(sure)": ("higher", "lower"), "(equivalent)": ("equivalent",), "(inconclusive)": ("inconclusive",)}
    for shown, verdicts in words_of.items():
        assert said.count(shown) == sum(row.verdict in verdicts for row in comparisons), verdicts
    assert "two_phase, cpu: 966" in said
    # Load changes no timer: equivalent cells have no tint, so the legend names none.
    load = next(panel for panel in found.panels if panel.drawing.name == "effects-timers-load")
    assert "equivalent" in load.drawing.svg
    assert "longer" not in load.drawing.svg


def test_every_tail_that_has_a_ratio_is_drawn_and_every_tail_stands_in_the_table(
    five_runs: Reported, sleeps: dict[str, Question], content: Content
) -> None:
    tails = [row for row in five_runs.summary.tails if row.experiment == "sleeps"]
    drawn = [row for row in tails if row.ratio is not None]
    said = words(sleeps["tail-ratios"])
    assert len(re.findall(r"p99 \S", said)) == len(drawn) > 10
    # 400 sleeps a run are too few for p99.9: the table shows it, the figure has no mark for it.
    assert "p99.9" not in said
    table = table_of(content, "tails-sleeps")
    assert len(table.rows) == len(tails)
    refused = [row[-1].text for row in table.rows if row[2].text == "p99.9"]
    assert set(refused) == {"p999 needs 2995 readings in a run, the longest has 400"}


def test_an_interaction_is_drawn_with_its_test_beside_it(five_runs: Reported, sleeps: dict[str, Question]) -> None:
    (row,) = of(five_runs.summary.interactions, "sleeps").iter_rows(named=True)
    question = sleeps["interactions"]
    assert question.caption.startswith(f"load x method (adjusted p {row['p_text']}).")
    for method in ("usleep", "clock_nanosleep", "two_phase", "adaptive"):
        assert f"{method}: idle" in words(question)


def test_the_tau_matrix_shows_every_level_and_figure_of_the_runs(
    five_runs: Reported, sleeps: dict[str, Question], content: Content
) -> None:
    levels = of(five_runs.summary.levels, "sleeps")
    figures = levels["figure"].unique(maintain_order=True).to_list()
    assert figures == ["median", "half_iqr", "p99"]
    said = words(sleeps["levels"])
    for row in levels.iter_rows(named=True):
        assert f"{row['tau_b']:+z.2f}" in said
        assert abs(row["tau_b"]) <= row["tau_bound"] + 1e-12
    assert len(table_of(content, "levels-sleeps").rows) == levels.height == 7 * 3


def test_outliers_are_shared_out_among_all_cells(
    five_runs: Reported, sleeps: dict[str, Question], content: Content
) -> None:
    outliers = of(five_runs.summary.outliers, "sleeps")
    table = table_of(content, "outliers-sleeps")
    at = [column.key for column in table.columns].index("share")
    assert sum(float(row[at].raw or 0) for row in table.rows) == pytest.approx(1.0)
    assert f"{outliers['outliers'].sum()} readings" in sleeps["outliers"].caption.replace("\u00a0", "")
    assert "never deleted" in sleeps["outliers"].caption


def test_percentiles_over_load_have_a_panel_for_each_method(sleeps: dict[str, Question]) -> None:
    panels = sleeps["percentiles"].panels
    assert [panel.heading for panel in panels] == ["usleep", "clock_nanosleep", "two_phase", "adaptive"]
    for panel in panels:
        # No run is long enough for p99.9.
        assert re.findall(r"(median|p99|p99\.9): idle", panel.drawing.text) == ["median", "p99"]


def test_two_targets_are_distinguished_in_every_figure(all_instruments: Reported) -> None:
    found = questions(all_instruments, "sleeps")
    assert "target 100" in words(found["tail-ratios"])
    assert len(found["percentiles"].panels) == 8
    assert len(found["levels"].panels) == 2


def test_one_run_a_cell_gives_no_inference_and_states_so(one_run: Reported) -> None:
    for layout in layouts_of(one_run.summary).values():
        for table in inference_tables(one_run.summary, layout):
            at = [column.key for column in table.columns]
            if "p_value" in at:
                assert {row[at.index("p_value")].kind for row in table.rows} == {"missing"}, table.id
                assert all(row[at.index("refused")].text not in ("", "\N{EN DASH}") for row in table.rows), table.id
    found = effect_figure(one_run.summary, layouts_of(one_run.summary))
    assert found is None or "(sure)" not in words(found)


def test_every_control_run_stands_in_a_table_with_its_verdict(five_runs: Reported) -> None:
    table = control_table(five_runs.summary)
    assert table is not None
    assert len(table.rows) == five_runs.summary.controls.height
    drifted = [row for row in table.rows if row[-2].raw == "drifted"]
    assert len(drifted) == five_runs.summary.controls["drifted"].sum()


def table_of(content: Content, name: str) -> Table:
    (found,) = [table for table in content.tables() if table.id == name]
    return found


def test_every_table_of_the_page_can_be_downloaded_and_has_a_name_of_its_own(
    five_runs: Reported, content: Content
) -> None:
    shown = re.findall(r'<div data-table="([^"]+)"', five_runs.html)
    facts = ["loads", *(f"machine-{at + 1}" for at in range(len(five_runs.summary.machines)))]
    assert sorted(shown) == sorted([*(table.id for table in content.tables()), *facts])
    assert len(set(shown)) == len(shown)
    assert five_runs.html.count('<button type="button" class="csv">') == len(shown)
    for table in content.tables():
        keys = [column.key for column in table.columns]
        assert len(set(keys)) == len(keys), table.id
        written = io.StringIO()
        csv.writer(written).writerows([keys, *([cell.raw for cell in row] for row in table.rows)])
        assert "n/a" not in written.getvalue(), table.id


def test_the_page_without_figures_has_the_same_answer_and_tables(five_runs: Reported, content: Content) -> None:
    assert list(content.drawings()) == []
    assert [len(table.rows) for table in content.tables()] == [
        five_runs.html.split(f'data-table="{table.id}"')[1].split("</table>")[0].count("<tr>") - 1
        for table in content.tables()
    ]
